"""The chart of a model over time as geometry; the template `chart.svg.j2` draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from shiftgauge.monitor.db.windows import SegmentView, WindowView
from shiftgauge.monitor.pages.format import (
    SHIFTS,
    WINDOW_STATES,
    format_range,
    half_width,
    model_path,
    moment,
    percent,
    pluralize,
    range_name,
    window_title,
)
from shiftgauge.monitor.pages.scale import PercentScale, Tick, TimeScale, percent_scale
from shiftgauge.monitor.periods import iso
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.monitor.views.overview import AlertView

#: More points than this cannot be told apart; windows are then put together.
MOST_POINTS = 200
_WORST = ("stop", "caution", "ok")


@dataclass(frozen=True)
class Point:
    """One window, or a few of one version put together.

    Attributes:
        slot: which place in time it stands at; versions that ran side by side share it.
        version: whose.
        windows: the windows it stands for, in order of time.
        start, end: from the first's start to the last's end.
        rows, labels: of all of them.
        error, observed: means by rows and by labels.
        low, high, adaptive_low, adaptive_high, observed_low, observed_high: the outermost ends.
        shift: the most frequent kind; status: the gravest; None where nobody says.
    """

    slot: int
    version: str
    windows: tuple[WindowView, ...]
    start: int
    end: int
    rows: int
    labels: int
    error: float | None
    low: float | None
    high: float | None
    adaptive_low: float | None
    adaptive_high: float | None
    observed: float | None
    observed_low: float | None
    observed_high: float | None
    shift: str | None
    status: str | None


def to_points(windows: Sequence[WindowView], most: int = MOST_POINTS) -> list[Point]:
    """The windows as at most about `most` points a version, in order of time."""
    if not windows:
        return []
    first, last = windows[0].start, max(window.start for window in windows)
    starts = len({window.start for window in windows})
    width = 1 if starts <= most else (last - first) // most + 1
    groups: dict[tuple[int, str], list[WindowView]] = {}
    for window in windows:
        groups.setdefault(((window.start - first) // width, window.version), []).append(window)
    return [_point(slot, version, group) for (slot, version), group in sorted(groups.items())]


def _point(slot: int, version: str, windows: list[WindowView]) -> Point:
    shifts = Counter(window.shift for window in windows if window.shift is not None)
    verdicts = {window.status for window in windows}
    return Point(
        slot=slot,
        version=version,
        windows=tuple(windows),
        start=min(window.start for window in windows),
        end=max(window.end for window in windows),
        rows=sum(window.rows for window in windows),
        labels=sum(window.labels for window in windows),
        error=_mean((window.error, window.rows) for window in windows),
        low=_least(window.low for window in windows),
        high=_most(window.high for window in windows),
        adaptive_low=_least(window.adaptive_low for window in windows),
        adaptive_high=_most(window.adaptive_high for window in windows),
        observed=_mean((window.observed, window.labels) for window in windows),
        observed_low=_least(window.observed_low for window in windows),
        observed_high=_most(window.observed_high for window in windows),
        shift=shifts.most_common(1)[0][0] if shifts else None,
        status=next((status for status in _WORST if status in verdicts), None),
    )


def _mean(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, max(weight, 1)) for value, weight in pairs if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if known else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def runs(points: Sequence[Point]) -> list[list[Point]]:
    """The estimated points of one version, cut where windows are missing in between: a line would claim them.

    A hole counts when it is longer than the points beside it.
    """
    out: list[list[Point]] = []
    for point in points:
        if point.error is None:
            continue
        last = out[-1][-1] if out else None
        longest = 0 if last is None else max(last.end - last.start, point.end - point.start)
        if last is None or point.start - last.end >= max(longest, 1):
            out.append([])
        out[-1].append(point)
    return out


def segment_windows(
    windows: Sequence[WindowView],
) -> dict[str, dict[str, list[tuple[WindowView, SegmentView]]]]:
    """What each value of each watched segment had, window by window; the largest values first."""
    out: dict[str, dict[str, list[tuple[WindowView, SegmentView]]]] = {}
    for window in windows:
        for part in window.segments:
            out.setdefault(part.segment, {}).setdefault(part.value, []).append((window, part))
    return {
        name: dict(sorted(values.items(), key=lambda pair: -sum(part.rows for _, part in pair[1])))
        for name, values in out.items()
    }


@dataclass(frozen=True)
class Hotspot:
    """A place to point at.

    Attributes:
        x, width, middle: in percent of the width.
        address: of the window; where several are drawn as one, of the narrower range.
        start, end: when, for the address of a range.
        name: when, for people.
        groups: (label, text) pairs, a group for each version.
    """

    x: float
    width: float
    middle: float
    address: str
    start: str
    end: str
    name: str
    groups: tuple[tuple[tuple[str, str], ...], ...]


def hotspots(points: Sequence[Point], times: TimeScale, model: str) -> tuple[Hotspot, ...]:
    """One for each place in time; versions that ran side by side share it."""
    position_slots: dict[int, list[Point]] = {}
    for point in points:
        position_slots.setdefault(point.slot, []).append(point)
    several = len({point.version for point in points}) > 1
    out = []
    for mine in position_slots.values():
        start, end = min(p.start for p in mine), max(p.end for p in mine)
        x, right = times.at(start), times.at(end)
        out.append(
            Hotspot(
                x=x,
                width=max(round(right - x, 3), 0.2),
                middle=round((x + right) / 2, 3),
                address=address_of(mine[-1], model),
                start=iso(start) or "",
                end=iso(end) or "",
                name=name_of(mine[-1]),
                groups=tuple(tuple(facts_of(point, several)) for point in mine),
            )
        )
    return tuple(out)


def name_of(point: Point) -> str:
    """When a point was, and how many windows it stands for."""
    if len(point.windows) == 1:
        return window_title(point.windows[0])
    return f"{pluralize(len(point.windows), 'window')}, {moment(point.start)} to {moment(point.end)}"


def address_of(point: Point, model: str) -> str:
    """The page of a window; of several, the range that shows them one by one."""
    if len(point.windows) == 1:
        return model_path(model, "windows", point.windows[0].name)
    return f"{model_path(model)}?{urlencode({'from': iso(point.start), 'to': iso(point.end)})}"


def state_of(window: WindowView) -> str:
    """Why a window has no number."""
    why = f": {window.reason}" if window.reason else ""
    return f"{WINDOW_STATES[window.state][2]}{why}"


def facts_of(point: Point, several: bool) -> list[tuple[str, str]]:
    """The numbers of a point; its version where there are several."""
    out = [("version", point.version)] if several else []
    mean = len(point.windows) > 1
    if point.error is None:
        out.append(("state", state_of(point.windows[-1])))
    else:
        name = range_name(point.windows[-1])
        out += [
            ("mean estimate" if mean else "estimated error", percent(point.error)),
            (f"{name}, outermost ends" if mean else name, format_range(point.low, point.high)),
            *([] if mean else [("of which sampling", half_width(point.windows[-1].sampling))]),
            ("adaptive range", format_range(point.adaptive_low, point.adaptive_high)),
        ]
    if point.observed is not None:
        ends = format_range(point.observed_low, point.observed_high)
        out.append(("observed error", f"{percent(point.observed)} ({ends})"))
        out.append(("labels", f"{point.labels:,} of {point.rows:,} rows"))
    else:
        out.append(("rows", f"{point.rows:,}, no labels yet"))
    if point.error is not None:
        out.append(("kind of shift", SHIFTS.get(point.shift, "not said")))
        if point.status is not None:
            out.append(("doctor", point.status))
    return out


TOP, HEIGHT = 18, 230
#: How high the name of a line is.
NAME = 18
STRIP, ROWS, GAP = 14, 44, 14
#: How high a cell of a strip is, so that it can be read without its colour.
CELL_HEIGHTS = {"none": 0.25, "label": 0.6, "other": 1.0, "ok": 0.25, "caution": 0.6, "stop": 1.0}
#: So many versions have a colour of their own; further ones share the last.
COLOURS = 4
#: Beyond so many points dots only thicken the line, and intervals of observed errors hide it.
DENSE = 100


@dataclass(frozen=True)
class Line:
    """A path in a box 1,000 wide that is stretched to the picture; `look` is its class."""

    path: str
    look: str


@dataclass(frozen=True)
class Mark:
    """A observed error: its place, and its interval's ends (None where there is none)."""

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
class HorizontalLine:
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
    levels: tuple[HorizontalLine, ...]
    outside: tuple[str, ...]
    versions: tuple[tuple[float, str], ...]
    strips: tuple[Strip, ...]
    colours: tuple[tuple[str, int], ...]
    dense: bool
    hotspots: tuple[Hotspot, ...]


