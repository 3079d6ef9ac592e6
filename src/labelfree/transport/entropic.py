"""Soft transport of rows to labels: the projection behind SCOT.

Rows go to labels at cost -log p_ij with entropic regularisation 1 and prescribed label masses q. The
optimal plan re-weights each row's probabilities by one weight per class,

    r_ij = p_ij w_j / sum_k p_ik w_k,    with w such that  sum_i mass_i r_ij = q_j.

In v = log w this is the unconstrained convex problem

    minimise  F(v) = sum_i mass_i log sum_j p_ij exp(v_j) - sum_j q_j v_j,

whose gradient is (sum_i mass_i r_i) - q and whose Hessian is diag(sum_i mass_i r_i) - R' M R. The same
projection adjusts a classifier to a known class distribution (Heiser, Allikivi and Kull, 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Up to this many classes the Newton system is solved directly; beyond, by conjugate gradients.
DIRECT_CLASSES = 256
#: Numbers per slab of rows: small enough to stay in cache between its two uses.
SLAB = 1 << 16
#: Weights are absorbed into the kernel before they can overflow: |log w| stays below this.
ABSORB = 200.0


@dataclass(frozen=True)
class SoftTransport:
    """The soft plan and how well it meets the label masses.

    Attributes:
        posterior: (n, K) r, each row's distribution over labels.
        log_weights: (K,) v; minus infinity for labels of zero mass.
        marginal_error: the largest |sum_i mass_i r_ij - q_j|.
        passes: how often the whole matrix was read.
    """

    posterior: Array
    log_weights: Array
    marginal_error: float
    passes: int


def soft_transport(
    log_probs: Array, class_mass: Array, row_mass: Array, *, tol: float = 1e-10, max_passes: int = 500
) -> SoftTransport:
    """Solve for the class weights by a damped Newton method.

    One step of iterative scaling in the log domain starts it: it puts every label within reach, even one
    that all rows find next to impossible. Newton steps are damped (Levenberg-Marquardt): a step is taken
    if it lowers F as promised or halves the gradient, else the damping grows; where F is almost flat,
    as between saturated rows, the damping falls and steps lengthen.

    Args:
        log_probs: (n, K) finite log-probabilities, up to a constant per row.
        class_mass: (K,) label masses q, summing to 1.
        row_mass: (n,) row masses, summing to 1.
        tol: the largest marginal error to leave.
        max_passes: give up after this many passes and return the best plan found.
    """
    n, k = log_probs.shape
    live = class_mass > 0.0
    q = class_mass[live]
    kernel = _Kernel(log_probs if live.all() else log_probs[:, live], row_mass)
    v = np.log(q) - kernel.log_column_mass()
    v, error = _newton(kernel, v - v.max(), q, tol, max_passes)
    posterior = np.zeros((n, k))
    posterior[:, live] = kernel.posterior(v)
    log_weights = np.full(k, -np.inf)
    log_weights[live] = v
    return SoftTransport(posterior, log_weights, error, kernel.passes)


class _Kernel:
    """E_ij = exp(log p_ij + base_j - top_i), kept near the current weights so that nothing overflows."""

    def __init__(self, log_probs: Array, mass: Array) -> None:
        self.log_probs, self.mass = log_probs, mass
        step = max(1, SLAB // log_probs.shape[1])
        self.slabs = [slice(i, i + step) for i in range(0, len(log_probs), step)]
        self.passes = 0
        self.absorb(np.zeros(log_probs.shape[1]))

    def absorb(self, base: Array) -> None:
        """Recompute E around the log-weights `base`."""
        self.base = base.copy()
        self.E = self.log_probs + base
        self.top = self.E.max(axis=1)
        self.E -= self.top[:, None]
        np.exp(self.E, out=self.E)
        self.passes += 1

    def log_column_mass(self) -> Array:
        """(K,) log sum_i mass_i p_ij, exact even where it underflows."""
        _, column, _, total = self.read(self.base)
        faint = np.flatnonzero(column < 1e-200)
        if len(faint):
            with np.errstate(divide="ignore"):
                log_row = np.log(self.mass) - np.log(total) - self.top
            terms = self.log_probs[:, faint] + log_row[:, None]
            top = terms.max(axis=0)
            column[faint] = 1.0
            logs = np.log(column)
            logs[faint] = top + np.log(np.exp(terms - top).sum(axis=0))
            return np.asarray(logs)
        return np.asarray(np.log(column))

    def weights(self, v: Array) -> Array:
        if np.abs(v - self.base).max() > ABSORB:
            self.absorb(v)
        return np.asarray(np.exp(v - self.base))

    def read(self, v: Array) -> tuple[float, Array, Array, Array]:
        """F without its linear term, the column masses, w, and each row's normaliser, at v."""
        w = self.weights(v)
        total = np.empty(len(self.E))
        column = np.zeros(len(w))
        for rows in self.slabs:
            part = self.E[rows]
            total[rows] = part @ w
            column += (self.mass[rows] / total[rows]) @ part
        self.passes += 1
        value = float(self.mass @ (self.top + np.log(total)))
        return value, w * column, w, total

    def curvature(self, scale: Array, d: Array) -> Array:
        """E' diag(scale) E d: one read of the matrix per product."""
        out = np.zeros(len(d))
        for rows in self.slabs:
            part = self.E[rows]
            out += (scale[rows] * (part @ d)) @ part
        return out

    def gram(self, scale: Array) -> Array:
        """E' diag(scale) E as a whole."""
        root = np.sqrt(scale)
        out = np.zeros((self.E.shape[1], self.E.shape[1]))
        for rows in self.slabs:
            part = self.E[rows] * root[rows, None]
            out += part.T @ part
        return out

    def posterior(self, v: Array) -> Array:
        w = self.weights(v)
        r = self.E * w
        r /= r.sum(axis=1, keepdims=True)
        return r


