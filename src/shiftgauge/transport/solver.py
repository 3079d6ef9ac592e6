"""Solve a transport problem exactly and prove it.

1. Prices: those given, or those of a sample of one row in sixteen, which is solved in the same way first; with
   many classes and few rows in each, those of an auction (`_bids`).
2. One pass gives every row its best class at these prices, with its margin over the runner-up.
3. The rows with small margins move until every class has its mass (`_active`, `_kernels.search`).
4. If prices moved apart by more than the margins allowed for, pass again with the new prices.
5. One verifying pass computes primal and dual value from the plan and the prices alone (`_audit`).

With more classes than rows the roles are exchanged (`_wide`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.transport._active import Active, active_items, rehearsed, whole
from shiftgauge.transport._audit import audited
from shiftgauge.transport._bids import auction_prices
from shiftgauge.transport._forest import Part, cancel_cycles
from shiftgauge.transport._prepare import with_kernels
from shiftgauge.transport._rows import Crew, Floats, Indices, Rows, all_rows
from shiftgauge.transport._units import ONE, Units, class_units
from shiftgauge.transport._wide import other_prices, turned, turned_back
from shiftgauge.transport.problem import Problem
from shiftgauge.transport.solution import Transport

Progress = Callable[[str], None]

#: Each level of sampling has this many times fewer rows.
RATIO = 16
#: A sample is not worth it below this many rows, or this many rows per class.
LEAST_ROWS, LEAST_PER_CLASS = 100, 4
#: From this many classes, with fewer rows per class than that, the first prices come from an auction.
AUCTION_CLASSES, AUCTION_ROWS = 64, 500
#: Prices hardly ever differ by more than this; if they do, a tolerance may be missed and is then not used.
MOST = 1.0
#: With many classes given prices are used if no more than this share of the mass has to move.
NEAR = 0.01
#: How much further than in a rehearsal prices may move; the less, the fewer rows are active.
SAFETY = 2.0
#: Up to this many entries all rows are active, as they are with few rows per class.
SMALL = 1 << 18


def solve(
    problem: Problem,
    *,
    tol: float = 0.0,
    prices: npt.ArrayLike | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Transport:
    """Find the cheapest plan, exactly, with prices that prove it.

    Where several plans are optimal the choice is fixed: rows that tie between classes are shared among them by
    class mass along a fixed sequence, moves that tie go to the class of lowest index. Same input, same output.

    Args:
        problem: scores, class masses and row masses.
        tol: stop as soon as the certified gap is at most this; 0 is exact.
        prices: (K,) prices to start from, such as those of an earlier solution.
        progress: called now and then with what is being done, and how far it is.
        threads: how many threads may be used; all cores if None. The result does not depend on it.

    >>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).value
    0.35
    """
    if not tol >= 0.0:
        raise InputError(f"tol is {tol}; wanted 0 (exact) or a small positive gap such as 1e-4")

    def watch(stage: str) -> Callable[[float], None]:
        return lambda share: progress(f"{stage}, {share:.0%}") if progress is not None else None

    small = problem.n * problem.k <= SMALL  # there a second thread costs more than it brings
    with Crew(1 if small and threads is None else threads) as crew:
        rows = all_rows(problem, crew)
        given = None if prices is None else _checked_prices(prices, problem.k)
        return with_kernels(rows, lambda rows: _solved(problem, rows, tol, given, watch), progress)


def _solved(
    problem: Problem,
    rows: Rows,
    tol: float,
    given: Floats | None,
    watch: Callable[[str], Callable[[float], None]],
) -> Transport:
    """`solve`, once threads and kernels are at hand."""
    wide = problem.k > problem.n
    asked = turned(problem) if wide else problem
    there = replace(all_rows(asked, rows.crew), python=rows.python) if wide else rows
    if wide and given is not None:
        given = other_prices(problem, given)
    u = _first_prices(there, None if given is None else on_grid(given), watch("finding prices"), tol)
    for enough in (tol, 0.0):
        assigned, parts, total = _solve(there, u, watch("moving mass"), enough)
        found = u / ONE
        if wide:
            units = there.units(np.arange(problem.k))
            assigned, parts = turned_back(assigned, parts, units, problem.n)
            found = other_prices(asked, found)
        solution = audited(problem, rows, assigned, parts, total, found)
        if enough == 0.0 or solution.certificate.gap <= tol:
            break
    return solution


def solve_rows(rows: Rows, u: Units, wanted: Units) -> tuple[Indices, dict[Part, int], int]:
    """Bring u to prices at which the classes receive the units `wanted` of these rows; see `_solve`."""
    return _solve(rows, u, lambda _: None, 0.0, wanted=wanted)


def _checked_prices(prices: npt.ArrayLike, k: int) -> Floats:
    u = np.array(prices, dtype=np.float64)
    if u.shape != (k,) or not np.isfinite(u).all():
        raise InputError(f"prices has shape {u.shape}; wanted ({k},) finite numbers, as in Transport.prices")
    return u


def on_grid(prices: Floats) -> Units:
    """Prices on the grid of the kernels; optimal ones need not differ by more than 2."""
    return np.asarray(np.rint(np.minimum(prices - prices.min(), 2.0) * ONE), np.int64)


def _first_prices(rows: Rows, given: Units | None, watch: Callable[[float], None], tol: float) -> Units:
    """Prices to start from: those given, or of an auction, or of samples."""
    n, k = rows.P.shape
    if k >= AUCTION_CLASSES and n < AUCTION_ROWS * k:
        near = given is not None and _imbalance(rows, given) <= NEAR
        return given if given is not None and near else auction_prices(rows, watch, tol)
    if given is not None:
        return given
    u = np.zeros(k, np.int64)
    step = 1
    while n // (step * RATIO) >= max(LEAST_ROWS, LEAST_PER_CLASS * k):
        step *= RATIO
    while step > 1:  # ever larger samples, each started from the one before
        sample = rows.sample(step)
        if sample.units(
            sample.rows(np.arange(sample.items))
        ).any():  # rows that all weigh nothing have no prices
            _solve(sample, u, lambda _: None, 0.0, rounds=1)
        step //= RATIO
    return u


def _imbalance(rows: Rows, u: Units) -> float:
    """The share of the mass that sits in overfull classes at prices u."""
    held = rows.best_classes(u, np.full(rows.items, -1, dtype=np.intp), np.empty(rows.items, np.float32))
    total = int(held.sum())
    return float(np.abs(held - class_units(rows.class_mass, total, int(rows.unit))).sum()) / 2 / total


def _solve(
    rows: Rows,
    u: Units,
    watch: Callable[[float], None],
    tol: float,
    rounds: int = 100,
    wanted: Units | None = None,
) -> tuple[Indices, dict[Part, int], int]:
    """Bring u to optimal prices in place; return the class of each row, split rows' parts, the total mass.

    Each round passes over all rows at the current prices and adds those to the active ones that could move.
    Pieces that are active stay as they are: they sit in best classes already. With a tolerance the last mass
    goes by direct moves: at prices u >= 0 no move loses more than p_a - p_b + u_b <= 1 + max u per unit.
    The units that each class is to receive are its share of the whole, or `wanted`.
    """
    n, k = rows.items, len(u)
    assigned = np.full(n, -1, dtype=np.intp)
    margin = np.empty(n, np.float32)
    T, safety = np.zeros((k, k), np.int64), SAFETY
    active: Active | None = None
    total = 0
    for _ in range(rounds):
        held = rows.best_classes(u, assigned, margin)
        total = int(held.sum())
        if active is not None:
            held += active.correction(assigned)
        excess = held - (class_units(rows.class_mass, total, int(rows.unit)) if wanted is None else wanted)
        if not excess.any():
            break
        if n * k <= SMALL or n < AUCTION_ROWS * k:
            items = np.arange(n)
        else:
            T = rehearsed(rows, u, excess, total, safety)
            items = active_items(rows, u, assigned, margin, T)
        active = (
            Active(rows, *whole(rows, assigned, items)) if active is None else active.joined(assigned, items)
        )
        before = u.copy()
        done = active.run(u, excess, watch, int(tol * total / (1 + MOST)))
        d = u - before
        if done and (len(items) == n or (d[:, None] - d <= T).all()):
            if excess.any():
                active.patch(u, excess)
            break
        safety *= 8
    parts = {} if active is None or rounds == 1 else _collect(active, assigned)
    return assigned, parts, total


def _collect(active: Active, assigned: Indices) -> dict[Part, int]:
    """Write the pieces' classes into `assigned` and return all parts of the rows that are split."""
    row, cls, _ = active.pieces()
    assigned[row] = cls
    return cancel_cycles(active.parts())
