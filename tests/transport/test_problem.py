"""What comes in is checked; masses are shared out exactly; memory stays small."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from shiftgauge.errors import InputError
from shiftgauge.transport import Problem, solve
from shiftgauge.transport.problem import check_masses
from shiftgauge.transport.spanning_tree import cancel_cycles
from shiftgauge.transport.units import class_units, row_unit


@pytest.mark.parametrize(
    ("probs", "class_mass", "row_mass", "message"),
    [
        ([0.1, 0.9], [1, 1], None, "two dimensions"),
        (np.empty((0, 2)), [1, 1], None, "at least one row"),
        ([["a", "b"]], [1, 1], None, "wanted float16, float32 or float64"),
        ([[0.5, np.nan]], [1, 1], None, r"probs\[0, 1\] is nan.*missing values"),
        ([[0.5, 0.5], [3.0, -2.0]], [1, 1], None, r"probs\[1, 0\] is 3; .*logits\? apply softmax"),
        ([[0.5, 0.5]], [1, 1, 1], None, r"class_mass has shape \(3,\); wanted \(2,\)"),
        ([[0.5, 0.5]], [1, -1], None, r"class_mass\[1\] is -1"),
        ([[0.5, 0.5]], [0, 0], None, "class_mass sums to zero"),
        ([[0.5, 0.5]], ["a", "b"], None, "class_mass is not numeric"),
        ([[0.5, 0.5]], [1, 1], [1, 2], r"row_mass has shape \(2,\); wanted \(1,\)"),
        ([[0.5, 0.5]], [1, 1], [np.inf], r"row_mass\[0\] is inf"),
    ],
)
def test_bad_problems_are_refused(probs, class_mass, row_mass, message):
    with pytest.raises(InputError, match=message):
        Problem(probs, class_mass, row_mass)


def test_bad_options_are_refused():
    problem = Problem([[0.5, 0.5]], [1, 1])
    with pytest.raises(InputError, match=r"prices has shape \(3,\)"):
        solve(problem, prices=[0, 0, 0])


def test_inputs_are_neither_copied_nor_changed(tmp_path):
    p = np.full((1000, 4), 0.25, np.float32)
    q, w = np.ones(4), np.ones(1000)
    problem = Problem(p, q, w)
    assert np.shares_memory(problem.probs, p)
    solve(problem)
    assert p.flags.writeable
    assert (p == 0.25).all()
    assert (q == 1).all()
    assert (w == 1).all()
    np.save(tmp_path / "p.npy", p)
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    assert np.shares_memory(Problem(mapped, q).probs, mapped)
    fortran = Problem(np.asfortranarray(p), q)
    assert solve(fortran).value == 0.75


@pytest.mark.parametrize(("n", "k"), [(400_000, 10), (4_000, 500)])
def test_memory_beyond_the_input(n, k):
    p = np.random.default_rng(0).random((n, k), dtype=np.float32)
    problem = Problem(p, np.arange(1, k + 1))
    solve(Problem(p[:100], np.ones(k)))
    tracemalloc.start()
    solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 64 * n + 32 * k * k + (4 << 20)  # the constant: shelves and samples of tiny problems


def test_units_share_the_whole_exactly():
    rng = np.random.default_rng(0)
    for _ in range(200):
        k, n = int(rng.integers(1, 50)), int(rng.integers(1, 10**7))
        q = rng.random(k) ** 4 * (rng.random(k) < 0.8)
        q[rng.integers(k)] += 0.1
        q /= q.sum()
        unit = int(row_unit(float(n)))
        units = class_units(q, n * unit, unit)
        assert sum(units.tolist()) == n * unit
        assert units.min() >= 0
        assert (units[q == 0] == 0).all()
        np.testing.assert_allclose(units / (n * unit), q, rtol=0, atol=1e-15)


def test_whole_masses_stay_whole():
    counts = np.array([3, 0, 7, 1, 12345, 999_999])
    n = int(counts.sum())
    unit = int(row_unit(float(n)))
    assert class_units(counts / n, n * unit, unit).tolist() == [int(c) * unit for c in counts]


def test_cycles_among_split_rows_are_cancelled():
    parts = {(row, cls): 5 for row in range(6) for cls in range(3)}
    kept = cancel_cycles(parts)
    for row in range(6):
        assert sum(m for (r, _), m in kept.items() if r == row) == 15
    for cls in range(3):
        assert sum(m for (_, c), m in kept.items() if c == cls) == 30
    assert min(kept.values()) > 0
    assert len(kept) <= 6 + 3 - 1


@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_are_the_whole_plan_row_by_row(weighted):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), 31)
    row_mass = rng.random(31) if weighted else None
    problem = Problem(probs, [1.0, 2.0, 3.0, 4.0], row_mass)
    plan = solve(problem)
    row, cls, mass, cost = plan.pieces()
    assert (np.diff(row) >= 0).all()
    own = np.full(31, 1 / 31) if row_mass is None else row_mass / row_mass.sum()
    np.testing.assert_allclose(np.bincount(row, mass, 31), own, atol=1e-12)
    np.testing.assert_allclose(np.bincount(cls, mass, 4), [0.1, 0.2, 0.3, 0.4], atol=1e-12)
    np.testing.assert_allclose(cost, 1 - probs[row, cls], atol=1e-12)
    assert mass @ cost == pytest.approx(plan.value, abs=1e-12)
    np.testing.assert_allclose(np.bincount(row, mass * cost, 31) / own, plan.cost, atol=1e-12)
    assert len(plan.split_rows) > 0


def test_masses_are_shares_of_any_size():
    for scale in (1e-308, 1.0, 1e308):
        np.testing.assert_allclose(check_masses([scale, 0.0, scale / 2], 3, "m", "rows"), [2 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize("bad", [[0.0, 1.0, 2.0], [0.0, np.nan], [np.inf, 0.0], 1.0])
def test_prices_of_another_shape_or_without_end_are_refused(bad):
    with pytest.raises(InputError, match="prices has shape"):
        solve(Problem([[0.9, 0.1], [0.6, 0.4]], [1, 1]), prices=bad)


def test_whole_halves_of_float16_are_taken_and_what_is_no_share_is_not():
    half = np.array([[0.5, 0.5], [1.0, 0.0]], dtype=np.float16)
    assert solve(Problem(half, [1, 1])).value == pytest.approx(0.25)
    for bad in (-0.5, 1.5, np.nan):
        with pytest.raises(InputError, match=r"probs\[1, 0\]"):
            Problem(np.array([[0.5, 0.5], [bad, 0.0]], dtype=np.float16), [1, 1])
    assert Problem(np.array([[1, 0], [0, 1]]), [1, 1]).probs.dtype == np.float64
    with pytest.raises(InputError, match="holds complex"):
        Problem(np.array([[1j, 0]]), [1, 1])