def _newton(kernel: _Kernel, v: Array, q: Array, tol: float, max_passes: int) -> tuple[Array, float]:
    value, column, w, total = kernel.read(v)
    F, g = value - q @ v, column - q
    damping = 0.0
    while np.abs(g).max() > tol and kernel.passes < max_passes:
        base = kernel.base
        step = _step(kernel, column, w, total, g, damping)
        trial = v + step
        trial -= trial.max()
        new_value, new_column, new_w, new_total = kernel.read(trial)
        new_F, new_g = new_value - q @ trial, new_column - q
        promised = -float(g @ step) / 2
        lower = new_F <= F - 1e-4 * promised and promised > 1e-12 * (1.0 + abs(F))
        level = new_F <= F + 1e-9 * (1.0 + abs(F))  # near the optimum F is flat to rounding
        if lower or (level and np.abs(new_g).max() <= 0.5 * np.abs(g).max()):
            v, F, g = trial, new_F, new_g
            column, w, total = new_column, new_w, new_total
            damping = 0.0 if damping < 1e-12 else damping / 16
        elif damping > 1e6:
            break  # rounding alone is left
        else:
            if kernel.base is not base:  # w and total belong to the kernel's base: the trial moved it
                _, column, w, total = kernel.read(v)
            damping = max(16 * damping, 1e-8)
    return v, float(np.abs(g).max())


def _step(kernel: _Kernel, column: Array, w: Array, total: Array, g: Array, damping: float) -> Array:
    """The damped Newton step; F is constant along (1, ..., 1), which the added term fixes."""
    k = len(g)
    ridge = damping + 1e-300
    scale = kernel.mass / total**2
    if k <= DIRECT_CLASSES:
        H = -kernel.gram(scale) * w[:, None] * w
        H[np.diag_indices(k)] += column + ridge
        H += 1.0 / k**2
        step = np.linalg.lstsq(H, -g, rcond=None)[0]
        return np.asarray(step - step.mean())

    def product(d: Array) -> Array:
        return np.asarray((column + ridge) * d - w * kernel.curvature(scale, w * d) + d.mean() / k)

    return _conjugate_gradients(product, -g, 1.0 / (column + ridge + 1.0 / k**2))


def _conjugate_gradients(product: Callable[[Array], Array], b: Array, inverse_diagonal: Array) -> Array:
    """Solve product(x) = b to a tenth of a percent, preconditioned by a diagonal."""
    x = np.zeros_like(b)
    residual = b.copy()
    z = inverse_diagonal * residual
    d = z.copy()
    rho = float(residual @ z)
    enough = 1e-3 * np.linalg.norm(b)
    for _ in range(len(b)):
        image = product(d)
        curvature = float(d @ image)
        if curvature <= 0.0:
            break
        alpha = rho / curvature
        x += alpha * d
        residual -= alpha * image
        if np.linalg.norm(residual) <= enough:
            break
        z = inverse_diagonal * residual
        new_rho = float(residual @ z)
        d = z + (new_rho / rho) * d
        rho = new_rho
    return x if x.any() else inverse_diagonal * b
