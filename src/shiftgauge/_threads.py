"""Threads of this process: how many, their results in order, and how they stop where nobody waits for them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

_here = threading.local()


class Stopped(BaseException):
    """Raised in a thread whose result nobody waits for any more, as after Ctrl-C; no handler of errors takes it."""


def stops() -> tuple[threading.Event, ...]:
    """The events that stop this thread."""
    found: tuple[threading.Event, ...] = getattr(_here, "stops", ())
    return found


def stopped_by(events: tuple[threading.Event, ...]) -> None:
    """Let these events stop this thread: work that it hands to other threads stops with it."""
    _here.stops = events


def check_stopped() -> None:
    """Raise `Stopped` where this thread was told to stop; called between blocks of rows."""
    if any(event.is_set() for event in stops()):
        raise Stopped


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def in_turn(task: Callable[[T], S], items: Sequence[T], threads: int | None = None) -> Iterator[S]:
    """The task's results in the order of the items, worked on by several threads, few of them ahead.

    Where whoever asks goes away, tasks that have begun stop at their next `check_stopped`.

    >>> list(in_turn(lambda x: x * x, [1, 2, 3], 2))
    [1, 4, 9]
    """
    threads = threads or cores()
    if threads == 1 or len(items) == 1:
        yield from map(task, items)
        return
    stop = threading.Event()
    events = (*stops(), stop)

    def run(item: T) -> S:
        stopped_by(events)
        check_stopped()
        return task(item)

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[S]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(run, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            stop.set()
            for future in waiting:
                future.cancel()
