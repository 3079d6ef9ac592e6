"""Soft transport of rows to labels: the projection behind SCOT.

Rows go to labels at cost -log p_ij with entropic regularisation 1 and prescribed label masses q. The
optimal plan re-weights each row's probabilities by one weight per class,

    r_ij = p_ij w_j / sum_k p_ik w_k,    with w such that  sum_i mass_i r_ij = q_j,

found in v = log w by `_newton`. The same projection adjusts a classifier to a known class distribution
(Heiser, Allikivi and Kull, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.transport._newton import Array, Reading, newton

#: Up to this many classes the Newton system is solved directly; beyond, by conjugate gradients.
DIRECT_CLASSES = 256
#: Numbers per slab of rows, small enough to stay in cache between its two uses; and the classes that are many.
SLAB, WIDE = 1 << 16, 128
#: Products of matrices below this many multiplications are not split among threads by the linear algebra
#: library, which on busy cores would wait for its threads far longer than it works.
ALONE = 1 << 18
#: What a probability of zero counts as where its logarithm is needed and none was given.
TINY = 1e-300
#: Weights are absorbed into the kernel before they can overflow: |log w| stays below this.
ABSORB = 200.0

#: A row whose largest probability is below this is read by its logarithms.
FAINT = 1e-100


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
    log_probs: Array | None,
    class_mass: Array,
    row_mass: Array,
    *,
    probs: npt.NDArray[Any] | None = None,
    start: Array | None = None,
    tol: float = 1e-10,
    max_passes: int = 500,
) -> SoftTransport:
    """Solve for the class weights by a damped Newton method.

    Without a start, one step of iterative scaling in the log domain begins it: it puts every label within
    reach, even one that all rows find next to impossible.

    Args:
        log_probs: (n, K) finite log-probabilities, up to a constant per row; None if probs are given.
        class_mass: (K,) label masses q, summing to 1.
        row_mass: (n,) row masses, summing to 1.
        probs: (n, K) the same as probabilities, where they are at hand: saves taking exponentials. Logs are
            then needed only where a weight is so large or small that probabilities would not do.
        start: (K,) log-weights to start from, such as those of an earlier plan.
        tol: the largest marginal error to leave.
        max_passes: give up after this many passes and return the best plan found.

    >>> p = np.array([[.8, .2], [.6, .4]])
    >>> plan = soft_transport(np.log(p), np.array([.5, .5]), np.array([.5, .5]))
    >>> plan.posterior.mean(axis=0).round(9).tolist()
    [0.5, 0.5]
    """
    live = class_mass > 0.0
    q = class_mass[live]
    if not live.all():
        log_probs, probs = (None if x is None else x[:, live] for x in (log_probs, probs))
        if log_probs is None and probs is not None and probs.max(axis=1).min() < FAINT:
            # A row that believed in a label without mass: what is left of it squares to nothing.
            log_probs, probs = np.log(np.maximum(probs, TINY, dtype=np.float64)), None
        start = None if start is None else start[live]
    kernel = _Kernel(log_probs, row_mass, probs)
    v = np.log(q) - kernel.log_column_mass() if start is None else np.maximum(start, -ABSORB)
    found = newton(kernel.read, v - v.max(), q, tol=tol, more=lambda: kernel.passes < max_passes)
    log_weights = np.full(len(live), -np.inf)
    log_weights[live] = found.v
    return SoftTransport(_spread(kernel.posterior(found.v), live), log_weights, found.error, kernel.passes)


def _spread(posterior: Array, live: npt.NDArray[np.bool_]) -> Array:
    """Zero columns for the labels without mass."""
    if live.all():
        return posterior
    out = np.zeros((len(posterior), len(live)))
    out[:, live] = posterior
    return out


class _Kernel:
    """E_ij = exp(log p_ij + base_j - top_i), kept near the current weights so that nothing overflows."""

    def __init__(self, log_probs: Array | None, mass: Array, probs: npt.NDArray[Any] | None) -> None:
        self._given, self.mass, self.passes = log_probs, mass, 0
        if probs is not None:
            n, k = probs.shape
            self.base, self.top, self.E = np.zeros(k), np.zeros(n), probs
        else:
            assert log_probs is not None
            self._absorb(np.zeros(log_probs.shape[1]))
        self.step = max(1, SLAB // self.E.shape[1])

    @property
    def log_probs(self) -> Array:
        """(n, K) those given; or the logs of the probabilities, which are then still in E."""
        if self._given is None:
            self._given = np.log(np.maximum(self.E, TINY, dtype=np.float64))
        return self._given

    def _absorb(self, base: Array) -> None:
        """Recompute E around the log-weights `base`."""
        self.base = base.copy()
        self.E = self.log_probs + base
        self.top = self.E.max(axis=1)
        self.E -= self.top[:, None]
        np.exp(self.E, out=self.E)
        self.passes += 1

    def log_column_mass(self) -> Array:
        """(K,) log sum_i mass_i p_ij, exact even where it underflows."""
        _, column, total = self._sums(np.ones(len(self.base)))
        faint = np.flatnonzero(column < 1e-200)
        logs = np.log(np.where(column < 1e-200, 1.0, column))
        if len(faint):
            with np.errstate(divide="ignore"):
                log_row = np.log(self.mass) - np.log(total) - self.top
            terms = self.log_probs[:, faint] + log_row[:, None]
            top = terms.max(axis=0)
            logs[faint] = top + np.log(np.exp(terms - top).sum(axis=0))
        return np.asarray(logs)

    def _weights(self, v: Array) -> Array:
        if np.abs(v - self.base).max() > ABSORB:
            self._absorb(v)
        return np.asarray(np.exp(v - self.base))

    def read(self, v: Array) -> Reading:
        """The dual at v."""
        w = self._weights(v)
        value, held, total = self._sums(w)
        E, scale = self.E, self.mass / total**2  # of this v: the next one may come with another E
        if len(w) > DIRECT_CLASSES:
            return Reading(
                value, held, product=lambda d: held * d - w * _curvature(E, scale, w * d, self.step)
            )
        return Reading(value, held, lambda: np.diag(held) - gram(E, scale) * w[:, None] * w)

    def _sums(self, w: Array) -> tuple[float, Array, Array]:
        """F without its linear term, the column masses, and each row's normaliser, at weights w."""
        total = np.empty(len(self.E))
        column = np.zeros(len(w))
        for lo in range(0, len(total), self.step):
            rows = slice(lo, lo + self.step)
            part = self.E[rows]
            total[rows] = part @ w
            column += (self.mass[rows] / total[rows]) @ part
        self.passes += 1
        return float(self.mass @ (self.top + np.log(total))), w * column, total

    def posterior(self, v: Array) -> Array:
        r = self.E * self._weights(v)
        r *= (1.0 / np.einsum("ij->i", r))[:, None]
        return np.asarray(r)


def slab(k: int) -> int:
    """Rows that are worked on at a time: few enough for the cache, or enough to pay for K x K sums."""
    return max(1, (SLAB if k <= WIDE else 8 * SLAB) // k)


def gram(E: npt.NDArray[Any], scale: Array) -> Array:
    """(K, K) E' diag(scale) E, for scale >= 0."""
    n, k = E.shape
    root = np.sqrt(scale)
    step = slab(k)
    if ALONE // k**2 >= 16:
        step = min(step, ALONE // k**2)
    out = np.zeros((k, k))
    for lo in range(0, n, step):
        part = E[lo : lo + step] * root[lo : lo + step, None]
        out += part.T @ part
    return out


def _curvature(E: npt.NDArray[Any], scale: Array, d: Array, step: int) -> Array:
    """(K,) E' diag(scale) E d: one read of the matrix."""
    out = np.zeros(len(d))
    for lo in range(0, len(E), step):
        part = E[lo : lo + step]
        out += (scale[lo : lo + step] * (part @ d)) @ part
    return out
