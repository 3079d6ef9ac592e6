"""What every kernel shares: how it is compiled, how a score is read, which row a sample means."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload

from shiftgauge.transport._kernels.cache import keep

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

# Scores, prices and losses are integers: multiples of 2**-48. Sums and differences are then exact, ties are
# ties, nothing depends on the order of operations, and the compiler may vectorise minima. Doubles in [16, 32)
# are 2**-48 apart, so the bits of 24 + x, minus those of 24, are x in this measure, rounded to nearest.
ONE = 1 << 48
GRID = 24.0
GRID_BITS = int(np.float64(GRID).view(np.int64))
#: Larger than any distance, and small enough to be added up.
FAR = 1 << 60

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}


def kernel(function: F) -> F:
    """Compile without the interpreter lock and keep the machine code on disk, if the disk can be written.

    Kernels allocate nothing and keep nothing, so they need not count references: the caller holds every array
    until they return. Counting them took half the time of a search, in inner functions above all, which are
    inlined. (`_nrt` switches it off; the compiler then refuses a kernel that would allocate.)
    """
    if numba.config.DISABLE_JIT:
        return plain(function)
    compiled: F = numba.njit(**OPTIONS)(function)
    keep(compiled)
    return compiled


def plain(function: F) -> F:
    """Python itself, for debugging (NUMBA_DISABLE_JIT=1): integers wrap around as they do in compiled code."""

    @wraps(function)
    def run(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return cast(F, run)


def inner(function: F) -> F:
    """Compile a part of kernels: never called from Python, kept on disk only as part of those.

    Its arguments should always have the same types (`np.int64(...)` around what comes out of arrays of 32 bits
    and around literals): each further combination is compiled anew.
    """
    if numba.config.DISABLE_JIT:
        return function
    compiled: F = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)
    return compiled


def exact(x: Any) -> float:
    """Read one score as it came; an unsigned 16-bit integer holds the bits of a float16.

    This is what Python does, without a compiler; `_exact` is what the compiler makes of it.
    """
    return float(x.view(np.float16) if isinstance(x, np.uint16) else x)


@overload(exact)  # type: ignore[untyped-decorator, unused-ignore]
def _exact(x: Any) -> Any:
    if isinstance(x, numba.types.Integer):

        def from_half(x: Any) -> Any:
            h = np.uint64(x) & np.uint64(0x7FFF)
            if h < 1024:  # subnormal
                return np.float64(h) * 2.0**-24
            # The exponent's bias grows from 15 to 1023, the mantissa from 10 bits to 52.
            return np.uint64((h << np.uint64(42)) + np.uint64(1008 << 52)).view(np.float64)

        return from_half

    def from_float(x: Any) -> Any:
        return np.float64(x)

    return from_float


@inner
def fixed(x: Any) -> int:
    """Read one score in multiples of 2**-48."""
    bits: int = np.float64(exact(x) + GRID).view(np.int64) - GRID_BITS
    return bits


@inner
def row_of(i: int, step: int) -> int:
    """Return the row that item i of a sample means: one out of each `step`, irregularly placed."""
    if step == 1:
        return i
    h = (np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    row: int = i * step + np.int64((h >> np.uint64(33)) % np.uint64(step))
    return row
