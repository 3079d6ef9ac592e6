"""What every verb must satisfy, as `labelfree.estimators.checks` says it of every method."""

from __future__ import annotations

import numpy as np
import pytest

import labelfree as lf
from labelfree.reports import report

N, K = 400, 4
NAMES = ("ant", "bee", "cat", "dog")


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.choice(K, N, p=[0.4, 0.3, 0.2, 0.1])
    logits = 2.0 * rng.normal(size=(N, K)) + 2.5 * np.eye(K)[labels]
    shifted = 2.0 * rng.normal(size=(N, K)) + 1.5 * np.eye(K)[rng.permutation(labels)] + [0.8, 0, 0, -0.5]
    return logits, labels, shifted, np.array(["x", "y"])[rng.integers(2, size=N)]


def samples(rows=slice(None), order=range(K), weights=None, named=True):
    """Source and target of the drawn rows, columns in the order given, with or without weights."""
    logits, labels, shifted, _ = drawn()
    order = list(order)
    names = [NAMES[j] for j in order] if named else None
    words = np.array(NAMES)[labels[rows]] if named else labels[rows]
    return (
        lf.Source(logits[rows][:, order], words, classes=names, weights=weights),
        lf.Target(shifted[rows][:, order], classes=names, weights=weights),
    )


def segments(rows=slice(None)):
    return drawn()[3][rows]


def _by_class(result, key):
    return {row["class"]: row[key] for row in result.to_dict()["classes"]}


#: verb -> what it says of (source, target, segment of each target row), as numbers that have a name.
VERBS = {
    "estimate": lambda s, t, g: {m: lf.estimate(s, t, m).error for m in ("scot", "cott", "label-shift")},
    "compare": lambda s, t, g: {e.method: e.error for e in lf.compare(s, t, ["ac", "scot", "im"])},
    "metrics": lambda s, t, g: {
        **_by_class(lf.metrics(s, t, "scot"), "recall"),
        **{f"{c}, precision": v for c, v in _by_class(lf.metrics(s, t, "scot"), "precision").items()},
        "kappa": lf.metrics(s, t, "scot").kappa,
    },
    "slices": lambda s, t, g: {
        one.name: (one.error, one.share) for one in lf.slices(s, t, g, "scot", replicates=20).slices
    },
    "label_shares": lambda s, t, g: _by_class(lf.label_shares(s, t, "rlls", replicates=20), "share"),
    "budget": lambda s, t, g: {"expected": lf.budget(s, t, margin=0.05).expected},
    "doctor": lambda s, t, g: {
        "confidence": lf.doctor(s, t)["source confidence"].value["confidence"],
        "spread": lf.doctor(s, t)["methods disagree"].value["spread"],
    },
    "report": lambda s, t, g: {
        row["class"]: (row["share"], row["error"])
        for row in report(s, t, "scot", replicates=0).summary["classes"]
    },
}


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name] == pytest.approx(b[name], abs=1e-7), name


@pytest.mark.parametrize("verb", VERBS)
def test_the_order_of_classes_is_irrelevant(verb):
    same(VERBS[verb](*samples(), segments()), VERBS[verb](*samples(order=(2, 0, 3, 1)), segments()))


@pytest.mark.parametrize("verb", VERBS)
def test_target_columns_are_matched_by_name(verb):
    source, target = samples()[0], samples(order=(3, 1, 0, 2))[1]
    same(VERBS[verb](*samples(), segments()), VERBS[verb](source, target, segments()))


@pytest.mark.parametrize("verb", VERBS)
def test_a_whole_weight_means_so_many_rows(verb):
    counts = np.random.default_rng(2).integers(1, 4, N)
    repeated = np.repeat(np.arange(N), counts)
    weighted = VERBS[verb](*samples(weights=counts.astype(float)), segments())
    same(weighted, VERBS[verb](*samples(repeated), segments(repeated)))


LEVELS = {
    "interval": lambda s, t, level: [lf.interval(s, t, "scot", level=level, replicates=40).interval],
    "slices": lambda s, t, level: [
        one.interval for one in lf.slices(s, t, segments(), level=level, replicates=40).slices
    ],
    "label_shares": lambda s, t, level: lf.label_shares(s, t, level=level, replicates=40).intervals,
}


@pytest.mark.parametrize("verb", LEVELS)
def test_a_higher_level_is_wider_and_says_so(verb):
    narrow, wide = (LEVELS[verb](*samples(), level) for level in (0.5, 0.99))
    for a, b in zip(narrow, wide, strict=True):
        assert b.low < a.low < a.high < b.high
        assert (a.level, b.level) == (0.5, 0.99)


def test_a_higher_level_buys_more_labels():
    few, many = (lf.budget(*samples(), margin=0.1, level=level) for level in (0.5, 0.95))
    assert len(few.rows) < len(many.rows)


def unseen():
    """A source without the last class: every method warns of it."""
    logits, labels, shifted, _ = drawn()
    kept = labels != 3
    return lf.Source(logits[kept], labels[kept]), lf.Target(shifted)


