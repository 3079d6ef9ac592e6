"""Calibrated probabilities and the largest score of each row in one pass that stays in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.jit import compiled

Array = npt.NDArray[Any]

#: Entries that are worked on at a time, so that they stay in the nearest cache.
TILE_ENTRIES = 2048
#: Entries that are summed before they are added to a row's total, so that rounding errors stay small with many classes.
PARTIAL_SUM = 32
#: Added to a double below 2**51 and subtracted again, it rounds to a whole number, which its bits then hold.
ROUND = 1.5 * 2.0**52
ROUND_BITS = int(np.float64(ROUND).view(np.int64))
LOG2_E = 1.4426950408889634
#: log 2 in two parts: whole multiples of the first are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@compiled
def exp(x: float) -> float:
    """e**x for x <= 0, to one unit in the last place: e**r 2**n with |r| <= log(2) / 2, by Taylor's series.

    No branch and no call, so that the compiler works on several at a time: `benchmarks/image_input.py` has the factor.
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
    result: float = s * first * second
    return result


@compiled
def softmax_and_argmax(R: Array, Z: Array, T: float, P: Array, y: Array) -> None:
    """Write softmax(Z / T) row by row, and the first largest entry of each row of R.

    Shapes: R (n, K) the scores as given, Z (n, K) log-scores in the same order (R itself for logits), P (n, K) out,
    y (n,) out.
    """
    n, K = R.shape
    step = max(1, TILE_ENTRIES // K)
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
            for first in range(0, K, PARTIAL_SUM):
                partial = 0.0
                for j in range(first, min(first + PARTIAL_SUM, K)):
                    partial += P[i, j]
                total += partial
            for j in range(K):
                P[i, j] /= total


@compiled
def argmax_and_deviation(P: Array, y: Array) -> float:
    """Write the first largest entry of each row of P (n, K) to y (n,); return the largest |row sum - 1|."""
    n, K = P.shape
    deviation = 0.0
    for i in range(n):
        a, top, total = 0, P[i, 0], np.float64(P[i, 0])
        for j in range(1, K):
            a = j if P[i, j] > top else a
            top = max(top, P[i, j])
            total += P[i, j]
        y[i] = a
        deviation = max(deviation, abs(total - 1.0))
    return deviation
