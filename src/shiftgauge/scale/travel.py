"""What travels between a driver and its workers: pickled steps out, pickled sums or a refusal back."""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shiftgauge.errors import MissingDependencyError, ShiftgaugeError
from shiftgauge.io.blocks import guarded, numbered
from shiftgauge.scale.batches import recut
from shiftgauge.scale.layout import Layout
from shiftgauge.scans import Chunk

#: malloc's options in glibc, and the memory that it may keep: the most that it takes for the second.
TRIM, MMAP, KEPT = -1, -3, 1 << 25
#: Rows that are looked at to know a frame by.
HEAD = 1 << 12


def packed(value: Any) -> bytes:
    """Anything, functions of functions included, as bytes."""
    try:
        import cloudpickle
    except ImportError:
        raise MissingDependencyError(
            "scan: engines and checkpoints need cloudpickle; pip install 'shiftgauge[dask]'"
        ) from None
    found: bytes = cloudpickle.dumps(value)
    return found


def carried(job: bytes, part: Any, start: int) -> bytes:
    """Do a packed task to a part, in one thread; what the task refuses comes back as a value, not to be retried."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with memory_kept():
            result = pickle.loads(job)(part, start)
    except ShiftgaugeError as problem:
        result = problem
    finally:
        numba.set_num_threads(before)
    return packed(result)


@contextmanager
def memory_kept() -> Iterator[None]:
    """Arrays that come and go use the same memory, while the block lasts.

    Dask tells the workers' malloc to hand memory back at once (`MALLOC_TRIM_THRESHOLD_`); every chunk then gets its
    pages anew from the system, which doubles the time of a pass.
    """
    told = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if told.isdigit() and os.name == "posix" else None
    if mallopt is None:
        yield
        return
    mallopt(TRIM, KEPT)
    mallopt(MMAP, KEPT)
    try:
        yield
    finally:
        mallopt(TRIM, int(told))


def landed(found: bytes) -> Any:
    """A result as it came home; a refusal is raised."""
    result = pickle.loads(found)
    if isinstance(result, ShiftgaugeError):
        raise result
    return result


@dataclass(frozen=True)
class Handed:
    """A part whose record batches are handed to the worker by its engine."""

    layout: Layout
    name: str
    rows: int
    batches: Any = ()

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        wanted = self.layout.reads(columns)
        even = recut((batch.select(wanted) for batch in self.batches), self.layout.batch_rows)
        return self.layout.chunks(numbered(guarded(even, self.name, "Arrow"), self.name), columns)


@dataclass(frozen=True)
class Partition:
    """A partition of a cluster's frame, as the driver knows it; whose frame it is says how it is read."""

    layout: Layout
    frame: Any
    number: int
    rows: int

    @property
    def name(self) -> str:
        """Its number."""
        return f"partition {self.number}"
