"""Scales of charts (times, percentages) and sparklines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftgauge.monitor.db.windows import SegmentView, WindowView
from shiftgauge.monitor.periods import day, from_us
from shiftgauge.reports.page import percent


@dataclass(frozen=True)
class Tick:
    """A named place on an axis, in pixels."""

    at: float
    text: str


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


SPARK_HEIGHT = 56
#: So many windows are told apart in a sparkline: the newest.
SPARK_WINDOWS = 60


@dataclass(frozen=True)
class Sparkline:
    """A sparkline's geometry: paths in a box 1,000 wide, places in percent across and pixels down; and words.

    Attributes:
        range_area, line: paths.
        dots: observed errors.
        last: the newest estimate.
        zero, limit: heights of 0 and of the limit; no limit beyond the picture.
        most: the value at the top.
        first_day, last_day: of its windows.
        words: for those who do not see it.
    """

    range_area: str
    line: str
    dots: tuple[tuple[float, float], ...]
    last: tuple[float, float]
    zero: float
    limit: float | None
    most: str
    first_day: str
    last_day: str
    words: str
    height: int = SPARK_HEIGHT


def sparkline(
    windows: Sequence[WindowView],
    parts: Sequence[SegmentView] | None = None,
    most: float | None = None,
    times: TimeScale | None = None,
    limit: float | None = None,
) -> Sparkline | None:
    """A sparkline from 0 to `most` (the highest value, where none is said); ranges are cut there.

    Args:
        windows: in order of time; None where nothing is estimated.
        parts: what a segment's value had in each; None for the windows themselves.
        most, times: the scales, where siblings share them.
        limit: a line across.
    """
    values: Sequence[WindowView | SegmentView] = parts or windows
    pairs = zip(windows, values, strict=True)
    known = [(window, one) for window, one in pairs if one.error is not None][-SPARK_WINDOWS:]
    if not known:
        return None
    shown = [one for _, one in known]
    ends = [end for v in shown for end in (v.error, v.observed, limit) if end is not None]
    scale = percent_scale([most or max(ends)], 3, SPARK_HEIGHT - 6)
    centres = [(w.start + w.end) // 2 for w, _ in known]
    across = times or TimeScale(centres[0], centres[-1])
    middles = [across.at(centre) for centre in centres]
    errors = [v.error for v in shown if v.error is not None]
    highs = [e if v.high is None else v.high for v, e in zip(shown, errors, strict=True)]
    lows = [e if v.low is None else v.low for v, e in zip(shown, errors, strict=True)]

    def path(heights: Sequence[float]) -> list[str]:
        return [f"{10 * x:.0f} {scale.at(y):.1f}" for x, y in zip(middles, heights, strict=True)]

    dots = [(x, scale.at(v.observed)) for x, v in zip(middles, shown, strict=True) if v.observed is not None]
    return Sparkline(
        range_area="M" + "L".join([*path(highs), *reversed(path(lows))]) + "Z",
        line="M" + "L".join(path(errors)),
        dots=tuple(dots),
        last=(middles[-1], scale.at(errors[-1])),
        zero=scale.at(0.0),
        limit=scale.at(limit) if limit is not None and limit <= scale.most else None,
        most=f"{100 * scale.most:g}%",
        first_day=day(from_us(known[0][0].start)),
        last_day=day(from_us(known[-1][0].start)),
        words=f"from {percent(min(errors))} to {percent(max(errors))}, now {percent(errors[-1])}",
    )
