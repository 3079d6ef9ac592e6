"""Solvers over rows: the same plan, weights and shares however rows are cut, in memory or read anew, in few passes."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftgauge.labelshift import mlls
from shiftgauge.rows import Block, Rows, run, sum_in_order
from shiftgauge.rows import subsample as rows_module
from shiftgauge.transport import Problem, exact, exact_transport, soft, soft_transport, solve

from .oracles import blocks_of, cut_rows, network, reference_value, sinkhorn

EXACT = 1e-9
SUBSAMPLED = {"SMALL_ENTRIES": 0, "FEW_PER_CLASS": 0, "SAMPLED": 1, "SAMPLED_PER_CLASS": 0}
#: As if there were so many classes that a sample says little of each.
MANY = {**SUBSAMPLED, "SAMPLED_PER_CLASS": 1 << 20, "CANDIDATE_ENTRIES": 64}


@pytest.fixture(params=["all rows", "subsample", "many classes"])
def path(request, monkeypatch):
    """All paths: every row is a candidate; prices of a subsample; prices by histograms."""
    for name, value in {"all rows": {}, "subsample": SUBSAMPLED, "many classes": MANY}[request.param].items():
        monkeypatch.setattr(exact, name, value)
    if request.param != "all rows":
        monkeypatch.setattr(rows_module, "WHOLE_ENTRIES", 0)
        monkeypatch.setattr(rows_module, "ROWS_PER_CLASS", 0)
        monkeypatch.setattr(rows_module, "SUBSAMPLE_ENTRIES", 256)
        monkeypatch.setattr(soft, "THIN_ENTRIES", 64)
        monkeypatch.setattr(soft, "FEW_PER_CLASS", 0)
    return request.param


def planned(rows, q):
    """The plan, checked; the class and the cost of every row."""
    plan = run(exact_transport(rows, q))
    assert abs(plan.certificate.gap) <= EXACT
    assert plan.certificate.violation <= EXACT
    classes, costs, held = [], [], np.zeros(rows.k)
    for block in blocks_of(rows):
        pieces = plan.pieces(block)
        np.testing.assert_allclose(np.bincount(pieces.row, pieces.mass, len(block)), block.mass, atol=1e-12)
        held += np.bincount(pieces.cls, pieces.mass, rows.k)
        classes.append(plan.assigned(block))
        costs.append(np.bincount(pieces.row, pieces.mass * pieces.cost, len(block)))
        low, high = plan.cost_range(block)
        real = pieces.mass > 0
        assert (low[pieces.row] - 1e-12 <= pieces.cost)[real].all()
        assert (pieces.cost <= high[pieces.row] + 1e-12)[real].all()
    np.testing.assert_allclose(held / rows.mass, q / np.sum(q), atol=1e-12)
    return plan, np.concatenate(classes), np.concatenate(costs)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    tied=st.booleans(),
    memory=st.booleans(),
)
def test_random_cuts_give_the_same_exact_plan(path, data, seed, weighted, tied, memory):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1 if path == "all rows" else 40, 400)), int(rng.integers(2, 8))
    p, q, mass = network(n, k, seed)
    if tied:
        p = rng.integers(1, 4, (n, k)) / 3
        p /= p.sum(axis=1, keepdims=True)
    mass = mass if weighted else None
    at = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
    one, classes, costs = planned(cut_rows(p, [], mass, memory), q)
    many, same_classes, same_costs = planned(cut_rows(p, at, mass, memory), q)
    np.testing.assert_array_equal(classes, same_classes)
    np.testing.assert_allclose(costs, same_costs, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(one.prices, many.prices)
    for name in ("primal", "dual", "gap", "violation"):
        assert getattr(one.certificate, name) == pytest.approx(getattr(many.certificate, name), abs=1e-12)
    problem = Problem(p, q, mass)
    assert many.value == pytest.approx(solve(problem).value, abs=1e-12)
    if n < 60:
        assert many.value == pytest.approx(reference_value(problem), abs=1e-8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_most_rows_are_no_candidates(dtype, weighted, monkeypatch):
    """100,000 x 10 is solved from a subsample of a quarter."""
    monkeypatch.setattr(rows_module, "WHOLE_ENTRIES", 0)
    monkeypatch.setattr(rows_module, "SUBSAMPLE_ENTRIES", 250_000)
    p, q, mass = network(100_000, 10)
    p = p.astype(dtype)
    mass = mass if weighted else None
    rows = cut_rows(p, [17, 40_000, 99_999], mass, memory=False)
    rows.tolerance = 0.1
    plan, classes, _ = planned(rows, q)
    memory = solve(Problem(p, q, mass))
    assert plan.value == pytest.approx(memory.value, abs=EXACT)
    assert plan.passes <= 4
    assert plan.candidates < 60_000
    if dtype != np.float16:  # half precision ties: several plans are optimal
        np.testing.assert_array_equal(classes, memory.assigned)


@pytest.mark.parametrize("memory", [False, True])
def test_saturated_rows_have_a_closed_form(path, memory):
    label = np.random.default_rng(7).integers(0, 4, 3_000)
    q = np.full(8, 1 / 8)
    tv = 0.5 * np.abs(np.bincount(label, minlength=8) / 3_000 - q).sum()
    plan, _, _ = planned(cut_rows(np.eye(8)[label], [1_000], memory=memory), q)
    assert plan.value == pytest.approx(tv, abs=EXACT)


def test_a_plan_is_computed_once_per_marginal():
    p, q, _ = network(700, 5)
    rows = cut_rows(p, [100])
    assert run(exact_transport(rows, q)) is run(exact_transport(rows, 2 * q))
    assert run(soft_transport(rows, q)) is run(soft_transport(rows, q))
    assert run(exact_transport(rows, q)) is not run(exact_transport(rows, q[::-1]))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 10**6), weighted=st.booleans(), memory=st.booleans())
def test_random_cuts_give_the_same_soft_plan_and_shares(path, data, seed, weighted, memory):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 400)), int(rng.integers(2, 8))
    p, q, mass = network(n, k, seed, sharp=1.5)
    q[0] *= seed % 2
    q /= q.sum()
    share = mass / mass.sum() if weighted else np.full(n, 1 / n)
    at = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
    rows = cut_rows(p, at, mass if weighted else None, memory)
    plan = run(soft_transport(rows, q))
    assert plan.marginal_error <= 1e-10
    posterior = np.concatenate([plan.posterior(block) for block in blocks_of(rows)])
    expected = np.zeros_like(p)
    expected[:, q > 0] = sinkhorn(p[:, q > 0], q[q > 0], share)
    np.testing.assert_allclose(posterior, expected, atol=1e-7)
    assert plan.kept == pytest.approx(share @ posterior[np.arange(n), p.argmax(axis=1)], abs=1e-12)
    prior = rng.dirichlet(np.full(k, 20.0))
    found = run(mlls(rows, prior))
    oracle = run(mlls(Rows.of_block(Block(p, weights=share)), prior, tol=1e-11))
    assert found.gap <= 1e-9
    assert likelihood(p, share, prior, found.shares) == pytest.approx(
        likelihood(p, share, prior, oracle.shares), abs=2e-9
    )


def likelihood(p, mass, prior, shares):
    return mass @ np.log((p / prior) @ shares)


@pytest.mark.parametrize("memory", [False, True])
def test_soft_plan_and_shares_take_few_passes(memory):
    p, q, mass = network(200_000, 10)
    rows = cut_rows(p, [50_000], mass, memory)
    assert run(soft_transport(rows, q)).passes <= 6
    assert run(mlls(rows, np.full(10, 0.1))).passes <= 8


class Processes:
    """An engine of other processes: steps, their arguments and results are sent."""

    def __init__(self, pool):
        self.pool, self.sent = pool, []

    def reduce(self, task, parts, starts, done):
        jobs = [self.pool.submit(task, part, start) for part, start in zip(parts, starts, strict=True)]
        self.sent.append(len(pickle.dumps(task)))
        return sum_in_order((job.result() for job in jobs), parts, done)


def test_other_processes_give_the_same_to_the_last_bit(monkeypatch):
    monkeypatch.setattr(rows_module, "WHOLE_ENTRIES", 0)
    p, q, mass = network(40_000, 10)
    with ProcessPoolExecutor(2) as pool:
        engine = Processes(pool)
        near, far = (cut_rows(p, [9_000, 30_000], mass, False, engine=e) for e in (None, engine))
        here, there = run(exact_transport(near, q)), run(exact_transport(far, q))
        assert here.certificate == there.certificate
        np.testing.assert_array_equal(here.rows, there.rows)
        assert max(engine.sent) < 20_000, "prices are sent, rows are not"
        np.testing.assert_array_equal(
            run(soft_transport(near, q)).log_weights, run(soft_transport(far, q)).log_weights
        )


def test_refined_prices_leave_fewer_candidates(monkeypatch):
    """Prices of a sample are rough; a pass that counts what all classes have too much refines them."""
    rng = np.random.default_rng(3)
    z = 1.5 * rng.normal(size=(120_000, 5))
    z[np.arange(len(z)), rng.integers(0, 5, len(z))] += 2.0
    probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    q = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    monkeypatch.setattr(exact, "SMALL_ENTRIES", 1 << 12)
    monkeypatch.setattr(exact, "SAMPLED", 10)
    monkeypatch.setattr(exact, "CANDIDATE_SHARE", 1.0)
    plain = run(exact_transport(cut_rows(probs), q))
    monkeypatch.setattr(exact, "CANDIDATE_ENTRIES", 1 << 13)
    refined = run(exact_transport(cut_rows(probs), q))
    assert refined.candidates < 0.7 * plain.candidates
    assert refined.passes <= plain.passes + 3
    assert refined.value == pytest.approx(plain.value, abs=1e-12)
    assert refined.certificate.exact


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_many_classes_histograms_find_the_prices(monkeypatch, dtype, weighted):
    """A sample of three rows a class says little: without histograms nearly all rows are candidates."""
    rng = np.random.default_rng(5)
    z = 1.5 * rng.normal(size=(20_000, 150))
    z[np.arange(len(z)), rng.integers(0, 150, len(z))] += 5.0
    probs = np.exp(z - z.max(axis=1, keepdims=True))
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(dtype)
    q = rng.poisson(4, 150) * (np.arange(150) > 1)  # some classes have no mass
    mass = rng.random(len(z)) + 0.5 if weighted else None
    constants = {"SMALL_ENTRIES": 0, "FEW_PER_CLASS": 0, "SAMPLED": 3}
    for name, value in {**constants, "CANDIDATE_ENTRIES": 2_000 * 150}.items():
        monkeypatch.setattr(exact, name, value)
    plan, classes, _ = planned(cut_rows(probs, [17, 9_000, 19_999], mass), q)
    assert plan.candidates < 5_000
    assert plan.passes <= 12
    _, again, _ = planned(cut_rows(probs, [5_000], mass), q)
    np.testing.assert_array_equal(classes, again)


def test_rows_that_tie_do_not_keep_the_search_from_ending(monkeypatch):
    """Where most rows tie no price leaves fewer candidates; then one pass is enough to see it."""
    rng = np.random.default_rng(4)
    probs = np.eye(4)[rng.integers(0, 4, 40_000)]
    for name, value in {
        "SMALL_ENTRIES": 1 << 12,
        "SAMPLED": 10,
        "CANDIDATE_ENTRIES": 1 << 10,
    }.items():
        monkeypatch.setattr(exact, name, value)
    found = run(exact_transport(cut_rows(probs), [0.1, 0.2, 0.3, 0.4]))
    assert found.certificate.exact
    assert found.passes <= 8
