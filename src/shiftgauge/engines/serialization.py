"""What is sent between a driver and its workers: pickled tasks out, pickled sums or an error back."""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shiftgauge.errors import ShiftgaugeError, optional

#: Options of glibc's malloc, and how many bytes it may keep: the largest value that the second one takes.
TRIM_THRESHOLD, MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 1 << 25


def serialize(value: Any) -> bytes:
    """Any value as bytes, lambdas and closures included."""
    cloudpickle = optional("cloudpickle", extra="dask", purpose="scan: sending tasks to workers")
    data: bytes = cloudpickle.dumps(value)
    return data


def deserialize(data: bytes) -> Any:
    """The value, or raise the error that a worker sent back."""
    value = pickle.loads(data)
    if isinstance(value, ShiftgaugeError):
        raise value
    return value


def run_task(task: bytes, part: Any, start: int) -> bytes:
    """Apply a serialized task to a part, in one thread; an error of ours is returned, since trying again won't help."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with memory_kept():
            result = pickle.loads(task)(part, start)
    except ShiftgaugeError as problem:
        result = problem
    finally:
        numba.set_num_threads(before)
    return serialize(result)


@contextmanager
def memory_kept() -> Iterator[None]:
    """Let malloc keep freed memory while a task runs.

    Dask makes its workers' malloc return memory at once (`MALLOC_TRIM_THRESHOLD_`); the system would then provide the
    pages of every block anew, which doubles the time of a pass.
    """
    threshold = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    library = ctypes.CDLL(None) if threshold.isdigit() and os.name == "posix" else None
    mallopt = getattr(library, "mallopt", None)
    if mallopt is None:
        yield
        return
    mallopt(TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(MMAP_THRESHOLD, KEPT_BYTES)
    try:
        yield
    finally:
        mallopt(TRIM_THRESHOLD, int(threshold))
