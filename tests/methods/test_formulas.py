"""What estimators say beside the number, and formulas that only stood in their own code: by hand, scipy and loops."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import shiftgauge as sg
from shiftgauge.methods import AC, COTT
from shiftgauge.methods.marginal import unproved
from shiftgauge.transport import Certificate


def test_aline_is_its_formula():
    """Against scipy's regression and a solve written out, on weighted rows and models that err apart."""
    rng = np.random.default_rng(0)
    n, count = 400, 4
    y, y_t = rng.integers(3, size=(2, n))
    w, w_t = rng.random((2, n)) + 0.2
    sharp = np.linspace(0.5, 2.0, count)
    left = [s * np.eye(3)[y] + rng.normal(size=(n, 3)) for s in sharp]
    right = [0.7 * s * np.eye(3)[y_t] + rng.normal(size=(n, 3)) for s in sharp]
    held = {
        str(i): (sg.Source(logits=a, labels=y, weights=w), sg.Target(logits=b, weights=w_t))
        for i, (a, b) in enumerate(zip(left, right, strict=True))
    }
    found = sg.aline(held)

    def probit(same, weights):
        return stats.norm.ppf(np.average(same, weights=weights))

    pairs = list(combinations(range(count), 2))
    x = np.array([probit(left[i].argmax(1) == left[j].argmax(1), w) for i, j in pairs])
    z = np.array([probit(right[i].argmax(1) == right[j].argmax(1), w_t) for i, j in pairs])
    line = stats.linregress(x, z)
    accuracy = np.array([probit(a.argmax(1) == y, w) for a in left])
    A = np.array([[0.5 * (m in pair) for m in range(count)] for pair in pairs])
    solved = np.linalg.pinv(A) @ (z + line.slope * (A @ accuracy - x))
    for i in range(count):
        one = found[str(i)]
        assert one.error == pytest.approx(1 - stats.norm.cdf(solved[i]))
        assert one.details["aline_s"] == pytest.approx(
            1 - stats.norm.cdf(line.slope * accuracy[i] + line.intercept)
        )
        assert one.details["slope"] == pytest.approx(line.slope)
        assert one.details["bias"] == pytest.approx(line.intercept)
        assert one.details["r_squared"] == pytest.approx(line.rvalue**2)
        assert bool(one.warnings) == (line.rvalue**2 < 0.95)


def test_aline_says_what_arrived(source, target):
    with pytest.raises(sg.InputError, match="arrived list models"):
        sg.aline([(source, target)] * 3)
    with pytest.raises(sg.InputError, match="arrived 2 models"):
        sg.aline({"a": (source, target), "b": (source, target)})
    short = sg.Target(logits=target.scores[:-1])
    with pytest.raises(sg.InputError, match="same rows"):
        sg.aline({"a": (source, target), "b": (source, short), "c": (source, target)})


def test_the_threshold_in_details_is_a_confidence(source, target):
    """ATC-MC's is the m-th smallest maximum of the source, m its errors."""
    found = sg.estimate(source, target, "atc-mc", calibration="none")
    p = np.exp(source.scores - source.scores.max(axis=1, keepdims=True))
    worst = np.sort((p / p.sum(axis=1, keepdims=True)).max(axis=1))
    errors = round(source.error * source.n)
    assert found.details["threshold"] == pytest.approx(worst[errors - 1])


def binned(rows):
    """Two classes, a row per confidence."""
    return np.c_[rows, 1 - np.asarray(rows)]


def test_im_by_hand_with_weights_and_what_it_borrows():
    source = sg.Source(
        probs=binned([0.55, 0.58, 0.95, 0.97, 0.99]),
        labels=[0, 1, 0, 0, 1],
        weights=[1.0, 3.0, 1.0, 2.0, 1.0],
    )
    for rare, warned in (
        (1, False),
        (2, True),
    ):  # of 100 rows; 0.75 is as near to either bin
        target = sg.Target(probs=binned([0.55] * 40 + [0.75] * rare + [0.96] * (60 - rare)))
        found = sg.estimate(source, target, "im", calibration="none")
        assert found.error == pytest.approx(0.4 * 0.75 + rare / 100 * 0.75 + (60 - rare) / 100 * 0.25)
        assert found.details["borrowed_mass"] == pytest.approx(rare / 100)
        assert any("without source rows" in text for text in found.warnings) is warned


def test_warnings_of_samples_that_tell_little():
    good = sg.Source(probs=binned([0.9, 0.2, 0.7]), labels=[0, 1, 0])
    one = sg.estimate(good, sg.Target(probs=binned([0.7])), "ac", calibration="none").warnings
    assert any("the target has one row" in text for text in one)
    assert any("the source has no errors" in text for text in one)
    poor = sg.Source(probs=binned([0.9, 0.2, 0.7]), labels=[0, 0, 0])
    two = sg.estimate(poor, sg.Target(probs=binned([0.7, 0.2])), "ac", calibration="none").warnings
    assert any(text.startswith("no source label is 1: ") and " take it to be absent" in text for text in two)
    assert not any("one row" in text or "no errors" in text for text in two)


def test_the_largest_threshold_that_ties_allow():
    """Of ten equal rows five pay 0.3 and five 0.7, whichever; half are wrong, so half lie at or beyond the cut."""
    source = sg.Source(probs=[[0.7, 0.3]] * 10, labels=[0, 1] * 5)
    fitted = COTT(calibration="none").fit(source)
    assert fitted.threshold_ == fitted.threshold_high_ == pytest.approx(0.7)
    assert fitted.threshold_low_ == pytest.approx(0.3)  # had every row paid as little as it may
    between = sg.Target(probs=[[0.55, 0.45]] * 2)
    assert fitted.estimate(between).details["tie_mass"] == pytest.approx(1.0)


@pytest.mark.parametrize("given", [np.eye(2), "source.npz", None])
def test_only_a_source_is_learned_from(given, target):
    for wrong in (given, target):
        with pytest.raises(sg.InputError, match=r"fit: arrived \w+; wanted shiftgauge\.Source"):
            AC().fit(wrong)


def test_notes_on_the_samples_are_in_every_answer(scores):
    p = np.exp(scores["logits"]) / np.exp(scores["logits"]).sum(axis=1, keepdims=True)
    source = sg.Source(probs=p.round(3), labels=scores["labels"])
    assert source.notes
    met = sg.Pair(source, sg.Target(logits=scores["shifted"]))
    for method in ("ac", "cott", "auto"):
        assert met.estimate(method).warnings[: len(met.notes)] == met.notes


def test_a_plan_that_is_not_proved_says_so(source, target):
    for method in ("cot", "cott"):
        assert not any("proved optimal only" in text for text in sg.estimate(source, target, method).warnings)
    loose = SimpleNamespace(certificate=Certificate(0.3, 0.29, 0.01, 2e-6))
    (warning,) = unproved(loose)
    assert warning.startswith("the transport is proved optimal only to 1.0e-02 in cost and 2.0e-06 in mass")


def test_the_ks_distance_is_scipys(scores):
    """Of the confidences of source and target, in `auto`'s details; with ties, and weights as repetitions."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        p, q = rng.integers(51, 100, 60) / 100, rng.integers(51, 100, 45) / 100
        times = rng.integers(1, 4, 45)
        source = sg.Source(probs=binned(p), labels=rng.integers(0, 2, 60))
        target = sg.Target(probs=binned(q), weights=times)
        found = sg.estimate(source, target, calibration="none").details["ks_distance"]
        assert found == pytest.approx(stats.ks_2samp(p, np.repeat(q, times)).statistic)
