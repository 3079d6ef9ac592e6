"""What every kernel shares: how it is compiled, how a score is read, which row a sample means."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload

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


def kernel(function: F) -> F:
    """Compile without the interpreter lock and keep the machine code on disk, if the disk can be written.

    Kernels allocate nothing and keep nothing, so they need not count references: the caller holds every array
    until they return. Counting them took half the time of a search, in inner functions above all, which are
    inlined. (`_nrt` switches it off; the compiler then refuses a kernel that would allocate.)
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    try:
        compiled = numba.njit(cache=True, **options)(function)
        _forget_outdated(compiled.stats.cache_path)
    except RuntimeError:  # "no locator available": neither beside the source nor in the user's cache
        compiled = numba.njit(**options)(function)
    kept: F = compiled
    return kept


@cache
def _forget_outdated(folder: str) -> None:
    """Delete machine code older than any kernel's source: numba looks only at the file of the function itself,
    although functions from other files are compiled into it."""
    with suppress(OSError):
        newest = max(source.stat().st_mtime for source in Path(__file__).parent.glob("*.py"))
        for index in Path(folder).glob("*.nbi"):
            if index.stat().st_mtime < newest:
                index.unlink(missing_ok=True)


def exact(x: Any) -> float:
    """Read one score as it came; an unsigned 16-bit integer holds the bits of a float16."""
    raise NotImplementedError


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


@kernel
def fixed(x: Any) -> int:
    """Read one score in multiples of 2**-48."""
    bits: int = np.float64(exact(x) + GRID).view(np.int64) - GRID_BITS
    return bits


@kernel
def row_of(i: int, step: int) -> int:
    """Return the row that item i of a sample means: one out of each `step`, irregularly placed."""
    if step == 1:
        return i
    h = (np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    row: int = i * step + np.int64((h >> np.uint64(33)) % np.uint64(step))
    return row
