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

from shiftgauge.transport._newton import Array, Reading, newton
from shiftgauge.transport.solution import Certificate

#: The smoothing of the hard plan. A quarter of it gives the same intervals.
EPS = 0.004
#: How far a class mass may be missed: a two-hundredth of a percent.
MISSED = 5e-5
#: Readings of the dual at most.
ROUNDS = 40
#: A class without mass costs this much: dearer than any class that has some, so that nobody goes there.
DEAR = 4.0


@dataclass(frozen=True)
class Smoothed:
    """A smoothed plan; it can be read like a `Transport`: parts, value, prices, certificate.

    Attributes:
        row, cls, mass, cost: (parts,) the plan.
        prices: (K,) the dual solution.
        certificate: primal and *plain* dual, so the gap counts what smoothing costs; never exact.
    """

    row: npt.NDArray[np.intp]
    cls: npt.NDArray[np.intp]
    mass: Array
    cost: Array
    prices: Array
    certificate: Certificate

    @property
    def value(self) -> float:
        """The plan's cost."""
        return self.certificate.primal

    def pieces(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array, Array]:
        """Return the plan as (row, class, mass, cost) arrays, one entry per part."""
        return self.row, self.cls, self.mass, self.cost


def smoothed(probs: Array, class_mass: Array, row_mass: Array, prices: Array) -> Smoothed:
    """Find the smoothed plan from given prices.

    Args:
        probs: (n, K) probabilities, C order.
        class_mass: (K,) q, summing to 1.
        row_mass: (n,) summing to 1.
        prices: (K,) where to start: those of the full sample.

    >>> half = np.array([0.5, 0.5])
    >>> plan = smoothed(np.array([[0.9, 0.1], [0.6, 0.4]]), half, half, np.zeros(2))
    >>> abs(plan.value - 0.35) <= plan.certificate.gap < 1e-3
    True
    """
    probs, row_mass = (_frozen(x) for x in (probs, row_mass))
    u = _prices(probs, class_mass, row_mass, prices)
    row, cls, mass, cost, primal, best = _plan(probs, row_mass, u)
    dual = 1.0 - (best + float(class_mass @ u))
    missed = float(np.abs(np.bincount(cls, weights=mass, minlength=len(u)) - class_mass).max())
    return Smoothed(row, cls, mass, cost, u, Certificate(primal, dual, primal - dual, missed))


def _frozen(array: Array) -> Array:
    """The same numbers as the one type that kernels are compiled for: C order, read-only."""
    view: Array = np.ascontiguousarray(array, np.float64).view()
    view.flags.writeable = False
    return view


def _prices(probs: Array, class_mass: Array, row_mass: Array, prices: Array) -> Array:
    """(K,) the smoothed dual's optimum, by Newton's method in v = -u / eps over the classes with mass."""
    from shiftgauge.transport import _kernels

    k = len(class_mass)
    live = class_mass > 0.0
    u = np.where(live, prices, DEAR)
    x, near, reads = np.empty(k), np.empty(k, np.int64), 0

    def priced(v: Array) -> Array:
        out = np.full(k, DEAR)
        out[live] = -EPS * v
        return out

    def read(v: Array) -> Reading:
        nonlocal reads
        reads += 1
        held, H = np.empty(k), np.empty((k, k))
        value = _kernels.smoothed_dual(probs, row_mass, priced(v), EPS, held, H, x, near)
        return Reading(value / EPS, held[live], lambda: H[np.ix_(live, live)])

    def more() -> bool:
        return reads < ROUNDS

    found = newton(read, (u[live].min() - u[live]) / EPS, class_mass[live], tol=MISSED, more=more)
    return priced(found.v)  # the largest v is 0, so the least price is


def _plan(
    probs: Array, row_mass: Array, u: Array
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array, Array, float, float]:
    """The parts of the plan at prices u, its cost and sum_i mass_i max_j (p_ij - u_j)."""
    from shiftgauge.transport import _kernels

    n, k = probs.shape
    count, room, x = -1, 2 * n + k, np.empty(k)
    while count < 0:
        row, cls = np.empty(room, np.intp), np.empty(room, np.intp)
        mass, cost = np.empty(room), np.empty(room)
        count, primal, best = _kernels.smoothed_plan(probs, row_mass, u, EPS, row, cls, mass, cost, x)
        room *= 2
    return row[:count], cls[:count], mass[:count], cost[:count], primal, best
