"""A model over time: windows as points, and what the script draws of them; the numbers stand in a table too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from shiftgauge.monitor.alerts.rules import limit_of, metric_title
from shiftgauge.monitor.db.windows import SegmentView, WindowView
from shiftgauge.monitor.pages.format import (
    SHIFTS,
    WINDOW_STATES,
    format_range,
    half_width,
    model_path,
    moment,
    pluralize,
    range_name,
    range_or_reason,
    window_title,
)
from shiftgauge.monitor.periods import SECOND, iso
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.monitor.views import AlertView
from shiftgauge.reports.page import percent
from shiftgauge.times import rows_per_window

#: More points than this cannot be told apart; windows are then put together.
MOST_POINTS = 200
ERROR = "error"
_WORST = ("stop", "caution", "ok")


@dataclass(frozen=True)
class Value:
    """A window's error, or another metric of it; None where it is not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    sampling: float | None = None
    adaptive_low: float | None = None
    adaptive_high: float | None = None
    observed: float | None = None
    observed_low: float | None = None
    observed_high: float | None = None
    source: float | None = None
    labels: int = 0


#: What a reading of the error takes from a window as it is.
_SAME = (
    "low",
    "high",
    "sampling",
    "adaptive_low",
    "adaptive_high",
    "observed",
    "observed_low",
    "observed_high",
)


def read_window(window: WindowView, metric: str) -> Value:
    """The error of a window, or another of its metrics."""
    if metric == ERROR:
        same = {name: getattr(window, name) for name in _SAME}
        return Value(window.error, **same, source=window.source_error, labels=window.labels)
    one = next((one for one in window.metrics if one.name == metric), None)
    if one is None:
        return Value()
    same = {name: getattr(one, name, None) for name in _SAME}
    return Value(one.value, **same, source=one.source, labels=one.labels)


def metric_names(windows: Sequence[WindowView]) -> list[str]:
    """The metrics that windows have, the error first."""
    return list(dict.fromkeys([ERROR, *(one.name for window in windows for one in window.metrics)]))


@dataclass(frozen=True)
class Point(Value):
    """One window, or a few of one version put together.

    Values are means by rows, observed ones by labels; ends are the outermost ones. Beyond a reading there are:

    Attributes:
        slot: which place in time it stands at; versions that ran side by side share it.
        version: whose.
        windows: the windows it stands for, in order of time.
        start, end: from the first's start to the last's end.
        rows: of all of them.
        shift: the most frequent kind; status: the gravest; None where nobody says.
    """

    slot: int = 0
    version: str = ""
    windows: tuple[WindowView, ...] = ()
    start: int = 0
    end: int = 0
    rows: int = 0
    shift: str | None = None
    status: str | None = None


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
    read = [read_window(window, metric) for window in windows]
    shifts = Counter(window.shift for window in windows if window.shift is not None)
    verdicts = {window.status for window in windows}
    lows = {name: _least(getattr(one, name) for one in read) for name in _SAME if name.endswith("low")}
    highs = {name: _most(getattr(one, name) for one in read) for name in _SAME if name.endswith("high")}
    return Point(
        slot=slot,
        version=version,
        windows=tuple(windows),
        start=min(window.start for window in windows),
        end=max(window.end for window in windows),
        rows=sum(window.rows for window in windows),
        value=_mean((one.value, window.rows) for one, window in zip(read, windows, strict=True)),
        observed=_mean((one.observed, one.labels) for one in read),
        labels=sum(one.labels for one in read),
        sampling=read[0].sampling if len(read) == 1 else None,
        source=read[-1].source,
        shift=shifts.most_common(1)[0][0] if shifts else None,
        status=next((status for status in _WORST if status in verdicts), None),
        **lows,
        **highs,
    )


