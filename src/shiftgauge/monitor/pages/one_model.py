"""What the page of a model shows: its newest numbers, the picture over time, segments, versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from shiftgauge.monitor.pages import forms, ranges, spark
from shiftgauge.monitor.pages.over_time import chart
from shiftgauge.monitor.pages.points import Point, points, segment_windows
from shiftgauge.monitor.pages.readout import address_of, name_of, state_of
from shiftgauge.monitor.pages.scale import Times
from shiftgauge.monitor.pages.spark import Spark
from shiftgauge.monitor.pages.words import percent
from shiftgauge.monitor.service.alerts import list_alerts
from shiftgauge.monitor.service.models import ModelView, get_model
from shiftgauge.monitor.service.settings import get_settings
from shiftgauge.monitor.service.windows import MOST, SegmentView, WindowView, coverage, list_windows
from shiftgauge.monitor.store import Store

KEPT = ("range", "from", "to", "as_of", "version")


@dataclass(frozen=True)
class Part:
    """A value of a segment: its newest numbers, the newest that labels have judged, and its sparkline."""

    value: str
    newest: SegmentView
    judged: SegmentView | None
    spark: Spark | None


def values(store: Store, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Everything that `model.html.j2` needs.

    Args:
        store: where.
        name: of the model.
        asked: the address's query.
    """
    model = get_model(store, name)
    settings = get_settings(store, name)
    version = asked.get("version") or None
    newest = list_windows(store, name, version=version, as_of=ranges.known_at(asked), limit=1)
    chosen = ranges.read_range(asked, newest[0] if newest else None)
    windows = list_windows(
        store,
        name,
        version=version,
        since=chosen.since,
        until=chosen.until,
        as_of=chosen.as_of,
        limit=chosen.limit,
    )
    alerts = list_alerts(store, name)
    held = points(windows)
    return {
        "model": model,
        "settings": settings,
        "version": version,
        "chosen": chosen,
        "presets": _presets(asked, newest),
        "as_known": asked.get("as_of", "")[:10],
        "windows": windows,
        "days": ranges.days_shown(windows) if windows else (chosen.first, chosen.last),
        "cut": len(windows) == MOST,
        "source_error": source_error(model, version),
        "suggested": forms.SUGGESTED,
        "chart": chart(held, settings.limits, source_error(model, version), alerts, name) if held else None,
        "summary": _summary(model.name, held),
        "points": [(point, name_of(point), address_of(point, name)) for point in reversed(held)],
        "together": max((len(point.windows) for point in held), default=1),
        "coverage": coverage(store, name, version),
        "firing": [alert for alert in alerts if alert.firing],
        "judged": next((w for w in reversed(windows) if w.realised is not None), None),
        "segments": _segments(windows),
        "state_of": state_of,
        "query": lambda **new: _query(asked, new),
    }


def source_error(model: ModelView, version: str | None = None) -> float | None:
    """The error of the newest source, of one version or of all."""
    named = [v for v in model.versions if v.name == version] if version else list(model.versions)
    return next((v.source_error for v in named if v.source_error is not None), None)


def _summary(name: str, held: list[Point]) -> str:
    """The picture in a sentence, for those who do not see it."""
    errors = [point.error for point in held if point.error is not None]
    if not errors:
        return f"{name}: no estimate in this range"
    judged = sum(point.realised is not None for point in held)
    return (
        f"Estimated error of {name} over {len(held)} places in time: from {percent(min(errors))} to "
        f"{percent(max(errors))}, at last {percent(errors[-1])}; realised errors at {judged} of them. "
        "The numbers stand in the table below."
    )


def _query(asked: Mapping[str, str], new: Mapping[str, str | None]) -> str:
    """The address's query with something changed; None takes it out."""
    kept = {name: asked[name] for name in KEPT if asked.get(name)}
    changed = {name.rstrip("_"): value for name, value in new.items()}
    out = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"?{urlencode(out)}" if out else "?"


def _presets(asked: Mapping[str, str], newest: list[WindowView]) -> list[tuple[str, str]]:
    """Names and words of the ranges that make sense for the windows' length."""
    short = bool(newest) and newest[0].spec in ("day", "week")
    skipped = {"1d", "7d"} if short else set()
    return [(name, word) for name, word in ranges.WORDS.items() if name not in skipped]


def _segments(windows: list[WindowView]) -> list[tuple[str, str, list[Part]]]:
    """By segment: its name, its newest window, and its values, the largest first."""
    # Of versions side by side the one listed last is shown: one line cannot be both.
    estimated = list({window.start: window for window in windows if window.segments}.values())
    if not estimated:
        return []
    shown = estimated[-spark.MOST :]
    times = Times(shown[0].start, shown[-1].end)
    out = []
    for name, held in segment_windows(shown).items():
        most = max(max(part.high, part.realised or 0.0) for parts in held.values() for _, part in parts)
        parts = [_part(value, mine, most, times) for value, mine in held.items()]
        out.append((name, estimated[-1].name, parts))
    return out


def _part(value: str, mine: list[tuple[WindowView, SegmentView]], most: float, times: Times) -> Part:
    judged = next((part for _, part in reversed(mine) if part.realised is not None), None)
    return Part(value, mine[-1][1], judged, spark.of_segment(mine, most, times))
