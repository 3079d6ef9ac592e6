"""Sparklines: an estimate over time in the height of a line of text, with what turned out as dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftgauge.monitor.pages.scale import Shares, Times
from shiftgauge.monitor.pages.words import percent
from shiftgauge.monitor.service.windows import SegmentView, WindowView

HEIGHT = 34
#: So many windows are told apart in a sparkline: the newest.
MOST = 60


@dataclass(frozen=True)
class Spark:
    """A sparkline's geometry (see `Line` of `over_time`), and what it says in words."""

    band: str
    line: str
    dots: tuple[tuple[float, float], ...]
    last: tuple[float, float] | None
    words: str


@dataclass(frozen=True)
class Seen:
    """One value of a sparkline."""

    start: int
    end: int
    error: float | None
    low: float | None
    high: float | None
    realised: float | None


def of_windows(windows: Sequence[WindowView]) -> Spark | None:
    """The sparkline of a model; None where nothing is estimated."""
    return spark([Seen(w.start, w.end, w.error, w.low, w.high, w.realised) for w in windows])


def of_segment(parts: Sequence[tuple[WindowView, SegmentView]], most: float, times: Times) -> Spark | None:
    """The sparkline of a segment's value, on the scale that it shares with its siblings."""
    return spark([Seen(w.start, w.end, s.error, s.low, s.high, s.realised) for w, s in parts], most, times)


def spark(values: Sequence[Seen], most: float | None = None, times: Times | None = None) -> Spark | None:
    """A sparkline from 0 to `most` (the highest end, where none is said)."""
    known = [value for value in values if value.error is not None][-MOST:]
    if not known:
        return None
    ends = [end for v in known for end in (v.error, v.high, v.realised) if end is not None]
    scale = Shares(most or max([*ends, 0.01]), 3, HEIGHT - 6)
    across = times or Times((known[0].start + known[0].end) // 2, (known[-1].start + known[-1].end) // 2)
    middles = [across.at((v.start + v.end) // 2) for v in known]
    errors = [v.error for v in known if v.error is not None]
    highs = [scale.at(e if v.high is None else v.high) for v, e in zip(known, errors, strict=True)]
    lows = [scale.at(e if v.low is None else v.low) for v, e in zip(known, errors, strict=True)]
    up = [f"{10 * x:.0f} {y:.1f}" for x, y in zip(middles, highs, strict=True)]
    down = [f"{10 * x:.0f} {y:.1f}" for x, y in zip(middles, lows, strict=True)]
    line = [f"{10 * x:.0f} {scale.at(e):.1f}" for x, e in zip(middles, errors, strict=True)]
    dots = [(x, scale.at(v.realised)) for x, v in zip(middles, known, strict=True) if v.realised is not None]
    return Spark(
        band="M" + "L".join([*up, *reversed(down)]) + "Z",
        line="M" + "L".join(line),
        dots=tuple(dots),
        last=(middles[-1], scale.at(errors[-1])),
        words=f"from {percent(min(errors))} to {percent(max(errors))}, now {percent(errors[-1])}",
    )
