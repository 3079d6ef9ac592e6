"""Drivers over blocks: the same plan, weights and shares as in memory, however rows are cut, in few passes."""

from __future__ import annotations

import operator
import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import reduce

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shiftgauge.transport._reference import reference_value

from shiftgauge.errors import InputError
from shiftgauge.labelshift import mlls
from shiftgauge.transport import (
    Block,
    Problem,
    Threads,
    cut,
    likely_shares,
    soft_blocks,
    soft_transport,
    solve,
    solve_blocks,
    streamed,
    take_sample,
)

EXACT = 1e-9
LARGE = {"KEPT": 0, "AUCTION_ROWS": 0, "SAMPLE": 1 << 12}
#: As if there were so many classes that a sample says little of each.
MANY = {**LARGE, "SAMPLE": 1 << 9, "PER_CLASS": 1 << 20, "HOME": 64}


@pytest.fixture(params=[LARGE, MANY], ids=["large", "many"])
def large(request, monkeypatch):
    """Make small problems take the road of large ones: a sample, rows that come home, rows that do not."""
    for name, value in request.param.items():
        monkeypatch.setattr(streamed, name, value)


@pytest.fixture(params=["whole", "large", "many"])
def road(request, monkeypatch):
    """All roads: everything at home, or a sample, or one that says little."""
    for name, value in {"whole": {}, "large": LARGE, "many": MANY}[request.param].items():
        monkeypatch.setattr(streamed, name, value)
    return request.param


def network(n, k, seed=0, dtype=np.float64, sharp=3.0):
    rng = np.random.default_rng(seed)
    z = sharp * rng.normal(size=(n, k)) + rng.normal(size=k)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(dtype), rng.dirichlet(np.full(k, 8.0)), rng.random(n)


def plan_of(plan, blocks):
    """The plan of all rows, block by block."""
    classes, costs = zip(*(plan.rows(block) for block in blocks.parts), strict=True)
    return np.concatenate(classes), np.concatenate(costs)


def check(p, q, mass, at, **options):
    blocks = cut(p, at, mass=mass)
    plan = solve_blocks(blocks, q, **options)
    assert abs(plan.certificate.gap) <= EXACT
    assert plan.certificate.violation <= EXACT
    assert plan.passes == blocks.passes
    return plan, blocks


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 10**6), weighted=st.booleans(), tied=st.booleans())
def test_random_cuts_give_the_same_exact_plan(road, data, seed, weighted, tied):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1 if road == "whole" else 40, 400)), int(rng.integers(2, 8))
    p, q, mass = network(n, k, seed)
    if tied:
        p = rng.integers(0, 4, (n, k)) / 3
    mass = mass if weighted else None
    at = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
    one, blocks = check(p, q, mass, [])
    many, pieces = check(p, q, mass, at)
    np.testing.assert_array_equal(plan_of(one, blocks)[0], plan_of(many, pieces)[0])
    np.testing.assert_allclose(plan_of(one, blocks)[1], plan_of(many, pieces)[1], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(one.prices, many.prices)
    problem = Problem(p, q, mass)
    memory = solve(problem)
    assert many.value == pytest.approx(memory.value, abs=EXACT)
    if not tied:
        np.testing.assert_array_equal(plan_of(many, pieces)[0], memory.assigned)
        np.testing.assert_allclose(plan_of(many, pieces)[1], memory.cost, rtol=0, atol=EXACT)
    if n < 60:
        assert many.value == pytest.approx(reference_value(problem), abs=1e-8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_problems_pass_by_few_times(dtype, weighted, monkeypatch):
    """100,000 x 10 is solved from a sample of a quarter, and most rows never come home."""
    monkeypatch.setattr(streamed, "KEPT", 0)
    monkeypatch.setattr(streamed, "SAMPLE", 250_000)
    p, q, mass = network(100_000, 10, dtype=dtype)
    mass = mass if weighted else None
    plan, blocks = check(p, q, mass, [0, 17, 40_000, 40_000, 99_999])
    memory = solve(Problem(p, q, mass))
    assert plan.value == pytest.approx(memory.value, abs=EXACT)
    assert plan.passes <= 5
    assert plan.home < 60_000
    if dtype != np.float16:  # half precision ties: several plans are optimal
        np.testing.assert_array_equal(plan_of(plan, blocks)[0], memory.assigned)


def test_saturated_rows_have_a_closed_form(large):
    label = np.random.default_rng(7).integers(0, 4, 3_000)
    q = np.full(8, 1 / 8)
    tv = 0.5 * np.abs(np.bincount(label, minlength=8) / 3_000 - q).sum()
    assert check(np.eye(8)[label], q, None, [1_000])[0].value == pytest.approx(tv, abs=EXACT)


def mass_above_half(block, pieces):
    return float(pieces.mass[pieces.cost >= 0.5].sum())


def test_a_reading_rides_along(road):
    p, q, mass = network(700, 5)
    plan, _ = check(p, q, mass, [100, 300], read=mass_above_half)
    _, _, part, cost = solve(Problem(p, q, mass)).pieces()
    assert plan.reading / mass.sum() == pytest.approx(part[cost >= 0.5].sum(), abs=EXACT)


def test_given_prices_and_a_sample_save_work(large):
    p, q, mass = network(2_000, 5)
    sample = take_sample(cut(p, [7], mass=mass))
    cold, _ = check(p, q, mass, [])
    warm, _ = check(p, q, mass, [500], prices=cold.prices, sample=sample)
    assert warm.value == pytest.approx(cold.value, abs=EXACT)
    assert warm.passes < cold.passes


def test_prices_that_are_far_off_cost_passes_not_exactness(large):
    p, q, mass = network(2_000, 5)
    wild, _ = check(p, q, mass, [500], prices=np.random.default_rng(0).random(5))
    assert wild.value == pytest.approx(solve(Problem(p, q, mass)).value, abs=EXACT)


def test_rows_that_change_between_two_passes_are_noticed(large):
    p, q, _ = network(2_000, 5)
    calls = []

    def shrinking():
        calls.append(1)
        return Block(p[: 2_000 if len(calls) == 1 else 1_999], 0)

    with pytest.raises(InputError, match=r"1999 rows, 2000 before: they changed"):
        solve_blocks(Threads([shrinking], 2_000, 5), q)
    with pytest.raises(InputError, match="hold 2000 rows; wanted the 3000"):
        solve_blocks(Threads([Block(p, 0)], 3_000, 5), q)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 10**6), weighted=st.booleans())
