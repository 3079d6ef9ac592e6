"""The report's judgement: the worst comes first and decides, the method's own warnings count, weights count."""

import re

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.inference.checks import RANGE
from shiftgauge.methods import Pair
from shiftgauge.methods.posterior import row_posterior
from shiftgauge.reports import report
from shiftgauge.reports.findings import LEVELS, diagnosis, findings
from shiftgauge.reports.slices import MOST_SLICES, class_table, slice_tables
from shiftgauge.rows import run


@pytest.fixture(scope="module")
def troubled(scores):
    """No errors in the source (stop), and a shift (caution) beside checks that are fine."""
    right = scores["logits"].argmax(1)
    return sg.Source(scores["logits"], right), sg.Target(scores["shifted"])


def test_findings_come_worst_first(troubled):
    found = findings(Pair(*troubled), "scot", ["a warning of its own"], lambda step: None)
    levels = [one["level"] for one in found]
    assert set(levels) == {"stop", "caution", "ok"}
    assert levels == sorted(levels, key=LEVELS.index, reverse=True)
    (own,) = [one for one in found if one["meaning"] == "a warning of its own"]
    assert (own["check"], own["level"]) == ("scot", "caution")


def test_the_worst_finding_is_the_diagnosis_and_its_reason():
    found = [
        {"check": level, "level": level, "meaning": "why", "action": "mend it"}
        for level in ("ok", "stop", "caution")
    ]
    assert diagnosis(found) == {
        "level": "stop",
        "headline": "Do not rely on it.",
        "reasons": ["stop: why"],
        "advice": "Mend it.",
    }
    # Below that the grade of the range decides, the only one that was calibrated: other cautions are only told.
    graded = [
        {"check": RANGE, "level": level, "meaning": "wide", "action": "label some rows"}
        for level in ("ok", "caution", "stop")
    ]
    assert diagnosis([*found[::2], graded[0]])["level"] == "ok"
    assert diagnosis([found[0], graded[1]]) == {
        "level": "caution",
        "headline": "Take it with care.",
        "reasons": [f"{RANGE}: wide"],
        "advice": "Label some rows before you act on it (shiftgauge label-plan).",
    }
    assert diagnosis([graded[2]])["level"] == "stop"
    assert diagnosis([graded[0], found[1]])["level"] == "stop"  # a narrow range excuses nothing
    assert diagnosis(found[:1])["reasons"] == []


def test_the_report_repeats_what_its_method_warns_of(troubled):
    source, target = troubled
    kept = source.labels != 4
    poor = sg.Source(source.scores[kept], source.labels[kept])
    warned = sg.estimate(poor, target, "scot").warnings
    assert warned
    found = report(poor, target, "scot", replicates=0).summary["findings"]
    assert set(warned) <= {one["meaning"] for one in found if one["check"] == "scot"}


def test_the_class_table_counts_rows_and_weighs_shares(scores):
    weights = np.random.default_rng(0).uniform(0.1, 5.0, len(scores["shifted"]))
    target = sg.Target(scores["shifted"], weights=weights)
    pair = Pair(sg.Source(scores["logits"], scores["labels"]), target)
    posterior = run(row_posterior(pair.fitted("scot", marginal="source"), pair.target))
    wrong = pair.target_block.error_probability(posterior(pair.target_block))
    for j, row in enumerate(class_table(pair, "scot", 0.9)):
        mine = target.predictions == j
        assert row["rows"] == mine.sum()
        assert row["share"] == pytest.approx(weights[mine].sum() / weights.sum())
        assert row["error"] == pytest.approx(np.average(wrong[mine], weights=weights[mine]))
        assert row["range"] is None  # a method that is named has none
    for row in class_table(pair, "auto", 0.8):
        assert row["range"]["level"] == 0.8
        assert row["range"]["low"] <= row["error"] <= row["range"]["high"]


def test_the_largest_slices_are_listed(source, target):
    values = np.concatenate([np.full(target.n - 3 * 60, "big"), np.repeat(np.arange(60).astype(str), 3)])
    pair = Pair(source, target)
    answer = pair.estimate("scot")
    (table,) = slice_tables(pair, {"by": values}, None, answer, replicates=20, marginal="source")
    shares = [row["share"] for row in table["rows"]]
    assert table["rows"][0]["slice"] == "big"
    assert shares == sorted(shares, reverse=True)
    assert (len(shares), table["left_out"]) == (MOST_SLICES, 61 - MOST_SLICES)


def test_the_range_is_the_headline(source, target):
    """Of `auto`, in the sentence and on the page; a named method has its interval there."""
    named = report(source, target, "cott", replicates=50)
    assert "(90% interval, sampling error only, " in named.summary["answer"]["sentence"]
    made = report(source, target, replicates=50)
    ends = made.summary["answer"]["range"]
    assert (
        f"(90% range {100 * ends['low']:.1f}% to {100 * ends['high']:.1f}%)"
        in made.summary["answer"]["sentence"]
    )
    text = made.to_html()
    how = text.index('id="how"')
    assert text.index("90% range ") < how < text.index("90% interval by the bootstrap, sampling error only")
    sampling, interval = made.summary["answer"]["sampling"], made.summary["answer"]["interval"]
    for name, ends in (("of the range: ", sampling), ("90% interval by the bootstrap", interval)):
        shown = f"{100 * ends['low']:.1f}% to {100 * ends['high']:.1f}%"
        assert re.search(rf"{name}[^<]*</d?t?h?><[dt]d>{shown}", text)


def test_the_page_names_its_marks_and_its_kind_of_confidence(source, target):
    text = report(source, target, replicates=0).to_html()
    assert '<span class="key"></span>error on the source' in text
    assert "Histograms of calibrated confidence. The mean is " in text
    assert ">calibrated confidence in the prediction<" in text
    plain = report(source, target, replicates=0, calibration="none").to_html()
    assert "Histograms of confidence. The mean is " in plain
    assert ">confidence in the prediction<" in plain


def test_p_is_never_zero():
    from shiftgauge.inference.diagnosis import shown

    assert shown({"kind": "other", "p_value": 0.0}) == "kind other, p < 0.001"


def test_what_is_known_of_the_proportions_reaches_the_whole_report(source, target):
    made = report(source, target, proportions="changed", replicates=0).summary
    compared = next(e for e in made["comparison"]["estimates"] if e["method"] == "auto")
    assert compared["details"]["proportions"] == made["answer"]["details"]["proportions"] == "changed"
    assert made["provenance"]["options"]["proportions"] == "changed"
