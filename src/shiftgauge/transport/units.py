"""Masses as integers, so that moving mass never drifts and feasibility is exact.

One unit weighs about 2**-61 of the whole. A row's weight is multiplied by a power of two, which is exact for
equal rows and for integer weights, and rounded; class masses share the same total by largest remainders.
A class mass within rounding of a whole number of rows is taken to be that number: then no row needs splitting.
"""

from __future__ import annotations

from math import frexp

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.int64]

#: Prices are integers too: multiples of 2**-48, as in the kernels.
ONE = 1 << 48
#: The whole mass is below 2**62 units, so sums and differences of masses fit 64 bits.
TOTAL_BITS = 61


def row_unit(total_weight: float) -> float:
    """Units per weight: the power of two that brings the total just below 2**61.

    >>> row_unit(1000.0) * 1000 < 2**61 <= row_unit(1000.0) * 2000
    True
    """
    return float(2.0 ** min(TOTAL_BITS - frexp(total_weight)[1], 1000))


def class_units(class_mass: npt.NDArray[np.float64], total: int, whole: int) -> Units:
    """Share `total` units among the classes by their masses.

    Args:
        class_mass: (K,) summing to 1.
        total: the units that all rows have together.
        whole: the units of one whole row; masses within rounding of a multiple are snapped to it.

    >>> class_units(np.array([0.5, 0.3, 0.2]), 10, 1)
    array([5, 3, 2])
    """
    exact = class_mass * float(total)
    units = [int(x) for x in exact]
    counts = exact / whole
    snapped = np.rint(counts)
    near = np.abs(counts - snapped) <= 16 * np.finfo(float).eps * counts
    for j in np.flatnonzero(near):
        units[j] = int(snapped[j]) * whole
    free = np.flatnonzero(~near & (exact > 0))
    if len(free) == 0:
        free = np.flatnonzero(exact > 0)
    # Largest remainders; the float product leaves a few parts in 2**53 of the total to share out as well.
    each, odd = divmod(total - sum(units), len(free))
    for place, j in enumerate(free[np.argsort(np.floor(exact[free]) - exact[free], kind="stable")]):
        units[j] += each + (place < odd)
    top = max(range(len(units)), key=units.__getitem__)
    for cls, x in enumerate(units):
        if x < 0:
            units[top] += x
            units[cls] = 0
    return np.array(units, dtype=np.int64)
