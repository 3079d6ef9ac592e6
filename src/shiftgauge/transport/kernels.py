"""Which kernels to use for a problem, and compiling them ahead of time."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

#: While no machine code is at hand, Python itself runs the kernels of problems of at most so many scores and classes:
#: in a second, and to the last bit alike.
FEW_SCORES, FEW_CLASSES = 1 << 16, 32


def kernels_for(P: Array) -> ModuleType:
    """The kernels that solve a problem of scores P (n, K) soonest."""
    from shiftgauge.jit import quickest
    from shiftgauge.transport import _kernels

    small = P.size <= FEW_SCORES and min(P.shape) <= FEW_CLASSES
    return quickest(_kernels, "drive") if small else _kernels


def kernel_scores(probs: Array) -> Array:
    """(n, K) probabilities as kernels read them: C order, float32 or float64, read-only."""
    kind = np.float64 if probs.dtype == np.float64 else np.float32
    view: Array = np.ascontiguousarray(probs, kind).view()
    view.flags.writeable = False
    return view


def kernel_weights(mass: Floats | None) -> Floats:
    """(n,) row masses as kernels read them, (0,) for equal ones."""
    view = np.empty(0) if mass is None else np.ascontiguousarray(mass, np.float64).view()
    view.flags.writeable = False
    return view
