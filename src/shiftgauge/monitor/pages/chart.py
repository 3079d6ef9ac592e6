"""A model over time: windows as points, and what the script draws of them; the numbers stand in a table too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from shiftgauge.monitor.alerts.rules import limit_of
from shiftgauge.monitor.db.windows import WindowView
from shiftgauge.monitor.pages.format import WINDOW_STATES, model_path, pluralize, window_title
from shiftgauge.monitor.periods import SECOND, iso, moment
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.monitor.views import AlertView
from shiftgauge.times import rows_per_window

#: More points than this cannot be told apart; windows are then put together.
MOST_POINTS = 200
ERROR = "error"
_WORST = ("stop", "caution", "ok")
_LOWS, _HIGHS = ("low", "adaptive_low", "observed_low"), ("high", "adaptive_high", "observed_high")
#: What is drawn of each version, slot by slot.
_DRAWN = ("value", "observed", *_LOWS, *_HIGHS)


@dataclass(frozen=True)
class Point:
    """One window, or a few of one version put together.

    Numbers are those of the error or of another metric, None where they are not known. Of several windows `value` is
    the mean by rows and `observed` the mean by labels, ends are the outermost ones, and `sampling` is None.

    Attributes:
        slot: which place in time it stands at; versions that ran side by side share it.
        version: whose.
        windows: the windows it stands for, in order of time.
        start, end: from the first's start to the last's end.
        rows: of all of them.
        shift: the most frequent kind; status: the gravest; None where nobody says.
        source: the number on the labelled source.
    """

    slot: int
    version: str
    windows: tuple[WindowView, ...]
    start: int
    end: int
    rows: int
    shift: str | None
    status: str | None
    source: float | None
    labels: int
    value: float | None
    observed: float | None
    sampling: float | None
    low: float | None
    high: float | None
    adaptive_low: float | None
    adaptive_high: float | None
    observed_low: float | None
    observed_high: float | None


def metric_names(windows: Sequence[WindowView]) -> list[str]:
    """The metrics that windows have, the error first."""
    return list(dict.fromkeys([ERROR, *(one.name for window in windows for one in window.metrics)]))


def to_points(windows: Sequence[WindowView], metric: str = ERROR, most: int = MOST_POINTS) -> list[Point]:
    """The windows as at most about `most` points a version, in order of time."""
    if not windows:
        return []
    first, last = windows[0].start, max(window.start for window in windows)
    starts = len({window.start for window in windows})
    width = 1 if starts <= most else (last - first) // most + 1
    groups: dict[tuple[int, str], list[WindowView]] = {}
    for window in windows:
        groups.setdefault(((window.start - first) // width, window.version), []).append(window)
    return [_point(slot, version, group, metric) for (slot, version), group in sorted(groups.items())]


def _point(slot: int, version: str, windows: list[WindowView], metric: str) -> Point:
    readings = [_read(window, metric) for window in windows]
    shifts = Counter(window.shift for window in windows if window.shift is not None)
    grades = {window.status for window in windows}
    labels = [reading["labels"] or 0 for reading in readings]

    def without_none(name: str) -> list[Any]:
        return [reading[name] for reading in readings if reading[name] is not None]

    numbers = readings[0]
    if len(windows) > 1:
        values, observed = ([reading[name] for reading in readings] for name in ("value", "observed"))
        numbers = {
            "value": _mean(values, [window.rows for window in windows]),
            "observed": _mean(observed, labels),
            "sampling": None,
            **{name: min(without_none(name), default=None) for name in _LOWS},
            **{name: max(without_none(name), default=None) for name in _HIGHS},
        }
    return Point(
        slot=slot,
        version=version,
        windows=tuple(windows),
        start=min(window.start for window in windows),
        end=max(window.end for window in windows),
        rows=sum(window.rows for window in windows),
        shift=shifts.most_common(1)[0][0] if shifts else None,
        status=next((status for status in _WORST if status in grades), None),
        **{**numbers, "labels": sum(labels), "source": readings[-1]["source"]},
    )


def _read(window: WindowView, metric: str) -> dict[str, Any]:
    """The numbers of a window: of its error, or of another of its metrics."""
    one: Any = window
    if metric != ERROR:
        one = next((one for one in window.metrics if one.name == metric), None)
    numbers = {name: getattr(one, name, None) for name in (*_DRAWN, "sampling", "labels", "source")}
    return numbers | ({"value": window.error, "source": window.source_error} if metric == ERROR else {})


def _mean(values: Iterable[float | None], weights: Iterable[int]) -> float | None:
    known = [(v, max(weight, 1)) for v, weight in zip(values, weights, strict=True) if v is not None]
    return sum(v * weight for v, weight in known) / sum(weight for _, weight in known) if known else None


def name_of(point: Point) -> str:
    """When a point was, and how many windows it stands for."""
    if len(point.windows) == 1:
        return window_title(point.windows[0])
    return f"{pluralize(len(point.windows), 'window')}, {moment(point.start)} to {moment(point.end)}"


def until(point: Point) -> int:
    """The time before which a point's windows begin.

    The end of a window by rows is the time of its last row, which belongs to it and may be that of its first row too.
    """
    return max(window.end + (rows_per_window(window.spec) is not None) for window in point.windows)


def address_of(point: Point, model: str) -> str:
    """The page of a window; of several, the range that shows them one by one."""
    if len(point.windows) == 1:
        return model_path(model, "windows", point.windows[0].name)
    return f"{model_path(model)}?{urlencode({'from': iso(point.start), 'to': iso(until(point))})}"


def state_of(point: Point) -> str:
    """Why a point has no number."""
    last = point.windows[-1]
    if last.error is not None:
        return "not estimated for this window"
    return WINDOW_STATES[last.state][2] + (f": {last.reason}" if last.reason else "")


def levels(points: Sequence[Point], metric: str, limits: AlertLimits) -> list[dict[str, Any]]:
    """The lines across: the metric on the newest source, and its limits."""
    source = next((p.source for p in reversed(points) if p.source is not None), None)
    out = [] if source is None else [{"value": source, "text": "source", "look": "source"}]
    limit = limit_of(limits, metric)
    if metric == ERROR and source is not None and limits.rise is not None:
        out.append({"value": source + limits.rise, "text": "rise limit", "look": "limit"})
    if limit is not None:
        out.append({"value": limit, "text": "limit", "look": "limit"})
    return out


def chart_data(
    points: Sequence[Point], metric: str, limits: AlertLimits, alerts: Sequence[AlertView]
) -> dict[str, Any]:
    """What the script draws (at least one point), in seconds since 1970."""
    by_slot: dict[int, list[Point]] = {}
    for point in points:
        by_slot.setdefault(point.slot, []).append(point)
    names = list(dict.fromkeys(point.version for point in reversed(points)))
    start, end = min(p.start for p in points), max(p.end for p in points)
    return {
        "metric": metric,
        "from": start / SECOND,
        "to": end / SECOND,
        "slots": [_slot(mine) for mine in by_slot.values()],
        "versions": [_version(name, by_slot) for name in names],
        "levels": levels(points, metric, limits),
        "alerts": [
            [max(a.fired, start) / SECOND, min(a.resolved or end, end) / SECOND]
            for a in alerts
            if a.fired < end and (a.resolved or end) > start
        ],
    }


def _slot(mine: Sequence[Point]) -> dict[str, Any]:
    """A place in time; versions that ran side by side share it."""
    start, end, last = min(p.start for p in mine), max(p.end for p in mine), mine[-1]
    return {
        "slot": last.slot,
        "start": start / SECOND,
        "end": end / SECOND,
        "from": iso(start),
        "to": iso(max(until(p) for p in mine)),
        "rows": sum(p.rows for p in mine),
        "shift": last.shift,
        "doctor": last.status,
        "known": last.value is not None,
    }


def _version(name: str, by_slot: dict[int, list[Point]]) -> dict[str, Any]:
    """A version's numbers, one for each slot; false where it has no window there, null where no number is known.

    A line may pass over a slot of other versions. It may not pass over a hole that is longer than the windows beside
    it: `breaks` has the slots before which it is cut.
    """
    mine = [next((p for p in points if p.version == name), None) for points in by_slot.values()]
    breaks, last = [], None
    for place, point in enumerate(mine):
        if point is None:
            continue
        if last is not None and point.start - last.end >= max(
            last.end - last.start, point.end - point.start, 1
        ):
            breaks.append(place)
        last = point
    columns = {key: [p is not None and getattr(p, key) for p in mine] for key in _DRAWN}
    return {"name": name, "breaks": breaks, **columns}
