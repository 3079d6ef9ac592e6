"""Quadratics over the probability simplex, one or a stack of them, and quadratics with lower bounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: How often a whole block may change sides without progress before single classes do.
FULL_EXCHANGES = 3
#: Pivots of one bounded minimum.
MOST_PIVOTS = 60


def on_simplex(N: Array, b: Array) -> Array:
    """argmin pi' N pi / 2 - b' pi over pi >= 0, sum pi = 1, for N (..., K, K) positive semidefinite, b (..., K).

    Block principal pivoting: solve for the classes in play with the sum as the only constraint; those that
    come out negative leave, those outside that would help come in, all at once; where that stops making
    progress, one at a time. It takes a handful of solves, whatever K, and as many for a stack of problems.

    Reference: Kim and Park, Fast Nonnegative Matrix Factorization: An Active-Set-Like Method and Comparisons,
    2011.

    >>> on_simplex(np.eye(3), np.array([.9, .5, -1.])).round(3).tolist()
    [0.7, 0.3, 0.0]
    """
    k = b.shape[-1]
    right = np.asarray(b, dtype=np.float64).reshape(-1, k)
    left = np.asarray(N, dtype=np.float64).reshape(-1, k, k)
    # A ridge against singular systems; where N is zero altogether (labels of one or two rows), any will do.
    ridge = 1e-12 * np.trace(left, axis1=1, axis2=2) / k
    ridge = np.where(ridge > 0.0, ridge, 1.0)
    left = left + ridge[:, None, None] * np.eye(k)
    pi = np.maximum(_pivoted(left, right), 0.0)
    return np.asarray((pi / pi.sum(axis=1, keepdims=True)).reshape(b.shape))


def _pivoted(N: Array, b: Array) -> Array:
    """(m, K) the minima of m problems; those that are done are left alone while the others go on."""
    m, k = b.shape
    slack = 1e-11 * (np.abs(N).max(axis=(1, 2)) + np.abs(b).max(axis=1))
    inside = np.ones((m, k), dtype=bool)
    pi = np.zeros((m, k))
    fewest, exchanges = np.full(m, k + 1), np.full(m, FULL_EXCHANGES)
    todo = np.arange(m)
    for _ in range(20 + 5 * k):
        pi[todo], level = _equality(N[todo], b[todo], inside[todo])
        slope = np.einsum("mij,mj->mi", N[todo], pi[todo]) - b[todo] + level[:, None]
        wrong = np.where(inside[todo], pi[todo] < 0.0, slope < -slack[todo, None])
        count = wrong.sum(axis=1)
        left = count > 0
        todo, wrong, count = todo[left], wrong[left], count[left]
        if not len(todo):
            break
        better = count < fewest[todo]
        stuck = ~better & (exchanges[todo] == 0)
        exchanges[todo] = np.where(better, FULL_EXCHANGES, np.maximum(exchanges[todo] - 1, 0))
        fewest[todo] = np.minimum(fewest[todo], count)
        last = k - 1 - wrong[:, ::-1].argmax(axis=1)
        wrong[stuck] = np.arange(k) == last[stuck, None]
        inside[todo] ^= wrong
    return pi


def _equality(N: Array, b: Array, inside: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Minima with the sum as the only constraint and the classes outside held at 0; and its multiplier."""
    k = b.shape[1]
    held = np.where(inside[:, :, None] & inside[:, None, :], N, 0.0) + np.where(
        inside[:, None, :], 0.0, np.eye(k)
    )
    both = np.stack([np.where(inside, b, 0.0), inside.astype(np.float64)], axis=2)
    u, w = np.moveaxis(np.linalg.solve(held, both), 2, 0)
    level = (u.sum(axis=1) - 1.0) / w.sum(axis=1)
    return u - level[:, None] * w, level


def bounded_minimum(N: Array, g: Array, lower: Array) -> Array:
    """argmin d' N d / 2 - g' d over d >= lower, for N (K, K) positive definite; block pivoting as above.

    After MOST_PIVOTS the point within the bounds is returned as it is: the caller checks the step to it.

    >>> bounded_minimum(np.eye(2), np.array([1., -3.]), np.array([-2., -2.])).tolist()
    [1.0, -2.0]
    """
    k = len(g)
    slack = 1e-12 * (np.abs(g) + np.abs(N) @ np.abs(lower))
    inside, fewest, exchanges = g > np.diag(N) * lower, k + 1, FULL_EXCHANGES  # right if N were diagonal
    d = lower.copy()
    for _ in range(MOST_PIVOTS):
        d = lower.copy()
        d[inside] = np.linalg.solve(
            N[np.ix_(inside, inside)], g[inside] - N[np.ix_(inside, ~inside)] @ lower[~inside]
        )
        wrong = np.flatnonzero(np.where(inside, d < lower, N @ d - g < -slack))
        if not len(wrong):
            break
        if len(wrong) < fewest:
            fewest, exchanges = len(wrong), FULL_EXCHANGES
        elif exchanges:
            exchanges -= 1
        else:
            wrong = wrong[-1:]
        inside[wrong] ^= True
    return np.asarray(np.maximum(d, lower))
