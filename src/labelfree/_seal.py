"""Scores that belong to somebody else: copied where they are few, sealed where a copy would cost memory.

A buffer that is filled again after `Source(buffer, labels)` would change the source without a word. Small
matrices are therefore copied. Of a large one a few thousand values, spread evenly, are remembered and looked at
again whenever the scores are: whoever refills the buffer is told so.
"""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError

Array = npt.NDArray[Any]

#: Matrices up to so many bytes are copied.
COPIED_BYTES = 1 << 25
#: Of larger ones about so many rows and columns are remembered.
ROWS, COLUMNS = 256, 16


@dataclass(frozen=True, eq=False)
class Seal:
    """What a matrix looked like when it came in."""

    array: Array
    digest: int
    where: str

    def check(self) -> None:
        """Refuse a matrix that is not what it was."""
        file = _mapped(self.array)
        cut = file is not None and file.size() < len(file)  # to look at what is gone would end the process
        if cut or digest(self.array) != self.digest:
            what = "the file behind them was cut short" if cut else "they were changed"
            raise InputError(
                f"{self.where} scores: {what} after they came in; leave them alone until all is done, or pass a copy"
            )


def seal(array: Array, values: Any, where: str) -> tuple[Array, Seal | None]:
    """A read-only matrix that nobody else can change, or one with its seal."""
    # Made at the door, of lists say; what hands out an array may hand out its own.
    if array is not values and array.flags.owndata and not hasattr(values, "__array__"):
        return _read_only(array), None
    if array.nbytes <= COPIED_BYTES and _mapped(array) is None:
        return _read_only(array.copy(order="K")), None
    held = _read_only(array)
    return held, Seal(held, digest(held), where)


def digest(array: Array) -> int:
    """A checksum of a few rows and columns, spread evenly."""
    row, column = (max(1, size // most) for size, most in zip(array.shape, (ROWS, COLUMNS), strict=True))
    return zlib.crc32(np.ascontiguousarray(array[::row, ::column]).tobytes())


def _mapped(array: Array) -> mmap.mmap | None:
    """The memory map that an array looks at, if it does."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _read_only(array: Array) -> Array:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
