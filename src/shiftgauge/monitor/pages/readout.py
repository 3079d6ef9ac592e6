"""What a picture says when somebody points at a place: the numbers there, and where a click leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from shiftgauge.monitor.pages.points import Point
from shiftgauge.monitor.pages.scale import Times
from shiftgauge.monitor.pages.words import (
    SHIFTS,
    WINDOW_STATES,
    counted,
    half_width,
    headline,
    model_path,
    moment,
    percent,
    reach,
    span,
)
from shiftgauge.monitor.service.windows import WindowView
from shiftgauge.monitor.spans import iso


@dataclass(frozen=True)
class Hit:
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


def hits(held: Sequence[Point], times: Times, model: str) -> tuple[Hit, ...]:
    """One for each place in time; versions that ran side by side share it."""
    slots: dict[int, list[Point]] = {}
    for point in held:
        slots.setdefault(point.slot, []).append(point)
    several = len({point.version for point in held}) > 1
    out = []
    for mine in slots.values():
        start, end = min(p.start for p in mine), max(p.end for p in mine)
        x, right = times.at(start), times.at(end)
        out.append(
            Hit(
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
        return span(point.windows[0])
    return f"{counted(len(point.windows), 'window')}, {moment(point.start)} to {moment(point.end)}"


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
        name = headline(point.windows[-1])
        out += [
            ("mean estimate" if mean else "estimated error", percent(point.error)),
            (f"{name}, outermost ends" if mean else name, reach(point.low, point.high)),
            *([] if mean else [("of which sampling", half_width(point.windows[-1].sampling))]),
            ("adaptive range", reach(point.adaptive_low, point.adaptive_high)),
        ]
    if point.realised is not None:
        ends = reach(point.realised_low, point.realised_high)
        out.append(("realised error", f"{percent(point.realised)} ({ends})"))
        out.append(("labels", f"{point.labels:,} of {point.rows:,} rows"))
    else:
        out.append(("rows", f"{point.rows:,}, no labels yet"))
    if point.error is not None:
        out.append(("kind of shift", SHIFTS.get(point.shift, "not said")))
        if point.status is not None:
            out.append(("doctor", point.status))
    return out
