"""Passes over rows: the best class at given prices, and the audit of a finished plan.

Each call handles the items lo..hi of a sample of every `step` rows (all rows when step is 1), so the caller
can share the work among threads and be interrupted between calls.
"""

from __future__ import annotations

import numpy as np

from labelfree.transport._kernels.base import Array, exact, kernel, row_of, score


@kernel
def best_classes(
    P: Array, step: int, lo: int, hi: int, w: Array, unit: float, u: Array, c: Array, m: Array, t: Array
) -> None:
    """Give each row the class with the largest p_ij - u_j and record by how much it wins.

    Among equals the class that c already holds stays, otherwise the lowest index wins.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, c (items,) the class, in and
    out (-1: none yet), m (items,) out, the margin to the runner-up, t (K,) out, the mass in units per class.
    """
    K = P.shape[1]
    for i in range(lo, hi):
        r = row_of(i, step)
        best, second, a = -np.inf, -np.inf, 0
        for j in range(K):
            v = score(P[r, j]) - u[j]
            if v > best:
                second, best, a = best, v, j
            elif v > second:
                second = v
        if second == best and c[i] >= 0 and score(P[r, c[i]]) - u[c[i]] == best:
            a = c[i]
        c[i] = a
        m[i] = best - second
        t[a] += np.int64(np.rint(w[r] * unit)) if w.size else np.int64(unit)


@kernel
def audit(P: Array, lo: int, hi: int, w: Array, u: Array, c: Array, cost: Array, held: Array) -> float:
    """Return sum_i w_i max_j (p_ij - u_j) over the rows lo..hi, on the scores as they came.

    Shapes: P (n, K), w (n,) or (0,) for ones, u (K,), c (n,) the assigned class, cost (n,) out: 1 - p_ic,
    held (K,) out: the mass w that each class receives if every row goes to c whole.
    """
    K = P.shape[1]
    total = 0.0
    for i in range(lo, hi):
        best = -np.inf
        for j in range(K):
            best = max(best, exact(P[i, j]) - u[j])
        weight = w[i] if w.size else 1.0
        cost[i] = 1.0 - exact(P[i, c[i]])
        held[c[i]] += weight
        total += weight * best
    return total


@kernel
def rows_of(items: Array, step: int) -> Array:
    """Return the rows that the given items of a sample mean."""
    rows = np.empty(items.size, np.int64)
    for k in range(items.size):
        rows[k] = row_of(items[k], step)
    return rows
