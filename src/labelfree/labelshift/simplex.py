"""A quadratic over the probability simplex."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: How often a whole block may change sides without progress before single classes do.
PATIENCE = 3


def on_simplex(N: Array, b: Array) -> Array:
    """argmin pi' N pi / 2 - b' pi over pi >= 0, sum pi = 1, for N (K, K) positive semidefinite.

    Block principal pivoting: solve for the classes in play with the sum as the only constraint; those that
    come out negative leave, those outside that would help come in, all at once; where that stops making
    progress, one at a time. It takes a handful of solves, whatever K.

    Reference: Kim and Park, Fast Nonnegative Matrix Factorization: An Active-Set-Like Method and Comparisons,
    2011.

    >>> on_simplex(np.eye(3), np.array([.9, .5, -1.])).round(3).tolist()
    [0.7, 0.3, 0.0]
    """
    k = len(b)
    # A ridge against singular systems; where N is zero altogether (labels of one or two rows), any will do.
    N = N + (1e-12 * float(np.trace(N)) / k or 1.0) * np.eye(k)
    slack = 1e-11 * float(np.abs(N).max() + np.abs(b).max())
    inside = np.ones(k, dtype=bool)
    pi = np.zeros(k)
    fewest, patience = k + 1, PATIENCE
    for _ in range(20 + 5 * k):
        rows = np.flatnonzero(inside)
        u, w = np.linalg.solve(N[np.ix_(rows, rows)], np.column_stack([b[rows], np.ones(len(rows))])).T
        level = (u.sum() - 1.0) / w.sum()
        pi[:] = 0.0
        pi[rows] = u - level * w
        wrong = np.where(inside, pi < 0.0, N @ pi - b + level < -slack)
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        inside ^= wrong
    pi = np.maximum(pi, 0.0)
    return np.asarray(pi / pi.sum())
