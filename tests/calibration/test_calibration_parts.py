"""Calibration with weights and at its bounds: weights are repeats, optima are stationary, bounds are said."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.special import softmax as scipy_softmax

import shiftgauge as sg
from shiftgauge.calibration import bias_corrected, ece, fit_calibration
from shiftgauge.calibration.temperature import Temperature, fit_temperature
from shiftgauge.calibration.vector import Vector, fit_vector


@pytest.fixture(scope="module")
def weighted():
    """Crooked scores of three classes, and how often each row counts."""
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(300, 3))
    y = (0.6 * z + [0.5, 0.0, -0.5] + rng.gumbel(size=z.shape)).argmax(1)
    return z, y, rng.integers(0, 4, 300)


def repeated(z, y, times):
    return np.repeat(z, times, axis=0), np.repeat(y, times), np.full(times.sum(), 1 / times.sum())


@pytest.mark.parametrize("fit", [fit_vector, bias_corrected])
def test_weights_are_repeats_for_every_class_wise_fit(weighted, fit):
    z, y, times = weighted
    a, b = fit(z, y, times / times.sum()), fit(*repeated(z, y, times))
    np.testing.assert_allclose(a.scale, b.scale, atol=1e-4)
    np.testing.assert_allclose(a.offset - a.offset[0], b.offset - b.offset[0], atol=1e-4)


def test_a_common_scale_and_offsets_are_the_best_there_are(weighted):
    """Against Nelder and Mead, who know no gradient."""
    z, y, times = weighted
    mass = times / times.sum()

    def loss(x):
        return -mass @ log_softmax(z * x[0] + np.r_[0.0, x[1:]], axis=1)[np.arange(len(y)), y]

    oracle = minimize(loss, [1.0, 0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    found = bias_corrected(z + 1000.0, y, mass)  # what all scores of a row have in common does not count
    assert found.scale == pytest.approx(oracle.x[0], abs=1e-4)
    np.testing.assert_allclose(found.offset[1:] - found.offset[0], oracle.x[1:], atol=1e-4)
    expected = scipy_softmax(z * oracle.x[0] + np.r_[0.0, oracle.x[1:]], axis=1)
    np.testing.assert_allclose(found.probs(z), expected, atol=1e-4)


def test_the_error_of_calibration_weighs_its_rows(weighted):
    rng = np.random.default_rng(1)
    confidence, times = rng.random(300), weighted[2]
    correct = rng.random(300) < confidence**2
    again = ece(np.repeat(confidence, times), np.repeat(correct, times))
    assert ece(confidence, correct, times / times.sum()) == pytest.approx(again)
    assert ece(np.array([0.3, 0.9]), np.array([False, True]), bins=10) == pytest.approx((0.3 + 0.1) / 2)


def test_each_end_of_the_temperature_has_its_own_reason():
    assert "strongly overconfident" in Temperature(20.0).warnings()[0]
    assert "no errors" in Temperature(0.05).warnings()[0]
    assert Temperature(19.9).warnings() == ()


def test_scores_without_errors_run_to_the_bounds():
    z = 3.0 * np.random.default_rng(0).normal(size=(200, 3))
    mass = np.full(200, 1 / 200)
    assert fit_temperature(z, z.argmax(1), mass).temperature == 0.05
    assert fit_temperature(z, z.argmin(1), mass).temperature == 20.0
    near = np.array(
        [[1e-4, 0.0], [0.0, 1e-4]]
    )  # underconfident scores: the likelihood rises up to the scale of 20 and beyond
    assert bias_corrected(near, np.array([0, 1]), np.full(2, 0.5)).scale == 20.0
    np.testing.assert_array_equal(fit_vector(near, np.array([0, 1]), np.full(2, 0.5)).scale, [20.0, 20.0])
    wrong = np.array([[9.0, 0.0], [0.0, 9.0]])
    assert bias_corrected(wrong, np.array([1, 0]), np.full(2, 0.5)).scale == 0.05


def test_one_class_at_its_bound_is_said():
    inside = np.ones(3)
    assert Vector(inside, np.zeros(3)).warnings() == ()
    for scale, offset in (
        ([1.0, 20.0, 1.0], np.zeros(3)),
        (inside, [0.0, -20.0, 0.0]),
        (inside, [0.0, 20.0, 0.0]),
    ):
        (said,) = Vector(np.asarray(scale), np.asarray(offset)).warnings()
        assert "1 of 3 classes" in said


def test_probabilities_taken_at_their_word_stay_as_they_are():
    p = np.array([[0.7, 0.3, 0.0], [0.2, 0.2, 0.6]])
    source = sg.Source(probs=p, labels=[1, 2])
    none = fit_calibration("none", source)
    np.testing.assert_array_equal(none.probs(source.scores, "probs"), p)  # a zero stays zero
    warm = fit_calibration("temperature", source)
    assert (warm.probs(source.scores, "probs") > 0.0).all()  # and does not where a temperature is fitted
    z = sg.Source(logits=[[1.0, 0.0], [0.0, 2.0]], labels=[0, 1])
    np.testing.assert_allclose(
        fit_calibration("none", z).probs(z.scores, "logits"), scipy_softmax(z.scores, axis=1)
    )


@pytest.mark.parametrize("name", [5, None, "temper", ["none"]])
def test_what_is_no_calibration_is_refused(name):
    with pytest.raises(sg.InputError, match="is not known"):
        fit_calibration(name, sg.Source(probs=[[0.7, 0.3]], labels=[0]))


def test_a_large_source_is_calibrated_in_pieces(weighted, monkeypatch):
    """The same temperature, and no copies of all scores but the one in double precision; there were four."""
    z, y, times = weighted
    source = sg.Source(logits=z, labels=y, weights=times)
    whole = fit_calibration("temperature", source)
    monkeypatch.setattr("shiftgauge.validation.CHUNK_SCORES", 7 * 3)
    pieces = fit_calibration("temperature", source)
    assert pieces.calibrator.temperature == pytest.approx(whole.calibrator.temperature, rel=1e-12)
    assert pieces.report == pytest.approx(whole.report, rel=1e-12)

    monkeypatch.setattr("shiftgauge.validation.CHUNK_SCORES", 10_000)
    rng = np.random.default_rng(0)
    large = sg.Source(logits=rng.normal(size=(20_000, 30)).astype("f4"), labels=rng.integers(0, 30, 20_000))
    tracemalloc.start()
    fit_calibration("temperature", large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.0 * large.scores.nbytes
