"""What the page of a window shows: the estimate and what turned out side by side, and every revision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftgauge.monitor.db.models import get_settings
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import WindowView, get_window, list_revisions, list_windows
from shiftgauge.monitor.pages.format import format_range, percent, range_name
from shiftgauge.monitor.pages.scale import PercentScale, Tick, percent_scale
from shiftgauge.monitor.problems import unknown
from shiftgauge.monitor.settings import AlertLimits


@dataclass(frozen=True)
class BarRow:
    """A row of the picture: a name, its ends and its value in percent of the width, and the same in words."""

    name: str
    look: str
    value: float | None
    low: float | None
    high: float | None
    text: str
    between: str


@dataclass(frozen=True)
class ComparisonChart:
    """The picture: rows, and ticks in percent of the width."""

    bars: tuple[BarRow, ...]
    ticks: tuple[Tick, ...]


def window_values(store: Store, model: str, name: str, revision: str | None) -> dict[str, Any]:
    """Everything that `window.html.j2` needs."""
    revisions = list_revisions(store, model, name)
    shown = _chosen(revisions, revision) if revisions else get_window(store, model, name)
    before, after = _neighbours(store, shown)
    return {
        "w": shown,
        "revisions": revisions,
        "beside": comparison_bars(shown, get_settings(store, model).limits)
        if shown.error is not None
        else None,
        "before": before,
        "after": after,
    }


def _chosen(revisions: list[WindowView], asked: str | None) -> WindowView:
    if asked is None:
        return revisions[-1]
    chosen = next((view for view in revisions if str(view.revision) == asked), None)
    if chosen is None:
        raise unknown("revision", asked[:20], [str(view.revision) for view in revisions])
    return chosen


def _neighbours(store: Store, w: WindowView) -> tuple[WindowView | None, WindowView | None]:
    """The windows before and after, of the same version."""
    before = [
        v for v in list_windows(store, w.model, version=w.version, until=w.start, limit=2) if v.name != w.name
    ]
    # Only the newest of a stretch can be asked for: look into longer and longer ones.
    length = max(w.end - w.start, 1)
    for stretch in (2, 20, 400):
        until = w.end + stretch * length
        windows_ = list_windows(store, w.model, version=w.version, since=w.end, until=until)
        after = [v for v in windows_ if v.name != w.name and v.start >= w.start]
        if after:
            return before[-1] if before else None, after[0]
    return before[-1] if before else None, None


def comparison_bars(w: WindowView, limits: AlertLimits) -> ComparisonChart:
    """The estimate, what surrounds it, and what turned out, on one scale."""
    rise = None if w.source_error is None or limits.rise is None else w.source_error + limits.rise
    answers = (w.details.get("answers") or {}).values()
    rows: list[tuple[str, str, float | None, float | None, float | None]] = [
        (f"estimate, {range_name(w)}", "estimate", w.error, w.low, w.high),
        ("adaptive range", "learned", None, w.adaptive_low, w.adaptive_high),
        ("all methods", "methods", None, min(answers, default=None), max(answers, default=None)),
        ("observed error", "observed", w.observed, w.observed_low, w.observed_high),
        ("error on the source", "source", w.source_error, None, None),
        ("limit on the error", "limit", limits.error, None, None),
        ("limit on the rise", "limit", rise, None, None),
    ]
    known = [row for row in rows if row[2] is not None or row[3] is not None]
    scale = percent_scale([end for row in known for end in row[2:] if end is not None], 0, 100)
    bars = [
        BarRow(
            name,
            look,
            _x(scale, value),
            _x(scale, low),
            _x(scale, high),
            percent(value),
            "" if low is None else format_range(low, high),
        )
        for name, look, value, low, high in known
    ]
    ticks = [Tick(round(100 - tick.at, 2), tick.text) for tick in scale.ticks()]
    return ComparisonChart(tuple(bars), tuple(ticks))


def _x(scale: PercentScale, value: float | None) -> float | None:
    return None if value is None else round(100 - scale.at(value), 2)
