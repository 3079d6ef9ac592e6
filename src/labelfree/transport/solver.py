"""Solve a transport problem exactly and prove it.

1. Prices: those given, or those of a sample of one row in eight, which is solved in the same way first.
2. One pass gives every row its best class at these prices, with its margin over the runner-up.
3. The rows with small margins move until every class has its mass (`_active`, `_kernels.search`).
4. If prices moved apart by more than the margins allowed for, pass again with the new prices.
5. One verifying pass computes primal and dual value from the plan and the prices alone (`_audit`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError
from labelfree.transport._active import Active, active_items, rehearsed
from labelfree.transport._audit import audited
from labelfree.transport._forest import Part, cancel_cycles
from labelfree.transport._rows import Crew, Floats, Indices, Rows, all_rows
from labelfree.transport._units import ONE, Units, class_units
from labelfree.transport.problem import Problem
from labelfree.transport.solution import Transport

Progress = Callable[[str, float], None]

#: Each level of sampling has this many times fewer rows.
RATIO = 8
#: A sample is not worth it below this many rows, or this many rows per class.
LEAST_ROWS, LEAST_PER_CLASS = 1000, 4
#: Up to this many entries all rows are active.
SMALL = 1 << 16
DEBUG = None


def solve(
    problem: Problem,
    *,
    tol: float = 0.0,
    prices: npt.ArrayLike | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Transport:
    """Find the cheapest plan, exactly, with prices that prove it.

    Args:
        problem: scores, class masses and row masses.
        tol: stop as soon as the certified gap is at most this; 0 is exact.
        prices: (K,) prices to start from, such as those of an earlier solution.
        progress: called now and then with what is being done and the share of it that is done.
        threads: how many threads may be used; all cores if None. The result does not depend on it.

    >>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).value
    0.35
    """
    if not tol >= 0.0:
        raise InputError(f"tol is {tol}; wanted 0 (exact) or a small positive gap such as 1e-4")
    with Crew(threads) as crew:
        rows = all_rows(problem, crew)
        u = _sampled_prices(rows) if prices is None else _given_prices(prices, problem.k)
        assigned, parts, total = _solve(rows, u, progress)
        return audited(problem, rows, assigned, parts, total, u / ONE)


def _given_prices(prices: npt.ArrayLike, k: int) -> Units:
    """Prices on the grid of the kernels; optimal ones need not differ by more than 2."""
    u = np.array(prices, dtype=np.float64)
    if u.shape != (k,) or not np.isfinite(u).all():
        raise InputError(f"prices has shape {u.shape}; wanted ({k},) finite numbers, as in Transport.prices")
    return np.rint(np.minimum(u - u.min(), 2.0) * ONE).astype(np.int64)


def _sampled_prices(rows: Rows) -> Units:
    """Prices of ever larger samples, each started from the one before."""
    n, k = rows.P.shape
    u = np.zeros(k, np.int64)
    step = 1
    while n // (step * RATIO) >= max(LEAST_ROWS, LEAST_PER_CLASS * k):
        step *= RATIO
    while step > 1:
        _solve(rows.sample(step), u, None, rounds=1)
        step //= RATIO
    return u


def _solve(
    rows: Rows, u: Units, progress: Progress | None, rounds: int = 100
) -> tuple[Indices, dict[Part, int], int]:
    """Bring u to optimal prices in place; return the class of each row, split rows' parts, the total mass."""
    assigned = np.full(rows.items, -1, dtype=np.intp)
    margin = np.empty(rows.items, np.float32)
    T = np.zeros((len(u), len(u)), np.int64)
    parts: dict[Part, int] = {}
    total = 0
    for _ in range(rounds):
        held = rows.best_classes(u, assigned, margin)
        total = int(held.sum())
        excess = held - class_units(rows.class_mass, total, int(rows.unit))
        left = int(np.abs(excess).sum())
        if left == 0:
            break
        if rows.items * len(u) > SMALL:
            T = np.maximum(2 * T, rehearsed(rows, u, excess, total))
            items = active_items(rows, u, assigned, margin, T)
        else:
            items = np.arange(rows.items)
        active = Active(rows, assigned, items)

        def watch(excess: Units, left: int = left) -> None:
            if progress is not None:
                progress("moving mass", 1.0 - int(np.abs(excess).sum()) / left)

        if DEBUG: DEBUG("pass", rows.items, left/2/total*rows.items, len(active.items))
        before = u.copy()
        done = active.run(u, excess, watch)
        if DEBUG: DEBUG("moved", active.search.log, done)
        d = u - before
        done = done and (len(items) == rows.items or bool((d[:, None] - d <= T).all()))
        if DEBUG: DEBUG("moved", active.search.log, done)
        parts = _collect(active, assigned)
        if done:
            break
    return assigned, parts, total


def _collect(active: Active, assigned: Indices) -> dict[Part, int]:
    """Write the pieces' classes into `assigned` and return all parts of the rows that are split."""
    row, cls, mass = active.pieces()
    first = len(active.items)
    assigned[active.items] = cls[:first]
    if len(row) == first:
        return {}
    split = np.isin(row, row[first:])
    parts: dict[Part, int] = {}
    for i in np.flatnonzero(split):
        key = (int(row[i]), int(cls[i]))
        parts[key] = parts.get(key, 0) + int(mass[i])
    return cancel_cycles(parts)
