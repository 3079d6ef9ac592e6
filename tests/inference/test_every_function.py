"""What every function must satisfy, as `shiftgauge.methods.checks` says it of every method."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError
from importlib import resources

import jsonschema
import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import Note
from shiftgauge.reports import report
from shiftgauge.results import SCHEMA, Result

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
        sg.Source(logits[rows][:, order], words, classes=names, weights=weights),
        sg.Target(shifted[rows][:, order], classes=names, weights=weights),
    )


def segments(rows=slice(None)):
    return drawn()[3][rows]


def _by_class(result, key):
    return {row["class"]: row[key] for row in result.to_dict()["classes"]}


#: function -> what it says of (source, target, segment of each target row), as numbers that have a name.
FUNCTIONS = {
    "estimate": lambda s, t, g: {m: sg.estimate(s, t, m).error for m in ("scot", "cott", "label-shift")},
    "compare": lambda s, t, g: {e.method: e.error for e in sg.compare(s, t, ["ac", "scot", "im"])},
    "metrics": lambda s, t, g: {
        **_by_class(sg.metrics(s, t, "scot"), "recall"),
        **{f"{c}, precision": v for c, v in _by_class(sg.metrics(s, t, "scot"), "precision").items()},
        "kappa": sg.metrics(s, t, "scot").kappa,
    },
    "slices": lambda s, t, g: {
        one.name: (one.error, one.share) for one in sg.slices(s, t, g, "scot", replicates=20).slices
    },
    "label_shares": lambda s, t, g: _by_class(sg.label_shares(s, t, "rlls", replicates=20), "share"),
    "doctor": lambda s, t, g: {
        "confidence": sg.doctor(s, t)["source confidence"].value["confidence"],
        "spread": sg.doctor(s, t)["methods disagree"].value["spread"],
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


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_order_of_classes_is_irrelevant(function):
    same(
        FUNCTIONS[function](*samples(), segments()),
        FUNCTIONS[function](*samples(order=(2, 0, 3, 1)), segments()),
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_target_columns_are_matched_by_name(function):
    source, target = samples()[0], samples(order=(3, 1, 0, 2))[1]
    same(FUNCTIONS[function](*samples(), segments()), FUNCTIONS[function](source, target, segments()))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_whole_weight_means_so_many_rows(function):
    counts = np.random.default_rng(2).integers(1, 4, N)
    repeated = np.repeat(np.arange(N), counts)
    weighted = FUNCTIONS[function](*samples(weights=counts.astype(float)), segments())
    same(weighted, FUNCTIONS[function](*samples(repeated), segments(repeated)))


LEVELS = {
    "interval": lambda s, t, level: [sg.interval(s, t, "scot", level=level, replicates=40).interval],
    "slices": lambda s, t, level: [one.range for one in sg.slices(s, t, segments(), level=level).slices],
    "label_shares": lambda s, t, level: sg.label_shares(s, t, level=level).ranges,
}


@pytest.mark.parametrize("function", LEVELS)
def test_a_higher_level_is_wider_and_says_so(function):
    narrow, wide = (LEVELS[function](*samples(), level) for level in (0.5, 0.99))
    for a, b in zip(narrow, wide, strict=True):
        assert b.low < a.low < a.high < b.high
        assert (a.level, b.level) == (0.5, 0.99)


def test_a_higher_level_takes_more_labels():
    few, many = (sg.label_plan(*samples(), until_width=0.1, level=level) for level in (0.5, 0.95))
    assert few.expected_labels < many.expected_labels


def unseen():
    """A source without the last class: every method warns of it."""
    logits, labels, shifted, _ = drawn()
    kept = labels != 3
    return sg.Source(logits[kept], labels[kept]), sg.Target(shifted)


WARNERS = {
    "estimate": lambda s, t: sg.estimate(s, t, "scot").warnings,
    "compare": lambda s, t: sg.compare(s, t, ["ac", "scot"]).warnings,
    "interval": lambda s, t: sg.interval(s, t, "scot", replicates=20).warnings,
    "metrics": lambda s, t: sg.metrics(s, t).warnings,
    "slices": lambda s, t: sg.slices(s, t, segments(), replicates=20).warnings,
    "label_shares, by a named method": lambda s, t: sg.label_shares(s, t, "mlls", replicates=20).warnings,
    "report": lambda s, t: [f["meaning"] for f in report(s, t, "scot", replicates=0).summary["findings"]],
    "report, itself": lambda s, t: report(s, t, "scot", replicates=0).warnings,
    "label_plan": lambda s, t: sg.label_plan(s, t).warnings,
    "ceiling": lambda s, t: sg.ceiling(s, t).warnings,
    "suitable": lambda s, t: sg.suitable(s, t).warnings,
    "rank": lambda s, t: sg.rank({"a": (s, t), "b": (s, t)}).warnings,
}


@pytest.mark.parametrize("function", WARNERS)
def test_warnings_of_the_parts_reach_the_whole(function):
    assert any("no source label is 3" in text for text in WARNERS[function](*unseen()))


def test_no_warning_is_said_twice():
    """That COTT learned no threshold concerns `auto` and the number beside it alike."""
    logits, _, shifted, _ = drawn()
    found = sg.metrics(sg.Source(logits, logits.argmax(axis=1)), sg.Target(shifted)).warnings
    assert sum(text.startswith("COTT: the threshold is not identified") for text in found) == 1
    assert len(set(found)) == len(found)


def test_shares_never_exceed_1():
    """200 masses of 1/200 add up to a little more."""
    source, target = (
        sg.Source(probs=np.ones((200, 1)), labels=np.zeros(200, int)),
        sg.Target(probs=np.ones((9, 1))),
    )
    assert sg.label_shares(source, target).to_dict()["classes"][0]["source_share"] == 1.0


def rounded():
    """Probabilities of two decimals: what is done to them on the way in is said by whoever answers."""
    logits, labels, shifted, _ = drawn()
    p, p_t = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (logits, shifted))
    return sg.Source(probs=np.round(p, 2), labels=labels), sg.Target(probs=np.round(p_t, 2))


RESULTS = {
    "estimate": lambda s, t: sg.estimate(s, t),
    "compare": lambda s, t: sg.compare(s, t, ["ac", "scot"]),
    "interval": lambda s, t: sg.interval(s, t, replicates=20),
    "metrics": lambda s, t: sg.metrics(s, t),
    "slices": lambda s, t: sg.slices(s, t, segments(), replicates=20),
    "label_shares": lambda s, t: sg.label_shares(s, t, replicates=20),
    "shift_test": lambda s, t: sg.shift_test(s, t),
    "doctor": lambda s, t: sg.doctor(s, t),
    "label_plan": lambda s, t: sg.label_plan(s, t),
    "label_plan, with an aim": lambda s, t: sg.label_plan(s, t, decide=0.4),
    "estimate, with labels": lambda s, t: sg.estimate(s, t, labels={3: 1, 4: 0, 70: 2}),
    "compare, with labels": lambda s, t: sg.compare(s, t, ["ac", "auto"], labels={3: 1, 4: 0, 70: 2}),
    "doctor, with labels": lambda s, t: sg.doctor(s, t, labels={3: 1, 4: 0, 70: 2}),
    "ceiling, with labels": lambda s, t: sg.ceiling(s, t, labels={3: 1, 4: 0, 70: 2}),
    "suitable, with labels": lambda s, t: sg.suitable(s, t, labels={3: 1, 4: 0, 70: 2}),
    "report, with labels": lambda s, t: sg.report(s, t, replicates=0, labels={3: 1, 4: 0, 70: 2}),
    "backtest": lambda s, t: sg.backtest(s, methods=["ac", "scot"], by=segments(), repeats=1),
    "ceiling": lambda s, t: sg.ceiling(s, t),
    "suitable": lambda s, t: sg.suitable(s, t),
    "rank": lambda s, t: sg.rank({"a": (s, t), "b": (s, t)}),
    "report": lambda s, t: sg.report(s, t, replicates=0),
}


@pytest.mark.parametrize("function", RESULTS)
def test_results_are_alike(function):
    """Frozen, one base, a schema that the package ships, and the notes of the samples among the warnings."""
    found = RESULTS[function](*rounded())
    assert isinstance(found, Result)
    assert any("rounded to 2 decimals" in text for text in found.warnings)
    document = found.to_dict()
    assert document["warnings"] == list(found.warnings)
    assert document["schema"] == SCHEMA
    assert json.loads(found.to_json()) == json.loads(json.dumps(document))
    shipped = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(json.loads(found.to_json()), shipped)
    assert found._repr_html_().startswith("<")
    with pytest.raises(FrozenInstanceError):
        found.warnings = ()


def test_a_note_is_no_warning_wherever_a_result_is_printed():
    read, doubt = Note("rounded to 2 decimals"), "few rows"
    estimate = sg.Estimate("ac", 0.1, 1, 1, warnings=(read, doubt))
    assert repr(estimate).splitlines()[1:] == ["  note: rounded to 2 decimals", "  ! few rows"]
    assert estimate._repr_html_().endswith("<br>note: rounded to 2 decimals<br>⚠ few rows</p>")
    both = sg.Comparison((estimate,), {"n": 1}, {"n": 1}, warnings=(doubt,))
    assert repr(both).splitlines()[2:] == ["  ! few rows", "  note: ac: rounded to 2 decimals"]
    assert "<li>⚠ few rows</li>" in both._repr_html_()


@pytest.mark.parametrize("function", RESULTS)
def test_a_note_on_the_samples_is_printed_as_one(function):
    found = RESULTS[function](*rounded())
    said = [line for line in repr(found).splitlines() if "rounded to 2 decimals" in line]
    assert all(line.startswith("  note: ") for line in said)
    assert not re.search("⚠[^<]*rounded to 2 decimals", found._repr_html_())


@pytest.mark.parametrize("function", ["metrics", "slices", "label_shares", "backtest", "rank"])
def test_names_cannot_steer_a_terminal(function):
    """Nor can one stand for a line of its own."""
    odd = "ant\x1b[2J\n! bee"
    logits, labels, shifted, sites = drawn()
    names = [odd, *NAMES[1:]]
    pair = sg.Source(logits, np.array(names)[labels], classes=names), sg.Target(shifted, classes=names)
    places = np.where(sites == "x", odd, "y")
    found = {
        "metrics": lambda: sg.metrics(*pair),
        "slices": lambda: sg.slices(*pair, places, replicates=20),
        "label_shares": lambda: sg.label_shares(*pair, replicates=20),
        "backtest": lambda: sg.backtest(
            pair[0], methods=["ac"], by=np.where(np.arange(N) < 9, odd, sites), repeats=1
        ),
        "rank": lambda: sg.rank({odd: pair, "bee": pair}),
    }[function]()
    for text in (repr(found), found._repr_html_()):
        assert "\x1b" not in text
        assert "ant\\x1b[2J\\n! bee" in text


def test_label_shares_say_where_their_assumption_is_refuted():
    rng = np.random.default_rng(5)
    y = rng.integers(3, size=3000)
    z = rng.normal(size=(3000, 3)) + 3.0 * np.eye(3)[y]
    blurred = rng.normal(size=(3000, 3)) + 0.8 * np.eye(3)[rng.integers(3, size=3000)] + [0.5, 0.0, 0.0]
    refuted, fine = (
        sg.label_shares(sg.Source(z, y), sg.Target(t), "mlls", replicates=20) for t in (blurred, z)
    )
    assert any("these shares assume" in text for text in refuted.warnings)
    assert fine.warnings == ()
    assert "these shares assume" in repr(refuted)


def refuted():
    """The same images in other proportions: methods that take the source's proportions are refuted."""
    rng = np.random.default_rng(1)
    y, y_t = rng.choice(3, 3000, p=[0.6, 0.3, 0.1]), rng.choice(3, 3000, p=[0.1, 0.2, 0.7])
    z, z_t = (rng.normal(size=(3000, 3)) + 2.0 * np.eye(3)[labels] for labels in (y, y_t))
    return sg.Source(z, y), sg.Target(z_t)


