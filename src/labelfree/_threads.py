"""Threads of this process: how many, and their results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def in_turn(task: Callable[[T], S], items: Sequence[T], threads: int | None = None) -> Iterator[S]:
    """The task's results in the order of the items, worked on by several threads, few of them ahead.

    >>> list(in_turn(lambda x: x * x, [1, 2, 3], 2))
    [1, 4, 9]
    """
    threads = threads or cores()
    if threads == 1 or len(items) == 1:
        yield from map(task, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[S]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(task, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
