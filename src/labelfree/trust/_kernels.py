"""The compiled passes behind the bootstrap: contiguous arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

# exp(-REACH) is nothing beside 1: classes further than REACH * eps behind the best take no part of a row.
REACH = 14.0


def kernel(function: F) -> F:
    """Compile without the interpreter lock; keep the machine code on disk where that is possible."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"nnan", "nsz", "contract"}}
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep it
        compiled = numba.njit(**options)(function)
    return compiled


@kernel
def softmax_at(z: Array, b: float, out: Array) -> None:
    """out_i = softmax(b z_i), for z (n, K) whose rows have maximum 0."""
    n, k = z.shape
    for i in range(n):
        total = 0.0
        for j in range(k):
            out[i, j] = np.exp(b * z[i, j])
            total += out[i, j]
        scale = 1.0 / total
        for j in range(k):
            out[i, j] *= scale


@kernel
def cumulants(z: Array, b: float, out: Array) -> None:
    """out_i (4,) the first four cumulants of z_i under softmax(b z_i), for z (n, K)."""
    n, k = z.shape
    p = np.empty(k)
    for i in range(n):
        total, mean = 0.0, 0.0
        for j in range(k):
            p[j] = np.exp(b * z[i, j])
            total += p[j]
            mean += p[j] * z[i, j]
        mean /= total
        m2, m3, m4 = 0.0, 0.0, 0.0
        for j in range(k):
            d = z[i, j] - mean
            w = p[j] / total
            m2 += w * d * d
            m3 += w * d * d * d
            m4 += w * d * d * d * d
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = mean, m2, m3, m4 - 3.0 * m2 * m2


@kernel
def smoothed_dual(P: Array, m: Array, u: Array, eps: float, held: Array, H: Array) -> float:
    """One pass of the smoothed transport dual at prices u.

    Returns sum_i m_i eps log sum_j exp((p_ij - u_j) / eps). Writes held (K,): the mass each class receives;
    H (K, K): eps times the Hessian, sum_i m_i (diag(x_i) - x_i x_i'), x_i = softmax((p_i - u) / eps).
    """
    n, k = P.shape
    x = np.empty(k)
    near = np.empty(k, np.int64)
    held[:] = 0.0
    H[:] = 0.0
    value = 0.0
    for i in range(n):
        if m[i] == 0.0:
            continue
        best, second, a = -np.inf, -np.inf, 0
        for j in range(k):
            v = P[i, j] - u[j]
            if v > best:
                second, best, a = best, v, j
            elif v > second:
                second = v
        if second < best - REACH * eps:
            held[a] += m[i]
            value += m[i] * best
            continue
        total, count = 0.0, 0
        for j in range(k):
            v = P[i, j] - u[j]
            if v >= best - REACH * eps:
                x[count] = np.exp((v - best) / eps)
                total += x[count]
                near[count] = j
                count += 1
        value += m[i] * (best + eps * np.log(total))
        for s in range(count):
            share = m[i] * x[s] / total
            held[near[s]] += share
            H[near[s], near[s]] += share
            for t in range(count):
                H[near[s], near[t]] -= share * x[t] / total
    return value


@kernel
def descend(P: Array, m: Array, q: Array, u: Array, eps: float, missed: float, rounds: int) -> None:
    """Minimise the smoothed dual over the prices u of the classes with mass, in place.

    Newton's method with Levenberg-Marquardt damping: a step is taken if the dual falls or the class masses
    are met better, and ends when they are missed by at most `missed` in total.
    """
    k = q.size
    held, H = np.empty(k), np.empty((k, k))
    next_held, next_H = np.empty(k), np.empty((k, k))
    trial, g = np.empty(k), np.empty(k)
    value = smoothed_dual(P, m, u, eps, held, H) + _held_value(q, u)
    damping = 1e-3
    for _ in range(rounds):
        off = _excess(q, held, g)
        if off <= missed:
            return
        A = H / eps
        for j in range(k):
            A[j, j] += damping + 1e-9
        step = np.linalg.solve(A, g)
        longest = np.abs(step).max()
        scale = 0.5 / longest if longest > 0.5 else 1.0
        for j in range(k):
            trial[j] = u[j] + scale * step[j] if q[j] > 0.0 else u[j]
        next_value = smoothed_dual(P, m, trial, eps, next_held, next_H) + _held_value(q, trial)
        if next_value < value or _excess(q, next_held, g) < off:
            u[:] = trial
            value = next_value
            held, next_held, H, next_H = next_held, held, next_H, H
            damping = max(damping / 10.0, 1e-9)
        else:
            damping *= 20.0
            if damping > 1e9:
                return


