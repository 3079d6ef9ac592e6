"""Times in microseconds and ISO 8601, and periods: the window that a time or a row number falls into."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from shiftgauge.monitor.problems import invalid
from shiftgauge.times import rows_per_window

_simulated: list[int] = []


def now_us() -> int:
    """Microseconds since 1970."""
    return _simulated[-1] if _simulated else time.time_ns() // 1000


@contextmanager
def simulated_time(us: int) -> Iterator[None]:
    """Let it be another time within this process: what happened long ago is then kept as if it happened then.

    >>> with simulated_time(7):
    ...     now_us()
    7
    """
    _simulated.append(us)
    try:
        yield
    finally:
        _simulated.pop()


SECOND = 1_000_000
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND
WEEK = 7 * DAY
LENGTHS = {"hour": HOUR, "day": DAY, "week": WEEK}
#: 1970-01-01 was a Thursday; weeks begin on Mondays (ISO 8601).
MONDAY = 4 * DAY
#: The fewest rows that can make a window by count.
FEWEST = 10


@dataclass(frozen=True)
class Period:
    """What a window covers: times [start, end) in microseconds, or row numbers [start, end)."""

    name: str
    start: int
    end: int


def check_window_length(spec: object) -> str:
    """A window length: `hour`, `day`, `week`, or `1000 rows`."""
    text = spec if isinstance(spec, str) else ""
    if text in LENGTHS:
        return text
    if (count := rows_per_window(text)) is not None and count >= FEWEST:
        return f"{count} rows"
    raise invalid(
        f"window {str(spec)[:40]!r}: wanted 'hour', 'day', 'week' or a number of rows such as '1000 rows' "
        f"(at least {FEWEST})"
    )


def period_at(spec: str, place: int) -> Period:
    """The window that holds this time (microseconds since 1970) or this row number.

    >>> period_at("day", 90_000 * SECOND)
    Period(name='1970-01-02', start=86400000000, end=172800000000)
    >>> period_at("500 rows", 1200).name
    'rows-1000-1499'
    """
    start = period_start(spec, place)
    if (count := rows_per_window(spec)) is not None:
        return Period(f"rows-{start}-{start + count - 1}", start, start + count)
    return Period(_name(spec, start), start, start + LENGTHS[spec])


def period_start(spec: str, place: Any) -> Any:
    """The beginning of the window that holds this time or row number, or of each window of an array of them."""
    if (count := rows_per_window(spec)) is not None:
        return place // count * count
    offset = MONDAY if spec == "week" else 0
    return (place - offset) // LENGTHS[spec] * LENGTHS[spec] + offset


def _name(spec: str, start: int) -> str:
    moment = from_us(start)
    if spec == "week":
        year, week, _ = moment.isocalendar()
        return f"{year}-W{week:02d}"
    return moment.strftime("%Y-%m-%d" if spec == "day" else "%Y-%m-%dT%HZ")


def next_boundary(old: str, new: str, now: int) -> int:
    """The first moment from now on at which windows of both lengths begin: there a new length takes over."""
    longer = max(old, new, key=lambda spec: LENGTHS[spec])
    span = period_at(longer, now)
    return span.start if span.start == now else span.end


def from_us(us: int) -> datetime:
    """Microseconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(us / SECOND, timezone.utc)


def day(moment: datetime) -> str:
    """A day, without the leading zero that strftime gives.

    >>> day(datetime(2026, 3, 5))
    '5 Mar 2026'
    """
    return f"{moment.day} {moment:%b %Y}"


def moment(us: int) -> str:
    """A time to the minute, with its zone.

    >>> moment(0)
    '1 Jan 1970, 00:00 UTC'
    """
    at = from_us(us)
    return f"{day(at)}, {at:%H:%M} UTC"


def window_date(name: str) -> str:
    """When a window was, from its name; its version is left out.

    >>> window_date("2026-03-05.v1"), window_date("2026-W09.v1"), window_date("2026-03-05T14Z.v1.2")
    ('5 Mar 2026', 'week of 23 Feb 2026', '5 Mar 2026, 14:00 UTC')
    >>> window_date("rows-1000-1499.v1")
    'rows 1,000 to 1,499'
    """
    if match := re.match(r"rows-(\d+)-(\d+)\.", name):
        return f"rows {int(match[1]):,} to {int(match[2]):,}"
    if match := re.match(r"(\d{4})-W(\d{2})\.", name):
        return f"week of {day(datetime.fromisocalendar(int(match[1]), int(match[2]), 1))}"
    if match := re.match(r"(\d{4}-\d{2}-\d{2})(?:T(\d{2})Z)?\.", name):
        hour = f", {match[2]}:00 UTC" if match[2] else ""
        return day(datetime.fromisoformat(match[1])) + hour
    return name


def during_window(name: str) -> str:
    """When a window was, as a sentence has it.

    >>> during_window("2026-03-05.v1"), during_window("2026-W09.v1"), during_window("rows-1000-1499.v1")
    ('on 5 Mar 2026', 'in the week of 23 Feb 2026', 'in rows 1,000 to 1,499')
    >>> during_window("2026-03-05T14Z.v1.2")
    'in the hour from 5 Mar 2026, 14:00 UTC'
    """
    date = window_date(name)
    if date.endswith("UTC"):
        return f"in the hour from {date}"
    if date.startswith("week"):
        return f"in the {date}"
    return f"in {date}" if date == name or date.startswith("rows") else f"on {date}"


def iso(us: int | None) -> str | None:
    """A time as people and JSON read it, in UTC.

    >>> iso(0)
    '1970-01-01T00:00:00Z'
    """
    if us is None:
        return None
    text = from_us(us).isoformat(timespec="microseconds" if us % SECOND else "seconds")
    return text.replace("+00:00", "Z")


def parse_time(text: Any, row: int) -> int:
    """Microseconds since 1970 of an ISO 8601 time with a zone.

    >>> parse_time("1970-01-01T01:00:00+01:00", 0)
    0
    """
    wanted = "wanted ISO 8601 with a zone, such as 2026-03-05T14:00:00Z"
    if not isinstance(text, str):
        raise invalid(f"row {row}: time {str(text)[:40]!r}; {wanted}")
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
        if moment.tzinfo is None:
            raise invalid(f"row {row}: time {text[:40]!r} has no zone; {wanted}")
        delta = moment - _EPOCH
    except (ValueError, OverflowError):
        raise invalid(f"row {row}: time {text[:40]!r} cannot be read; {wanted}") from None
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
