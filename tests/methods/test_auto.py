"""auto: the choice follows the kind of shift, and it is as good as the method the shift calls for."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference.resampling import Resampling, bootstrap, with_interval
from shiftgauge.labelshift import JTest, resample_to
from shiftgauge.methods import Auto, Pair
from shiftgauge.methods.auto import choose, weakness
from shiftgauge.methods.evidence import Evidence, ExcessCells
from shiftgauge.methods.registry import make
from shiftgauge.methods.shift import SourceColumns


def source_of(demo):
    return sg.Source(logits=demo["val_logits"], labels=demo["val_labels"])


@pytest.fixture(scope="module")
def demo():
    """The recorded predictions that ship with the package."""
    from importlib import resources

    with resources.files("shiftgauge").joinpath("data/demo.npz").open("rb") as file:
        return dict(np.load(file, allow_pickle=False))


def weights(found):
    return {
        p["method"] if p["marginal"] is None else f"{p['method']}:{p['marginal']}": p["weight"]
        for p in found.details["parts"]
    }


def evidence(kind="other", excess_mass=1.0, unexplained_mass=0.0):
    test = JTest(0.0, 1, 0.5, "chi-square", np.ones(2) / 2, None, 0.0, 1.0, 4)
    return Evidence(test, kind, excess_mass, unexplained_mass, 0.0)


ANSWERS = {
    "unchanged": 0.10,
    "doc": 0.20,
    "atc-ne": 0.30,
    "cot:shrunk": 0.36,
    "cott:mlls": 0.24,
    "scot:shrunk": 0.40,
    "label-shift": 0.22,
}


def choice(answers=ANSWERS, error=0.1, proportions="unknown", weak=0.0, **seen):
    return choose(evidence(**seen), answers, error, weak, proportions)


def chosen(**given):
    return choice(**given).weights


#: "Calibration held" for ANSWERS, with weight 1: the middle one of DoC 0.2, ATC-NE 0.3, COT 0.36, and 1.25 of the rise.
NEAR = {"doc": 0.625, "atc-ne": 0.625, "unchanged": -0.25}


def times(weight, table):
    return {label: weight * w for label, w in table.items()}


def test_the_rule_by_hand_near_the_source():
    """Nothing novel: DoC has half, the middle one of DoC 0.2, ATC-NE 0.3, COT 0.36 the other; the rise 1.25 times."""
    assert chosen(kind="none", excess_mass=0.0) == {"doc": 0.625, "atc-ne": 0.625, "unchanged": -0.25}
    assert chosen(kind="none", excess_mass=0.0, answers={**ANSWERS, "atc-ne": 0.9}) == {
        "doc": 0.625,
        "cot:shrunk": 0.625,
        "unchanged": -0.25,
    }
    assert chosen(kind="none", excess_mass=0.0, weak=1.0) == {
        "doc": 0.625,
        "atc-ne": 0.625,
        "unchanged": -0.25,
    }
    told = str(choice(kind="none", excess_mass=0.0))
    assert told == "50% doc, 50% atc-ne, plus 25% of the rise"
    mixed = str(choice(excess_mass=0.055, unexplained_mass=0.4))
    assert mixed == "44% scot:shrunk, 28% doc, 28% atc-ne, plus 12% of the rise"
    assert str(choice(unexplained_mass=0.4)) == "scot:shrunk"


def test_a_weight_below_zero_leaves_posteriors_that_are_probabilities():
    """A little less sure, nothing novel: the rise counts 1.25 times, row by row too."""
    rng = np.random.default_rng(4)

    def rows(n, sure):
        y = rng.integers(3, size=n)
        return sure * (2.0 * np.eye(3)[y] + rng.normal(size=(n, 3))), y

    z, y = rows(3000, 1.0)
    near = Pair(sg.Source(logits=z, labels=y), sg.Target(logits=rows(3000, 0.9)[0]))
    found = near.estimate("auto")
    assert weights(found)["unchanged"] == -0.25
    answers = found.details["answers"]
    half = (answers["doc"] + sorted(answers[n] for n in ("doc", "cot:shrunk", "atc-ne"))[1]) / 2
    rise = answers["unchanged"] + 1.25 * (half - answers["unchanged"])
    assert found.error == pytest.approx(rise + (0.01 if found.details["shift"] == "other" else 0.0))
    rows = near.target_block
    posterior = near.posterior("auto")(rows)
    assert posterior.min() >= 0.0
    assert posterior.sum(axis=1) == pytest.approx(np.ones(3000))
    assert rows.error_probability(posterior).mean() == pytest.approx(found.error)


def test_half_of_a_gain_is_believed():
    better = {**ANSWERS, "doc": 0.05, "atc-ne": 0.04, "cot:shrunk": 0.06}
    assert chosen(kind="none", excess_mass=0.0, answers=better) == {"doc": 0.5, "unchanged": 0.5}


def test_the_rule_by_hand_far_from_the_source():
    """SCOT 0.40 and COTT:mlls 0.24 are 0.16 apart: believed up to 1.25 r^2, refuted from 2 r^2 on."""
    assert chosen(unexplained_mass=0.4) == {"scot:shrunk": 1.0}  # 0.16 < 1.25 * 0.16
    # 0.16 > 2 * 0.04; the middle of 0.20, 0.22, 0.24, 0.30, 0.40; half stays with "calibration held"
    assert chosen(unexplained_mass=0.2) == pytest.approx({"cott:mlls": 0.5, **times(0.5, NEAR)})
    half = chosen(unexplained_mass=np.sqrt(0.16 / 1.625))
    assert half == pytest.approx({"scot:shrunk": 0.5, "cott:mlls": 0.25, **times(0.25, NEAR)})
    assert chosen(unexplained_mass=0.55)["scot:shrunk"] == 1.0
    for excess in (0.0, 1.0):  # label shift needs no excess mass
        assert chosen(kind="label", excess_mass=excess) == pytest.approx(
            {"label-shift": 0.5, **times(0.5, NEAR)}
        )


def test_too_few_rows_for_the_test_by_hand():
    """SCOT 0.40 and the median of five 0.24 are 0.16 apart: given up by (0.16 - 0.1) / (0.2 - 0.1)."""
    found = chosen(kind="unknown")
    assert found == pytest.approx({"scot:shrunk": 0.4, "label-shift": 0.3, **times(0.3, NEAR)})
    agree = {**ANSWERS, "scot:shrunk": 0.33}  # 0.33 - 0.24 < 0.1
    assert chosen(kind="unknown", answers=agree) == {"scot:shrunk": 1.0}
    far = {**ANSWERS, "scot:shrunk": 0.45}
    assert chosen(kind="unknown", answers=far) == pytest.approx({"label-shift": 0.5, **times(0.5, NEAR)})
    assert chosen(kind="unknown", answers=far, proportions="same") == {"scot:shrunk": 1.0}
    near = chosen(kind="unknown", answers=far, excess_mass=0.0)
    assert near == pytest.approx(NEAR)


@pytest.mark.parametrize("kind", ["none", "label", "other", "unknown"])
def test_one_point_is_added_where_more_than_proportions_changed(kind):
    for seen in ({"excess_mass": 0.0}, {"unexplained_mass": 0.4}, {"unexplained_mass": 0.2}):
        found = choice(kind=kind, **seen)
        mean = sum(w * ANSWERS[label] for label, w in found.weights.items())
        assert found.error(ANSWERS) - mean == pytest.approx(0.01 if kind == "other" else 0.0)
    certain = dict.fromkeys(ANSWERS, 1.0)
    assert choice(kind=kind, answers=certain).error(certain) == 1.0  # never above 1


def test_methods_that_run_away_together_do_not_carry_the_answer():
    """Doctor visits by insurance, two classes: 32% wrong, where three methods said 53, 84 and 96%."""
    found = chosen(
        unexplained_mass=0.24,
        error=0.2,
        answers={
            "unchanged": 0.20,
            "doc": 0.31,
            "scot:shrunk": 0.24,
            "cot:shrunk": 0.33,
            "atc-ne": 0.53,
            "label-shift": 0.84,
            "cott:mlls": 0.96,
        },
    )
    # ATC-NE is the middle of five; if calibration held, DoC and COT, the middle of 0.31, 0.33, 0.53
    assert found == pytest.approx({"atc-ne": 0.5, "doc": 0.3125, "cot:shrunk": 0.3125, "unchanged": -0.125})


def test_lost_confidence_refutes_nothing():
    """As r goes from 0.5 to 0.6 the proportions are believed again."""
    wide = {**ANSWERS, "scot:shrunk": 1.0, "cott:mlls": 0.0}
    assert "scot:shrunk" not in chosen(unexplained_mass=0.5, answers=wide)
    assert chosen(unexplained_mass=0.55, answers=wide)["scot:shrunk"] == pytest.approx(0.5)
    assert chosen(unexplained_mass=0.6, answers=wide) == {"scot:shrunk": 1.0}


def test_a_weak_model_does_not_speak_against_proportions():
    """And the hard plan takes the soft one's place."""
    assert chosen(unexplained_mass=0.2, weak=0.5) == pytest.approx(
        {"scot:shrunk": 0.25, "cot:shrunk": 0.25, "cott:mlls": 0.25, **times(0.25, NEAR)}
    )
    assert chosen(unexplained_mass=0.2, weak=1.0) == {"cot:shrunk": 1.0}
    # there the test accepted, nothing is refuted
    assert chosen(kind="label", weak=1.0) == pytest.approx({"label-shift": 0.5, **times(0.5, NEAR)})


