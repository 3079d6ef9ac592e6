"""Counts of two samples in cells, one pair of samples or a stack of them, and the least distance between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift.cells import Array, Indices
from shiftgauge.labelshift.simplex import on_simplex

#: How often the covariance is brought up to the shares.
TURNS = 4


@dataclass(frozen=True)
class Counts:
    """What the J test sees; leading axes are replicates.

    Attributes:
        A: (..., C, K) cell shares per label.
        n: (K,) source rows per label.
        h: (..., C) the target's cell shares.
        n_t: its rows.
    """

    A: Array
    n: Array
    h: Array
    n_t: float

    def smoothed(self) -> Array:
        """A with one pseudo-row per label spread like all rows: an unseen cell is not impossible."""
        pooled = (self.A @ self.n + self.h * self.n_t) / (self.n.sum() + self.n_t)
        return np.asarray((self.A * self.n + pooled[..., None]) / (self.n + 1.0))

    def drawn(self, rng: np.random.Generator, pi: Array) -> Counts:
        """Both samples anew, as many rows each, from the cells per label and their mixture with shares pi (..., K)."""
        A = self.smoothed()
        mixture = (A @ pi[..., None])[..., 0]
        rows, n_t = np.maximum(np.rint(self.n).astype(int), 1), max(1, round(self.n_t))
        per_label = np.swapaxes(A / A.sum(axis=-2, keepdims=True), -1, -2)
        labels = rng.multinomial(rows, per_label) / rows[:, None]
        h = rng.multinomial(n_t, mixture / mixture.sum(axis=-1, keepdims=True)) / n_t
        return Counts(np.swapaxes(labels, -1, -2), self.n, h, self.n_t)

    def sorted(self) -> tuple[Counts, Indices]:
        """The same counts with cells and labels in an order that their numbers decide, and the labels' order.

        So what is drawn from them with a seed does not depend on the order of the classes.
        """
        A, n, h = (np.round(x, 12) for x in (self.A, self.n, self.h))  # equal up to rounding is equal
        labels = np.lexsort([*np.sort(A, axis=0), n])
        cells = np.lexsort([*np.sort(A, axis=1).T, *A.T[labels], h])
        labels = np.lexsort([*A[cells], n])
        return Counts(self.A[np.ix_(cells, labels)], self.n[labels], self.h[cells], self.n_t), labels

    def repeated(self, times: int) -> Counts:
        """A stack of the same counts."""
        return Counts(
            np.broadcast_to(self.A, (times, *self.A.shape)),
            self.n,
            np.broadcast_to(self.h, (times, *self.h.shape)),
            self.n_t,
        )


def count(
    source_cells: Indices,
    labels: Indices,
    source_mass: Array,
    h: Array,
    n_t: float,
    cells: int,
    k: int,
) -> tuple[Counts, npt.NDArray[np.bool_]]:
    """The counts, and which labels have source rows; h (C,) are the target's cell shares, n_t its rows."""
    per_label = np.bincount(labels, weights=source_mass, minlength=k)
    seen = per_label > 0.0
    joint = np.bincount(source_cells * k + labels, weights=source_mass, minlength=cells * k).reshape(cells, k)
    square = np.bincount(labels, weights=source_mass**2, minlength=k)
    rows = per_label[seen] ** 2 / square[seen]  # Kish: rows, or less where weights differ
    A = joint[:, seen] / per_label[seen]
    return Counts(A, rows, h / h.sum(), n_t), seen


def minimum(counts: Counts, start: Array | None = None) -> tuple[Array, Array]:
    """J (...) and its label shares (..., K), by generalised least squares with the covariance updated in turns.

    From given shares, which are near, half the turns do.
    """
    A, k = counts.A, counts.A.shape[-1]
    lead = counts.h.shape[:-1]
    if counts.h.shape[-1] < 2:
        return np.zeros(lead), np.full((*lead, k), 1.0 / k) if start is None else start
    smooth = counts.smoothed()
    if start is None:
        # A multinomial covariance, so that it does not matter which cell is the last.
        p = np.maximum(counts.h, 0.5 / counts.n_t)
        p = (p / p.sum(axis=-1, keepdims=True))[..., :-1]
        V = p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
    else:
        V = covariance(counts, smooth, start)
    for _ in range(TURNS if start is None else TURNS // 2):
        pi = shares_given(A[..., :-1, :], counts.h[..., :-1], V)
        V = covariance(counts, smooth, pi)
    gap = (counts.h - (A @ pi[..., None])[..., 0])[..., :-1]
    return np.maximum((gap * solved(V, gap[..., None])[..., 0]).sum(axis=-1), 0.0), pi


def covariance(counts: Counts, A: Array, pi: Array) -> Array:
    """(..., C-1, C-1) V(pi), without the last cell, which the others determine."""
    h0 = np.maximum((A @ pi[..., None])[..., 0], 1e-12)
    scale = pi**2 / counts.n
    V = -(A * scale[..., None, :]) @ np.swapaxes(A, -1, -2)
    V -= h0[..., :, None] * h0[..., None, :] / counts.n_t
    cell = np.arange(h0.shape[-1])
    V[..., cell, cell] += h0 / counts.n_t + (A @ scale[..., None])[..., 0]
    return np.asarray(V[..., :-1, :-1])


def solved(V: Array, right: Array) -> Array:
    """V^-1 right; the ridge keeps an all but empty cell from making V singular.

    V is zero if every row is in one cell; the difference of the shares is zero then too, and any ridge will do.
    """
    size = V.shape[-1]
    ridge = 1e-10 * np.trace(V, axis1=-2, axis2=-1) / size
    ridge = np.where(ridge > 0.0, ridge, 1.0)
    return np.asarray(np.linalg.solve(V + ridge[..., None, None] * np.eye(size), right))


def shares_given(X: Array, y: Array, V: Array) -> Array:
    """argmin (y - X pi)' V^-1 (y - X pi) over pi >= 0, sum pi = 1."""
    W = solved(V, np.concatenate([X, y[..., None]], axis=-1))
    N = np.swapaxes(X, -1, -2) @ W
    return on_simplex(N[..., :-1], N[..., -1])
