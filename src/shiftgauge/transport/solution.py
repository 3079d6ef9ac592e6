"""The solution of a transport problem, with what is needed to audit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.transport.problem import Problem

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Two classes count as tied for a row when their p_ij - u_j differ by no more than this: scores are rounded
#: by up to 2**-49 inside the solver, and prices are sums of at most a few of their differences.
TIED = 1e-12
#: A gap up to this is rounding.
EXACT = 1e-9


@dataclass(frozen=True)
class Certificate:
    """The proof of optimality: any feasible plan costs at least `dual`, and this one costs `primal`.

    Attributes:
        primal: the cost of the plan, recomputed from the plan.
        dual: 1 - [sum_i mass_i max_j (p_ij - u_j) + sum_j q_j u_j], recomputed from the prices.
        gap: primal - dual; zero up to rounding for an exact solution.
        violation: the largest amount by which a row's or a class's mass is missed.
    """

    primal: float
    dual: float
    gap: float
    violation: float

    @property
    def exact(self) -> bool:
        """Whether the proof is complete: gap and violation are rounding alone, not a tolerance that was asked for."""
        return abs(self.gap) <= EXACT and self.violation <= EXACT

    def to_dict(self) -> dict[str, Any]:
        """Return the four numbers as plain floats, and whether they prove optimality."""
        numbers = {"primal": self.primal, "dual": self.dual, "gap": self.gap, "violation": self.violation}
        return {**numbers, "exact": self.exact}


@dataclass(frozen=True)
class Transport:
    """An optimal plan, its prices and its certificate.

    Attributes:
        assigned: (n,) the class that receives the row; for a split row the class with its largest part.
        cost: (n,) 1 - p_ij per unit of the row's mass; for a split row the mean over its parts.
        split_rows, split_classes, split_mass: all parts of the split rows (at most K - 1 rows), sorted by row
            then class; masses are fractions of the whole.
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

    def pieces(self) -> tuple[Indices, Indices, Floats, Floats]:
        """Return the whole plan as (row, class, mass, cost) arrays, one entry per part of a row, row by row."""
        n = len(self.assigned)
        whole = np.ones(n, dtype=bool)
        whole[self.split_rows] = False
        rows = np.flatnonzero(whole)
        mass = np.full(len(rows), 1.0 / n) if self.row_mass is None else self.row_mass[rows]
        row = np.concatenate([rows, self.split_rows])
        order = np.argsort(row, kind="stable")
        return (
            row[order],
            np.concatenate([self.assigned[rows], self.split_classes])[order],
            np.concatenate([mass, self.split_mass])[order],
            np.concatenate([self.cost[rows], self.split_cost])[order],
        )

    def cost_range(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return the least and the largest cost that any optimal plan could give each row.

        Every optimal plan uses only classes that are tied for best at any optimal prices (complementary
        slackness), so the costs 1 - p_ij over those classes bound what ties could change.

        Returns:
            (n,) the least and (n,) the largest cost.
        """
        return cost_range(problem.probs, self.prices, problem.class_mass)

    def to_dict(self) -> dict[str, Any]:
        """Return the value, the prices and the certificate as plain numbers."""
        return {
            "value": self.value,
            "prices": self.prices.tolist(),
            "split_rows": len(set(self.split_rows.tolist())),
            "certificate": self.certificate.to_dict(),
        }


def cost_range(probs: npt.NDArray[Any], prices: Floats, class_mass: Floats) -> tuple[Floats, Floats]:
    """The least and the largest cost that any optimal plan with these prices could give each of some rows.

    Args:
        probs: (n, K) probabilities.
        prices: (K,) the dual solution.
        class_mass: (K,) q.

    Returns:
        (n,) the least and (n,) the largest cost.
    """
    n, k = probs.shape
    low, high = np.empty(n), np.empty(n)
    step = max(1, (1 << 20) // k)
    for lo in range(0, n, step):
        p = probs[lo : lo + step].astype(np.float64)
        net = np.where(class_mass > 0, p - prices, -np.inf)
        tied = net >= net.max(axis=1, keepdims=True) - TIED
        low[lo : lo + step] = 1.0 - np.where(tied, p, -np.inf).max(axis=1)
        high[lo : lo + step] = 1.0 - np.where(tied, p, np.inf).min(axis=1)
    return low, high
