"""Spans: which window a row belongs to, by its time (hour, day, week, all UTC) or by its number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.monitor.problems import invalid

SECOND = 1_000_000
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND
WEEK = 7 * DAY
LENGTHS = {"hour": HOUR, "day": DAY, "week": WEEK}
#: 1970-01-01 was a Thursday; weeks begin on Mondays (ISO 8601).
MONDAY = 4 * DAY
#: The fewest rows that can make a window by count.
FEWEST = 10


@dataclass(frozen=True)
class Span:
    """One window's reach: times [start, end) in microseconds, or row numbers [start, end)."""

    name: str
    start: int
    end: int


def check_spec(spec: object) -> str:
    """A window length: `hour`, `day`, `week`, or `1000 rows`."""
    text = spec if isinstance(spec, str) else ""
    if text in LENGTHS:
        return text
    if (count := rows_in(text)) is not None and count >= FEWEST:
        return f"{count} rows"
    raise invalid(
        f"window {str(spec)[:40]!r}: wanted 'hour', 'day', 'week' or a number of rows such as '1000 rows' "
        f"(at least {FEWEST})"
    )


def rows_in(spec: str) -> int | None:
    """How many rows make a window, or None where time does.

    >>> rows_in("500 rows"), rows_in("day")
    (500, None)
    """
    found = re.fullmatch(r"([1-9][0-9]{0,8}) rows", spec)
    return int(found[1]) if found else None


def span_at(spec: str, place: int) -> Span:
    """The window that holds this time (microseconds since 1970) or this row number.

    >>> span_at("day", 90_000 * SECOND)
    Span(name='1970-01-02', start=86400000000, end=172800000000)
    >>> span_at("500 rows", 1200).name
    'rows-1000-1499'
    """
    if (count := rows_in(spec)) is not None:
        start = place // count * count
        return Span(f"rows-{start}-{start + count - 1}", start, start + count)
    length, offset = LENGTHS[spec], MONDAY if spec == "week" else 0
    start = (place - offset) // length * length + offset
    return Span(_name(spec, start), start, start + length)


def _name(spec: str, start: int) -> str:
    moment = from_us(start)
    if spec == "week":
        year, week, _ = moment.isocalendar()
        return f"{year}-W{week:02d}"
    return moment.strftime("%Y-%m-%d" if spec == "day" else "%Y-%m-%dT%HZ")


def grouped(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each number that occurs, in order, with its places; takes n log n steps however many there are.

    >>> [(number, places.tolist()) for number, places in grouped(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        yield int(ordered[start]), order[start:end]


def next_boundary(old: str, new: str, now: int) -> int:
    """The first moment from now on at which windows of both lengths begin: there a new length takes over."""
    longer = max(old, new, key=lambda spec: LENGTHS[spec])
    span = span_at(longer, now)
    return span.start if span.start == now else span.end


def from_us(us: int) -> datetime:
    """Microseconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(us / SECOND, timezone.utc)


def iso(us: int | None) -> str | None:
    """A time as people and JSON read it, in UTC.

    >>> iso(0)
    '1970-01-01T00:00:00Z'
    """
    if us is None:
        return None
    text = from_us(us).isoformat(timespec="microseconds" if us % SECOND else "seconds")
    return text.replace("+00:00", "Z")
