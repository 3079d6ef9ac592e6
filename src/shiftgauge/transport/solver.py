"""The array interface: `solve(Problem(...))` runs `exact_transport` over the rows of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.rows import Block, Rows, Threads, run
from shiftgauge.transport.exact import plan_of
from shiftgauge.transport.plan import Certificate, tied_costs
from shiftgauge.transport.problem import Problem

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Entries that are looked at together.
TILE_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Solution:
    """An optimal plan of an array, its prices and its certificate.

    Attributes:
        assigned: (n,) the class that receives the row; for a split row the class with its largest part.
        cost: (n,) 1 - p_ij per unit of the row's mass; for a split row the mean over its parts.
        split_rows, split_classes, split_mass, split_cost: all parts of the split rows (at most K - 1 rows), sorted by
            row then class; masses are fractions of the whole.
        prices: (K,) the dual solution u, the least of them 0.
        certificate: primal and dual value, gap and violation.
        row_mass: (n,) the rows' masses, None if all are 1/n.
    """

    assigned: Indices
    cost: Floats
    split_rows: Indices
    split_classes: Indices
    split_mass: Floats
    split_cost: Floats
    prices: Floats
    certificate: Certificate
    row_mass: Floats | None = None

    @property
    def value(self) -> float:
        """The optimal cost, COT."""
        return self.certificate.primal

    @property
    def mass(self) -> Floats:
        """(n,) the rows' masses, which sum to 1."""
        n = len(self.assigned)
        return np.full(n, 1.0 / n) if self.row_mass is None else self.row_mass

    def pieces(self) -> tuple[Indices, Indices, Floats, Floats]:
        """Return the whole plan as (row, class, mass, cost) arrays, one entry per part of a row, row by row."""
        rows = np.setdiff1d(np.arange(len(self.assigned)), self.split_rows)
        row = np.concatenate([rows, self.split_rows])
        order = np.argsort(row, kind="stable")
        return (
            row[order],
            np.concatenate([self.assigned[rows], self.split_classes])[order],
            np.concatenate([self.mass[rows], self.split_mass])[order],
            np.concatenate([self.cost[rows], self.split_cost])[order],
        )

    def cost_range(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return (n,) the least and (n,) the largest cost that any optimal plan could give each row."""
        tiles = [tied_costs(part, self.prices, problem.class_mass) for part in _tiles(problem.probs)]
        low, high = (np.concatenate(part) for part in zip(*tiles, strict=True))
        return low, high


def solve(problem: Problem, *, prices: npt.ArrayLike | None = None, threads: int | None = None) -> Solution:
    """Find the cheapest plan, exactly, with prices that prove it.

    Where several plans are optimal the choice is fixed: same input, same output.

    Args:
        problem: scores, class masses and row masses.
        prices: (K,) prices to start from, such as those of an earlier solution.
        threads: how many threads may be used; all cores if None. The result does not depend on it.

    >>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).value
    0.35
    """
    start = None if prices is None else np.array(prices, dtype=np.float64)
    if start is not None and (start.shape != (problem.k,) or not np.isfinite(start).all()):
        raise InputError(
            f"prices has shape {start.shape}; wanted ({problem.k},) finite numbers, as in Solution.prices"
        )
    block = Block(problem.probs, weights=problem.row_mass)
    rows = Rows.of_block(block)
    rows.engine = Threads(threads)
    plan = run(plan_of(rows, problem.class_mass, start))
    assigned, at = plan.assigned(block), plan.split_rows
    cost = 1.0 - block.probs[np.arange(problem.n), assigned].astype(np.float64)
    parts = 1.0 - block.probs[at, plan.split_classes].astype(np.float64)
    cost[at] = np.bincount(at, plan.split_shares * parts, problem.n)[at]
    mass = plan.split_shares * (1.0 / problem.n if problem.row_mass is None else problem.row_mass[at])
    return Solution(
        assigned, cost, at, plan.split_classes, mass, parts, plan.prices, plan.certificate, problem.row_mass
    )


def audit(problem: Problem, plan: Solution) -> Certificate:
    """Check a plan against the problem it claims to solve.

    Everything is computed again from the plan's classes, the parts of its split rows and its prices; what the
    plan says of itself (its costs, its value) is only compared. So damage of any kind shows: a class or a row
    that does not get its mass, a negative part or a cost that is not 1 - p as `violation`, prices that do not
    prove the plan and a plan that is not the cheapest as `gap`. `Certificate.exact` is False then.

    Args:
        problem: what was to be solved.
        plan: its solution.

    >>> problem = Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])
    >>> audit(problem, solve(problem)).exact
    True
    """
    n, k = problem.n, problem.k
    if len(plan.assigned) != n or len(plan.prices) != k:
        raise InputError(
            f"the plan is of {len(plan.assigned)} rows and {len(plan.prices)} classes, the problem of "
            f"{n} and {k}; wanted the plan of this problem"
        )
    mass = np.full(n, 1.0 / n) if problem.row_mass is None else problem.row_mass
    best = np.concatenate([(p - plan.prices).max(axis=1) for p in _tiles(problem.probs)])
    split, first = np.unique(plan.split_rows, return_index=True)
    whole = np.ones(n, dtype=bool)
    whole[split] = False
    cost = 1.0 - problem.probs[np.arange(n), plan.assigned].astype(np.float64)
    parts = 1.0 - problem.probs[plan.split_rows, plan.split_classes].astype(np.float64)
    held = np.zeros(k)
    np.add.at(held, plan.assigned[whole], mass[whole])
    np.add.at(held, plan.split_classes, plan.split_mass)
    wrong = [np.abs(held - problem.class_mass).max(), np.abs(parts - plan.split_cost).max(initial=0.0)]
    if len(split):
        split_total = np.add.reduceat(plan.split_mass, first)
        cost[split] = np.add.reduceat(plan.split_mass * parts, first) / split_total
        wrong += [np.abs(split_total - mass[split]).max(), -plan.split_mass.min()]
    primal = float(mass @ cost)
    wrong += [np.abs(cost - plan.cost).max(), abs(primal - plan.value)]
    dual = 1.0 - float(mass @ best + problem.class_mass @ plan.prices)
    return Certificate(primal, dual, primal - dual, float(max(wrong)))


def _tiles(probs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    step = max(1, TILE_ENTRIES // probs.shape[1])
    return [probs[lo : lo + step] for lo in range(0, len(probs), step)]