def test_random_cuts_give_the_same_soft_plan_and_shares(road, data, seed, weighted):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 400)), int(rng.integers(2, 8))
    p, q, mass = network(n, k, seed, sharp=1.5)
    q[0] *= seed % 2
    weights = mass if weighted else np.ones(n)
    share = weights / weights.sum()
    at = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
    predictions = p.argmax(axis=1)
    blocks = cut(p, at, mass=mass if weighted else None, predictions=predictions)
    soft = soft_blocks(blocks, q)
    memory = soft_transport(np.log(p), q / q.sum(), share)
    assert soft.marginal_error <= 1e-10
    assert soft.kept == pytest.approx(share @ memory.posterior[np.arange(n), predictions], abs=EXACT)
    posterior = np.concatenate([soft.posterior(block) for block in blocks.parts])
    np.testing.assert_allclose(posterior, memory.posterior, atol=1e-7)
    prior = rng.dirichlet(np.full(k, 20.0))
    found = likely_shares(blocks, prior)
    oracle = mlls(p, prior, share, tol=1e-11)
    assert found.gap <= 1e-9
    assert likelihood(p, share, prior, found.shares) == pytest.approx(
        likelihood(p, share, prior, oracle.shares), abs=2e-9
    )


def test_many_classes_are_weighed_as_few_are():
    """More classes than the kernel of their own takes, and labels without mass."""
    p, q, mass = network(900, 40, sharp=1.5)
    q[3] = 0.0
    q /= q.sum()
    predictions, share = p.argmax(axis=1), mass / mass.sum()
    found = soft_blocks(cut(p, [100, 450], mass=mass, predictions=predictions), q)
    memory = soft_transport(np.log(p), q, share).posterior
    assert found.kept == pytest.approx(share @ memory[np.arange(900), predictions], abs=EXACT)
    assert soft_blocks(cut(p, [100, 450], mass=mass), q).kept is None


@pytest.mark.parametrize("most", [1, 2, 4])
def test_shares_are_given_up_after_so_many_passes(most):
    """One more at most, where a step did not help."""
    p, _, _ = network(3_000, 6, sharp=0.3)
    prior = np.full(6, 1 / 6)
    found = likely_shares(cut(p), prior, start=prior, tol=0.0, max_passes=most)
    assert most <= found.passes <= most + (most > 1)
    assert found.gap > 0.0


def likelihood(p, mass, prior, shares):
    return mass @ np.log((p / prior) @ shares)


def test_soft_plan_and_shares_pass_by_few_times():
    p, q, mass = network(200_000, 10, dtype=np.float32)
    blocks = cut(p, [50_000], mass=mass, predictions=p.argmax(axis=1))
    assert soft_blocks(blocks, q).passes <= 6
    assert likely_shares(blocks, np.full(10, 0.1)).passes <= 8
    sample = take_sample(blocks)
    assert soft_blocks(blocks, q, sample=sample).passes <= 5


