"""What comes in is checked at the door; what goes on inside can be watched, stopped and cached."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from shiftgauge.transport._units import class_units, row_unit

from shiftgauge.errors import InputError
from shiftgauge.transport import Problem, _forest, _kernels, solve


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
    with pytest.raises(InputError, match="tol is -1"):
        solve(problem, tol=-1)
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


def test_progress_is_reported():
    seen = []
    rng = np.random.default_rng(0)
    problem = Problem(rng.dirichlet(np.full(200, 0.1), 2000), rng.random(200))
    solve(problem, progress=seen.append)
    stages, shares = zip(*(text.rsplit(", ", 1) for text in seen if text.endswith("%")), strict=True)
    assert set(stages) >= {"finding prices", "moving mass"}
    assert all(0 <= int(share.removesuffix("%")) <= 100 for share in shares)


def test_progress_can_stop_the_solver():
    def stop(text):
        raise KeyboardInterrupt

    rng = np.random.default_rng(0)
    with pytest.raises(KeyboardInterrupt):
        solve(Problem(rng.dirichlet(np.full(200, 0.1), 2000), rng.random(200)), progress=stop)


def test_a_keyboard_interrupt_is_heard_while_threads_work(monkeypatch):
    calls = []
    real = _kernels.best_classes

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(_kernels, "best_classes", interrupted)
    p = np.random.default_rng(0).random((400_000, 5), dtype=np.float32)
    with pytest.raises(KeyboardInterrupt):
        solve(Problem(p, np.ones(5)), threads=2, prices=np.zeros(5))


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
    kept = _forest.cancel_cycles(parts)
    for row in range(6):
        assert sum(m for (r, _), m in kept.items() if r == row) == 15
    for cls in range(3):
        assert sum(m for (_, c), m in kept.items() if c == cls) == 30
    assert min(kept.values()) > 0
    assert len(kept) <= 6 + 3 - 1