def test_weakness_is_the_source_error_relative_to_chance():
    """0.3 to 0.45 of 1 - 1/K, and of a half for two classes."""
    assert weakness(0.3 * 0.9, 10) == pytest.approx(0.0)
    assert weakness(0.375 * 0.9, 10) == pytest.approx(0.5)
    assert weakness(0.45 * 0.5, 2) == pytest.approx(1.0)


def test_excess_mass_goes_from_calibration_held_to_the_others():
    mixed = chosen(excess_mass=0.055, unexplained_mass=0.4)
    assert mixed == pytest.approx({"scot:shrunk": 0.5, "doc": 0.3125, "atc-ne": 0.3125, "unchanged": -0.125})


def test_what_the_user_knows_decides():
    assert chosen(unexplained_mass=0.2, proportions="same") == {"scot:shrunk": 1.0}
    assert chosen(kind="label", proportions="same") == {"scot:shrunk": 1.0}
    near = {"doc": 0.3125, "atc-ne": 0.3125, "unchanged": -0.125}
    assert chosen(unexplained_mass=0.2, proportions="changed") == pytest.approx({"cott:mlls": 0.5, **near})
    assert chosen(kind="label", excess_mass=0.0, proportions="changed") == pytest.approx(
        {"label-shift": 0.5, **near}
    )
    with pytest.raises(InputError, match="'same'"):
        Auto(proportions="sam")


