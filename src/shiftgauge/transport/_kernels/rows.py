"""Rows of scores as probabilities: one pass that stays in the cache, for data that is read again and again."""

from __future__ import annotations

import numpy as np

from shiftgauge.transport._kernels.base import Array, exact, inner, kernel

#: Entries that are worked on at a time: they stay in the nearest cache.
SLAB = 2048
#: Terms that are added up before their sum is: rounding grows with these and their number, not with all terms.
PARTIAL = 32
#: Added to a double below 2**51 and taken off again, it rounds to a whole number, which its bits then hold.
ROUND = 1.5 * 2.0**52
ROUND_BITS = int(np.float64(ROUND).view(np.int64))
LOG2_E = 1.4426950408889634
#: log 2 in two parts: whole multiples of the first are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@inner
def exp(x: float) -> float:
    """e**x for x <= 0, to one unit in the last place: e**r 2**n with |r| <= log(2) / 2, by Taylor's series.

    No branch and no call, so that the compiler may work on several at a time.
    """
    shifted = max(x, -760.0) * LOG2_E + ROUND
    n = shifted - ROUND
    r = (max(x, -760.0) - n * LN2_HIGH) - n * LN2_LOW
    s = 1.0 / 6227020800.0
    s = s * r + 1.0 / 479001600.0
    s = s * r + 1.0 / 39916800.0
    s = s * r + 1.0 / 3628800.0
    s = s * r + 1.0 / 362880.0
    s = s * r + 1.0 / 40320.0
    s = s * r + 1.0 / 5040.0
    s = s * r + 1.0 / 720.0
    s = s * r + 1.0 / 120.0
    s = s * r + 1.0 / 24.0
    s = s * r + 1.0 / 6.0
    s = s * r + 0.5
    s = s * r * r + r + 1.0
    # 2**n in two steps, since it may be smaller than any double of full precision.
    whole = np.float64(shifted).view(np.int64) - ROUND_BITS
    half = whole >> 1
    first = np.int64((half + 1023) << 52).view(np.float64)
    second = np.int64((whole - half + 1023) << 52).view(np.float64)
    found: float = s * first * second
    return found


@kernel
def softmaxed(R: Array, Z: Array, T: float, P: Array, y: Array) -> None:
    """Write softmax(Z / T) row by row, and the first largest of each row of R.

    Shapes: R (n, K) the scores as they came, Z (n, K) log-scores that rise and fall with them (R itself, of logits),
    P (n, K) out, y (n,) out.
    """
    n, K = R.shape
    step = max(np.int64(1), np.int64(SLAB // K))
    for lo in range(0, n, step):
        hi = min(lo + step, n)
        for i in range(lo, hi):
            a, top = 0, R[i, 0]
            for j in range(1, K):
                a = j if R[i, j] > top else a
                top = max(top, R[i, j])
            y[i] = a
            largest = np.float64(Z[i, 0])
            for j in range(1, K):
                largest = max(largest, np.float64(Z[i, j]))
            largest /= T
            for j in range(K):
                P[i, j] = np.float64(Z[i, j]) / T - largest
        flat = P[lo:hi].reshape((hi - lo) * K)
        for e in range(flat.size):
            flat[e] = exp(flat[e])
        for i in range(lo, hi):
            total = 0.0
            for first in range(0, K, PARTIAL):
                part = 0.0
                for j in range(first, min(first + PARTIAL, K)):
                    part += P[i, j]
                total += part
            for j in range(K):
                P[i, j] /= total


@kernel
def weighed(
    P: Array, w: Array, m: Array, y: Array, r: Array, held: Array, square: Array
) -> tuple[float, float]:
    """Add up what a Newton step needs of r_i = p_i w / sum_k p_ik w_k.

    Returns:
        sum_i m_i log sum_j p_ij w_j, and sum_i m_i r_i of the prediction.

    Shapes: P (n, K), w (K,), m (n,) masses or (0,) for ones, y (n,) predictions or (0,) for none, r (K,) to work in,
    held (K,) out: sum_i m_i r_i; square (K, K) out, its lower triangle: sum_i m_i r_i r_i'.
    """
    n, K = P.shape
    value, kept = 0.0, 0.0
    for i in range(n):
        total = 0.0
        for j in range(K):
            r[j] = exact(P[i, j]) * w[j]
            total += r[j]
        mass = m[i] if m.size else 1.0
        value += mass * np.log(total)
        for j in range(K):
            r[j] /= total
            held[j] += mass * r[j]
        for j in range(K):
            share = mass * r[j]
            for k in range(j + 1):
                square[j, k] += share * r[k]
        if y.size:
            kept += mass * r[y[i]]
    return value, kept