def chart(
    points: Sequence[Point],
    limits: AlertLimits,
    source_error: float | None,
    alerts: Sequence[AlertView],
    model: str,
) -> Chart:
    """The picture of some points (at least one).

    Args:
        held: what is drawn, in order of time.
        limits: of the model.
        source_error: of the newest source, or None.
        alerts: of the model.
        model: for addresses.
    """
    times = TimeScale(min(p.start for p in points), max(p.end for p in points))
    known = [
        v
        for p in points
        for v in (p.error, p.high, p.adaptive_high, p.observed, p.observed_high)
        if v is not None
    ]
    wanted = _limits_shown(limits, source_error)
    top = max(known, default=0.1)
    near = [share for share, _, _ in wanted if share <= 2 * top]
    scale = percent_scale([*known, *near], TOP, HEIGHT)
    strips, height = _strips(points, alerts, times)
    bands, lines = _curves(points, times, scale)
    return Chart(
        height=height + 24,
        bottom=height,
        x_ticks=tuple(times.ticks()),
        y_ticks=tuple(scale.ticks()),
        bands=bands,
        lines=lines,
        dots=_dots(points, times, scale),
        marks=_observed_marks(points, times, scale),
        levels=_lines([level for level in wanted if level[0] <= scale.most], scale),
        outside=tuple(text for share, text, _ in wanted if share > scale.most),
        versions=_changes(points, times),
        strips=strips,
        colours=tuple(_colours(points).items()),
        dense=len(points) > DENSE,
        hotspots=hotspots(points, times, model),
    )


