"""The verifying pass: primal, dual and feasibility from the plan and the prices alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.transport._forest import Part
from shiftgauge.transport._rows import CHUNK, Crew, Floats, Indices, Rows, all_rows, spans
from shiftgauge.transport.problem import Problem
from shiftgauge.transport.solution import Certificate, Transport


@dataclass(frozen=True)
class Split:
    """The parts of rows that are split: row, class and mass of each, sorted by row then class."""

    rows: Indices
    classes: Indices
    mass: Floats


def audit(problem: Problem, plan: Transport) -> Certificate:
    """Check a plan against the problem it claims to solve, whoever made it, in one pass over all rows.

    Everything is computed again from the plan's classes, the parts of its split rows and its prices; what the
    plan says of itself (its costs, its value) is only compared. So damage of any kind shows: a class or a row
    that does not get its mass, a negative part or a cost that is not 1 - p as `violation`, prices that do not
    prove the plan and a plan that is not the cheapest as `gap`. `Certificate.exact` is False then.

    Args:
        problem: what was to be solved.
        plan: its solution.

    >>> from shiftgauge.transport import solve
    >>> problem = Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])
    >>> audit(problem, solve(problem)).exact
    True
    """
    if len(plan.assigned) != problem.n or len(plan.prices) != problem.k:
        raise InputError(
            f"the plan is of {len(plan.assigned)} rows and {len(plan.prices)} classes, the problem of "
            f"{problem.n} and {problem.k}; wanted the plan of this problem"
        )
    split = Split(plan.split_rows, plan.split_classes, plan.split_mass)
    with Crew(None) as crew:
        cost = np.empty(problem.n)
        found = _certificate(problem, all_rows(problem, crew), plan.assigned, split, plan.prices, cost)
    parts = 1.0 - problem.probs[split.rows, split.classes].astype(np.float64)
    lies = [np.abs(cost - plan.cost).max(), np.abs(parts - plan.split_cost).max(initial=0.0)]
    lies += [abs(found.primal - plan.value), -split.mass.min(initial=0.0)]
    return Certificate(found.primal, found.dual, found.gap, float(max(found.violation, *lies)))


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
    split = split_parts(assigned, parts)
    split = Split(split.rows, split.classes, split.mass / total)
    split_cost = 1.0 - problem.probs[split.rows, split.classes].astype(np.float64)
    cost = np.empty(problem.n)
    certificate = _certificate(problem, rows, assigned, split, u, cost)
    return Transport(
        assigned, cost, split.rows, split.classes, split.mass, split_cost, u, certificate, problem.row_mass
    )


def split_parts(assigned: Indices, parts: dict[Part, int]) -> Split:
    """The rows that are really split, masses in units; all of `parts` are assigned to their largest part's class."""
    by_row: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (row, cls), units in sorted(parts.items()):
        by_row[row].append((cls, units))
    for row, shares in by_row.items():
        assigned[row] = max(shares, key=lambda share: (share[1], -share[0]))[0]
    split = [(row, cls, units) for row, shares in by_row.items() if len(shares) > 1 for cls, units in shares]
    rows, classes = (np.array([s[at] for s in split], dtype=np.intp) for at in (0, 1))
    return Split(rows, classes, np.array([s[2] for s in split], dtype=np.float64))


def _certificate(
    problem: Problem, rows: Rows, assigned: Indices, split: Split, u: Floats, cost: Floats
) -> Certificate:
    """Primal, dual, and the worst miss of a row's or a class's mass; each row's cost is written to `cost`."""
    best, held = _read(rows, u, assigned, cost)
    split_rows, first = np.unique(split.rows, return_index=True)
    mass = (
        np.full(len(split_rows), 1.0 / problem.n)
        if problem.row_mass is None
        else problem.row_mass[split_rows]
    )
    np.subtract.at(held, assigned[split_rows], mass)
    np.add.at(held, split.classes, split.mass)
    worst = float(np.abs(held - problem.class_mass).max())
    if len(split_rows):
        parts = np.add.reduceat(split.mass, first)
        each = split.mass * (1.0 - problem.probs[split.rows, split.classes].astype(np.float64))
        cost[split_rows] = np.add.reduceat(each, first) / parts
        worst = max(worst, float(np.abs(parts - mass).max()))
    primal = float(cost.mean()) if problem.row_mass is None else float(cost @ problem.row_mass)
    dual = 1.0 - (best + float(problem.class_mass @ u))
    return Certificate(primal, dual, primal - dual, worst)


def _read(rows: Rows, u: Floats, assigned: Indices, cost: Floats) -> tuple[float, Floats]:
    """One pass: sum_i mass_i max_j (p_ij - u_j), each row's cost, and the mass that each class holds."""
    n, k = rows.P.shape

    def task(lo: int, hi: int) -> tuple[float, Floats]:
        held = np.zeros(k)
        return rows.kernels.audit(rows.P, lo, hi, rows.weights, u, assigned, cost, held), held

    sums = list(rows.crew.map(task, spans(n, max(1, CHUNK // k))))
    scale = 1.0 if rows.weights.size else 1.0 / n
    held = np.sum([part for _, part in sums], axis=0) * scale
    return float(np.sum([value for value, _ in sums])) * scale, held
