"""Temperature against a grid and scipy, ECE against a second implementation, edge cases by definition."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from scipy.special import softmax as scipy_softmax

import shiftgauge as sg
from shiftgauge.calibration import ece, fit_calibration, mean_nll, softmax


def nll(t, logits, labels, mass=None):
    rows = -log_softmax(logits / t, axis=1)[np.arange(len(labels)), labels]
    return np.average(rows, weights=mass)


def temperature(source):
    return fit_calibration("temperature", source).details()["temperature"]


def test_temperature_beats_a_fine_grid(scores, source):
    t = temperature(source)
    grid = np.geomspace(0.05, 20, 20_001)
    losses = [nll(g, scores["logits"], scores["labels"]) for g in grid[:: len(grid) // 400]]
    assert nll(t, scores["logits"], scores["labels"]) <= min(losses) + 1e-12
    near = grid[(grid > 0.9 * t) & (grid < 1.1 * t)]
    best = near[np.argmin([nll(g, scores["logits"], scores["labels"]) for g in near])]
    assert t == pytest.approx(best, rel=1e-3)


def test_temperature_agrees_with_scipy(scores, source):
    found = minimize_scalar(
        lambda t: nll(t, scores["logits"], scores["labels"]),
        bounds=(0.05, 20),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert temperature(source) == pytest.approx(found.x, rel=1e-6)


@pytest.mark.parametrize("true", [0.2, 1.0, 4.0])
def test_temperature_finds_the_truth(true):
    rng = np.random.default_rng(1)
    z = 2 * rng.normal(size=(60_000, 3))
    labels = (scipy_softmax(z, axis=1).cumsum(1) > rng.random((60_000, 1))).argmax(1)
    assert temperature(sg.Source(logits=z * true, labels=labels)) == pytest.approx(true, rel=0.03)


def test_weights_are_repeats(scores):
    counts = np.random.default_rng(2).integers(0, 4, 600)
    rows = np.repeat(np.arange(600), counts)
    weighted = sg.Source(logits=scores["logits"], labels=scores["labels"], weights=counts)
    repeated = sg.Source(logits=scores["logits"][rows], labels=scores["labels"][rows])
    assert temperature(weighted) == pytest.approx(temperature(repeated), rel=1e-9)


def test_probabilities_and_logits_agree(scores, source):
    probs = scipy_softmax(scores["logits"], axis=1)
    vector = [
        fit_calibration("vector", s).details()["nll_after"]
        for s in (source, sg.Source(probs=probs, labels=scores["labels"]))
    ]
    assert vector[0] == pytest.approx(vector[1], abs=1e-9)
    assert temperature(sg.Source(probs=probs, labels=scores["labels"])) == pytest.approx(
        temperature(source), rel=1e-9
    )


def test_a_shift_of_all_logits_changes_nothing(scores, source):
    moved = sg.Source(logits=scores["logits"] + 1000.0, labels=scores["labels"])
    assert temperature(moved) == pytest.approx(temperature(source), rel=1e-9)


def test_the_bounds_are_reached_and_said():
    rng = np.random.default_rng(3)
    z = 5 * rng.normal(size=(500, 4))
    unrelated = fit_calibration(
        "temperature", sg.Source(logits=z, labels=rng.integers(0, 4, 500) * 0 + z.argmin(1))
    )
    flawless = fit_calibration("temperature", sg.Source(logits=z, labels=z.argmax(1)))
    assert unrelated.details()["temperature"] == 20.0
    assert flawless.details()["temperature"] == 0.05
    for calibration in (unrelated, flawless):
        assert any("bound" in w for w in calibration.warnings())


def test_one_class_and_equal_rows_leave_scores_alone():
    assert temperature(sg.Source(logits=[[3.0], [1.0]], labels=[0, 0])) == 1.0
    assert temperature(sg.Source(logits=[[1.0, 1.0]] * 3, labels=[0, 1, 0])) == 1.0


def test_zero_probabilities_do_not_break_the_likelihood():
    source = sg.Source(probs=[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], labels=[0, 1, 1])
    details = fit_calibration("temperature", source).details()
    assert 0.05 <= details["temperature"] <= 20
    assert np.isfinite(details["nll_after"])


def second_ece(confidence, correct, bins=15):
    """Written again, bin by bin."""
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = (confidence > low) & (confidence <= high) | ((b == 0) & (confidence == 0))
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    return total


def test_ece_against_a_second_implementation(rng):
    confidence = rng.random(2000)
    correct = rng.random(2000) < confidence**2
    assert ece(confidence, correct) == pytest.approx(second_ece(confidence, correct), abs=1e-12)


def test_calibration_improves_both_measures(source):
    details = fit_calibration("temperature", source).details()
    assert details["nll_after"] < details["nll_before"]
    assert details["ece_after"] < details["ece_before"]


def test_vector_scaling_is_a_stationary_point_and_no_worse(scores, source):
    plain = fit_calibration("temperature", source).details()
    details = fit_calibration("vector", source).details()
    assert details["nll_after"] <= plain["nll_after"] + 1e-9
    scale, offset = (np.array(details["vector"][name]) for name in ("scale", "offset"))
    start = np.r_[scale, offset]
    z = scores["logits"] - scores["logits"].max(1, keepdims=True)
    base = nll(1.0, z * scale + offset, scores["labels"])
    assert base == pytest.approx(details["nll_after"], abs=1e-12)
    for j in range(10):
        for step in (-1e-3, 1e-3):
            x = start.copy()
            x[j] += step
            assert nll(1.0, z * x[:5] + x[5:], scores["labels"]) >= base - 1e-9


def test_calibration_never_changes_predictions(scores):
    source = sg.Source(logits=scores["logits"], labels=scores["labels"])
    target = sg.Target(logits=scores["shifted"])
    for calibration in ("none", "temperature", "vector"):
        details = sg.estimate(source, target, method="cot", calibration=calibration).details
        assert details["source_error"] == source.error
    assert (target.predictions == scores["shifted"].argmax(1)).all()


def test_softmax_and_nll_against_scipy(rng):
    z = 30 * rng.normal(size=(50, 7))
    labels = rng.integers(0, 7, 50)
    assert softmax(z) == pytest.approx(scipy_softmax(z, axis=1), abs=1e-15)
    assert mean_nll(z, labels, np.full(50, 0.02)) == pytest.approx(nll(1.0, z, labels))


def test_unknown_calibration_names_the_nearest():
    with pytest.raises(sg.InputError, match=r"'temprature' is not known.*did you mean 'temperature'"):
        sg.methods.COTT(calibration="temprature")
