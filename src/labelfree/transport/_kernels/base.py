"""What every kernel shares: how it is compiled, how a score is read, which row a sample means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

# Adding and subtracting 24 rounds a score in [0, 1] to a multiple of 2**-48, because doubles in [16, 32)
# are that far apart. Scores, prices and distances are then multiples of 2**-48 smaller than 16, so every
# sum and difference of them is exact: ties are ties, and nothing depends on the order of operations.
GRID = 24.0


def kernel(function: F) -> F:
    """Compile without the interpreter lock and keep the machine code on disk, if the disk can be written.

    The flags let loops over minima and maxima be vectorised; none of them allows sums to be reordered.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": {"nnan", "nsz"}, "error_model": "numpy"}
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": neither beside the source nor in the user's cache
        compiled = numba.njit(**options)(function)
    return compiled


def exact(x: Any) -> float:
    """Read one score as it came; an unsigned 16-bit integer holds the bits of a float16."""
    raise NotImplementedError


@overload(exact)
def _exact(x: Any) -> Any:
    if isinstance(x, numba.types.Integer):

        def from_half(x: Any) -> float:
            h = np.uint64(x) & np.uint64(0x7FFF)
            if h < 1024:  # subnormal
                return np.float64(h) * 2.0**-24
            # The exponent's bias grows from 15 to 1023, the mantissa from 10 bits to 52.
            return np.uint64((h << np.uint64(42)) + np.uint64(1008 << 52)).view(np.float64)

        return from_half

    def from_float(x: Any) -> float:
        return np.float64(x)

    return from_float


@kernel
def score(x: Any) -> float:
    """Read one score, rounded to the grid."""
    return (exact(x) + GRID) - GRID


@kernel
def row_of(i: int, step: int) -> int:
    """Return the row that item i of a sample of every `step` rows means: one per block, irregularly placed."""
    if step == 1:
        return i
    h = (np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return i * step + np.int64((h >> np.uint64(33)) % np.uint64(step))
