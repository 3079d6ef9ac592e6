"""The transport problem: n rows of scores into K classes of given mass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError

#: Scores may exceed 1 by this much: what renormalising a row in float32 leaves.
SLACK = 1e-6
#: Scores are checked in slabs of this many entries.
SLAB = 1 << 22


@dataclass(frozen=True)
class Problem:
    """Move rows into classes at the least cost, where row i in class j costs 1 - p_ij per unit of mass.

        minimise  sum_ij x_ij (1 - p_ij)   subject to   sum_j x_ij = mass_i,  sum_i x_ij = q_j,  x >= 0

    Attributes:
        probs: (n, K) scores in [0, 1]; float16, float32 or float64, in memory or a memory map. They are read
            in place, never copied as a whole (an array that is not in C order is). Rows need not sum to 1.
        class_mass: (K,) q, non-negative; normalised to sum to 1.
        row_mass: (n,) non-negative; normalised to sum to 1. None means that all rows weigh the same.

    >>> Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1]).class_mass
    array([0.5, 0.5])
    """

    probs: npt.NDArray[Any]
    class_mass: npt.NDArray[np.float64]
    row_mass: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Check everything once and freeze it."""
        probs = _scores(self.probs)
        n, k = probs.shape
        object.__setattr__(self, "probs", probs)
        object.__setattr__(self, "class_mass", check_masses(self.class_mass, k, "class_mass", "classes"))
        if self.row_mass is not None:
            object.__setattr__(self, "row_mass", check_masses(self.row_mass, n, "row_mass", "rows"))

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.probs.shape[0])

    @property
    def k(self) -> int:
        """The number of classes."""
        return int(self.probs.shape[1])


def _scores(given: Any) -> npt.NDArray[Any]:
    probs = np.asarray(given)
    if probs.ndim != 2:
        hint = "; one column of a two-class model? give both columns" if probs.ndim == 1 else ""
        raise InputError(f"probs has shape {probs.shape}; wanted two dimensions, rows and classes{hint}")
    if 0 in probs.shape:
        raise InputError(f"probs has shape {probs.shape}; wanted at least one row and one class")
    if probs.dtype.kind in "biu":
        probs = probs.astype(np.float64)
    if probs.dtype.kind != "f":
        raise InputError(f"probs holds {probs.dtype}; wanted float16, float32 or float64: convert it first")
    if probs.dtype not in (np.float16, np.float32, np.float64) or not probs.dtype.isnative:
        probs = probs.astype(np.float64)
    frozen: npt.NDArray[Any] = np.ascontiguousarray(probs).view()
    frozen.flags.writeable = False
    step = max(1, SLAB // frozen.shape[1])
    for lo in range(0, len(frozen), step):
        _check_slab(frozen[lo : lo + step], lo)
    return frozen


def _check_slab(slab: npt.NDArray[Any], first_row: int) -> None:
    if slab.dtype == np.float16:
        slab = slab.astype(np.float32)  # numpy is slow on float16
    low, high = slab.min(), slab.max()
    if low >= 0 and high <= 1 + SLACK:
        return
    bad = ~((slab >= 0) & (slab <= 1 + SLACK))
    row, column = (int(x) for x in np.argwhere(bad)[0])
    value = float(slab[row, column])
    why = (
        "missing values? drop or fill those rows"
        if np.isnan(value)
        else "are these logits? apply softmax first"
    )
    raise InputError(
        f"probs[{first_row + row}, {column}] is {value:.6g}; wanted probabilities between 0 and 1: {why}"
    )


def check_masses(given: Any, length: int, name: str, what: str) -> npt.NDArray[np.float64]:
    """Check non-negative masses and return them with a sum of 1, frozen."""
    try:
        mass = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not numeric; wanted {length} non-negative numbers") from None
    if mass.shape != (length,):
        raise InputError(
            f"{name} has shape {mass.shape}; wanted ({length},), one number for each of the {what}"
        )
    if not np.isfinite(mass).all() or mass.min() < 0:
        at = int(np.flatnonzero(~(np.isfinite(mass) & (mass >= 0)))[0])
        raise InputError(f"{name}[{at}] is {mass[at]:.6g}; wanted finite and non-negative masses")
    top = mass.max()
    if top == 0:
        raise InputError(f"{name} sums to zero; wanted at least one positive mass")
    mass /= top  # so that the sum neither overflows nor loses a subnormal
    mass /= mass.sum()
    mass.flags.writeable = False
    return mass
