"""Solve a transport problem exactly and prove it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError
from labelfree.transport._forest import Part, cancel_cycles
from labelfree.transport._units import Units, class_units, row_unit
from labelfree.transport.problem import Problem
from labelfree.transport.solution import Certificate, Floats, Indices, Transport

Progress = Callable[[str, float], None]

#: Phases of the search between two looks at the clock, the keyboard and the progress callback.
PHASES = 64


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
    plan = _solve_rows(problem, _start_prices(prices, problem.k), progress)
    return _audited(problem, plan)


@dataclass
class _Plan:
    """What the search leaves: a class per row, the split rows' parts in units, prices."""

    assigned: Indices
    parts: dict[Part, int]
    prices: Floats
    total: int


def _start_prices(prices: npt.ArrayLike | None, k: int) -> Floats:
    """Prices on the grid of the kernels; optimal ones never differ by more than 2."""
    if prices is None:
        return np.zeros(k)
    u = np.array(prices, dtype=np.float64)
    if u.shape != (k,) or not np.isfinite(u).all():
        raise InputError(f"prices has shape {u.shape}; wanted ({k},) finite numbers, as in Transport.prices")
    clipped = np.minimum(u - u.min(), 2.0)
    return (clipped + 24.0) - 24.0


def _raw(probs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The scores as kernels read them: float16 as its bits."""
    return probs.view(np.uint16) if probs.dtype == np.float16 else probs


def _solve_rows(problem: Problem, u: Floats, progress: Progress | None) -> _Plan:
    from labelfree.transport import _kernels

    n, k, P = problem.n, problem.k, _raw(problem.probs)
    weights = np.empty(0) if problem.row_mass is None else problem.row_mass
    unit = row_unit(float(n) if problem.row_mass is None else float(weights.sum()))
    assigned = np.full(n, -1, dtype=np.intp)
    margin = np.empty(n, dtype=np.float32)
    held = np.zeros(k, dtype=np.int64)
    _kernels.best_classes(P, 1, 0, n, weights, unit, u, assigned, margin, held)
    total = int(held.sum())
    excess = held - class_units(problem.class_mass, total, int(unit))
    mass = np.rint(weights * unit).astype(np.int64) if weights.size else np.full(n, int(unit), dtype=np.int64)
    active = np.flatnonzero(mass)  # a piece without mass would block its class
    s = _moves(P, active, assigned[active], mass[active], k)
    _kernels.start(s, len(active))
    dist, parent, order = np.empty(k), np.empty(k, dtype=np.int32), np.empty(k, dtype=np.int32)
    done = np.empty(k, dtype=np.bool_)
    at_first = max(1, int(np.abs(excess).sum()))
    status = _kernels.MORE
    while status != _kernels.DONE:
        status = _kernels.drive(s, u, excess, dist, parent, order, done, PHASES)
        if status == _kernels.FULL:
            s = _grown(s)
        assert status != _kernels.STUCK
        if progress is not None:
            progress("moving mass", 1.0 - int(np.abs(excess).sum()) / at_first)
    parts = _collect(s, assigned)
    return _Plan(assigned, parts, u, total)


def _moves(P: npt.NDArray[Any], rows: Indices, cls: Indices, mass: Units, k: int) -> Any:
    from labelfree.transport import _kernels

    pieces = len(rows)
    room = pieces + 2 * k + 64

    def padded(x: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
        out = np.empty(room, dtype=dtype)
        out[:pieces] = x
        return out

    return _kernels.Moves(
        P,
        padded(rows, np.int64),
        padded(cls, np.int32),
        padded(mass, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(k, np.int32),
        np.empty((k, k)),
        np.empty((k, k), np.int32),
        np.empty(1, np.int64),
    )


def _grown(s: Any) -> Any:
    """The same pieces with room for half as many again."""
    more = len(s.row) // 2 + len(s.first)
    longer = {
        name: np.concatenate([getattr(s, name), np.empty(more, getattr(s, name).dtype)])
        for name in ("row", "cls", "mass", "after", "before")
    }
    return s._replace(**longer)


def _collect(s: Any, assigned: Indices) -> dict[Part, int]:
    """Write the pieces' classes into `assigned` and return all parts of the rows that are split."""
    size = int(s.size[0])
    row, cls, mass = s.row[:size], s.cls[:size], s.mass[:size]
    assigned[row] = cls
    split = np.zeros(len(assigned), dtype=bool)
    split[row[cls != assigned[row]]] = True
    parts: dict[Part, int] = {}
    for i in np.flatnonzero(split[row]):
        key = (int(row[i]), int(cls[i]))
        parts[key] = parts.get(key, 0) + int(mass[i])
    parts = cancel_cycles({key: m for key, m in parts.items() if m > 0})
    for r in {r for r, _ in parts}:
        options = [(-m, j) for (i, j), m in parts.items() if i == r]
        assigned[r] = min(options)[1]
    whole = {r for r, _ in parts if sum(i == r for i, _ in parts) == 1}
    return {key: m for key, m in parts.items() if key[0] not in whole}


def _audited(problem: Problem, plan: _Plan) -> Transport:
    """Recompute primal, dual and feasibility from the plan and the prices alone."""
    from labelfree.transport import _kernels

    n, k = problem.n, problem.k
    weights = np.empty(0) if problem.row_mass is None else problem.row_mass
    cost, held = np.empty(n), np.zeros(k)
    u = plan.prices
    best = _kernels.audit(_raw(problem.probs), 0, n, weights, u, plan.assigned, cost, held)
    scale = 1.0 / n if problem.row_mass is None else 1.0
    held *= scale
    keys = sorted(plan.parts)
    rows = np.array([r for r, _ in keys], dtype=np.intp)
    classes = np.array([j for _, j in keys], dtype=np.intp)
    mass = np.array([plan.parts[key] / plan.total for key in keys], dtype=np.float64)
    split_cost = 1.0 - problem.probs[rows, classes].astype(np.float64)
    row_mass = np.full(len(rows), 1.0 / n) if problem.row_mass is None else problem.row_mass[rows]
    worst = 0.0
    for r in dict.fromkeys(rows.tolist()):
        here = rows == r
        whole = float(row_mass[here][0])
        held[plan.assigned[r]] -= whole
        cost[r] = float(mass[here] @ split_cost[here]) / float(mass[here].sum())
        worst = max(worst, abs(float(mass[here].sum()) - whole))
    np.add.at(held, classes, mass)
    primal = float(cost.mean()) if problem.row_mass is None else float(cost @ problem.row_mass)
    dual = 1.0 - (float(best) * scale + float(problem.class_mass @ u))
    worst = max(worst, float(np.abs(held - problem.class_mass).max()))
    certificate = Certificate(primal, dual, primal - dual, worst)
    return Transport(plan.assigned, cost, rows, classes, mass, split_cost, u, certificate, problem.row_mass)
