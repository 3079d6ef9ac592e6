"""The plan of a transport problem, block by block, with what is needed to audit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import Block
from shiftgauge.transport.kernels import kernel_scores, kernel_weights, kernels_for
from shiftgauge.transport.units import ONE, Units

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Two classes count as tied for a row when their p_ij - u_j differ by no more than this: scores are rounded
#: by up to 2**-49 inside the solver, and prices are sums of at most a few of their differences.
TIED = 1e-12
#: A gap up to this is rounding.
EXACT = 1e-9
#: A price that no row pays.
NEVER = 1 << 56


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
        """Whether the proof is complete: gap and violation are rounding errors."""
        return abs(self.gap) <= EXACT and self.violation <= EXACT

    def to_dict(self) -> dict[str, Any]:
        """Return the four numbers as plain floats, and whether they prove optimality."""
        numbers = {"primal": self.primal, "dual": self.dual, "gap": self.gap, "violation": self.violation}
        return {**numbers, "exact": self.exact}


@dataclass(frozen=True)
class Pieces:
    """The plan of a block, one entry per part of a row.

    Attributes:
        row: the row's place in the block.
        cls: the class that receives the part.
        mass: its mass, on the scale of the block's weights.
        cost: 1 - p_ij per unit of mass.
    """

    row: Indices
    cls: Indices
    mass: Floats
    cost: Floats


@dataclass(frozen=True)
class Transport:
    """An optimal plan: every row goes to its first best class at the prices, but for the rows listed.

    Attributes:
        u: (K,) the prices as integers, multiples of 2**-48.
        class_mass: (K,) q.
        rows, classes: (m,) rows that tie at these prices and go elsewhere, rising, and where they go.
        split_rows, split_classes, split_shares: (s,) the parts of rows that are split, at most K - 1 rows, sorted by
            row then class, as shares of the row. Where only one class can be named it is the largest part's.
        certificate: primal and dual over all rows, recomputed in a pass of its own.
        candidates: how many rows the exact search held in memory.
        passes: how often all rows were read.
    """

    u: Units
    class_mass: Floats
    rows: Indices
    classes: Indices
    split_rows: Indices
    split_classes: Indices
    split_shares: Floats
    certificate: Certificate
    candidates: int
    passes: int
    exact = True

    @property
    def value(self) -> float:
        """The optimal cost, COT."""
        return self.certificate.primal

    @property
    def prices(self) -> Floats:
        """(K,) the dual solution u, the least of them 0."""
        return np.asarray(self.u / ONE)

    def assigned(self, block: Block) -> Indices:
        """(b,) the class of each row of a block; for a split row the class of its largest part."""
        out, P = np.empty(len(block), np.intp), kernel_scores(block.probs)
        kernels_for(P).first_best(P, self.u, out)
        at = _within(self.rows, block)
        out[self.rows[at] - block.start] = self.classes[at]
        return out

    def pieces(self, block: Block) -> Pieces:
        """The plan of one block."""
        assigned, rows, mass = self.assigned(block), np.arange(len(block)), block.mass
        at = _within(self.split_rows, block)
        split, classes = self.split_rows[at] - block.start, self.split_classes[at]
        if len(split):
            rows = np.delete(rows, split)
            assigned = np.concatenate([assigned[rows], classes])
            mass = np.concatenate([mass[rows], mass[split] * self.split_shares[at]])
            rows = np.concatenate([rows, split])
        return Pieces(rows, assigned, mass, 1.0 - block.probs[rows, assigned].astype(np.float64))

    def listed_pieces(self, block: Block) -> Pieces:
        """The plan of those rows of a block that do not go whole to their first best class."""
        at, parts = _within(self.rows, block), _within(self.split_rows, block)
        whole = ~np.isin(self.rows[at], self.split_rows[parts])
        rows = np.concatenate([self.rows[at][whole], self.split_rows[parts]]) - block.start
        cls = np.concatenate([self.classes[at][whole], self.split_classes[parts]])
        shares = np.concatenate([np.ones(int(whole.sum())), self.split_shares[parts]])
        return Pieces(rows, cls, block.mass[rows] * shares, 1.0 - block.probs[rows, cls].astype(np.float64))

    def cost_range(self, block: Block) -> tuple[Floats, Floats]:
        """(b,) each: the least and the largest cost that any optimal plan could give the rows of a block.

        Every optimal plan uses only classes that are tied for best at any optimal prices (complementary slackness),
        so the costs 1 - p_ij over those classes bound what ties could change.
        """
        cost = 1.0 - block.probs[np.arange(len(block)), self.assigned(block)].astype(np.float64)
        k = len(self.u)
        T = np.full((k, k), 2 * int(TIED * ONE) + 4)
        u = np.where(self.class_mass > 0.0, self.u, NEVER)
        near, P = np.empty(len(block), np.bool_), kernel_scores(block.probs)
        kernels_for(P).may_move(P, kernel_weights(None), 1.0, u, T, T[0], np.zeros(k, np.int64), near)
        least, most = cost.copy(), cost
        rows = np.flatnonzero(near)
        least[rows], most[rows] = tied_costs(block.probs[rows], self.prices, self.class_mass)
        return least, most

    def to_dict(self) -> dict[str, Any]:
        """Return the value, the prices and the certificate as plain numbers."""
        return {
            "value": self.value,
            "prices": self.prices.tolist(),
            "split_rows": len(np.unique(self.split_rows)),
            "certificate": self.certificate.to_dict(),
        }


def _within(rows: Indices, block: Block) -> slice:
    """Where the rows of a block stand in rising row numbers."""
    lo, hi = np.searchsorted(rows, [block.start, block.start + len(block)])
    return slice(int(lo), int(hi))


def tied_costs(probs: Array, prices: Floats, class_mass: Floats) -> tuple[Floats, Floats]:
    """(n,) each: the least and the largest cost of the classes with mass that tie for best at the prices."""
    p = probs.astype(np.float64)
    net = np.where(class_mass > 0, p - prices, -np.inf)
    tied = net >= net.max(axis=1, keepdims=True) - TIED
    return 1.0 - np.where(tied, p, -np.inf).max(axis=1), 1.0 - np.where(tied, p, np.inf).min(axis=1)