def _mean(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, max(weight, 1)) for value, weight in pairs if value is not None]
    if len(known) == 1:
        return known[0][0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if known else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


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


def state_of(window: WindowView) -> str:
    """Why a window has no number."""
    why = f": {window.reason}" if window.reason else ""
    return f"{WINDOW_STATES[window.state][2]}{why}"


def facts_of(point: Point, metric: str, several: bool) -> list[tuple[str, str]]:
    """The numbers of a point; its version where there are several."""
    out = [("version", point.version)] if several else []
    mean = len(point.windows) > 1
    if point.value is None:
        last = point.windows[-1]
        out.append(("state", state_of(last) if last.error is None else "not estimated for this window"))
    else:
        last = point.windows[-1]
        name, shown = range_name(last), range_or_reason(point.low, point.high, last.measured)
        out += [
            ("mean estimate" if mean else f"estimated {_title(metric)}", percent(point.value)),
            (f"{name}, outermost ends" if mean else name, shown),
            *([] if mean else [("of which sampling", half_width(point.sampling))]),
        ]
        if metric == ERROR:
            out.append(("adaptive range", format_range(point.adaptive_low, point.adaptive_high)))
    if point.observed is not None:
        ends = (
            ""
            if point.observed_low is None
            else f" ({format_range(point.observed_low, point.observed_high)})"
        )
        out.append((f"observed {_title(metric)}", f"{percent(point.observed)}{ends}"))
        out.append(("labels", f"{point.labels:,} of {point.rows:,} rows"))
    else:
        out.append(("rows", f"{point.rows:,}, no labels yet"))
    if point.value is not None:
        out.append(("kind of shift", SHIFTS.get(point.shift, "not said")))
        if point.status is not None:
            out.append(("doctor", point.status))
    return out


def _title(metric: str) -> str:
    return "error" if metric == ERROR else metric_title(metric)


def levels(points: Sequence[Point], metric: str, limits: AlertLimits) -> list[dict[str, Any]]:
    """The lines across: the metric on the newest source, and its limits."""
    source = next((p.source for p in reversed(points) if p.source is not None), None)
    out = [] if source is None else [{"value": source, "text": "source", "look": "source"}]
    limit = limits.error if metric == ERROR else limit_of(limits, metric)
    if metric == ERROR and source is not None and limits.rise is not None:
        out.append({"value": source + limits.rise, "text": "rise limit", "look": "limit"})
    if limit is not None:
        out.append({"value": limit, "text": "limit", "look": "limit"})
    return out


def chart_data(
    points: Sequence[Point], metric: str, limits: AlertLimits, alerts: Sequence[AlertView], model: str
) -> dict[str, Any]:
    """What the script draws (at least one point), in seconds since 1970."""
    by_slot: dict[int, list[Point]] = {}
    for point in points:
        by_slot.setdefault(point.slot, []).append(point)
    several = len({point.version for point in points}) > 1
    names = list(dict.fromkeys(point.version for point in reversed(points)))
    start, end = min(p.start for p in points), max(p.end for p in points)
    return {
        "metric": metric,
        "title": _title(metric),
        "from": start / SECOND,
        "to": end / SECOND,
        "slots": [_slot(mine, metric, several, model) for mine in by_slot.values()],
        "versions": [_version(name, by_slot) for name in names],
        "levels": levels(points, metric, limits),
        "alerts": [
            [max(a.fired, start) / SECOND, min(a.resolved or end, end) / SECOND]
            for a in alerts
            if a.fired < end and (a.resolved or end) > start
        ],
    }


def _slot(mine: Sequence[Point], metric: str, several: bool, model: str) -> dict[str, Any]:
    """A place in time; versions that ran side by side share it."""
    start, end, last = min(p.start for p in mine), max(p.end for p in mine), mine[-1]
    return {
        "start": start / SECOND,
        "end": end / SECOND,
        "from": iso(start),
        "to": iso(max(until(p) for p in mine)),
        "name": name_of(last),
        "address": address_of(last, model),
        "facts": [facts_of(point, metric, several) for point in mine],
        "rows": sum(p.rows for p in mine),
        "shift": last.shift,
        "doctor": last.status,
        "known": last.value is not None,
    }


#: What is drawn of each version, slot by slot.
_DRAWN = ("value", *(name for name in _SAME if name != "sampling"))


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
