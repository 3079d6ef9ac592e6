"""Moments in time: dates and numbers as they stand in columns, what order they are in, what bin they fall into."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.validation.labels import MISSING, is_missing

#: ISO 8601, long or short: year, month, day, hour, minute, second, fraction, zone.
ISO = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?"
    r"\s*(Z|[+-]\d\d(?::?\d\d)?)?)?)?"
)
NUMBER, DATE, ZONED = "a number", "a date", "a date with a time zone"
#: A number of these sizes is Unix time in seconds, milli-, micro- or nanoseconds (years 1973 to 5138).
UNIX = {"s": (1e8, 1e11), "ms": (1e11, 1e14), "us": (1e14, 1e17), "ns": (1e17, 1e20)}
#: Words for the widths of bins, as numpy calls them.
UNITS = {
    **dict.fromkeys(("min", "minute"), "m"),
    **dict.fromkeys(("h", "hour"), "h"),
    **dict.fromkeys(("d", "day"), "D"),
    **dict.fromkeys(("w", "week"), "W"),
    **dict.fromkeys(("month", "mo"), "M"),
    **dict.fromkeys(("y", "year"), "Y"),
}
WIDTH = re.compile(r"(\d*)\s*([a-z]+?)s?")


def moment(value: Any, row: int, what: str) -> tuple[str, Any]:
    """What sort of time a value is, and the value as something that sorts: a number, or microseconds."""
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return NUMBER, value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc)
    text = value.isoformat() if isinstance(value, datetime.date) else str(value).strip()
    for number in (int, float):
        try:
            return NUMBER, number(text)
        except ValueError:
            continue
    found = ISO.fullmatch(text)
    try:
        if found is not None:
            return _iso(*found.groups())
    except ValueError:  # such as a 13th month
        pass
    raise InputError(
        f"{what}: row {row} is {shown_time(value)}; wanted a number or an ISO date; "
        "write dates as 2022-01-31 or 2022-01-31T12:00"
    )


def _iso(
    year: str,
    month: str,
    day: str | None,
    hour: str | None,
    minute: str | None,
    second: str | None,
    fraction: str | None,
    zone: str | None,
) -> tuple[str, Any]:
    text = f"{year}-{month}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}"
    time = int(np.datetime64(f"{text}.{(fraction or '0')[:6]}", "us").astype(np.int64))
    if zone is None:
        return DATE, time
    sign, hours, minutes = (1, "0", "0") if zone == "Z" else (int(zone[0] + "1"), zone[1:3], zone[-2:])
    minutes = minutes if len(zone) > 3 else "0"
    return ZONED, time - sign * (int(hours) * 60 + int(minutes)) * 60_000_000


def shown_time(value: Any) -> str:
    """A value in a message."""
    return repr(str(value) if isinstance(value, datetime.date | datetime.time) else value)


def split_bin(name: str, columns: Any) -> tuple[str, str | None]:
    """A column and the width of its bins, from `timestamp:1d`; a column of that whole name goes first.

    >>> split_bin("timestamp:1d", ["timestamp"]), split_bin("a:b", ["a:b"])
    (('timestamp', '1d'), ('a:b', None))
    """
    column, colon, width = name.rpartition(":")
    if name in columns or not colon or column not in columns:
        return name, None
    return column, width


def bin_times(values: Any, width: str, what: str = "times", zone: str | None = None) -> npt.NDArray[np.str_]:
    """(n,) the beginning of the bin that each time falls into, as text; `(missing)` where there is none.

    The arguments are those of `bin_starts`.

    >>> bin_times(["2026-03-01T23:30", "2026-03-02", None], "week").tolist()
    ['2026-02-23', '2026-03-02', '(missing)']
    """
    starts = bin_starts(values, width, what, zone)
    return np.where(np.isnat(starts), MISSING, np.datetime_as_string(starts))


def bin_starts(
    values: Any, width: str, what: str = "times", zone: str | None = None
) -> npt.NDArray[np.datetime64]:
    """(n,) the beginning of the bin that each time falls into; NaT where there is no time.

    Times are ISO 8601 texts, dates, or Unix times in seconds to nanoseconds. Those with a time zone (Unix times
    have UTC) are counted in UTC, or in `zone`; those without are taken as they are written.

    Args:
        values: (n,) the times.
        width: `hour`, `day`, `week` (from Monday), `month`, `year`, or several: `15min`, `6h`, `2d`.
        what: a word for the column in messages.
        zone: a name such as `"Europe/Berlin"`.

    >>> bin_starts(["2026-03-01T23:30", "2026-03-02", "2026-03-09"], "week").astype(str).tolist()
    ['2026-02-23', '2026-03-02', '2026-03-09']
    """
    count, unit = _width(width)
    rows = np.asarray(values, dtype=object).tolist()
    known: dict[Any, np.datetime64] = {}
    sorts: dict[str, int] = {}
    for row, value in enumerate(rows):
        if not is_missing(value) and value not in known:
            sort, time = moment(value, row, what)
            sorts.setdefault(sort, row)
            known[value] = _unix(time, row, what) if sort == NUMBER else np.datetime64(int(time), "us")
    if len(sorts) > 1:
        (one, first), (other, second) = list(sorts.items())[:2]
        raise InputError(f"{what}: row {first} is {one}, row {second} is {other}; wanted one sort of time")
    if zone is not None and DATE in sorts:
        raise InputError(f"{what}: its times have no time zone; leave zone {zone!r} out")
    local = {value: time if zone is None else _local(time, zone) for value, time in known.items()}
    start = {value: _bin(time, count, unit) for value, time in local.items()}
    found = [np.datetime64("NaT") if is_missing(value) else start[value] for value in rows]
    return np.array(found, f"datetime64[{_bin_unit(unit)}]")


def bin_edges(
    starts: npt.NDArray[np.datetime64], width: str, most: int, what: str = "times"
) -> npt.NDArray[np.datetime64]:
    """(m + 1,) the edges of the m bins from the first of `bin_starts` to the last, with those that are empty.

    Args:
        starts: (n,) beginnings of bins, none missing.
        width: of the bins.
        most: more bins are refused.
        what: a word for the column in messages.

    >>> bin_edges(np.array(["2026-02", "2026-04"], "datetime64[M]"), "month", 10).astype(str).tolist()
    ['2026-02', '2026-03', '2026-04', '2026-05']
    """
    count, unit = _width(width)
    step: Any = np.array(7 * count if unit == "W" else count, f"timedelta64[{_bin_unit(unit)}]")
    first, last = starts.min(), starts.max()
    if (bins := int((last - first) // step) + 1) > most:
        raise InputError(
            f"{what}: {bins:,} periods of {width!r} from {first} to {last}; wanted at most {most:,}; take longer "
            "periods, or look for wrong times"
        )
    return np.arange(first, last + 2 * step, step)


def rows_per_window(width: object) -> int | None:
    """How many rows make a window, or None where time does.

    >>> rows_per_window("500 rows"), rows_per_window("day")
    (500, None)
    """
    match = re.fullmatch(r"([1-9][0-9]{0,8}) rows", width) if isinstance(width, str) else None
    return int(match[1]) if match else None


def group_indices(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each number that occurs, in order, with its places; takes n log n steps however many there are.

    >>> [(number, places.tolist()) for number, places in group_indices(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        yield int(ordered[start]), order[start:end]


def _width(width: str) -> tuple[int, str]:
    found = WIDTH.fullmatch(width.strip().lower())
    if found is None or found[2] not in UNITS or found[1] == "0":
        raise InputError(
            f"{width!r} is not a length of time; wanted hour, day, week, month, year, or such as 15min, 6h, 2d"
        )
    return int(found[1] or 1), UNITS[found[2]]


def _unix(number: Any, row: int, what: str) -> np.datetime64:
    for unit, (low, high) in UNIX.items():
        if low <= number < high:
            scale = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[unit]
            time: np.datetime64 = np.datetime64(round(number * scale), "us")
            return time
    raise InputError(
        f"{what}: row {row} is {number}; wanted an ISO date or a Unix time, in seconds to nanoseconds"
    )


def _local(time: np.datetime64, zone: str) -> np.datetime64:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        there = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"zone {zone!r} is not known; wanted a name such as 'Europe/Berlin'") from None
    moment_: datetime.datetime = time.astype("datetime64[us]").item().replace(tzinfo=datetime.timezone.utc)
    return np.datetime64(moment_.astimezone(there).replace(tzinfo=None), "us")


def _bin_unit(unit: str) -> str:
    """The unit that beginnings of bins are written in: weeks by their first day."""
    return "D" if unit == "W" else unit


def _bin(time: np.datetime64, count: int, unit: str) -> np.datetime64:
    """The bin's beginning; weeks begin on Mondays (numpy's on Thursdays, as 1970 did)."""
    if unit == "W":
        days = time.astype("datetime64[D]").astype(int) + 3  # days since Monday, 29 December 1969
        return np.datetime64(int(days // (7 * count) * (7 * count) - 3), "D")
    number = time.astype(f"datetime64[{unit}]").astype(int)
    start: Any = np.array(number // count * count).astype(f"datetime64[{unit}]")
    begin: np.datetime64 = start[()]
    return begin
