"""Ranges of time, as they stand in an address: `?range=30d`, or `?from=2026-03-01&to=2026-03-31`; all UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from shiftgauge.monitor.problems import Problem, invalid
from shiftgauge.monitor.service.windows import MOST, WindowView
from shiftgauge.monitor.spans import DAY, SECOND, from_us

#: Ranges that can be chosen by name, back from the end of the newest window.
PRESETS = {"1d": 1, "7d": 7, "30d": 30, "90d": 90, "1y": 366}
WORDS = {"1d": "1 day", "7d": "7 days", "30d": "30 days", "90d": "90 days", "1y": "1 year", "all": "all"}
#: What is shown where nobody has chosen; windows by rows can be of any length, so the newest so many are.
DEFAULTS = {"hour": "7d", "day": "90d", "week": "1y"}
NEWEST = 200
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Range:
    """Which windows are shown.

    Attributes:
        since, until: only windows with rows from and before these times; None for no end.
        limit: the newest so many.
        name: of the preset, or None where days were given, or neither.
        first, last: the days as a form shows them; empty where none was given.
        as_of: what was known at this moment; None for now.
    """

    since: int | None = None
    until: int | None = None
    limit: int = MOST
    name: str | None = None
    first: str = ""
    last: str = ""
    as_of: int | None = None


def known_at(asked: Mapping[str, str]) -> int | None:
    """The moment whose knowledge an address asks for; None for now."""
    return _time(asked, "as_of", last=True)


def read_range(asked: Mapping[str, str], newest: WindowView | None) -> Range:
    """The range that an address asks for.

    Args:
        asked: the address's `range`, `from`, `to`, `as_of`.
        newest: the model's newest window, of those known then; presets count back from its end.
    """
    as_of = known_at(asked)
    since, until = _time(asked, "from"), _time(asked, "to", last=True)
    if since is not None and until is not None and until <= since:
        raise invalid(f"from={asked['from'][:40]} to={asked['to'][:40]}: ends before it begins; swap them")
    if since is not None or until is not None:
        days = [asked.get(name, "")[:10] for name in ("from", "to")]
        return Range(since, until, first=days[0], last=days[1], as_of=as_of)
    return _preset(asked.get("range"), newest, as_of)


def _preset(name: str | None, newest: WindowView | None, as_of: int | None) -> Range:
    if name is not None and name not in WORDS:
        raise invalid(f"range={name[:40]!r}: wanted one of {', '.join(WORDS)}, or from= and to=")
    if newest is None or name == "all":
        return Range(name=name, as_of=as_of)
    chosen = name or DEFAULTS.get(newest.spec)
    if chosen is None:
        return Range(limit=NEWEST, as_of=as_of)
    return Range(since=newest.end - PRESETS[chosen] * DAY, name=chosen, as_of=as_of)


def _time(asked: Mapping[str, str], name: str, *, last: bool = False) -> int | None:
    """A day or time of the address; a day as an end means its last moment."""
    text = asked.get(name, "").strip().replace(" ", "+")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if _DAY.fullmatch(text) and last:
            moment += timedelta(days=1)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        us = int(moment.timestamp()) * SECOND
        from_us(us)  # a zone can lead beyond the years that can be printed
        return us
    except (ValueError, OverflowError):
        raise _unreadable(name, text) from None


def _unreadable(name: str, text: str) -> Problem:
    return invalid(
        f"{name}={text[:40]!r}: wanted a day such as 2026-03-05 or a time such as 2026-03-05T14:00Z"
    )


def days_shown(windows: list[WindowView]) -> tuple[str, str]:
    """The first and last day of what is shown, as a form wants them."""
    first, last = windows[0].start, max(windows[0].start, *(window.end - 1 for window in windows))
    return f"{from_us(first):%Y-%m-%d}", f"{from_us(last):%Y-%m-%d}"
