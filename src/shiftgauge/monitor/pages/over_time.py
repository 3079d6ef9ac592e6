"""A model over time as geometry: what stands where; the template `chart.svg.j2` draws it.

Places along the width are percents and lines are stretched, so that one picture fits every screen without a script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftgauge.monitor.pages.points import Point, runs
from shiftgauge.monitor.pages.readout import Hit, hits
from shiftgauge.monitor.pages.scale import Shares, Tick, Times, shares
from shiftgauge.monitor.service.alerts import AlertView
from shiftgauge.monitor.settings import Limits

TOP, HEIGHT = 18, 230
#: How high the name of a line is.
NAME = 18
STRIP, ROWS, GAP = 14, 44, 14
#: How high a cell of a strip is, so that it can be told without its colour.
LEVELS = {"none": 0.25, "label": 0.6, "other": 1.0, "ok": 0.25, "caution": 0.6, "stop": 1.0}
#: So many versions have a colour of their own; further ones share the last.
COLOURS = 4
#: Beyond so many points dots only thicken the line, and intervals of realised errors hide it.
DENSE = 100


@dataclass(frozen=True)
class Line:
    """A path in a box 1,000 wide that is stretched to the picture; `look` is its class."""

    path: str
    look: str


@dataclass(frozen=True)
class Mark:
    """A realised error: its place, and its interval's ends (None where there is none)."""

    x: float
    y: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Cell:
    """A rectangle: x and width in percent, y and height in pixels."""

    x: float
    width: float
    y: float
    height: float
    look: str


@dataclass(frozen=True)
class Strip:
    """A named row of cells beneath the picture."""

    name: str
    y: float
    height: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Level:
    """A line across: a limit, or the source's error; where its name stands, so that they keep apart."""

    y: float
    text: str
    look: str
    right: bool
    below: bool


@dataclass(frozen=True)
class Chart:
    """Everything that is drawn, in pixels down and percents across."""

    height: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bands: tuple[Line, ...]
    lines: tuple[Line, ...]
    dots: tuple[tuple[float, float, int], ...]
    marks: tuple[Mark, ...]
    levels: tuple[Level, ...]
    outside: tuple[str, ...]
    versions: tuple[tuple[float, str], ...]
    strips: tuple[Strip, ...]
    colours: tuple[tuple[str, int], ...]
    dense: bool
    hits: tuple[Hit, ...]


def chart(
    held: Sequence[Point], limits: Limits, source_error: float | None, alerts: Sequence[AlertView], model: str
) -> Chart:
    """The picture of some points (at least one).

    Args:
        held: what is drawn, in order of time.
        limits: of the model.
        source_error: of the newest source, or None.
        alerts: of the model.
        model: for addresses.
    """
    times = Times(min(p.start for p in held), max(p.end for p in held))
    known = [
        v
        for p in held
        for v in (p.error, p.high, p.adaptive_high, p.realised, p.realised_high)
        if v is not None
    ]
    wanted = _levels(limits, source_error)
    top = max(known, default=0.1)
    near = [share for share, _, _ in wanted if share <= 2 * top]
    scale = shares([*known, *near], TOP, HEIGHT)
    strips, height = _strips(held, alerts, times)
    bands, lines = _curves(held, times, scale)
    return Chart(
        height=height + 24,
        bottom=height,
        x_ticks=tuple(times.ticks()),
        y_ticks=tuple(scale.ticks()),
        bands=bands,
        lines=lines,
        dots=_dots(held, times, scale),
        marks=_marks(held, times, scale),
        levels=_lines([level for level in wanted if level[0] <= scale.most], scale),
        outside=tuple(text for share, text, _ in wanted if share > scale.most),
        versions=_changes(held, times),
        strips=strips,
        colours=tuple(_colours(held).items()),
        dense=len(held) > DENSE,
        hits=hits(held, times, model),
    )


def _levels(limits: Limits, source_error: float | None) -> list[tuple[float, str, str]]:
    out = []
    if source_error is not None:
        out.append((source_error, f"source {100 * source_error:.1f}%", "source"))
        if limits.rise is not None:
            share = source_error + limits.rise
            out.append((share, f"limit on the rise {100 * share:.1f}%", "limit"))
    if limits.error is not None:
        out.append((limits.error, f"limit {100 * limits.error:.1f}%", "limit"))
    return out


def _lines(drawn: Sequence[tuple[float, str, str]], scale: Shares) -> tuple[Level, ...]:
    """The lines with their names: above, but below where another line would strike the name through."""
    heights = [scale.at(share) for share, _, _ in drawn]

    def below(y: float, look: str) -> bool:
        return look == "source" or any(0 < y - other < NAME for other in heights)

    return tuple(
        Level(y, text, look, right=text.startswith("limit on"), below=below(y, look))
        for y, (_, text, look) in zip(heights, drawn, strict=True)
    )


def _by_version(held: Sequence[Point]) -> dict[str, list[Point]]:
    """Points by version, that with the newest rows first."""
    out: dict[str, list[Point]] = {}
    for point in reversed(held):
        out.setdefault(point.version, []).insert(0, point)
    return out


