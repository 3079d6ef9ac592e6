"""Passes over rows: the best class at given prices, and the audit of a finished plan.

Each call handles the items lo..hi of a sample of every `step` rows (all rows when step is 1), so the caller
can share the work among threads and be interrupted between calls.
"""

from __future__ import annotations

import numpy as np

from shiftgauge.transport._kernels.base import FAR, ONE, Array, exact, fixed, inner, kernel, row_of

#: Classes per block.
BLOCK = 64


@inner
def top_two_of(p: Array, u: Array, lo: int, hi: int) -> tuple[int, int, int]:
    """Return the first class in lo..hi with the largest p_j - u_j, that value, and the largest of the others."""
    a, best, second = lo, -FAR, -FAR
    for j in range(lo, hi):  # selections, not branches
        x = fixed(p[j]) - u[j]
        second = max(second, min(best, x))
        a = j if x > best else a
        best = max(best, x)
    return a, best, second


@inner
def top_two(p: Array, u: Array) -> tuple[int, int, int]:
    """Return the first class with the largest p_j - u_j, that value, and the largest of the others.

    Shapes: p (K,) one row, u (K,) prices. Of many classes only the largest value of each block is found, by a
    loop that is vectorised; then the best block is looked at closely.
    """
    if u.size <= BLOCK:
        return top_two_of(p, u, np.int64(0), u.size)
    block, best, second = 0, -FAR, -FAR
    for lo in range(0, u.size, BLOCK):
        top = -FAR
        for j in range(lo, min(lo + BLOCK, u.size)):
            top = max(top, fixed(p[j]) - u[j])
        second = max(second, min(best, top))
        block = lo if top > best else block
        best = max(best, top)
    a, best, inner = top_two_of(p, u, block, min(block + BLOCK, u.size))
    return a, best, max(second, inner)


@inner
def share_tie(p: Array, u: Array, q: Array, best: int, i: int, a: int) -> int:
    """Choose among the classes of value `best` in proportion to their masses q, a if these have none.

    Masses of rows tie where a network is saturated. Shared in this way few of them have to move later. The
    golden ratio spreads the choices evenly over rows, and makes them the same every time.
    """
    tied = 0.0
    for j in range(u.size):
        if fixed(p[j]) - u[j] == best:
            tied += q[j]
    place = (i + 1) * 0.6180339887498949
    left = (place - np.floor(place)) * tied
    for j in range(u.size):
        if fixed(p[j]) - u[j] == best and q[j] > 0.0:
            a = j
            left -= q[j]
            if left < 0.0:
                break
    return a


@kernel
def best_classes(
    P: Array,
    step: int,
    lo: int,
    hi: int,
    w: Array,
    unit: float,
    u: Array,
    q: Array,
    c: Array,
    m: Array,
    t: Array,
) -> None:
    """Give each row the class with the largest p_ij - u_j and record by how much it wins.

    Among equals the class that c already holds stays, otherwise they share by their masses q.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u, q (K,) prices and class masses, c (items,)
    the class, in and out (-1: none yet), m (items,) out, the margin to the runner-up, t (K,) out, the mass in
    units per class.
    """
    for i in range(lo, hi):
        r = row_of(i, step)
        a, best, second = top_two(P[r], u)
        if second == best:
            stays = c[i] >= 0 and fixed(P[r, c[i]]) - u[c[i]] == best
            a = c[i] if stays else share_tie(P[r], u, q, best, i, a)
        c[i] = a
        m[i] = (best - second) / ONE
        t[a] += np.int64(np.rint(w[r] * unit)) if w.size else np.int64(unit)


@kernel
def visit(
    P: Array, w: Array, unit: float, u: Array, T: Array, widest: Array, held: Array, keep: Array
) -> None:
    """Count the rows that keep their best class whatever price changes d with d_a - d_b <= T[a, b]; mark the others.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, T (K, K), widest (K,) the largest
    T of each row, held (K,) out: units of the rows counted, keep (n,) out: booleans.
    """
    for i in range(P.shape[0]):
        p = P[i]
        a, best, second = top_two(p, u)
        keep[i] = best - second <= widest[a]
        if keep[i]:
            least = FAR
            for b in range(u.size):
                least = min(least, best - (fixed(p[b]) - u[b]) - T[a, b] if b != a else FAR)
            keep[i] = least <= 0
        if not keep[i]:
            held[a] += np.int64(np.rint(w[i] * unit)) if w.size else np.int64(unit)


@kernel
def leeway(P: Array, w: Array, unit: float, u: Array, shift: Array, table: Array) -> None:
    """Count, for each class alone, by how much its price may rise until a row leaves it, or must fall until one comes.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, shift (K,) a bin is 2**shift wide,
    table (K, B) in and out: units per bin. Bin B/2 begins at 0; the last one is open, and what is below the first is
    left out.
    """
    B = table.shape[1]
    for i in range(P.shape[0]):
        p = P[i]
        a, best, second = top_two(p, u)
        units = np.int64(np.rint(w[i] * unit)) if w.size else np.int64(unit)
        for j in range(u.size):
            x = fixed(p[j]) - u[j] - (best if j != a else second)
            place = (x >> shift[j]) + B // 2
            if place >= 0:
                table[j, min(place, B - 1)] += units


@kernel
def first_best(P: Array, u: Array, c: Array) -> None:
    """Give each row the first class with the largest p_ij - u_j. Shapes: P (n, K), u (K,), c (n,) out."""
    for i in range(P.shape[0]):
        a, _, _ = top_two(P[i], u)
        c[i] = a


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
def may_move(P: Array, rows: Array, c: Array, u: Array, T: Array, out: Array) -> None:
    """Say which rows could prefer another class after price changes d with d_a - d_b <= T[a, b].

    Shapes: P (n, K), rows (m,), c (m,) their best classes at prices u (K,), T (K, K), out (m,) booleans.
    """
    for k in range(rows.size):
        p, a = P[rows[k]], c[k]
        own = fixed(p[a]) - u[a]
        least = FAR
        for b in range(u.size):
            least = min(least, own - (fixed(p[b]) - u[b]) - T[a, b] if b != a else FAR)
        out[k] = least <= 0


@kernel
def first_score(P: Array) -> float:
    """Read one score: the smallest kernel, to see whether the others are compiled already."""
    return exact(P[0, 0])
