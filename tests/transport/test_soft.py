"""Soft and smoothed transport against iterative scaling, the exact solver, closed forms, and each other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from shiftgauge.calibration import fit_calibration
from shiftgauge.rows import Block, Rows, run
from shiftgauge.samples import Source, Target
from shiftgauge.transport import (
    Problem,
    WarmStart,
    exact_transport,
    smoothed_transport,
    soft_transport,
    solve,
)
from shiftgauge.transport.soft import posterior_sums, weights_of

from .oracles import cut_rows, sinkhorn


def drawn(n, k, concentration=0.5, seed=4):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, concentration), size=n) + 1e-12
    return p / p.sum(axis=1, keepdims=True), rng.dirichlet(np.full(k, 5.0)), rng.dirichlet(np.full(n, 2.0))


def soft(p, q, mass=None, **options):
    """The plan of an array, and its posteriors."""
    block = Block(p, weights=mass)
    plan = run(weights_of(Rows.of_block(block), q, **options))
    return plan, plan.posterior(block)


@pytest.mark.parametrize(("n", "k"), [(500, 2), (700, 5), (300, 50), (400, 300), (50, 300)])
def test_soft_plan_against_iterative_scaling(n, k):
    p, q, mass = drawn(n, k)
    plan, posterior = soft(p, q, mass)
    np.testing.assert_allclose(posterior, sinkhorn(p, q, mass), atol=1e-7)
    np.testing.assert_allclose(mass @ posterior, q, atol=1e-9)
    assert plan.kept == pytest.approx(mass @ posterior[np.arange(n), p.argmax(axis=1)], abs=1e-12)


@pytest.mark.parametrize(("n", "sharpness"), [(1200, 30), (600, 60)])
def test_many_classes_of_saturated_rows_are_met(n, sharpness):
    """Conjugate gradients alone met these masses to 0.03, and SCOT was wrong by more than 20 points."""
    rng = np.random.default_rng(0)
    z = sharpness * rng.normal(size=(n, 300)) + rng.normal(size=300)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    q = rng.dirichlet(np.ones(300))
    plan, posterior = soft(p / p.sum(axis=1, keepdims=True), q)
    assert plan.marginal_error < 1e-9
    np.testing.assert_allclose(posterior.mean(axis=0), q, rtol=0, atol=1e-9)


@pytest.mark.parametrize("k", [5, 300])
def test_rows_without_weights_count_alike(k):
    p, q, _ = drawn(400, k)
    equal = np.full(400, 1 / 400)
    np.testing.assert_allclose(soft(p, q)[1], sinkhorn(p, q, equal), atol=1e-7)


def test_every_label_is_met_not_only_their_mean():
    """A start at which one label alone is missed by more than the tolerance is not good enough."""
    p, q, mass = drawn(2000, 200, 0.5)
    start = soft(p, q, mass, tol=1e-14)[0].log_weights
    start[7] += 1e-9 / q[7]
    r = p * np.exp(start)
    missed = np.abs(mass @ (r / r.sum(axis=1, keepdims=True)) - q)
    assert missed.max() > 3e-10 > 1e-10 > 2 * missed.mean()
    plan, posterior = soft(p, q, mass, start=start, tol=1e-10)
    assert np.abs(mass @ posterior - q).max() <= 1.01e-10
    assert plan.marginal_error == pytest.approx(np.abs(mass @ posterior - q).max(), abs=1e-12)


@pytest.mark.parametrize("k", [5, 50, 300])
def test_the_start_changes_the_path_not_the_plan(k):
    p, q, mass = drawn(600, k)
    cold, posterior = soft(p, q, mass)
    rng = np.random.default_rng(0)
    for start in (cold.log_weights, rng.normal(size=k), np.full(k, -np.inf)):
        np.testing.assert_allclose(soft(p, q, mass, start=start)[1], posterior, atol=1e-7)
    assert soft(p, q, mass, start=cold.log_weights)[0].passes <= 2


def test_single_precision_is_read_as_it_is():
    p, q, mass = drawn(600, 5)
    single = p.astype(np.float32)
    np.testing.assert_allclose(
        soft(single, q, mass)[1], soft(single.astype(np.float64), q, mass)[1], atol=1e-7
    )


@pytest.mark.parametrize("n", [300, 60_000])
def test_labels_without_mass_get_none(n):
    p, q, mass = drawn(n, 6)
    q = np.where(np.arange(6) == 2, 0.0, q) / (1 - q[2])
    plan, posterior = soft(p, q, mass)
    assert (posterior[:, 2] == 0.0).all()
    assert plan.log_weights[2] == -np.inf
    np.testing.assert_allclose(mass @ posterior, q, atol=1e-9)


@pytest.mark.parametrize("n", [40, 60_000])
def test_a_label_that_all_rows_find_impossible_is_still_met(n):
    """Far beyond what probabilities can hold: exp(-2000) is zero, its logarithm is not."""
    z = np.zeros((n, 3))
    z[:, 2] = -2000.0 - np.arange(n) / n
    source = Source(logits=z[:3], labels=[0, 1, 0])
    rows = Rows.of(Target(logits=z)).calibrated(fit_calibration("none", source))
    q = np.array([0.3, 0.3, 0.4])
    plan = run(soft_transport(rows, q))
    held = run(rows.mean(plan.posterior))
    np.testing.assert_allclose(held, q, atol=1e-9)


@pytest.mark.parametrize("copies", [1, 20_000])
def test_rows_that_believe_in_a_label_without_mass(copies):
    """What is left of such a row is so small that its square is nothing."""
    log_probs = np.array([[0.0, -420.0, -421.0], [-1.0, -1.0, -1.2], [-0.5, -2.0, -1.0]])
    log_probs = np.tile(log_probs, (copies, 1))
    q = np.array([0.0, 0.6, 0.4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, posterior = soft(np.exp(log_probs), q)
    np.testing.assert_allclose(posterior.mean(axis=0), q, atol=1e-9)
    live = np.exp(log_probs[:3, 1:] - log_probs[:3, 1:].max(axis=1, keepdims=True))
    expected = sinkhorn(live, q[1:], np.full(3, 1 / 3))  # copies of rows have the plan of the rows
    np.testing.assert_allclose(posterior[:, 1:], np.tile(expected, (copies, 1)), atol=1e-8)


@pytest.mark.parametrize(("n", "k"), [(200, 6), (30_000, 6), (200, 40)])
def test_sums_are_the_value_with_its_gradient_and_hessian(n, k):
    """Many rows are summed tile by tile."""
    p, q, mass = drawn(n, k)
    v, d, h = np.log(q), np.random.default_rng(1).normal(size=k), 1e-5

    def at(v):
        return posterior_sums(Block(p, weights=mass), v, np.ones(k, bool))

    (up, up_held, *_), (_, held, square, total, kept), (down, down_held, *_) = (
        at(v + h * d),
        at(v),
        at(v - h * d),
    )
    assert held @ d == pytest.approx((up - down) / (2 * h), abs=1e-8)
    np.testing.assert_allclose((np.diag(held) - square) @ d, (up_held - down_held) / (2 * h), atol=1e-8)
    r = p * np.exp(v)
    r /= r.sum(axis=1, keepdims=True)
    assert kept == pytest.approx(mass @ r[np.arange(n), p.argmax(axis=1)], abs=1e-12)
    assert total == pytest.approx(1.0)


def test_the_search_stops_when_it_may_not_go_on():
    p, q, mass = drawn(200, 6)
    plan, _ = soft(p, q, mass, start=np.zeros(6), tol=0.0, max_passes=1)
    assert plan.marginal_error == pytest.approx(np.abs(mass @ p - q).max(), abs=1e-9)
    assert plan.passes == 1


@pytest.mark.parametrize("at", [[], [3], [100, 101, 500]])
@pytest.mark.parametrize("dead", [False, True])
def test_smoothed_plan_is_within_its_certified_gap(dead, at):
    p, q, mass = drawn(800, 6, 0.4, seed=2)
    if dead:
        q = np.where(np.arange(6) == 4, 0.0, q) / (1 - q[4])
    exact = solve(Problem(p, q, mass))
    rows, block = cut_rows(p, at, mass), Block(p, weights=mass)
    plan = run(smoothed_transport(rows, q, np.zeros(6)))
    assert -1e-4 < plan.value - exact.value < plan.certificate.gap + 1e-4
    assert 0.0 < plan.certificate.gap < 1e-3
    pieces = plan.pieces(block)
    np.testing.assert_allclose(np.bincount(pieces.row, pieces.mass), mass, atol=1e-12)
    np.testing.assert_allclose(np.bincount(pieces.cls, pieces.mass, 6), q, atol=6e-5)
    np.testing.assert_allclose(pieces.cost, 1 - p[pieces.row, pieces.cls], atol=1e-12)
    dual = 1 - (mass @ (p - plan.prices).max(axis=1) + q @ plan.prices)
    assert plan.certificate.dual == pytest.approx(dual, abs=1e-12)
    assert plan.prices[q > 0].min() == 0.0
    assert not plan.exact


def test_smoothed_plan_reaches_optimal_prices_from_wild_ones():
    p, q, mass = drawn(800, 6, 0.4, seed=2)
    rows = cut_rows(p, [], mass)
    wild = run(smoothed_transport(rows, q, np.random.default_rng(0).random(6)))
    near = run(smoothed_transport(rows, q, solve(Problem(p, q, mass)).prices))
    assert wild.value == pytest.approx(near.value, abs=1e-4)


def test_a_warm_start_serves_replicates():
    """The first rows are the full sample; replicates start from its prices and weights, whatever their own."""
    p, q, mass = drawn(800, 6, 0.4, seed=2)
    warm = WarmStart()
    for weights in (mass, np.random.default_rng(0).multinomial(800, mass).astype(float)):
        rows = cut_rows(p, [], weights)
        rows.warm_start = warm
        hard, loose = run(exact_transport(rows, q)), run(soft_transport(rows, q))
        rows.warm_start = None
        rows.results.clear()
        assert not hard.exact
        assert hard.value == pytest.approx(run(exact_transport(rows, q)).value, abs=1e-3)
        assert loose.marginal_error <= 1e-8
        assert loose.kept == pytest.approx(run(soft_transport(rows, q)).kept, abs=1e-6)
        low, high = hard.cost_range(Block(p))
        assert not low.any()
        assert not high.any()
