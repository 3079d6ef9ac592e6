"""Kernels of one pass over a block of rows: best classes at given prices, sums for Newton steps, smoothed plans."""

from __future__ import annotations

import numpy as np

from shiftgauge._compile import kernel_part, lean_kernel
from shiftgauge.transport._search_kernels import FAR, ONE, Array, fixed

#: Classes that are looked at together; many classes are searched tile by tile.
TILE = 64
#: exp(-REACH) is negligible beside 1: classes further than REACH * eps behind the best take no part of a row.
REACH = 14.0
#: Rows that are summed up before their sum is added, so that rounding errors stay small.
PARTIAL = 128
#: A row's smallest weighted sum of probabilities; below it only logarithms are reliable.
FAINT = 1e-200


# -- exact transport -----------------------------------------------------------------------------------------


@kernel_part
def top_two_of(p: Array, u: Array, lo: int, hi: int) -> tuple[int, int, int]:
    """Return the first class in lo..hi with the largest p_j - u_j, that value, and the largest of the others."""
    a, best, second = lo, -FAR, -FAR
    for j in range(lo, hi):  # selections, not branches
        x = fixed(p[j]) - u[j]
        second = max(second, min(best, x))
        a = j if x > best else a
        best = max(best, x)
    return a, best, second


@kernel_part
def top_two(p: Array, u: Array) -> tuple[int, int, int]:
    """Return the first class with the largest p_j - u_j, that value, and the largest of the others.

    Of many classes only the largest value of each tile is found, by a loop that is vectorised; then the best tile is
    searched.
    """
    if u.size <= TILE:
        return top_two_of(p, u, np.int64(0), u.size)
    tile, best, second = 0, -FAR, -FAR
    for lo in range(0, u.size, TILE):
        top = -FAR
        for j in range(lo, min(lo + TILE, u.size)):
            top = max(top, fixed(p[j]) - u[j])
        second = max(second, min(best, top))
        tile = lo if top > best else tile
        best = max(best, top)
    a, best, inner = top_two_of(p, u, tile, min(tile + TILE, u.size))
    return a, best, max(second, inner)


@kernel_part
def share_tie(p: Array, u: Array, q: Array, best: int, i: int, a: int) -> int:
    """Choose among the classes of value `best` in proportion to their masses q, a if these have none.

    Many rows tie where a network is saturated. Shared in this way few of them have to move later. The golden ratio
    spreads the choices evenly over rows, and makes them the same every time.
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


@kernel_part
def row_units(w: Array, unit: float, i: int) -> int:
    """The units of row i; w is (0,) for equal rows."""
    units: int = np.int64(np.rint(w[i] * unit)) if w.size else np.int64(unit)
    return units


@lean_kernel
def best_classes(P: Array, w: Array, unit: float, u: Array, q: Array, c: Array, m: Array, t: Array) -> None:
    """Give each row the class with the largest p_ij - u_j, ties by their masses q, and record by how much it wins.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u, q (K,) prices and class masses, c (n,) out, the
    class, m (n,) out, the margin to the runner-up, t (K,) in and out, units per class.
    """
    for i in range(P.shape[0]):
        a, best, second = top_two(P[i], u)
        if second == best:
            a = share_tie(P[i], u, q, best, i, a)
        c[i] = a
        m[i] = (best - second) / ONE
        t[a] += row_units(w, unit, i)


@lean_kernel
def may_move(
    P: Array, w: Array, unit: float, u: Array, T: Array, widest: Array, held: Array, keep: Array
) -> None:
    """Mark the rows whose best class could change under price changes d with d_a - d_b <= T[a, b]; count the others.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, T (K, K), widest (K,) the largest
    T of each row, held (K,) in and out: units of the rows that stay, keep (n,) out: booleans.
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
            held[a] += row_units(w, unit, i)


@lean_kernel
def price_histograms(P: Array, w: Array, unit: float, u: Array, shift: Array, table: Array) -> None:
    """Count, for each class alone, by how much its price may rise until a row leaves, or must fall until one enters.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, shift (K,) a bin is 2**shift wide,
    table (K, B) in and out: units per bin. Bin B/2 begins at 0; the last one is open, and what is below the first is
    left out.
    """
    B = table.shape[1]
    for i in range(P.shape[0]):
        p = P[i]
        a, best, second = top_two(p, u)
        units = row_units(w, unit, i)
        for j in range(u.size):
            x = fixed(p[j]) - u[j] - (best if j != a else second)
            place = (x >> shift[j]) + B // 2
            if place >= 0:
                table[j, min(place, B - 1)] += units