def test_said_to_be_the_same_where_the_test_speaks_against_it(demo):
    rows = resample_to(
        demo["labels"].astype(int), np.array([0.3, 0.25, 0.15, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    )
    target = sg.Target(logits=demo["clean_logits"][rows])
    found = sg.estimate(source_of(demo), target, method="auto", proportions="same")
    assert any("were said to be" in w for w in found.warnings)
    assert not any(
        "were said to be" in w for w in sg.estimate(source_of(demo), target, method="auto").warnings
    )


def test_no_shift(demo):
    found = sg.estimate(source_of(demo), sg.Target(logits=demo["clean_logits"]), method="auto")
    truth = np.mean(demo["clean_logits"].argmax(1) != demo["labels"])
    assert found.details["shift"] == "none"
    assert abs(found.error - truth) < 0.01
    assert sum(weights(found).values()) == pytest.approx(1.0)


def test_the_answer_is_the_methods_own(demo):
    """auto calls the methods: each part equals what the method says alone."""
    source, target = source_of(demo), sg.Target(logits=demo["jpeg_logits"])
    found = sg.estimate(source, target, method="auto")
    total = 0.0
    for part in found.details["parts"]:
        options = {} if part["marginal"] is None else {"marginal": part["marginal"]}
        total += part["weight"] * sg.estimate(source, target, method=part["method"], **options).error
    assert found.details["shift"] == "other"
    assert found.details["added"] == 0.01
    assert found.error == pytest.approx(total + 0.01, abs=1e-12)


def test_label_shift(demo):
    rows = resample_to(
        demo["labels"].astype(int), np.array([0.3, 0.25, 0.15, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    )
    target = sg.Target(logits=demo["clean_logits"][rows])
    found = sg.estimate(source_of(demo), target, method="auto")
    truth = np.mean(target.predictions != demo["labels"][rows])
    assert found.details["shift"] == "label"
    assert weights(found)["label-shift"] == 0.5
    assert not set(weights(found)) & {"scot:shrunk", "cott:mlls"}
    assert abs(found.error - truth) < 0.02
    assert abs(sg.estimate(source_of(demo), target, method="scot").error - truth) > 0.1


def test_corruptions(demo):
    source = source_of(demo)
    misses, inside = [], []
    for name in demo["shifts"].tolist():
        target = sg.Target(logits=demo[f"{name}_logits"])
        truth = np.mean(target.predictions != demo["labels"])
        found = sg.estimate(source, target, method="auto")
        misses.append(abs(found.error - truth))
        inside.append(found.range.low <= truth <= found.range.high)
        if name != "clean":
            assert found.details["shift"] == "other"
    assert np.mean(misses) < 0.02
    assert np.max(misses) < 0.08
    assert np.mean(inside) >= 0.8


@pytest.mark.parametrize("name", ["jpeg", "pixelate", "mild_noise", "zoom_blur"])
def test_both_at_once_gives_up_the_source_proportions(demo, name):
    shares = np.array([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    rows = resample_to(demo["labels"].astype(int), shares)
    target = sg.Target(logits=demo[f"{name}_logits"][rows])
    truth = np.mean(target.predictions != demo["labels"][rows])
    found = sg.estimate(source_of(demo), target, method="auto")
    assert "scot:shrunk" not in weights(found)
    assert abs(found.error - truth) < 0.1
    assert abs(found.details["answers"]["scot:shrunk"] - truth) > 0.15


def test_a_network_that_lost_its_way_is_not_taken_for_label_shift(demo):
    """Low contrast makes it see bags and shirts only, with confidence; their runner-ups give it away."""
    target = sg.Target(logits=demo["low_contrast_logits"])
    truth = np.mean(target.predictions != demo["labels"])
    found = sg.estimate(source_of(demo), target, method="auto")
    assert found.details["unexplained_mass"] > 0.8
    assert weights(found) == {"scot:shrunk": 1.0}
    assert abs(found.error - truth) < 0.03
    assert abs(found.details["answers"]["label-shift"] - truth) > 0.5


def test_a_network_that_predicts_one_class_for_all_is_warned_of():
    """Scores cannot tell whether all rows are of that class or most are wrong; the second is outside the range."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=3000)
    logits = 4.0 * np.eye(3)[y] + rng.normal(size=(3000, 3))
    moved = logits + np.array([9.0, 0.0, 0.0])
    source, target = sg.Source(logits=logits, labels=y), sg.Target(logits=moved)
    found = sg.estimate(source, target)
    truth = np.mean(y != 0)
    assert (moved.argmax(axis=1) == 0).mean() > 0.99
    assert found.range.high < truth
    assert any("the error is about 68%" in text for text in found.warnings)
    same = sg.estimate(source, target, proportions="same")
    assert same.error == pytest.approx(truth, abs=0.03)
    assert not any("class proportions, the error is about" in text for text in same.warnings)


def test_saved_and_loaded_it_says_the_same_and_keeps_its_types(demo, tmp_path):
    fitted = Auto().fit(source_of(demo))
    fitted.save(tmp_path / "auto.json")
    again = sg.load(tmp_path / "auto.json")
    target = sg.Target(logits=demo["jpeg_logits"])
    assert again.estimate(target).to_dict() == fitted.estimate(target).to_dict()
    kept = again.source_columns_["predictions"], fitted.source_columns_["predictions"]
    assert kept[0].dtype == kept[1].dtype == np.intp


def test_one_hot_probabilities_are_not_taken_for_certainty():
    """A decision tree on rows without shift: 0 and 1 only, right in 80%; AC and auto once said 0.0%."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=1200)
    said = np.where(rng.random(1200) < 0.8, labels, rng.integers(10, size=1200))
    probs = np.eye(10)[said]
    source = sg.Source(probs=probs[:600], labels=labels[:600])
    target = sg.Target(probs=probs[600:])
    truth = np.mean(said[600:] != labels[600:])
    for method in ("auto", "ac", "label-shift", "doc", "scot"):
        assert abs(sg.estimate(source, target, method=method).error - truth) < 0.05, method


def test_too_few_rows_for_the_test_is_not_other_shift():
    """100 rows of 10 classes: the test is impossible, which says nothing about proportions."""
    rng = np.random.default_rng(3)
    z = 2.0 * rng.normal(size=(200, 10))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    found = sg.estimate(sg.Source(logits=z[:100], labels=y[:100]), sg.Target(logits=z[100:]), method="auto")
    assert found.details["p_value"] is None
    assert found.details["shift"] == "unknown"
    assert not set(weights(found)) & {"label-shift", "cott:mlls"}


def test_a_small_batch_with_another_class_mix_is_not_sent_to_scot(demo):
    """30 rows, 70% of one class, nothing else changed: SCOT at the source's shares is far off, and has no weight."""
    source, labels = source_of(demo), demo["labels"].astype(int)
    misses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        one = np.flatnonzero(labels == seed)
        rows = np.concatenate([rng.choice(one, 21), rng.choice(len(labels), 9)])
        target = sg.Target(logits=demo["clean_logits"][rows])
        found = sg.estimate(source, target)
        truth = np.mean(target.predictions != labels[rows])
        answers = found.details["answers"]
        assert found.details["shift"] in ("unknown", "label")
        assert "scot:shrunk" not in weights(found)
        misses.append([abs(found.error - truth), abs(answers["scot:shrunk"] - truth)])
    ours, scot = np.mean(misses, axis=0)
    assert ours < 0.1 < 0.2 < scot


def test_two_classes(demo):
    """No runner-up to look at: the confidences are."""

    def halves(logits):
        logits = logits.astype(float)
        return np.column_stack([np.logaddexp.reduce(part, axis=1) for part in np.split(logits, 2, axis=1)])

    source = sg.Source(logits=halves(demo["val_logits"]), labels=demo["val_labels"] // 5)
    target = sg.Target(logits=halves(demo["pixelate_logits"]))
    truth = np.mean(target.predictions != demo["labels"] // 5)
    found = sg.estimate(source, target, method="auto")
    assert abs(found.error - truth) < 0.03
    assert 0.0 < found.details["unexplained_mass"] < 1.0


def test_unexplained_by_hand():
    from shiftgauge.labelshift import unexplained

    source_cells, labels = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 1, 1, 1])
    even = np.full(6, 1 / 6)
    # Class 0 sits in cells 0, 0, 1; class 1 in 1, 2, 2. At shares (1, 0) that is (2/3, 1/3, 0).
    target = np.array([2 / 3, 1 / 3, 0.0, 0.0])
    assert unexplained(source_cells, labels, even, target, np.array([1.0, 0.0])) == pytest.approx(0)
    found = unexplained(source_cells, labels, even, np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.5, 0.5]))
    assert found == pytest.approx(1.0)
    assert unexplained(source_cells, labels, even, target, np.array([0.0, 1.0])) == pytest.approx(2 / 3)


def test_interval_resamples_every_method_of_the_choice(demo):
    """Replicate b of every part is the same resample: the blend's draws are those of the weighted mean."""
    mixed = np.concatenate([demo["clean_logits"], demo["jpeg_logits"]])  # novel in part: a mixture of methods
    pair, settings = sg.Pair(source_of(demo), sg.Target(logits=mixed)), Resampling(20)
    found = with_interval(pair, pair.estimate("auto"), settings)
    assert found.interval.low < found.error < found.interval.high
    parts = found.details["parts"]
    assert len(parts) > 1
    drawn = [
        bootstrap(pair, make(p["method"], **({"marginal": p["marginal"]} if p["marginal"] else {})), settings)
        for p in parts
    ]
    mean = sum(p["weight"] * d.values for p, d in zip(parts, drawn, strict=True))
    assert found.details["bootstrap_sd"] == pytest.approx(mean.std(ddof=1), rel=1e-9)
    assert found.details["bootstrap_sd"] != pytest.approx(drawn[0].spread, rel=1e-3)


def columns(predictions, runner_up, k=3, n_effective=1e9):
    n = len(predictions)
    even = np.full(n, 1.0 / n)
    return SourceColumns(predictions, runner_up, predictions, np.full(n, 0.9), even, k, n_effective)


def excess_mass(source, target):
    cells = ExcessCells.of(source)
    known, unknown = cells.count(target, target.row_share)
    return cells.excess(source, known, unknown, target.n_effective)


def test_excess_mass_by_hand():
    """Half of the target in a cell the source never has, with rows enough that chance gives nothing."""
    half = np.repeat([0, 1], 5000)
    source = columns(half, 1 - half)
    assert excess_mass(source, columns(half, 1 - half)) == 0.0
    # Runner-up 2 never follows 0 in the source: half is in excess; the other half is where it was.
    assert excess_mass(source, columns(half, np.where(half == 0, 2, 0))) == pytest.approx(0.5, abs=1e-3)
    # All in one of two equal cells: 1 - 2 * 0.5.
    one = columns(np.zeros(10000, int), np.ones(10000, int))
    assert excess_mass(source, one) == pytest.approx(0.0, abs=1e-3)
    tenth = columns(np.repeat([0, 1], [9000, 1000]), np.repeat([1, 0], [9000, 1000]))
    assert excess_mass(tenth, source) == pytest.approx(0.5 - 0.2, abs=1e-3)


def test_excess_mass_of_many_classes_holds_only_cells_with_rows():
    """Of 4 K^2 cells at most one per row: a table of all at K = 5,000 is 800 MB."""
    import tracemalloc

    here, k = np.arange(200), 5000
    tracemalloc.start()
    far = excess_mass(columns(here, here + 1, k), columns(here + 300, here, k))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert far == pytest.approx(1.0, abs=1e-3)
    assert peak < 20e6


def test_excess_mass_by_chance_is_subtracted():
    """Both samples from one distribution, 300 + 300 rows and 90 pairs: the raw sum is about 0.15."""
    values = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(600, 10)) + 2.0 * np.eye(10)[rng.integers(10, size=600)]
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        order, even = np.argsort(-p, axis=1), np.full(300, 1 / 300)
        source, target = (
            SourceColumns(
                order[part, 0], order[part, 1], order[part, 0], p.max(axis=1)[part], even, 10, 300.0
            )
            for part in (slice(0, 300), slice(300, 600))
        )
        values.append(excess_mass(source, target))
    assert np.mean(values) < 0.03