@kernel
def _held_value(q: Array, u: Array) -> float:
    """q' u over the classes with mass."""
    out = 0.0
    for j in range(q.size):
        if q[j] > 0.0:
            out += q[j] * u[j]
    return out


@kernel
def _excess(q: Array, held: Array, g: Array) -> float:
    """Write what each class with mass holds too much; return the sum of the absolute values."""
    out = 0.0
    for j in range(q.size):
        g[j] = held[j] - q[j] if q[j] > 0.0 else 0.0
        out += abs(g[j])
    return out


@kernel
def smoothed_plan(
    P: Array, m: Array, u: Array, eps: float, row: Array, cls: Array, mass: Array, cost: Array
) -> tuple[int, float, float]:
    """Write the smoothed plan as parts (row, class, mass, cost); return their number, cost and dual value.

    Parts under a millionth of a row are left to its largest part. The number is -1 where the room ran out.
    """
    n, k = P.shape
    x = np.empty(k)
    at, value, primal = 0, 0.0, 0.0
    for i in range(n):
        if at + k > row.size:
            return -1, 0.0, 0.0
        best, second, a = -np.inf, -np.inf, 0
        for j in range(k):
            v = P[i, j] - u[j]
            if v > best:
                second, best, a = best, v, j
            elif v > second:
                second = v
        value += m[i] * best
        kept = 1.0
        if second >= best - REACH * eps:
            total = 0.0
            for j in range(k):
                x[j] = np.exp((P[i, j] - u[j] - best) / eps)
                total += x[j]
            for j in range(k):
                share = x[j] / total
                if j != a and share > 1e-6:
                    row[at], cls[at], mass[at], cost[at] = i, j, share * m[i], 1.0 - P[i, j]
                    primal += mass[at] * cost[at]
                    kept -= share
                    at += 1
        row[at], cls[at], mass[at], cost[at] = i, a, kept * m[i], 1.0 - P[i, a]
        primal += mass[at] * cost[at]
        at += 1
    return at, primal, value


@kernel
def soft_pass(P: Array, m: Array, w: Array, held: Array, H: Array) -> float:
    """One pass of SCOT's convex problem at weights w: r_i = p_i w / sum, for small K.

    Returns sum_i m_i log sum_j p_ij w_j. Writes held (K,) = sum_i m_i r_i and the Hessian
    H (K, K) = diag(held) - sum_i m_i r_i r_i'.
    """
    n, k = P.shape
    r = np.empty(k)
    held[:] = 0.0
    H[:] = 0.0
    value = 0.0
    for i in range(n):
        if m[i] == 0.0:
            continue
        total = 0.0
        for j in range(k):
            r[j] = P[i, j] * w[j]
            total += r[j]
        value += m[i] * np.log(total)
        scale = 1.0 / total
        for j in range(k):
            r[j] *= scale
            held[j] += m[i] * r[j]
        for j in range(k):
            a = m[i] * r[j]
            for s in range(j + 1):
                H[j, s] -= a * r[s]
    for j in range(k):
        for s in range(j):
            H[s, j] = H[j, s]
        H[j, j] += held[j]
    return value


@kernel
def kept_by_prediction(P: Array, m: Array, w: Array, predictions: Array) -> float:
    """sum_i m_i r_{i, prediction_i} at weights w."""
    n, k = P.shape
    out = 0.0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += P[i, j] * w[j]
        a = predictions[i]
        out += m[i] * P[i, a] * w[a] / total
    return out
