"""The time now, in whole microseconds since 1970 (UTC); replays pretend another one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_pretended: list[int] = []


def now_us() -> int:
    """Microseconds since 1970."""
    return _pretended[-1] if _pretended else time.time_ns() // 1000


@contextmanager
def pretend(us: int) -> Iterator[None]:
    """Let it be another time within this process: what happened long ago is then kept as if it happened then.

    >>> with pretend(7):
    ...     now_us()
    7
    """
    _pretended.append(us)
    try:
        yield
    finally:
        _pretended.pop()
