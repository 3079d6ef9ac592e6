"""Passes over rows of the transport problem smoothed by eps: x_i = softmax((p_i - u) / eps)."""

from __future__ import annotations

import numpy as np

from shiftgauge.transport._kernels.base import Array, exact, inner, kernel

# exp(-REACH) is nothing beside 1: classes further than REACH * eps behind the best take no part of a row.
REACH = 14.0


@inner
def first_two(p: Array, u: Array) -> tuple[int, float, float]:
    """Return the first class with the largest p_j - u_j, that value, and the largest of the others."""
    best, second, a = -np.inf, -np.inf, 0
    for j in range(u.size):
        x = exact(p[j]) - u[j]
        if x > best:
            second, best, a = best, x, j
        elif x > second:
            second = x
    return a, best, second


@kernel
def smoothed_dual(
    P: Array, m: Array, u: Array, eps: float, held: Array, H: Array, x: Array, near: Array
) -> float:
    """One pass of the smoothed dual at prices u; return sum_i m_i eps log sum_j exp((p_ij - u_j) / eps).

    Shapes: P (n, K), m (n,), u (K,); out: held (K,) the mass each class receives, H (K, K) the Hessian in
    -u / eps, sum_i m_i (diag(x_i) - x_i x_i'); scratch: x (K,), near (K,) integers.
    """
    n, k = P.shape
    held[:] = 0.0
    H[:] = 0.0
    value = 0.0
    for i in range(n):
        if m[i] == 0.0:
            continue
        a, best, second = first_two(P[i], u)
        if second < best - REACH * eps:
            held[a] += m[i]
            value += m[i] * best
            continue
        total, count = 0.0, 0
        for j in range(k):
            v = exact(P[i, j]) - u[j]
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
def smoothed_plan(
    P: Array, m: Array, u: Array, eps: float, row: Array, cls: Array, mass: Array, cost: Array, x: Array
) -> tuple[int, float, float]:
    """Write the smoothed plan as parts; return their number, their cost, and sum_i m_i max_j (p_ij - u_j).

    Parts under a millionth of a row are left to its largest part. The number is -1 where the room ran out.
    Shapes: P (n, K), m (n,), u (K,); out: row, cls, mass, cost (room,); scratch: x (K,).
    """
    n, k = P.shape
    at, value, primal = 0, 0.0, 0.0
    for i in range(n):
        if at + k > row.size:
            return -1, 0.0, 0.0
        a, best, second = first_two(P[i], u)
        value += m[i] * best
        kept = 1.0
        if second >= best - REACH * eps:
            total = 0.0
            for j in range(k):
                x[j] = np.exp((exact(P[i, j]) - u[j] - best) / eps)
                total += x[j]
            for j in range(k):
                share = x[j] / total
                if j != a and share > 1e-6:
                    row[at], cls[at], mass[at], cost[at] = i, j, share * m[i], 1.0 - exact(P[i, j])
                    primal += mass[at] * cost[at]
                    kept -= share
                    at += 1
        row[at], cls[at], mass[at], cost[at] = i, a, kept * m[i], 1.0 - exact(P[i, a])
        primal += mass[at] * cost[at]
        at += 1
    return at, primal, value