WARNERS = {
    "estimate": lambda s, t: lf.estimate(s, t, "scot").warnings,
    "compare": lambda s, t: lf.compare(s, t, ["ac", "scot"]).warnings,
    "interval": lambda s, t: lf.interval(s, t, "scot", replicates=20).warnings,
    "metrics": lambda s, t: lf.metrics(s, t).warnings,
    "slices": lambda s, t: lf.slices(s, t, segments(), replicates=20).warnings,
    "report": lambda s, t: [f["meaning"] for f in report(s, t, "scot", replicates=0).summary["findings"]],
}


@pytest.mark.parametrize("verb", WARNERS)
def test_warnings_of_the_parts_reach_the_whole(verb):
    assert any("no source label is 3" in text for text in WARNERS[verb](*unseen()))


def refuted():
    """The same images in other proportions: methods that take the source's proportions are refuted."""
    rng = np.random.default_rng(1)
    y, y_t = rng.choice(3, 3000, p=[0.6, 0.3, 0.1]), rng.choice(3, 3000, p=[0.1, 0.2, 0.7])
    z, z_t = (rng.normal(size=(3000, 3)) + 2.0 * np.eye(3)[labels] for labels in (y, y_t))
    return lf.Source(z, y), lf.Target(z_t)


def test_the_kind_of_shift_speaks_against_a_method_with_and_without_an_interval():
    source, target = refuted()
    for options in ({}, {"interval": True, "replicates": 20}):
        assert any(
            "only class proportions seem" in w
            for w in lf.estimate(source, target, "scot", **options).warnings
        )
        assert not any(
            "class proportions" in w for w in lf.estimate(source, target, "ac", **options).warnings
        )
        assert not any(
            "class proportions seem" in w
            for w in lf.estimate(source, target, "scot", marginal="mlls", **options).warnings
        )
    found = lf.compare(source, target, ["scot", "label-shift"])
    assert any("only class proportions seem" in w for w in found["scot"].warnings)
    assert not any("proportions" in w for w in found["label-shift"].warnings)


def test_everything_is_computed_once(monkeypatch):
    """One report: one calibration, one shift test, and no transport problem solved twice."""
    from labelfree import calibration
    from labelfree.estimators import pair, shift, view

    calls = {"calibration": 0, "shift": 0}
    solved: list[tuple[int, bytes]] = []

    def counted(name, function):
        def call(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return call

    exact = view.Exact

    class Watched(exact):
        def hard(self, seen, marginal):
            solved.append((id(seen.probs), b"hard" + marginal.tobytes()))
            return super().hard(seen, marginal)

        def soft(self, seen, marginal):
            solved.append((id(seen.probs), b"soft" + marginal.tobytes()))
            return super().soft(seen, marginal)

    monkeypatch.setattr(pair, "fit_calibration", counted("calibration", calibration.fit_calibration))
    monkeypatch.setattr(pair, "verdict", counted("shift", shift.verdict))
    monkeypatch.setattr(view, "Exact", Watched)
    report(*samples(), replicates=20, by=segments())
    assert calls == {"calibration": 1, "shift": 1}
    assert len(solved) == len(set(solved))


def moved():
    """Source and target that differ by their class proportions, so that what is known of them changes the answer."""
    rng = np.random.default_rng(2)
    y, y_t = rng.choice(3, 1500, p=[0.6, 0.3, 0.1]), rng.choice(3, 1500, p=[0.1, 0.2, 0.7])
    z, z_t = (2.0 * rng.normal(size=(1500, 3)) + 4.0 * np.eye(3)[labels] for labels in (y, y_t))
    return lf.Source(logits=z, labels=y), lf.Target(logits=z_t)


@pytest.mark.parametrize("known", ["same", "changed", "unknown"])
def test_what_is_known_of_class_proportions_reaches_every_verb(known):
    """metrics, slices, doctor and report speak of the same answer as estimate."""
    source, target = moved()
    error = lf.estimate(source, target, proportions=known).error
    assert lf.metrics(source, target, proportions=known).error == pytest.approx(error, abs=1e-6)
    by = ["a", "b"] * 750
    assert lf.slices(source, target, by, proportions=known, replicates=20).error == pytest.approx(
        error, abs=1e-6
    )
    assert lf.doctor(source, target, proportions=known)["range of the answer"].value["error"] == error
    found = report(source, target, proportions=known, replicates=0).summary["findings"]
    assert next(f["value"]["error"] for f in found if f["check"] == "range of the answer") == error
    if known == "same":  # and it matters here
        assert abs(error - lf.estimate(source, target).error) > 0.05


def test_what_is_known_of_class_proportions_is_for_auto():
    source, target = moved()
    with pytest.raises(lf.InputError, match="proportions 'same' is for auto, and here scot answers"):
        lf.metrics(source, target, "scot", proportions="same")
    with pytest.raises(lf.InputError, match="here scot answers"):
        lf.slices(source, target, ["a"] * 1500, marginal="mlls", proportions="changed")
    with pytest.raises(lf.InputError, match="did you mean 'same'"):
        lf.doctor(source, target, proportions="sam")
