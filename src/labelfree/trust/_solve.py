"""Transport, hard and soft, from a warm start: what every replicate of the bootstrap solves again.

The hard plan is that of the transport problem smoothed by `eps` (entropic regularisation eps instead of 0):
its value lies within eps log K of the optimum, in practice far closer, and the gap to the plain dual is
computed for every replicate. That is beneath what 200 replicates can resolve; the estimate itself always
comes from the exact solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: The smoothing of the hard plan. A quarter of it gives the same intervals.
EPS = 0.004
#: How far the class masses may be missed, in total: a hundredth of a percent.
MISSED = 1e-4
#: Newton steps at most.
ROUNDS = 40


@dataclass(frozen=True)
class Proof:
    """Primal and dual value of a smoothed plan, their difference, and the largest class mass it misses."""

    primal: float
    dual: float
    gap: float
    violation: float

    @property
    def exact(self) -> bool:
        """Never: the plan is smoothed on purpose."""
        return False

    def to_dict(self) -> dict[str, float]:
        """The four numbers."""
        return {"primal": self.primal, "dual": self.dual, "gap": self.gap, "violation": self.violation}


@dataclass(frozen=True)
class SmoothedPlan:
    """A plan that can be read like `labelfree.transport.Transport`: parts, value, prices, certificate."""

    row: npt.NDArray[np.intp]
    cls: npt.NDArray[np.intp]
    mass: Array
    cost: Array
    prices: Array
    certificate: Proof

    @property
    def value(self) -> float:
        """The plan's cost."""
        return self.certificate.primal

    def pieces(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array, Array]:
        """(row, class, mass, cost), one entry per part."""
        return self.row, self.cls, self.mass, self.cost


def smoothed_transport(probs: Array, class_mass: Array, row_mass: Array, prices: Array) -> SmoothedPlan:
    """The smoothed plan from given prices.

    Args:
        probs: (n, K) probabilities, C order.
        class_mass: (K,) q, summing to 1.
        row_mass: (n,) summing to 1.
        prices: (K,) where to start: those of the full sample.
    """
    from labelfree.trust._kernels import descend, smoothed_plan

    q = np.ascontiguousarray(class_mass)
    u = prices.copy()
    u[q <= 0.0] = 4.0  # dearer than any class that has mass: nobody goes there
    descend(probs, row_mass, q, u, EPS, 2.0 * MISSED, ROUNDS)
    n, k = probs.shape
    count, room = -1, 2 * n + k
    while count < 0:
        row, cls = np.empty(room, np.int64), np.empty(room, np.int64)
        mass, cost = np.empty(room), np.empty(room)
        count, primal, best = smoothed_plan(probs, row_mass, u, EPS, row, cls, mass, cost)
        room *= 2
    row, cls, mass, cost = row[:count], cls[:count], mass[:count], cost[:count]
    dual = 1.0 - (best + float(q @ u))
    missed = float(np.abs(np.bincount(cls, weights=mass, minlength=k) - q).max())
    return SmoothedPlan(row, cls, mass, cost, u, Proof(primal, dual, primal - dual, missed))


def soft_weights(
    probs: Array, class_mass: Array, row_mass: Array, start: Array, tol: float = 1e-8
) -> Array | None:
    """(K,) SCOT's class weights from a warm start, or None where Newton's method does not settle.

    Args:
        probs: (n, K) probabilities, C order.
        class_mass: (K,) q, all positive.
        row_mass: (n,) summing to 1.
        start: (K,) log-weights to start from.
    """
    from labelfree.trust._kernels import soft_pass

    k = len(class_mass)
    read: Any = soft_pass if k <= 40 else _soft_pass_blas
    v = start - start.max()
    held, H = np.empty(k), np.empty((k, k))
    value = read(probs, row_mass, np.exp(v), held, H) - float(class_mass @ v)
    damping = 0.0
    for _ in range(40):
        g = held - class_mass
        if np.abs(g).max() <= tol:
            return np.asarray(np.exp(v))
        A = H + 1.0 / k**2
        A[np.diag_indices(k)] += damping + 1e-14
        step = np.linalg.solve(A, -g)
        trial = v + step - step.mean()
        trial -= trial.max()
        new_held, new_H = np.empty(k), np.empty((k, k))
        new = read(probs, row_mass, np.exp(trial), new_held, new_H) - float(class_mass @ trial)
        if np.isfinite(new) and (new < value or np.abs(new_held - class_mass).max() < 0.5 * np.abs(g).max()):
            v, value, held, H = trial, new, new_held, new_H
            damping /= 16.0
        else:
            damping = max(16.0 * damping, 1e-6)
    return None


def _soft_pass_blas(P: Array, m: Array, w: Array, held: Array, H: Array) -> float:
    """As the compiled `soft_pass`, by matrix products: faster for many classes."""
    r = P * w
    total = r.sum(axis=1)
    r /= total[:, None]
    scaled = r * m[:, None]
    held[:] = scaled.sum(axis=0)
    H[:] = -(scaled.T @ r)
    H[np.diag_indices(len(w))] += held
    return float(m @ np.log(total))
