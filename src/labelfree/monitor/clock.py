"""The time now, in whole microseconds since 1970 (UTC)."""

from __future__ import annotations

import time


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