def _colours(held: Sequence[Point]) -> dict[str, int]:
    """The colour of each version, the newest first."""
    return {name: min(i, COLOURS - 1) for i, name in enumerate(_by_version(held))}


def _curves(held: Sequence[Point], times: Times, scale: Shares) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    bands, lines = [], []
    for number, mine in zip(_colours(held).values(), _by_version(held).values(), strict=True):
        colour = f"v{number}"
        for run in runs(mine):
            lines.append(Line(_through(run, [p.error for p in run], times, scale), f"estimate {colour}"))
            for low, high, look in (
                ("adaptive_low", "adaptive_high", "learned"),
                ("low", "high", "interval"),
            ):
                path = _between(run, low, high, times, scale)
                if path:
                    bands.append(Line(path, f"{look} {colour}"))
    return tuple(bands), tuple(lines)


def _places(run: Sequence[Point], times: Times) -> list[tuple[float, int]]:
    """Where a run's line passes: its first start, every middle, its last end; with the number of the point."""
    middles = [(10 * times.at((p.start + p.end) // 2), i) for i, p in enumerate(run)]
    return [(10 * times.at(run[0].start), 0), *middles, (10 * times.at(run[-1].end), len(run) - 1)]


def _through(run: Sequence[Point], values: Sequence[float | None], times: Times, scale: Shares) -> str:
    spots = [(x, value) for x, i in _places(run, times) if (value := values[i]) is not None]
    return "M" + "L".join(f"{x:.1f} {scale.at(value):.1f}" for x, value in spots)


def _between(run: Sequence[Point], low: str, high: str, times: Times, scale: Shares) -> str:
    """An outline of what lies between two ends; empty where a point of the run has none."""
    lows, highs = [getattr(p, low) for p in run], [getattr(p, high) for p in run]
    if None in lows or None in highs:
        return ""
    up = _through(run, highs, times, scale)
    down = [f"{x:.1f} {scale.at(lows[i]):.1f}" for x, i in reversed(_places(run, times))]
    return f"{up}L{'L'.join(down)}Z"


def _dots(held: Sequence[Point], times: Times, scale: Shares) -> tuple[tuple[float, float, int], ...]:
    colours = _colours(held)
    if len(held) > DENSE:
        return ()
    return tuple(
        (times.at((p.start + p.end) // 2), scale.at(p.error), colours[p.version])
        for p in held
        if p.error is not None
    )


def _marks(held: Sequence[Point], times: Times, scale: Shares) -> tuple[Mark, ...]:
    out = []
    for p in held:
        if p.realised is not None:
            ends = [None if end is None else scale.at(end) for end in (p.realised_low, p.realised_high)]
            out.append(Mark(times.at((p.start + p.end) // 2), scale.at(p.realised), ends[0], ends[1]))
    return tuple(out)


def _changes(held: Sequence[Point], times: Times) -> tuple[tuple[float, str], ...]:
    """Where each further version begins."""
    first: dict[str, int] = {}
    for point in held:
        first.setdefault(point.version, point.start)
    return tuple((times.at(start), name) for name, start in first.items())[1:]


def _strips(
    held: Sequence[Point], alerts: Sequence[AlertView], times: Times
) -> tuple[tuple[Strip, ...], float]:
    """The kind of shift, the doctor's verdict, the alerts if any, and the rows; and where they end."""
    y = TOP + HEIGHT + 30
    out = []
    for name, attribute in (("shift", "shift"), ("doctor", "status")):
        cells = [_level(p, getattr(p, attribute), y, times) for p in held]
        out.append(Strip(name, y, STRIP, tuple(cells)))
        y += STRIP + GAP
    fired = [cell for alert in alerts if (cell := _alert(alert, y, times)) is not None]
    if fired:
        out.append(Strip("alerts", y, STRIP, tuple(fired)))
        y += STRIP + GAP
    most = max(p.rows for p in held)
    bars = []
    for p in held:
        tall = round(max(1.0, ROWS * p.rows / max(most, 1)), 1)
        look = "rows" if p.error is not None else "rows pending"
        bars.append(_cell(p.start, p.end, y + ROWS - tall, tall, look, times))
    out.append(Strip("rows", y, ROWS, tuple(bars)))
    return tuple(out), y + ROWS


def _level(p: Point, value: str | None, y: float, times: Times) -> Cell:
    tall = round(STRIP * LEVELS.get(value or "", 0.1), 1)
    look = f"cell {value}" if value in LEVELS else "cell unknown"
    return _cell(p.start, p.end, y + STRIP - tall, tall, look, times)


def _alert(alert: AlertView, y: float, times: Times) -> Cell | None:
    end = times.end if alert.resolved is None else alert.resolved
    if end < times.start or alert.fired > times.end:
        return None
    return _cell(alert.fired, end, y, STRIP, "cell stop", times)


def _cell(start: int, end: int, y: float, height: float, look: str, times: Times) -> Cell:
    x, right = times.at(start), times.at(end)
    gap = 0.12 * (right - x)  # so that neighbours can be told apart
    return Cell(round(x + gap / 2, 3), max(round(right - x - gap, 3), 0.15), y, height, look)