def test_the_kind_of_shift_speaks_against_a_method_with_and_without_an_interval():
    source, target = refuted()
    for options in ({}, {"interval": True, "replicates": 20}):
        assert any(
            "only class proportions seem" in w
            for w in sg.estimate(source, target, "scot", **options).warnings
        )
        assert not any(
            "class proportions" in w for w in sg.estimate(source, target, "ac", **options).warnings
        )
        assert not any(
            "class proportions seem" in w
            for w in sg.estimate(source, target, "scot", marginal="mlls", **options).warnings
        )
    found = sg.compare(source, target, ["scot", "label-shift"])
    assert any("only class proportions seem" in w for w in found["scot"].warnings)
    assert not any("proportions" in w for w in found["label-shift"].warnings)


def moved():
    """Source and target that differ by their class proportions, so that what is known of them changes the answer."""
    rng = np.random.default_rng(2)
    y, y_t = rng.choice(3, 1500, p=[0.6, 0.3, 0.1]), rng.choice(3, 1500, p=[0.1, 0.2, 0.7])
    z, z_t = (2.0 * rng.normal(size=(1500, 3)) + 4.0 * np.eye(3)[labels] for labels in (y, y_t))
    return sg.Source(logits=z, labels=y), sg.Target(logits=z_t)


@pytest.mark.parametrize("known", ["same", "changed", "unknown"])
def test_what_is_known_of_class_proportions_reaches_every_function(known):
    """metrics, slices, doctor and report speak of the same answer as estimate."""
    source, target = moved()
    error = sg.estimate(source, target, proportions=known).error
    assert sg.metrics(source, target, proportions=known).error == pytest.approx(error, abs=1e-6)
    by = ["a", "b"] * 750
    assert sg.slices(source, target, by, proportions=known, replicates=20).error == pytest.approx(
        error, abs=1e-6
    )
    assert sg.doctor(source, target, proportions=known)["range"].value["error"] == error
    found = report(source, target, proportions=known, replicates=0).summary["findings"]
    assert next(f["value"]["error"] for f in found if f["check"] == "range") == error
    if known == "same":  # and it matters here
        assert abs(error - sg.estimate(source, target).error) > 0.05


def test_what_is_known_of_class_proportions_is_for_auto():
    source, target = moved()
    with pytest.raises(sg.InputError, match="proportions 'same' is for auto, and here scot answers"):
        sg.metrics(source, target, "scot", proportions="same")
    with pytest.raises(sg.InputError, match="here scot answers"):
        sg.slices(source, target, ["a"] * 1500, marginal="mlls", proportions="changed")
    with pytest.raises(sg.InputError, match="did you mean 'same'"):
        sg.doctor(source, target, proportions="sam")


def test_the_shift_test_s_false_alarms_are_no_level():
    source, target = refuted()
    assert sg.shift_test(source, target, false_alarms=0.01).to_dict()["false_alarms"] == 0.01
