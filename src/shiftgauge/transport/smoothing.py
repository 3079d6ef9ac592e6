"""Transport smoothed by a few thousandths, from prices that are nearly right: what a bootstrap solves again.

Entropic regularisation eps instead of 0 makes the dual smooth, so Newton's method brings the prices of the
whole sample to those of a replicate in a few passes. The value lies within eps log K of the optimum, in
practice far closer, and the gap to the plain dual is certified for every plan. That is beneath what 200
replicates can resolve; an estimate itself always comes from the exact solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import Block, Rows, Totals
from shiftgauge.transport.kernels import kernel_scores, kernel_weights
from shiftgauge.transport.newton import DualValue, newton
from shiftgauge.transport.plan import Certificate, Pieces

Floats = npt.NDArray[np.float64]

#: The smoothing of the hard plan. A quarter of it gives the same intervals.
EPS = 0.004
#: How far a class mass may be missed: a two-hundredth of a percent.
MISSED = 5e-5
#: Readings of the dual at most.
ROUNDS = 40
#: The price of a class without mass: above that of any class with mass, so that no row goes there.
PRICE_WITHOUT_MASS = 4.0


@dataclass(frozen=True)
class SmoothedTransport:
    """A smoothed plan; it is read like a `Transport`: pieces, value, prices, certificate.

    Attributes:
        prices: (K,) the dual solution.
        class_mass: (K,) q.
        certificate: primal and *plain* dual, so the gap counts what smoothing costs; never exact.
        passes: how often all rows were read.
    """

    prices: Floats
    class_mass: Floats
    certificate: Certificate
    passes: int
    candidates: int = 0
    exact = False

    @property
    def value(self) -> float:
        """The plan's cost."""
        return self.certificate.primal

    def pieces(self, block: Block) -> Pieces:
        """The plan of one block."""
        return _pieces(block, self.prices)[0]

    def cost_range(self, block: Block) -> tuple[Floats, Floats]:
        """Zeros: what ties could change is not asked of a replicate."""
        return np.zeros(len(block)), np.zeros(len(block))


async def smoothed_transport(rows: Rows, class_mass: Floats, prices: Floats) -> SmoothedTransport:
    """Find the smoothed plan from given prices.

    Args:
        rows: with calibrated probabilities; their weights are the masses.
        class_mass: (K,) q, summing to 1.
        prices: (K,) where to start: those of the full sample.

    >>> from shiftgauge.rows import run
    >>> rows = Rows.of_block(Block(np.array([[0.9, 0.1], [0.6, 0.4]])))
    >>> plan = run(smoothed_transport(rows, np.array([0.5, 0.5]), np.zeros(2)))
    >>> abs(plan.value - 0.35) <= plan.certificate.gap < 1e-3
    True
    """
    before, live = rows.passes, class_mass > 0.0
    start = np.where(live, prices, PRICE_WITHOUT_MASS)[live]

    def priced(v: Floats) -> Floats:
        out = np.full(rows.k, PRICE_WITHOUT_MASS)
        out[live] = -EPS * v
        return out

    async def read(v: Floats) -> DualValue:
        value, held, H = await rows.fold(_dual, priced(v))
        mass = rows.mass
        return DualValue(value / mass / EPS, held[live] / mass, H[np.ix_(live, live)] / mass)

    def more() -> bool:
        return rows.passes - before < ROUNDS

    # Newton's method in v = -u / eps over the classes with mass; the largest v is 0, so the least price is.
    found = await newton(read, (start.min() - start) / EPS, class_mass[live], tol=MISSED, more=more)
    u = priced(found.v)
    best, primal, held = await rows.fold(_audit, u)
    dual = 1.0 - (best / rows.mass + float(class_mass @ u))
    missed = float(np.abs(held / rows.mass - class_mass).max())
    primal /= rows.mass
    return SmoothedTransport(
        u, class_mass, Certificate(primal, dual, primal - dual, missed), rows.passes - before
    )


def _dual(block: Block, u: Floats) -> Totals:
    """The smoothed dual of a block without its linear term, (K,) the masses of the classes, (K, K) the Hessian."""
    from shiftgauge.transport import _kernels

    k = len(u)
    held, H, x, near = np.empty(k), np.empty((k, k)), np.empty(k), np.empty(k, np.int64)
    P, mass = kernel_scores(block.probs), kernel_weights(block.mass)
    return Totals((_kernels.smoothed_dual(P, mass, u, EPS, held, H, x, near), held, H))


def _audit(block: Block, u: Floats) -> Totals:
    pieces, best = _pieces(block, u)
    held = np.bincount(pieces.cls, pieces.mass, len(u))
    return Totals((best, float(np.einsum("i,i->", pieces.mass, pieces.cost)), held))


def _pieces(block: Block, u: Floats) -> tuple[Pieces, float]:
    """The plan of a block at prices u, and sum_i mass_i max_j (p_ij - u_j)."""
    from shiftgauge.transport import _kernels

    n, k = len(block), len(u)
    P, m = kernel_scores(block.probs), kernel_weights(block.mass)
    count, room, x = -1, 2 * n + k, np.empty(k)
    while count < 0:
        row, cls = np.empty(room, np.intp), np.empty(room, np.intp)
        mass, cost = np.empty(room), np.empty(room)
        count, _, best = _kernels.smoothed_plan(P, m, u, EPS, row, cls, mass, cost, x)
        room *= 2
    return Pieces(row[:count], cls[:count], mass[:count], cost[:count]), best
