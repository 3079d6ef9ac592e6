"""BBSE, RLLS and MLLS against slow, independent ways to the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from array_shares import label_shares
from scipy.optimize import minimize

import shiftgauge as sg
from shiftgauge.calibration import bias_corrected
from shiftgauge.errors import InputError
from shiftgauge.labelshift import bbse, joint_confusion, reweighted, rlls
from shiftgauge.labelshift.regularised import minimise_penalised


def sample(rng, n, shares, k=4, sharpness=2.0):
    """Labels from the shares, scores from a Gaussian per class: the posterior under equal shares is exact."""
    labels = rng.choice(k, size=n, p=shares)
    x = rng.normal(size=(n, k))
    x[np.arange(n), labels] += sharpness
    z = sharpness * x
    return z, labels


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(7)
    flat, new = np.full(4, 0.25), np.array([0.55, 0.25, 0.15, 0.05])
    z_s, y_s = sample(rng, 6000, flat)
    z_t, y_t = sample(rng, 6000, new)
    return z_s, y_s, z_t, y_t, new


def softmax(z):
    p = np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def test_all_three_find_the_true_shares(shifted):
    z_s, y_s, z_t, y_t, _new = shifted
    source, target = sg.Source(logits=z_s, labels=y_s), sg.Target(logits=z_t)
    truth = np.bincount(y_t, minlength=4) / len(y_t)
    for name in ("bbse", "rlls", "mlls"):
        found = sg.estimate(source, target, method="scot", marginal=name).details["label_marginal"]
        assert np.abs(np.array(found) - truth).max() < 0.02, name


def test_bbse_is_the_linear_solution():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=4000)
    pred = np.where(rng.random(4000) < 0.7, y, rng.integers(3, size=4000))
    C = joint_confusion(pred, y, np.full(4000, 1 / 4000), 3)
    by_hand = np.array([[np.mean((pred == j) & (y == c)) for c in range(3)] for j in range(3)])
    np.testing.assert_allclose(C, by_hand, atol=1e-12)
    h = np.array([0.5, 0.3, 0.2])
    w = np.linalg.inv(by_hand) @ h
    assert w.min() > 0
    np.testing.assert_allclose(bbse(C, h), w * by_hand.sum(0), rtol=1e-9)


@pytest.mark.parametrize("rho", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_rlls_minimises_its_objective(seed, rho):
    rng = np.random.default_rng(seed)
    k = 5
    C = np.eye(k) * 0.12 + rng.random((k, k)) * 0.03
    C /= C.sum()
    b = rng.normal(size=k) * 0.1
    b -= b.mean()
    q = C.sum(0)

    def objective(theta):
        return np.linalg.norm(C @ theta - b) + rho * np.linalg.norm(theta)

    theta = minimise_penalised(C, b, rho)
    starts = [np.zeros(k) + 1e-3, np.maximum(np.linalg.solve(C, b), -0.9), theta]
    best = min(
        minimize(
            objective,
            s,
            method="SLSQP",
            bounds=[(-1, None)] * k,
            options={"ftol": 1e-14, "maxiter": 2000},
        ).fun
        for s in starts
    )
    assert theta.min() >= -1 - 1e-12
    assert objective(theta) <= best + 1e-7
    shares = rlls(C, b + C.sum(1), n_source=1000, rho=rho)
    np.testing.assert_allclose(shares, (q * (1 + theta)) / (q * (1 + theta)).sum(), atol=1e-9)


def test_rlls_with_a_heavy_penalty_keeps_the_source_shares():
    C = np.array([[0.3, 0.1], [0.1, 0.5]])
    np.testing.assert_allclose(rlls(C, np.array([0.6, 0.4]), 100, rho=10.0), [0.4, 0.6], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_mlls_maximises_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4) * 0.5, size=300)
    mass = rng.random(300)
    mass /= mass.sum()
    prior = rng.dirichlet(np.ones(4) * 5)
    found = label_shares(p, prior, mass)

    def loss(a):  # shares by softmax of three free numbers: no constraint is left
        pi = softmax(np.append(a, 0.0)[None])[0]
        return -mass @ np.log((p / prior) @ pi)

    oracle = minimize(
        loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 9000}
    )
    value = mass @ np.log((p / prior) @ found.shares)
    assert value >= -oracle.fun - 1e-8
    np.testing.assert_allclose(found.shares, softmax(np.append(oracle.x, 0.0)[None])[0], atol=2e-4)
    assert found.gap <= 1e-9


def test_mlls_at_no_shift_changes_nothing():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=400)
    found = label_shares(p, p.mean(0))
    np.testing.assert_allclose(found.weights, 1.0, atol=1e-12)


def test_a_vanished_class_gets_no_mass():
    rng = np.random.default_rng(3)
    z, _y = sample(rng, 3000, np.array([0.4, 0.3, 0.3, 0.0]), sharpness=3.0)
    found = label_shares(softmax(z), np.full(4, 0.25))
    assert found.shares[3] < 0.005


def test_label_shift_is_scot_at_the_mlls_marginal(shifted):
    z_s, y_s, z_t, _, _ = shifted
    source, target = sg.Source(logits=z_s, labels=y_s), sg.Target(logits=z_t)
    direct = sg.estimate(source, target, method="label-shift")
    through = sg.estimate(source, target, method="scot", marginal="mlls")
    given = sg.estimate(source, target, method="scot", marginal=direct.details["label_marginal"])
    assert direct.error == pytest.approx(through.error, abs=1e-6)
    assert direct.error == pytest.approx(given.error, abs=1e-6)


def test_label_shift_method_is_right_under_label_shift_where_source_marginals_are_not(shifted):
    z_s, y_s, z_t, y_t, _ = shifted
    truth = np.mean(z_t.argmax(1) != y_t)
    source, target = sg.Source(logits=z_s, labels=y_s), sg.Target(logits=z_t)
    assert abs(sg.estimate(source, target, method="label-shift").error - truth) < 0.015
    assert abs(sg.estimate(source, target, method="scot").error - truth) > 0.1


def test_bias_correction_makes_the_mean_posterior_the_label_shares(shifted):
    z_s, y_s, z_t, y_t, _ = shifted
    crooked = z_s + np.array([1.0, -0.5, 0.0, 0.3])
    mass = np.full(len(y_s), 1 / len(y_s))
    fitted = bias_corrected(crooked, y_s, mass)
    mean = fitted.probs(crooked).mean(0)
    np.testing.assert_allclose(mean, np.bincount(y_s) / len(y_s), atol=1e-6)
    found = label_shares(fitted.probs(z_t + np.array([1.0, -0.5, 0.0, 0.3])), mean).shares
    assert np.abs(found - np.bincount(y_t) / len(y_t)).max() < 0.02


def test_weights_count_as_repetitions():
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(3), size=50)
    times = rng.integers(1, 4, size=50)
    prior = np.full(3, 1 / 3)
    weighted = label_shares(p, prior, times / times.sum()).shares
    np.testing.assert_allclose(weighted, label_shares(np.repeat(p, times, axis=0), prior).shares, atol=1e-6)


def test_reweighted_rows_without_mass_stay_as_they_were():
    p = np.array([[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(reweighted(p, np.array([0.0, 2.0])), [[1.0, 0.0], [0.0, 1.0]])


def test_an_unknown_marginal_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'mlls'"):
        sg.methods.COTT(marginal="mls")


@pytest.mark.parametrize("method", ["cot", "cott", "scot"])
@pytest.mark.parametrize("marginal", ["bbse", "rlls", "mlls"])
def test_fitted_estimators_survive_saving(tmp_path, shifted, method, marginal):
    z_s, y_s, z_t, _, _ = shifted
    source, target = sg.Source(logits=z_s[:500], labels=y_s[:500]), sg.Target(logits=z_t[:400])
    fitted = sg.methods.METHODS[method](marginal=marginal).fit(source)
    fitted.save(tmp_path / "m.json")
    assert sg.load(tmp_path / "m.json").estimate(target).error == pytest.approx(fitted.estimate(target).error)
