"""Threads of this process: how many, their results in order, and how they stop when their results are not needed."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

_local = threading.local()


class Stopped(BaseException):
    """Raised in a worker thread whose result is not needed any more, for example after Ctrl-C."""


def check_stopped() -> None:
    """Raise `Stopped` if this worker thread should end; called between blocks of rows."""
    if any(event.is_set() for event in _stop_events()):
        raise Stopped


def _stop_events() -> tuple[threading.Event, ...]:
    events: tuple[threading.Event, ...] = getattr(_local, "events", ())
    return events


def cores() -> int:
    """Return the number of processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def ordered_map(task: Callable[[T], S], items: Sequence[T], threads: int | None = None) -> Iterator[S]:
    """Yield the task's results in the order of the items, computed by several threads, only a few items ahead.

    If the caller stops iterating, tasks that have begun end at their next `check_stopped`.

    >>> list(ordered_map(lambda x: x * x, [1, 2, 3], 2))
    [1, 4, 9]
    """
    threads = threads or cores()
    if threads == 1 or len(items) == 1:
        yield from map(task, items)
        return
    stop = threading.Event()
    events = (*_stop_events(), stop)

    def work(item: T) -> S:
        _local.events = events
        check_stopped()
        return task(item)

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[S]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            stop.set()
            for future in waiting:
                future.cancel()
