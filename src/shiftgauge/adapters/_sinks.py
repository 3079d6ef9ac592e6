"""Where collected scores go: into memory that is reserved once, or straight into a `.npy` file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import FileError, InputError
from shiftgauge.storage import check_writable, read_npy, replacing

Array = npt.NDArray[np.float32]


class InMemory:
    """A buffer reserved for `bound` rows, doubled where there are more."""

    def __init__(self, bound: int | None) -> None:
        self.count = 0
        self._bound = bound or 1024
        self._buffer: Array | None = None

    def add(self, part: Array) -> None:
        """Append (m, K) rows."""
        if self._buffer is None:
            self._buffer = np.empty((max(self._bound, len(part)), part.shape[1]), np.float32)
        _check_width(part, self._buffer.shape[1])
        end = self.count + len(part)
        if end > len(self._buffer):
            grown = np.empty((max(end, 2 * len(self._buffer)), part.shape[1]), np.float32)
            grown[: self.count] = self._buffer[: self.count]
            self._buffer = grown
        self._buffer[self.count : end] = part
        self.count = end

    def array(self) -> Array:
        """All rows; pages that were reserved and never written were never taken."""
        assert self._buffer is not None
        return self._buffer[: self.count]


class InFile:
    """A `.npy` file that is appended to; its header, padded by numpy for growth, is written again at the end."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.count = 0
        self._path, self._file = path, file
        self._k: int | None = None

    def add(self, part: Array) -> None:
        """Append (m, K) rows."""
        if self._k is None:
            self._k = part.shape[1]
            self._header()
        _check_width(part, self._k)
        self._file.write(np.ascontiguousarray(part, np.float32).tobytes())
        self.count += len(part)

    def finish(self) -> None:
        """Complete the file."""
        begin = self._file.tell()
        self._file.seek(0)
        self._header()
        assert begin >= self._file.tell()

    def array(self) -> Array:
        """The finished file, mapped."""
        return read_npy(self._path)

    def _header(self) -> None:
        shape = (self.count, self._k)
        description = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(self._file, description)


def _check_width(part: Array, k: int) -> None:
    if part.shape[1] != k:
        raise InputError(
            f"collect: a batch of {part.shape[1]} classes after batches of {k}; wanted the same everywhere"
        )


#: Where scores go, batch by batch; `array` returns all (n, K) of them once the block of `open_sink` has ended.
ScoreSink = InMemory | InFile


@contextmanager
def open_sink(out: str | Path | None, bound: int | None) -> Iterator[ScoreSink]:
    """A sink in memory, or in the file `out`, which appears only when it is complete."""
    if out is None:
        yield InMemory(bound)
        return
    file = Path(out)
    if file.suffix != ".npy":
        raise FileError(f"{out}: wanted a name ending in .npy")
    check_writable(file)
    with replacing(file) as part, part.open("wb") as opened:
        rows = InFile(file, opened)
        yield rows
        rows.finish()