@lean_kernel
def first_best(P: Array, u: Array, c: Array) -> None:
    """Give each row the first class with the largest p_ij - u_j. Shapes: P (n, K), u (K,), c (n,) out."""
    for i in range(P.shape[0]):
        a, _, _ = top_two(P[i], u)
        c[i] = a


@lean_kernel
def audit_sums(P: Array, w: Array, u: Array, prices: Array, held: Array) -> tuple[float, float]:
    """Return sum_i w_i max_j (p_ij - prices_j) and the cost sum_i w_i (1 - p_ia), a the first best class at prices u.

    Shapes: P (n, K), w (n,) or (0,) for ones, u (K,) prices on the grid, prices (K,) the same as numbers, held (K,) in
    and out: the mass w that each class receives.
    """
    n, K = P.shape
    best, cost = 0.0, 0.0
    for lo in range(0, n, PARTIAL):
        part, paid = 0.0, 0.0
        for i in range(lo, min(lo + PARTIAL, n)):
            a, first, second = top_two(P[i], u)
            top = np.float64(P[i, a]) - prices[a]
            if first - second <= 1:  # as the scores came, before they were rounded, another may be better
                for j in range(K):
                    top = max(top, np.float64(P[i, j]) - prices[j])
            weight = w[i] if w.size else 1.0
            held[a] += weight
            part += weight * top
            paid += weight * (1.0 - np.float64(P[i, a]))
        best += part
        cost += paid
    return best, cost


# -- soft transport ------------------------------------------------------------------------------------------


@lean_kernel
def posterior_sums(
    P: Array, w: Array, m: Array, y: Array, r: Array, held: Array, square: Array
) -> tuple[float, float]:
    """Add up what a Newton step needs of r_i = p_i w / sum_k p_ik w_k.

    Returns:
        sum_i m_i log sum_j p_ij w_j, and sum_i m_i r_i of the prediction; NaN if a row's sum is too small.

    Shapes: P (n, K), w (K,), m (n,) masses or (0,) for ones, y (n,) predictions, r (K,) scratch, held (K,) in and out:
    sum_i m_i r_i; square (K, K) in and out, its lower triangle: sum_i m_i r_i r_i'.
    """
    n, K = P.shape
    value, kept = 0.0, 0.0
    for i in range(n):
        total = 0.0
        for j in range(K):
            r[j] = np.float64(P[i, j]) * w[j]
            total += r[j]
        if total < FAINT:
            return np.nan, np.nan
        mass = m[i] if m.size else 1.0
        value += mass * np.log(total)
        for j in range(K):
            r[j] /= total
            held[j] += mass * r[j]
        for j in range(K):
            share = mass * r[j]
            for k in range(j + 1):
                square[j, k] += share * r[k]
        kept += mass * r[y[i]]
    return value, kept


# -- transport smoothed by eps: x_i = softmax((p_i - u) / eps) -------------------------------------------------


@kernel_part
def first_two(p: Array, u: Array) -> tuple[int, float, float]:
    """Return the first class with the largest p_j - u_j, that value, and the largest of the others."""
    best, second, a = -np.inf, -np.inf, 0
    for j in range(u.size):
        x = np.float64(p[j]) - u[j]
        if x > best:
            second, best, a = best, x, j
        elif x > second:
            second = x
    return a, best, second


@lean_kernel
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
            v = np.float64(P[i, j]) - u[j]
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


@lean_kernel
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
                x[j] = np.exp((np.float64(P[i, j]) - u[j] - best) / eps)
                total += x[j]
            for j in range(k):
                share = x[j] / total
                if j != a and share > 1e-6:
                    row[at], cls[at], mass[at], cost[at] = i, j, share * m[i], 1.0 - np.float64(P[i, j])
                    primal += mass[at] * cost[at]
                    kept -= share
                    at += 1
        row[at], cls[at], mass[at], cost[at] = i, a, kept * m[i], 1.0 - np.float64(P[i, a])
        primal += mass[at] * cost[at]
        at += 1
    return at, primal, value
