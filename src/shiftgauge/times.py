"""Moments in time: dates and numbers as they stand in columns, what order they are in, what bin they fall into."""

from __future__ import annotations

import datetime
import decimal
import re
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

    Times are ISO 8601 texts, dates, or Unix times in seconds to nanoseconds. Those with a time zone (Unix times
    have UTC) are counted in UTC, or in `zone`; those without are taken as they are written.

    Args:
        values: (n,) the times.
        width: `hour`, `day`, `week` (from Monday), `month`, `year`, or several: `15min`, `6h`, `2d`.
        what: a word for the column in messages.
        zone: a name such as `"Europe/Berlin"`.

    >>> bin_times(["2026-03-01T23:30", "2026-03-02", "2026-03-09"], "week").tolist()
    ['2026-02-23', '2026-03-02', '2026-03-09']
    """
    count, unit = _width(width, what)
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
    named = {value: _bin(time, count, unit) for value, time in local.items()}
    return np.array([MISSING if is_missing(value) else named[value] for value in rows])


def _width(width: str, what: str) -> tuple[int, str]:
    found = WIDTH.fullmatch(width.strip().lower())
    if found is None or found[2] not in UNITS or found[1] == "0":
        raise InputError(
            f"{what}: bins of {width!r} are not known; wanted hour, day, week, month, year, or such as 15min, 6h, 2d"
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


def _bin(time: np.datetime64, count: int, unit: str) -> str:
    """The bin's beginning; weeks begin on Mondays (numpy's on Thursdays, as 1970 did)."""
    if unit == "W":
        days = time.astype("datetime64[D]").astype(int) + 3  # days since Monday, 29 December 1969
        start = np.datetime64(int(days // (7 * count) * (7 * count) - 3), "D")
        return str(start)
    number = time.astype(f"datetime64[{unit}]").astype(int)
    begin: Any = number // count * count
    return str(np.array(begin).astype(f"datetime64[{unit}]"))
