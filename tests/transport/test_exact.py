"""The solver against independent truths: a linear programme, closed forms, other solvers, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shiftgauge.transport import Problem, exact, solve

from .oracles import overconfident, reference_value

# The linear programme stops at a tolerance of 1e-10 per equation; ours is exact up to summation.
LP = 1e-8
EXACT = 1e-12


def checked(problem, **options):
    """Solve, and check everything that a plan must satisfy, from the outside."""
    solution = solve(problem, **options)
    row, cls, mass, cost = solution.pieces()
    rows = np.bincount(row, mass, minlength=problem.n)
    classes = np.bincount(cls, mass, minlength=problem.k)
    wanted = np.full(problem.n, 1 / problem.n) if problem.row_mass is None else problem.row_mass
    np.testing.assert_allclose(rows, wanted, rtol=0, atol=EXACT)
    np.testing.assert_allclose(classes, problem.class_mass, rtol=0, atol=EXACT)
    p = problem.probs.astype(np.float64)
    np.testing.assert_array_equal(cost, 1 - p[row, cls])
    assert mass @ cost == pytest.approx(solution.value, abs=EXACT)
    u = solution.prices
    dual = 1 - (wanted @ (p - u).max(axis=1) + problem.class_mass @ u)
    assert dual == pytest.approx(solution.certificate.dual, abs=EXACT)
    assert solution.certificate.gap == solution.certificate.primal - solution.certificate.dual
    assert solution.certificate.violation <= EXACT
    assert abs(solution.certificate.gap) <= EXACT
    assert len(np.unique(solution.split_rows)) <= problem.k - 1
    low, high = solution.cost_range(problem)
    real = mass > 0
    assert (low[row] - EXACT <= cost)[real].all()
    assert (cost <= high[row] + EXACT)[real].all()
    return solution


@st.composite
def tied_problems(draw):
    """Small problems of a few distinct values, so that almost everything ties."""
    n, k = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    levels = draw(st.sampled_from([1, 2, 3, 7]))
    p = draw(hnp.arrays(np.int64, (n, k), elements=st.integers(0, levels))) / levels
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32, np.float16]))
    q = draw(hnp.arrays(np.int64, k, elements=st.integers(0, 4)).filter(np.any))
    w = draw(st.none() | hnp.arrays(np.int64, n, elements=st.integers(0, 3)).filter(np.any))
    return Problem(p.astype(dtype), q, w)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(tied_problems())
def test_ties_against_linear_programme(problem):
    assert checked(problem).value == pytest.approx(reference_value(problem), abs=LP)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 8), st.booleans(), st.booleans())
def test_generic_problems_against_linear_programme(seed, n, k, weighted, sharp):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.05 if sharp else 1.0), n)
    problem = Problem(p, rng.random(k), rng.random(n) if weighted else None)
    assert checked(problem).value == pytest.approx(reference_value(problem), abs=LP)


#: Constants that make small problems take the paths of large ones.
PATHS = {
    "subsample": {"SMALL_ENTRIES": 0, "FEW_PER_CLASS": 0, "SAMPLED": 1, "SAMPLED_PER_CLASS": 0},
    "refined": {
        "SMALL_ENTRIES": 0,
        "FEW_PER_CLASS": 0,
        "SAMPLED": 1,
        "SAMPLED_PER_CLASS": 0,
        "CANDIDATE_ENTRIES": 16,
    },
    "histograms, all rows": {"FEW_PER_CLASS": 10**6, "MANY_CLASSES": 1, "HISTOGRAM_ROWS": 1},
    "histograms": {
        "SMALL_ENTRIES": 0,
        "FEW_PER_CLASS": 0,
        "SAMPLED": 1,
        "SAMPLED_PER_CLASS": 10**6,
        "CANDIDATE_ENTRIES": 64,
    },
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("seed", range(60))
def test_every_path_gives_the_same_value(seed, path, monkeypatch):
    for name, value in PATHS[path].items():
        monkeypatch.setattr(exact, name, value)
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 400)), int(rng.integers(2, 12))
    p = rng.integers(0, 4, (n, k)) / 3 if seed % 2 else rng.dirichlet(np.full(k, 0.2), n)
    problem = Problem(
        p, rng.integers(0, 5, k) + (np.arange(k) == 0), rng.random(n) if seed % 3 == 0 else None
    )
    assert checked(problem).value == pytest.approx(reference_value(problem), abs=LP)


@pytest.mark.parametrize(("n", "k"), [(3000, 10), (1500, 80), (40, 60)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_parity_with_pot(n, k, dtype):
    ot = pytest.importorskip("ot")
    p = overconfident(n, k, dtype=dtype)
    q = np.random.default_rng(1).dirichlet(np.full(k, 5.0))
    value = ot.emd2(np.full(n, 1 / n), q, 1 - p.astype(np.float64), numItermax=10**7)
    assert checked(Problem(p, q)).value == pytest.approx(value, abs=1e-9)


def test_parity_with_assignment():
    from scipy.optimize import linear_sum_assignment

    p = overconfident(300, 12)
    counts = np.bincount(np.random.default_rng(2).integers(0, 12, 300), minlength=12)
    columns = np.repeat(np.arange(12), counts)
    rows, chosen = linear_sum_assignment(1 - p[:, columns])
    solution = checked(Problem(p, counts))
    assert solution.value == pytest.approx((1 - p[rows, columns[chosen]]).mean(), abs=EXACT)
    assert len(solution.split_rows) == 0, "whole masses need no split row"


@pytest.mark.parametrize("q1", [0.0, 0.1, 1 / 3, 0.97, 1.0])
def test_two_classes_have_a_closed_form(q1):
    p1 = np.sort(np.random.default_rng(3).random(1001))[::-1]
    p = np.column_stack([1 - p1, p1])
    share = np.clip(q1 * 1001 - np.arange(1001), 0, 1)  # the top q1 of the rows get class 1
    expected = np.mean(share * (1 - p1) + (1 - share) * p1)
    assert checked(Problem(p, [1 - q1, q1])).value == pytest.approx(expected, abs=EXACT)


HARD = {
    "one row": (np.array([[0.2, 0.3, 0.5]]), [1, 2, 3]),
    "one class": (np.full((5, 1), 0.7), [1]),
    "fewer rows than classes": (overconfident(7, 50), np.arange(50)),
    "all rows equal": (np.tile(overconfident(1, 6), (5000, 1)), [1, 2, 3, 4, 5, 6]),
    "saturated": (np.eye(8)[np.random.default_rng(4).integers(0, 8, 9000) // 2], np.ones(8)),
    "a class of zero mass": (overconfident(4000, 5), [1, 1, 0, 1, 1]),
    "one class holds 97 %": (overconfident(4000, 5), [97, 1, 1, 0.5, 0.5]),
    "all mass in one class": (overconfident(500, 5), [0, 0, 1, 0, 0]),
    "near ties": (0.5 + 1e-13 * np.random.default_rng(5).integers(-50, 50, (4000, 6)), [1, 2, 3, 4, 5, 7]),
    "many classes, saturated": (np.eye(100)[np.random.default_rng(6).integers(0, 20, 2000)], np.ones(100)),
    "many classes, equal rows": (np.full((700, 90), 1 / 90), np.arange(90)),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases(name):
    p, q = HARD[name]
    solution = checked(Problem(p, q))
    if p.size <= 20_000:
        assert solution.value == pytest.approx(reference_value(Problem(p, q)), abs=LP)


def test_saturated_rows_have_a_closed_form():
    label = np.random.default_rng(7).integers(0, 4, 20_000)
    q = np.full(8, 1 / 8)
    tv = 0.5 * np.abs(np.bincount(label, minlength=8) / 20_000 - q).sum()
    assert checked(Problem(np.eye(8)[label], q)).value == pytest.approx(tv, abs=EXACT)


def test_weights_are_repetitions():
    rng = np.random.default_rng(8)
    p, q, w = overconfident(2000, 7), rng.random(7), rng.integers(0, 4, 2000)
    weighted = checked(Problem(p, q, w)).value
    assert weighted == pytest.approx(checked(Problem(np.repeat(p, w, axis=0), q)).value, abs=EXACT)


def test_invariances():
    rng = np.random.default_rng(9)
    p, q = overconfident(3000, 9), rng.random(9)
    value = solve(Problem(p, q)).value
    rows, classes = rng.permutation(3000), rng.permutation(9)
    assert solve(Problem(p[rows][:, classes], q[classes])).value == pytest.approx(value, abs=EXACT)
    assert solve(Problem(np.vstack([p, p]), q)).value == pytest.approx(value, abs=EXACT)


@pytest.mark.parametrize(("n", "k"), [(200_000, 10), (3000, 400)])
def test_same_result_whatever_the_threads(n, k):
    problem = Problem(overconfident(n, k, dtype=np.float32), np.arange(1, k + 1))
    one, three = solve(problem, threads=1), solve(problem, threads=3)
    assert one.certificate == three.certificate
    for name in ("assigned", "cost", "split_rows", "split_classes", "split_mass", "prices"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_no_plan_uses_classes_without_mass():
    """Every row ends in class 0; the first one ties with class 1 at the optimal prices, but cannot go there."""
    problem = Problem([[0.2, 0.8], [0.6, 0.4]], [1, 0])
    low, high = solve(problem).cost_range(problem)
    np.testing.assert_allclose(low, [0.8, 0.4], atol=EXACT)
    np.testing.assert_allclose(high, [0.8, 0.4], atol=EXACT)


@pytest.mark.parametrize("seed", range(40))
def test_more_classes_than_rows(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    k = int(rng.integers(n + 1, 120))
    p = rng.integers(0, 4, (n, k)) / 3 if seed % 2 else rng.dirichlet(np.full(k, 0.2), n)
    q = rng.random(k) * (rng.random(k) < 0.7) + (np.arange(k) == 0)
    problem = Problem(p, q, rng.random(n) if seed % 3 == 0 else None)
    solution = checked(problem)
    assert solution.value == pytest.approx(reference_value(problem), abs=LP)
    assert checked(problem, prices=solution.prices).value == pytest.approx(solution.value, abs=EXACT)


def test_rows_without_mass_among_more_classes():
    problem = Problem(overconfident(5, 9), np.ones(9), [1, 0, 2, 0, 1])
    assert checked(problem).value == pytest.approx(reference_value(problem), abs=LP)


@pytest.mark.parametrize(("n", "k"), [(100_000, 10), (2000, 200)])
def test_warm_start_reaches_the_same_value(n, k):
    problem = Problem(overconfident(n, k), np.arange(1, k + 1))
    cold = solve(problem)
    assert checked(problem, prices=cold.prices).value == pytest.approx(cold.value, abs=EXACT)
    wild = 100.0 * np.random.default_rng(10).random(k)
    assert checked(problem, prices=wild).value == pytest.approx(cold.value, abs=EXACT)


@pytest.mark.parametrize("n", [500, 2_000, 5_000, 20_000])
@pytest.mark.parametrize("concentration", [0.05, 0.3, 3.0])
def test_random_rows_and_masses(n, concentration):
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(10, concentration), n)
    q = rng.dirichlet(np.full(10, 5.0))
    solution = solve(Problem(p, q))
    assert abs(solution.certificate.gap) <= 1e-9
    assert solution.certificate.violation <= 1e-9
    if n <= 5_000:
        assert solution.value == pytest.approx(
            ot.emd2(np.full(n, 1 / n), q, 1 - p, numItermax=10**7), abs=1e-9
        )


def test_masses_near_the_largest_number_do_not_overflow():
    held = Problem([[0.5, 0.5], [0.4, 0.6]], class_mass=[1.5e308, 1.5e308], row_mass=[1.5e308, 0.5e308])
    assert held.class_mass.tolist() == [0.5, 0.5]
    assert held.row_mass.tolist() == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("scores", ["one-hot", "equal"])
def test_many_classes_whose_rows_tie(scores):
    """Prices by histograms would break the ties; benchmarks/transport.py shows the time."""
    rng = np.random.default_rng(0)
    p = np.eye(300)[rng.integers(0, 300, 4_000)] if scores == "one-hot" else np.full((4_000, 300), 1 / 300)
    problem = Problem(p, rng.dirichlet(np.ones(300)))
    solution = checked(problem)
    assert solution.value == pytest.approx(checked(problem, prices=np.zeros(300)).value, abs=EXACT)
