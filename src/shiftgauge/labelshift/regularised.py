"""RLLS: BBSE with a penalty on how far the class weights leave 1."""

from __future__ import annotations

import numpy as np

from shiftgauge.labelshift.confusion import Array, normalised

#: The authors' settings: confidence 1 - DELTA, and this share of the theoretical penalty.
DELTA, SHARE = 0.05, 0.01
#: Ridge regressions, at most.
ROUNDS = 500


def penalty(k: int, n_source: float) -> float:
    """The weight of the penalty: a share of 3 [2 log(2K/delta) / (3n) + sqrt(2 log(2K/delta) / n)]."""
    log = 2.0 * np.log(2.0 * k / DELTA)
    return float(SHARE * 3.0 * (log / (3.0 * n_source) + np.sqrt(log / n_source)))


def rlls(confusion: Array, pseudo_labels: Array, n_source: float, rho: float | None = None) -> Array:
    """Regularised learning under label shift: the class weights w = 1 + theta with theta the minimiser of

        |C theta - (h - C 1)|_2 + rho |theta|_2    subject to    theta >= -1,

    and pi_c = w_c q_c, renormalised. Each norm is |x| = min_s (|x|^2 / s + s) / 2, so the problem is jointly
    convex in (theta, s, s'): in turns a ridge regression with a bound, and the two norms.

    Args:
        confusion: (K, K) C, the source's joint shares, predictions in rows, labels in columns.
        pseudo_labels: (K,) h, the target's shares of predictions.
        n_source: the source's effective number of rows.
        rho: the penalty's weight; by default the authors' (`penalty`).

    Returns:
        (K,) the target's label shares.

    Reference: Azizzadenesheli, Liu, Yang and Anandkumar, Regularized Learning for Domain Adaptation under
    Label Shifts, 2019.

    >>> C = np.array([[.4, .1], [.1, .4]])
    >>> rlls(C, C @ np.array([1.6, .4]), n_source=1e12).round(3).tolist()
    [0.8, 0.2]
    """
    q = confusion.sum(axis=0)
    k = len(q)
    rho = penalty(k, n_source) if rho is None else rho
    b = pseudo_labels - confusion.sum(axis=1)
    theta = minimise_penalised(confusion, b, rho)
    return normalised(q * (1.0 + theta), q)


def minimise_penalised(C: Array, b: Array, rho: float) -> Array:
    """(K,) the theta >= -1 that minimises ||C theta - b|| + rho ||theta||."""
    k = len(b)
    size = float(np.linalg.norm(b))
    if size == 0.0 or float(np.linalg.norm(C.T @ b)) <= rho * size:  # 0 lies in the subdifferential at 0
        return np.zeros(k)
    ridge = rho
    theta = np.zeros(k)
    for _ in range(ROUNDS):
        theta = _bounded_ridge(C, b, ridge)
        length = float(np.linalg.norm(theta))
        residual = float(np.linalg.norm(C @ theta - b))
        if length == 0.0:
            break
        new = max(rho * residual / length, 1e-15)
        if abs(new - ridge) <= 1e-10 * ridge:
            break
        ridge = new
    return theta


def _bounded_ridge(C: Array, b: Array, ridge: float) -> Array:
    """argmin |C theta - b|^2 + ridge |theta|^2 subject to theta >= -1."""
    k = len(b)
    stacked = np.vstack([C, np.sqrt(ridge) * np.eye(k)])
    right = np.concatenate([b, np.zeros(k)])
    free = np.linalg.lstsq(stacked, right, rcond=None)[0]
    if free.min() >= -1.0:
        return np.asarray(free)
    from scipy.optimize import nnls

    return np.asarray(nnls(stacked, right + stacked @ np.ones(k), maxiter=50 * k)[0] - 1.0)
