"""Soft and smoothed transport against the exact solver, Sinkhorn, closed forms, and each other."""

from __future__ import annotations

import numpy as np
import pytest

from shiftgauge.transport import Problem, _newton, entropic, smoothed, soft_transport, solve


def drawn(n, k, concentration=0.5, seed=4):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, concentration), size=n)
    return p, rng.dirichlet(np.full(k, 5.0)), rng.dirichlet(np.full(n, 2.0))


def sinkhorn(p, q, mass, rounds=20_000):
    """Iterative scaling, the slow and obvious way, to machine precision."""
    w = np.ones(len(q))
    for _ in range(rounds):
        r = p * w
        held = mass @ (r / r.sum(axis=1, keepdims=True))
        w *= q / held
        if np.abs(held - q).max() < 1e-15:
            break
    r = p * w
    return r / r.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "k"), [(500, 2), (700, 5), (300, 50), (400, 300)])
def test_soft_plan_against_iterative_scaling(n, k):
    p, q, mass = drawn(n, k)
    plan = soft_transport(np.log(p + 1e-12), q, mass)
    np.testing.assert_allclose(plan.posterior, sinkhorn(p + 1e-12, q, mass), atol=1e-7)
    np.testing.assert_allclose(mass @ plan.posterior, q, atol=1e-9)


def test_every_label_is_met_not_only_their_mean():
    """A start at which one label alone is missed by more than the tolerance is not good enough."""
    p, q, mass = drawn(2000, 200, 0.5)
    start = soft_transport(np.log(p + 1e-12), q, mass, tol=1e-14).log_weights
    start[7] += 1e-9 / q[7]
    r = (p + 1e-12) * np.exp(start)
    missed = np.abs(mass @ (r / r.sum(axis=1, keepdims=True)) - q)
    assert missed.max() > 3e-10 > 1e-10 > 2 * missed.mean()
    plan = soft_transport(np.log(p + 1e-12), q, mass, start=start, tol=1e-10)
    assert np.abs(mass @ plan.posterior - q).max() <= 1.01e-10
    assert plan.marginal_error == pytest.approx(np.abs(mass @ plan.posterior - q).max(), abs=1e-12)


@pytest.mark.parametrize("k", [5, 50, 300])
def test_start_and_probs_change_the_road_not_the_plan(k):
    p, q, mass = drawn(600, k)
    p = (p + 1e-9) / (1 + k * 1e-9)
    cold = soft_transport(np.log(p), q, mass)
    rng = np.random.default_rng(0)
    for start in (cold.log_weights, rng.normal(size=k), np.full(k, -np.inf)):
        warm = soft_transport(None, q, mass, probs=p, start=start)
        np.testing.assert_allclose(warm.posterior, cold.posterior, atol=1e-7)
    assert soft_transport(None, q, mass, probs=p, start=cold.log_weights).passes <= 2


def test_probabilities_in_single_precision_are_not_copied_whole(monkeypatch):
    p, q, mass = drawn(600, 5)
    single = p.astype(np.float32)
    kernel = entropic._Kernel(None, mass, single)
    assert kernel.E is single
    plan = soft_transport(None, q, mass, probs=single)
    expected = soft_transport(np.log(np.maximum(single.astype(np.float64), 1e-300)), q, mass)
    np.testing.assert_allclose(plan.posterior, expected.posterior, atol=1e-7)


def test_labels_without_mass_get_none():
    p, q, mass = drawn(300, 6)
    q = np.where(np.arange(6) == 2, 0.0, q) / (1 - q[2])
    for options in ({}, {"probs": p}, {"probs": p, "start": np.zeros(6)}):
        plan = soft_transport(np.log(p + 1e-12), q, mass, **options)
        assert (plan.posterior[:, 2] == 0.0).all()
        assert plan.log_weights[2] == -np.inf
        np.testing.assert_allclose(mass @ plan.posterior, q, atol=1e-9)


def test_a_label_that_all_rows_find_impossible_is_still_met():
    """Far beyond what probabilities can hold: exp(-2000) is zero, its logarithm is not."""
    z = np.zeros((40, 3))
    z[:, 2] = -2000.0 - np.arange(40) / 40
    q, mass = np.array([0.3, 0.3, 0.4]), np.full(40, 1 / 40)
    plan = soft_transport(z, q, mass)
    np.testing.assert_allclose(mass @ plan.posterior, q, atol=1e-9)


def test_newton_s_gradient_and_hessian_are_those_of_its_value():
    p, q, mass = drawn(200, 6)
    v, d, h = np.log(q), np.random.default_rng(1).normal(size=6), 1e-5
    read = entropic._Kernel(np.log(p + 1e-12), mass, None).read
    up, here, down = read(v + h * d), read(v), read(v - h * d)
    assert here.held @ d == pytest.approx((up.value - down.value) / (2 * h), abs=1e-8)
    np.testing.assert_allclose(here.hessian() @ d, (up.held - down.held) / (2 * h), atol=1e-8)


def test_newton_stops_when_it_may_not_go_on():
    p, q, mass = drawn(200, 6)
    read = entropic._Kernel(np.log(p + 1e-12), mass, None).read
    found = _newton.newton(read, np.zeros(6), q, tol=0.0, more=lambda: False)
    assert found.error == pytest.approx(np.abs(mass @ (p + 1e-12) / (1 + 6e-12) - q).max(), abs=1e-9)


@pytest.mark.parametrize("dead", [False, True])
def test_smoothed_plan_is_within_its_certified_gap(dead):
    p, q, mass = drawn(800, 6, 0.4, seed=2)
    if dead:
        q = np.where(np.arange(6) == 4, 0.0, q) / (1 - q[4])
    exact = solve(Problem(p, q, mass))
    plan = smoothed(p, q, mass, np.zeros(6))
    assert -1e-4 < plan.value - exact.value < plan.certificate.gap + 1e-4
    assert 0.0 < plan.certificate.gap < 1e-3
    row, cls, part, cost = plan.pieces()
    np.testing.assert_allclose(np.bincount(row, weights=part), mass, atol=1e-12)
    np.testing.assert_allclose(np.bincount(cls, weights=part, minlength=6), q, atol=6e-5)
    np.testing.assert_allclose(cost, 1 - p[row, cls], atol=1e-12)
    dual = 1 - (mass @ (p - plan.prices).max(axis=1) + q @ plan.prices)
    assert plan.certificate.dual == pytest.approx(dual, abs=1e-12)


def test_smoothed_plan_reaches_optimal_prices_from_wild_ones():
    p, q, mass = drawn(800, 6, 0.4, seed=2)
    wild = smoothed(p, q, mass, np.random.default_rng(0).random(6))
    assert wild.value == pytest.approx(
        smoothed(p, q, mass, solve(Problem(p, q, mass)).prices).value, abs=1e-4
    )
