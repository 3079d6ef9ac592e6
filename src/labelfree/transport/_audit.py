"""The verifying pass: primal, dual and feasibility from the plan and the prices alone."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from labelfree.transport._forest import Part
from labelfree.transport._rows import CHUNK, Floats, Indices, Rows, spans
from labelfree.transport.problem import Problem
from labelfree.transport.solution import Certificate, Transport


def audited(
    problem: Problem, rows: Rows, assigned: Indices, parts: dict[Part, int], total: int, u: Floats
) -> Transport:
    """Return the plan with its certificate.

    Args:
        problem: what was to be solved.
        rows: the same as kernels read it.
        assigned: (n,) the class of every row that is not split.
        parts: units by (row, class) of rows that may be split.
        total: the units of all rows.
        u: (K,) prices.
    """
    n = problem.n
    by_row: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (row, cls), units in sorted(parts.items()):
        by_row[row].append((cls, units))
    for row, shares in by_row.items():
        assigned[row] = max(shares, key=lambda share: (share[1], -share[0]))[0]
    split = [
        (row, cls, units / total)
        for row, shares in by_row.items()
        if len(shares) > 1
        for cls, units in shares
    ]
    split_rows = np.array([s[0] for s in split], dtype=np.intp)
    split_classes = np.array([s[1] for s in split], dtype=np.intp)
    split_mass = np.array([s[2] for s in split], dtype=np.float64)
    split_cost = 1.0 - problem.probs[split_rows, split_classes].astype(np.float64)

    cost = np.empty(n)
    best, held = _read(rows, u, assigned, cost)
    worst = 0.0
    for row in dict.fromkeys(split_rows.tolist()):
        here = split_rows == row
        mass = 1.0 / n if problem.row_mass is None else float(problem.row_mass[row])
        held[assigned[row]] -= mass
        cost[row] = float(split_mass[here] @ split_cost[here]) / float(split_mass[here].sum())
        worst = max(worst, abs(float(split_mass[here].sum()) - mass))
    np.add.at(held, split_classes, split_mass)
    primal = float(cost.mean()) if problem.row_mass is None else float(cost @ problem.row_mass)
    dual = 1.0 - (best + float(problem.class_mass @ u))
    worst = max(worst, float(np.abs(held - problem.class_mass).max()))
    certificate = Certificate(primal, dual, primal - dual, worst)
    return Transport(
        assigned, cost, split_rows, split_classes, split_mass, split_cost, u, certificate, problem.row_mass
    )


def _read(rows: Rows, u: Floats, assigned: Indices, cost: Floats) -> tuple[float, Floats]:
    """One pass: sum_i mass_i max_j (p_ij - u_j), each row's cost, and the mass that each class holds."""
    from labelfree.transport import _kernels

    n, k = rows.P.shape

    def task(lo: int, hi: int) -> tuple[float, Floats]:
        held = np.zeros(k)
        return _kernels.audit(rows.P, lo, hi, rows.weights, u, assigned, cost, held), held

    sums = list(rows.crew.map(task, spans(n, max(1, CHUNK // k))))
    scale = 1.0 if rows.weights.size else 1.0 / n
    held = np.sum([part for _, part in sums], axis=0) * scale
    return float(np.sum([value for value, _ in sums])) * scale, held
