"""The cut shared by ATC and COTT: as much of the source beyond it as the source has errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """Values at or above `value` count as errors.

    Attributes:
        value: the cut.
        share: the share of the source at or above it.
        identified: False where the cut lies just beyond every source value.
    """

    value: float
    share: float
    identified: bool


def cut_at_share(values: Array, mass: Array, share: float) -> Cut:
    """The cut whose share of the mass, at or above it, is nearest to `share`; equally near, the larger.

    Rows with equal values stay on one side. The empty share is allowed: its cut lies just above the
    largest value.

    Args:
        values: (m,) large where errors are likely.
        mass: (m,) masses that sum to 1.
        share: the source error.

    >>> cut_at_share(np.array([.1, .4, .4, .9]), np.full(4, .25), .25)
    Cut(value=0.9, share=0.25, identified=True)
    >>> cut_at_share(np.array([.1, .4, .4, .9]), np.full(4, .25), .5)  # 1/4 and 3/4 are equally near
    Cut(value=0.4, share=0.75, identified=True)
    """
    kept = mass > 0.0
    levels, inverse = np.unique(-values[kept], return_inverse=True)
    above = np.cumsum(np.bincount(inverse.reshape(-1), weights=mass[kept], minlength=len(levels)))
    shares = np.concatenate([[0.0], above])
    distance = np.abs(shares - share)
    best = int(np.flatnonzero(distance <= distance.min() + 1e-12)[-1])  # 1e-12: sums of masses round
    if best == 0:
        return Cut(float(np.nextafter(-levels[0], np.inf)), 0.0, False)
    return Cut(float(-levels[best - 1]), float(min(shares[best], 1.0)), True)


def share_beyond(values: Array, mass: Array, cut: float) -> float:
    """The share of mass whose value is at or above the cut."""
    return float(min(1.0, mass[values >= cut].sum()))
