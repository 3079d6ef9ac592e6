"""Scales of percentages, and sparklines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftgauge.monitor.db.windows import SegmentView, WindowView
from shiftgauge.monitor.periods import day, from_us
from shiftgauge.reports.page import percent


def percent_scale(values: Sequence[float]) -> tuple[float, float]:
    """The next round percentage above all values, where a scale from 0 ends, and the step between its ticks.

    >>> percent_scale([0.03, 0.17])
    (0.2, 0.05)
    """
    most = min(max([*values, 0.02]), 1.0)
    step = next((step for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if most / step <= 6), 0.25)
    return min(1.0, step * (int(most / step - 1e-9) + 1)), step


#: Height in pixels, and the margin within it above the highest value and below 0.
SPARK_HEIGHT, SPARK_MARGIN = 56, 3
#: So many windows are told apart in a sparkline: the newest.
SPARK_WINDOWS = 60


@dataclass(frozen=True)
class Sparkline:
    """A sparkline's geometry: paths in a box 1,000 wide, places in percent across and pixels down; and words.

    Attributes:
        range_area, line: paths.
        dots: observed errors.
        last: the newest estimate.
        limit: the height of the limit.
        most: the value at the top.
        first_day, last_day: of its windows.
        words: for those who do not see it.
    """

    range_area: str
    line: str
    dots: list[tuple[float, float]]
    last: tuple[float, float]
    limit: float | None
    most: str
    first_day: str
    last_day: str
    words: str


def sparkline(
    points: Sequence[tuple[WindowView, WindowView | SegmentView]],
    most: float | None = None,
    times: tuple[int, int] | None = None,
    limit: float | None = None,
) -> Sparkline | None:
    """A sparkline from 0 up, of the newest windows; None where nothing is estimated.

    Args:
        points: windows in order of time, each with what is drawn of it: itself, or what a segment's value had in it.
        most, times: the highest value, and the times at both ends, where siblings share them.
        limit: a line across.
    """
    known = [(window, one) for window, one in points if one.error is not None][-SPARK_WINDOWS:]
    if not known:
        return None
    centres = [(window.start + window.end) // 2 for window, _ in known]
    errors = [one.error for _, one in known if one.error is not None]
    lows = [error if one.low is None else one.low for (_, one), error in zip(known, errors, strict=True)]
    highs = [error if one.high is None else one.high for (_, one), error in zip(known, errors, strict=True)]
    observed = [(at, one.observed) for at, (_, one) in zip(centres, known, strict=True)]
    ends = [*errors, *highs, *(value for _, value in observed), limit]
    top, _ = percent_scale([end for end in ends if end is not None] if most is None else [most])
    first, last = times or (centres[0], centres[-1])

    def x(time: int) -> float:
        return round(100 * (time - first) / max(last - first, 1), 3)

    def y(value: float) -> float:
        return round(SPARK_HEIGHT - SPARK_MARGIN - (SPARK_HEIGHT - 2 * SPARK_MARGIN) * value / top, 2)

    def path(values: Sequence[float]) -> list[str]:
        return [f"{10 * x(at):.0f} {y(value):.1f}" for at, value in zip(centres, values, strict=True)]

    return Sparkline(
        range_area="M" + "L".join([*path(highs), *reversed(path(lows))]) + "Z",
        line="M" + "L".join(path(errors)),
        dots=[(x(at), y(value)) for at, value in observed if value is not None],
        last=(x(centres[-1]), y(errors[-1])),
        limit=None if limit is None else y(limit),
        most=f"{100 * top:g}%",
        first_day=day(from_us(known[0][0].start)),
        last_day=day(from_us(known[-1][0].start)),
        words=f"from {percent(min(errors))} to {percent(max(errors))}, now {percent(errors[-1])}",
    )
