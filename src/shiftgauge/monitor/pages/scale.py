"""Scales of charts (times, percentages) and sparklines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from shiftgauge.monitor.db.windows import SegmentView, WindowView
from shiftgauge.monitor.pages.format import percent
from shiftgauge.monitor.periods import DAY, HOUR, SECOND, from_us

#: The widest stretch between two ticks, by what the picture spans: (longest span, hours between ticks).
_HOURS = ((12 * HOUR, 1), (2 * DAY, 6), (4 * DAY, 12))
_DAYS = ((8 * DAY, 1), (17 * DAY, 2), (60 * DAY, 7), (120 * DAY, 14))
_MONTHS = ((300 * DAY, 1), (800 * DAY, 3), (1600 * DAY, 6))


@dataclass(frozen=True)
class Tick:
    """A named place on an axis: `at` in percent of the width (times) or in pixels (shares)."""

    at: float
    text: str
    minor: bool = False


@dataclass(frozen=True)
class TimeScale:
    """From times to percent of a picture's width."""

    start: int
    end: int

    def at(self, us: int) -> float:
        """Where a time stands, cut to the picture.

        >>> TimeScale(0, 200).at(50)
        25.0
        """
        share = (us - self.start) / max(self.end - self.start, 1)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def ticks(self) -> list[Tick]:
        """Round times, named; every second one is minor: it gives way where the picture is narrow."""
        times = [(moment, text) for moment, text in _round_times(self.start, self.end)]
        return [Tick(self.at(_us(moment)), text, minor=bool(i % 2)) for i, (moment, text) in enumerate(times)]


@dataclass(frozen=True)
class PercentScale:
    """From shares (0 at the bottom) to pixels from the top."""

    most: float
    top: float
    height: float

    def at(self, share: float) -> float:
        """Where a share stands, cut to the panel.

        >>> PercentScale(0.5, 10, 100).at(0.25)
        60.0
        """
        return round(self.top + self.height * (1 - min(max(share / self.most, 0.0), 1.0)), 2)

    def ticks(self) -> list[Tick]:
        """Round percents from 0 to the top."""
        step = _step(self.most)
        count = int(self.most / step + 1e-9)
        return [Tick(self.at(i * step), f"{round(100 * i * step, 1):g}%") for i in range(count + 1)]


def percent_scale(values: list[float], top: float, height: float) -> PercentScale:
    """A scale from 0 to the next round percent above all values."""
    most = min(max([*values, 0.02]), 1.0)
    step = _step(most)
    return PercentScale(min(1.0, step * (int(most / step - 1e-9) + 1)), top, height)


def _step(most: float) -> float:
    """Between three and six steps to the top."""
    for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        if most / step <= 6:
            return step
    return 0.25


def _us(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND


def _round_times(start: int, end: int) -> Iterator[tuple[datetime, str]]:
    length = end - start
    for longest, hours in _HOURS:
        if length <= longest:
            return _hours(start, end, hours)
    for longest, days in _DAYS:
        if length <= longest:
            return _days(start, end, days)
    for longest, months in _MONTHS:
        if length <= longest:
            return _months(start, end, months)
    years = max(1, int(length / (365.25 * DAY) / 8 + 0.999))
    return _months(start, end, 12 * years)


def _hours(start: int, end: int, step: int) -> Iterator[tuple[datetime, str]]:
    moment = from_us(start).replace(minute=0, second=0, microsecond=0)
    while _us(moment) <= end:
        if _us(moment) >= start and moment.hour % step == 0:
            yield moment, f"{moment.day} {moment:%b}" if moment.hour == 0 else f"{moment:%H:%M}"
        moment += timedelta(hours=1)


def _days(start: int, end: int, step: int) -> Iterator[tuple[datetime, str]]:
    moment = from_us(start).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = datetime(1970, 1, 5, tzinfo=timezone.utc)
    while _us(moment) <= end:
        if _us(moment) >= start and (moment - monday).days % step == 0:
            yield moment, f"{moment.day} {moment:%b}"
        moment += timedelta(days=1)


def _months(start: int, end: int, step: int) -> Iterator[tuple[datetime, str]]:
    year, month = from_us(start).year, from_us(start).month - 1
    while year < 9999:
        moment = datetime(year, month + 1, 1, tzinfo=timezone.utc)
        if _us(moment) > end:
            return
        if _us(moment) >= start and (12 * year + month) % step == 0:
            yield moment, f"{moment:%Y}" if step % 12 == 0 else f"{moment:%b %Y}"
        year, month = (year, month + 1) if month < 11 else (year + 1, 0)


SPARK_HEIGHT = 34
#: So many windows are told apart in a sparkline: the newest.
SPARK_WINDOWS = 60


@dataclass(frozen=True)
class Sparkline:
    """A sparkline's geometry (see `Line` of `over_time`), and what it says in words."""

    range_area: str
    line: str
    dots: tuple[tuple[float, float], ...]
    last: tuple[float, float] | None
    words: str


@dataclass(frozen=True)
class SparkPoint:
    """One value of a sparkline."""

    start: int
    end: int
    error: float | None
    low: float | None
    high: float | None
    observed: float | None


def of_windows(windows: Sequence[WindowView]) -> Sparkline | None:
    """The sparkline of a model; None where nothing is estimated."""
    return sparkline([SparkPoint(w.start, w.end, w.error, w.low, w.high, w.observed) for w in windows])


def of_segment(
    parts: Sequence[tuple[WindowView, SegmentView]], most: float, times: TimeScale
) -> Sparkline | None:
    """The sparkline of a segment's value, on the scale that it shares with its siblings."""
    return sparkline(
        [SparkPoint(w.start, w.end, s.error, s.low, s.high, s.observed) for w, s in parts], most, times
    )


def sparkline(
    values: Sequence[SparkPoint], most: float | None = None, times: TimeScale | None = None
) -> Sparkline | None:
    """A sparkline from 0 to `most` (the highest end, where none is said)."""
    known = [value for value in values if value.error is not None][-SPARK_WINDOWS:]
    if not known:
        return None
    ends = [end for v in known for end in (v.error, v.high, v.observed) if end is not None]
    scale = PercentScale(most or max([*ends, 0.01]), 3, SPARK_HEIGHT - 6)
    across = times or TimeScale((known[0].start + known[0].end) // 2, (known[-1].start + known[-1].end) // 2)
    middles = [across.at((v.start + v.end) // 2) for v in known]
    errors = [v.error for v in known if v.error is not None]
    highs = [scale.at(e if v.high is None else v.high) for v, e in zip(known, errors, strict=True)]
    lows = [scale.at(e if v.low is None else v.low) for v, e in zip(known, errors, strict=True)]
    up = [f"{10 * x:.0f} {y:.1f}" for x, y in zip(middles, highs, strict=True)]
    down = [f"{10 * x:.0f} {y:.1f}" for x, y in zip(middles, lows, strict=True)]
    line = [f"{10 * x:.0f} {scale.at(e):.1f}" for x, e in zip(middles, errors, strict=True)]
    dots = [(x, scale.at(v.observed)) for x, v in zip(middles, known, strict=True) if v.observed is not None]
    return Sparkline(
        range_area="M" + "L".join([*up, *reversed(down)]) + "Z",
        line="M" + "L".join(line),
        dots=tuple(dots),
        last=(middles[-1], scale.at(errors[-1])),
        words=f"from {percent(min(errors))} to {percent(max(errors))}, now {percent(errors[-1])}",
    )