def _limits_shown(limits: AlertLimits, source_error: float | None) -> list[tuple[float, str, str]]:
    out = []
    if source_error is not None:
        out.append((source_error, f"source {100 * source_error:.1f}%", "source"))
        if limits.rise is not None:
            share = source_error + limits.rise
            out.append((share, f"limit on the rise {100 * share:.1f}%", "limit"))
    if limits.error is not None:
        out.append((limits.error, f"limit {100 * limits.error:.1f}%", "limit"))
    return out


def _lines(drawn: Sequence[tuple[float, str, str]], scale: PercentScale) -> tuple[HorizontalLine, ...]:
    """The lines with their names: above, but below where another line would strike the name through."""
    heights = [scale.at(share) for share, _, _ in drawn]

    def below(y: float, look: str) -> bool:
        return look == "source" or any(0 < y - other < NAME for other in heights)

    return tuple(
        HorizontalLine(y, text, look, right=text.startswith("limit on"), below=below(y, look))
        for y, (_, text, look) in zip(heights, drawn, strict=True)
    )


def _by_version(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points by version, that with the newest rows first."""
    out: dict[str, list[Point]] = {}
    for point in reversed(points):
        out.setdefault(point.version, []).insert(0, point)
    return out


def _colours(points: Sequence[Point]) -> dict[str, int]:
    """The colour of each version, the newest first."""
    return {name: min(i, COLOURS - 1) for i, name in enumerate(_by_version(points))}


def _curves(
    points: Sequence[Point], times: TimeScale, scale: PercentScale
) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    bands, lines = [], []
    for number, mine in zip(_colours(points).values(), _by_version(points).values(), strict=True):
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


def _places(run: Sequence[Point], times: TimeScale) -> list[tuple[float, int]]:
    """Where a run's line passes: its first start, every middle, its last end; with the number of the point."""
    middles = [(10 * times.at((p.start + p.end) // 2), i) for i, p in enumerate(run)]
    return [(10 * times.at(run[0].start), 0), *middles, (10 * times.at(run[-1].end), len(run) - 1)]


def _through(
    run: Sequence[Point], values: Sequence[float | None], times: TimeScale, scale: PercentScale
) -> str:
    spots = [(x, value) for x, i in _places(run, times) if (value := values[i]) is not None]
    return "M" + "L".join(f"{x:.1f} {scale.at(value):.1f}" for x, value in spots)


def _between(run: Sequence[Point], low: str, high: str, times: TimeScale, scale: PercentScale) -> str:
    """An outline of what lies between two ends; empty where a point of the run has none."""
    lows, highs = [getattr(p, low) for p in run], [getattr(p, high) for p in run]
    if None in lows or None in highs:
        return ""
    up = _through(run, highs, times, scale)
    down = [f"{x:.1f} {scale.at(lows[i]):.1f}" for x, i in reversed(_places(run, times))]
    return f"{up}L{'L'.join(down)}Z"


def _dots(
    points: Sequence[Point], times: TimeScale, scale: PercentScale
) -> tuple[tuple[float, float, int], ...]:
    colours = _colours(points)
    if len(points) > DENSE:
        return ()
    return tuple(
        (times.at((p.start + p.end) // 2), scale.at(p.error), colours[p.version])
        for p in points
        if p.error is not None
    )


def _observed_marks(points: Sequence[Point], times: TimeScale, scale: PercentScale) -> tuple[Mark, ...]:
    out = []
    for p in points:
        if p.observed is not None:
            ends = [None if end is None else scale.at(end) for end in (p.observed_low, p.observed_high)]
            out.append(Mark(times.at((p.start + p.end) // 2), scale.at(p.observed), ends[0], ends[1]))
    return tuple(out)


def _changes(points: Sequence[Point], times: TimeScale) -> tuple[tuple[float, str], ...]:
    """Where each further version begins."""
    first: dict[str, int] = {}
    for point in points:
        first.setdefault(point.version, point.start)
    return tuple((times.at(start), name) for name, start in first.items())[1:]


def _strips(
    points: Sequence[Point], alerts: Sequence[AlertView], times: TimeScale
) -> tuple[tuple[Strip, ...], float]:
    """The kind of shift, the doctor's verdict, the alerts if any, and the rows; and where they end."""
    y = TOP + HEIGHT + 30
    out = []
    for name, attribute in (("shift", "shift"), ("doctor", "status")):
        cells = [_level(p, getattr(p, attribute), y, times) for p in points]
        out.append(Strip(name, y, STRIP, tuple(cells)))
        y += STRIP + GAP
    fired = [cell for alert in alerts if (cell := _alert(alert, y, times)) is not None]
    if fired:
        out.append(Strip("alerts", y, STRIP, tuple(fired)))
        y += STRIP + GAP
    most = max(p.rows for p in points)
    bars = []
    for p in points:
        tall = round(max(1.0, ROWS * p.rows / max(most, 1)), 1)
        look = "rows" if p.error is not None else "rows pending"
        bars.append(_cell(p.start, p.end, y + ROWS - tall, tall, look, times))
    out.append(Strip("rows", y, ROWS, tuple(bars)))
    return tuple(out), y + ROWS


def _level(p: Point, value: str | None, y: float, times: TimeScale) -> Cell:
    tall = round(STRIP * CELL_HEIGHTS.get(value or "", 0.1), 1)
    look = f"cell {value}" if value in CELL_HEIGHTS else "cell unknown"
    return _cell(p.start, p.end, y + STRIP - tall, tall, look, times)


def _alert(alert: AlertView, y: float, times: TimeScale) -> Cell | None:
    end = times.end if alert.resolved is None else alert.resolved
    if end < times.start or alert.fired > times.end:
        return None
    return _cell(alert.fired, end, y, STRIP, "cell stop", times)


def _cell(start: int, end: int, y: float, height: float, look: str, times: TimeScale) -> Cell:
    x, right = times.at(start), times.at(end)
    gap = 0.12 * (right - x)  # so that neighbours can be told apart
    return Cell(round(x + gap / 2, 3), max(round(right - x - gap, 3), 0.15), y, height, look)