def test_labels_beyond_the_range_of_probabilities_use_logarithms():
    z = np.zeros((40, 3))
    z[:, 2] = -2000.0 - np.arange(40) / 40
    q = np.array([0.3, 0.3, 0.4])
    blocks = cut(np.exp(z), [13], logs=z)
    plan = soft_blocks(blocks, q, start=soft_transport(z, q, np.full(40, 1 / 40)).log_weights)
    posterior = np.concatenate([plan.posterior(block) for block in blocks.parts])
    np.testing.assert_allclose(posterior.mean(axis=0), q, atol=1e-9)


def called(step, block, state):
    return step(block, *state)


class Processes:
    """Blocks in other processes: steps, state and results must travel."""

    def __init__(self, blocks, pool):
        self.parts, self.n, self.k, self.passes, self.pool = blocks.parts, blocks.n, blocks.k, 0, pool
        self.travelled = []

    def reduce(self, step, *state):
        self.passes += 1
        jobs = [self.pool.submit(called, step, block, state) for block in reversed(self.parts)]
        results = [job.result() for job in reversed(jobs)]
        self.travelled.append(len(pickle.dumps(state)))
        return reduce(operator.add, results)


def test_other_processes_give_the_same_to_the_last_bit():
    p, q, mass = network(40_000, 10, dtype=np.float32)
    with ProcessPoolExecutor(2) as pool:
        near = cut(p, [9_000, 30_000], mass=mass, predictions=p.argmax(axis=1))
        far = Processes(near, pool)
        here, there = solve_blocks(near, q), solve_blocks(far, q)
        assert here.certificate == there.certificate
        np.testing.assert_array_equal(here.choice.rows, there.choice.rows)
        assert max(far.travelled) < 10_000, "prices travel, rows do not"
        np.testing.assert_array_equal(soft_blocks(near, q).log_weights, soft_blocks(far, q).log_weights)


def test_fewer_rows_come_home_once_a_pass_has_counted(monkeypatch):
    """Prices of a sample are rough; what all rows say they have too much makes them better before rows are brought."""
    rng = np.random.default_rng(3)
    z = 1.5 * rng.normal(size=(120_000, 5))
    z[np.arange(len(z)), rng.integers(0, 5, len(z))] += 2.0
    probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    q = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    monkeypatch.setattr(streamed, "KEPT", 1 << 12)
    monkeypatch.setattr(streamed, "SAMPLE", 1 << 14)
    plain = solve_blocks(cut(probs), q)
    monkeypatch.setattr(streamed, "HOME", 1 << 13)
    better = solve_blocks(cut(probs), q)
    assert better.home < 0.7 * plain.home
    assert better.passes <= plain.passes + 2
    assert better.value == pytest.approx(solve(Problem(probs, q)).value, abs=1e-12)
    assert abs(better.certificate.gap) < 1e-12
    assert better.certificate.violation < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_many_classes_every_class_counts_its_own_price(monkeypatch, dtype, weighted):
    """A sample of three rows a class says little: without counting all rows come home, with it a few."""
    rng = np.random.default_rng(5)
    z = 1.5 * rng.normal(size=(20_000, 150))
    z[np.arange(len(z)), rng.integers(0, 150, len(z))] += 5.0
    probs = np.exp(z - z.max(axis=1, keepdims=True))
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(dtype)
    q = rng.poisson(4, 150) * (np.arange(150) > 1)  # some classes have no mass
    mass = rng.random(len(z)) + 0.5 if weighted else None
    for name, value in {"KEPT": 0, "WHOLE": 0, "SAMPLE": 450 * 150, "HOME": 2_000 * 150}.items():
        monkeypatch.setattr(streamed, name, value)
    plan, blocks = check(probs, q, mass, [0, 17, 9_000, 9_000, 19_999])
    assert plan.value == pytest.approx(solve(Problem(probs, q, mass)).value, abs=EXACT)
    assert plan.home < 5_000
    assert plan.passes <= 12
    again, pieces = check(probs, q, mass, [5_000])
    np.testing.assert_array_equal(plan_of(plan, blocks)[0], plan_of(again, pieces)[0])
    monkeypatch.setattr(streamed, "PER_CLASS", 0)
    assert check(probs, q, mass, [5_000])[0].home > 3 * plan.home


def test_rows_that_tie_do_not_keep_the_search_from_ending(monkeypatch):
    """Where most rows tie no price brings fewer home; then one pass is enough to see it."""
    rng = np.random.default_rng(4)
    probs = np.eye(4)[rng.integers(0, 4, 40_000)]
    monkeypatch.setattr(streamed, "KEPT", 1 << 12)
    monkeypatch.setattr(streamed, "SAMPLE", 1 << 13)
    monkeypatch.setattr(streamed, "HOME", 1 << 10)
    found = solve_blocks(cut(probs), [0.1, 0.2, 0.3, 0.4])
    assert abs(found.certificate.gap) < 1e-12
    assert found.passes <= 8
