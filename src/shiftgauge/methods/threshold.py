"""The threshold shared by ATC and COTT: as much of the source beyond it as the source has errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Values closer than this are equal up to rounding: the same probability reached in another order.
TIE = 1e-12


@dataclass(frozen=True)
class Threshold:
    """Values at or above `value` count as errors.

    Attributes:
        value: the threshold.
        share: the share of the source at or above it.
        identified: False where it lies just beyond every source value.
    """

    value: float
    share: float
    identified: bool


def threshold_at_share(values: Array, mass: Array, share: float) -> Threshold:
    """The threshold whose share of the mass, at or above it, is nearest to `share`; equally near, the larger.

    Rows with equal values stay on one side. The empty share is allowed: its threshold lies just above the
    largest value.

    Args:
        values: (m,) large where errors are likely.
        mass: (m,) masses that sum to 1.
        share: the source error.

    >>> threshold_at_share(np.array([.1, .4, .4, .9]), np.full(4, .25), .25)
    Threshold(value=0.9, share=0.25, identified=True)
    >>> threshold_at_share(np.array([.1, .4, .4, .9]), np.full(4, .25), .5)  # 1/4 and 3/4 are equally near
    Threshold(value=0.4, share=0.75, identified=True)
    """
    order = np.argsort(-values, kind="stable")
    order = order[mass[order] > 0.0]
    falling, above = values[order], np.cumsum(mass[order])
    last = np.append(np.diff(falling) < -TIE, True)  # the last row of each group of equal values
    levels = falling[last]
    shares = np.append(0.0, above[last])
    distance = np.abs(shares - share)
    best = int(np.flatnonzero(distance <= distance.min() + TIE)[-1])
    if best == 0:
        return Threshold(float(falling[0] + 2 * TIE), 0.0, False)
    return Threshold(float(levels[best - 1]), float(min(shares[best], 1.0)), True)
