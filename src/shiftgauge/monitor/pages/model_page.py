"""The list of models and the page of one model: the chosen range of time, numbers, chart, segments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlencode

from shiftgauge.monitor.db.models import get_settings
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import MOST, SegmentView, WindowView, list_windows
from shiftgauge.monitor.estimate.adaptive_range import coverage
from shiftgauge.monitor.pages.chart import (
    ERROR,
    Point,
    address_of,
    chart_data,
    metric_names,
    name_of,
    state_of,
    to_points,
)
from shiftgauge.monitor.pages.format import STATES, rule_title
from shiftgauge.monitor.pages.scale import SPARK_WINDOWS, Sparkline, sparkline
from shiftgauge.monitor.periods import DAY, from_us, parse_time
from shiftgauge.monitor.problems import invalid, unknown
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.monitor.views import ModelView, get_model, list_alerts, suggest_limits
from shiftgauge.reports.page import percent

#: Ranges that can be chosen by name: in words, and how many days back from the end of the newest window.
PRESETS: dict[str, tuple[str, int | None]] = {
    "1d": ("1 day", 1),
    "7d": ("7 days", 7),
    "30d": ("30 days", 30),
    "90d": ("90 days", 90),
    "1y": ("1 year", 366),
    "all": ("all", None),
}
#: What is shown where nobody has chosen; windows by rows can be of any length, so the newest so many are.
DEFAULTS = {"hour": "7d", "day": "90d", "week": "1y"}
NEWEST = 200
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class TimeRange:
    """Which windows are shown.

    Attributes:
        since, until: only windows with rows from and before these times; None for no end.
        limit: the newest so many.
        name: of the preset, or None where days were given, or neither.
        first, last: the days as a form shows them; empty where none was given.
        as_of: what was known at this moment; None for now.
    """

    since: int | None = None
    until: int | None = None
    limit: int = MOST
    name: str | None = None
    first: str = ""
    last: str = ""
    as_of: int | None = None


def known_at(asked: Mapping[str, str]) -> int | None:
    """The moment whose knowledge an address asks for; None for now."""
    return _day_or_time(asked, "as_of", last=True)


def read_range(asked: Mapping[str, str], newest: WindowView | None) -> TimeRange:
    """The range that an address asks for.

    Args:
        asked: the address's `range`, `from`, `to`, `as_of`.
        newest: the model's newest window, of those known then; presets count back from its end.
    """
    as_of = known_at(asked)
    since, until = _day_or_time(asked, "from"), _day_or_time(asked, "to", last=True)
    if since is not None and until is not None and until <= since:
        raise invalid(f"from={asked['from'][:40]} to={asked['to'][:40]}: ends before it begins; swap them")
    if since is not None or until is not None:
        days = [asked.get(name, "")[:10] for name in ("from", "to")]
        return TimeRange(since, until, first=days[0], last=days[1], as_of=as_of)
    return _preset(asked.get("range"), newest, as_of)


def _preset(name: str | None, newest: WindowView | None, as_of: int | None) -> TimeRange:
    if name is not None and name not in PRESETS:
        raise invalid(f"range={name[:40]!r}: wanted one of {', '.join(PRESETS)}, or from= and to=")
    chosen = name or (DEFAULTS.get(newest.spec) if newest is not None else None)
    days = PRESETS[chosen][1] if chosen is not None else None
    if newest is None or days is None:
        return TimeRange(name=name, as_of=as_of, limit=MOST if newest is None or name else NEWEST)
    return TimeRange(since=newest.end - days * DAY, name=chosen, as_of=as_of)


def _day_or_time(asked: Mapping[str, str], name: str, *, last: bool = False) -> int | None:
    """A day or time of the address; a day as an end means its last moment."""
    text = asked.get(name, "").strip().replace(" ", "+")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if _DAY.fullmatch(text) and last:
            moment += timedelta(days=1)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        us = parse_time(moment.isoformat(), 0)
        from_us(us)  # a zone can lead beyond the years that can be printed
        return us
    except (ValueError, OverflowError):
        raise invalid(
            f"{name}={text[:40]!r}: wanted a day such as 2026-03-05 or a time such as 2026-03-05T14:00Z"
        ) from None


def days_shown(windows: list[WindowView]) -> tuple[str, str]:
    """The first and last day of what is shown, as a form wants them."""
    first, last = windows[0].start, max(windows[0].start, *(window.end - 1 for window in windows))
    return f"{from_us(first):%Y-%m-%d}", f"{from_us(last):%Y-%m-%d}"


URGENT = ("alert", "waiting", "collecting", "empty", "no-limits", "ok")
#: Beyond so many models no sparklines are drawn: each asks the database once.
MOST_SPARKS = 100


@dataclass(frozen=True)
class ShownState:
    """A model's state as pages show it: the class of its colour, a mark, a word, and a note beside it or nothing."""

    look: str
    mark: str
    word: str
    note: str = ""


def error_limit(model: ModelView, limits: AlertLimits) -> float | None:
    """The error that the newest window may have: the lower one of both limits."""
    source = None if model.latest is None else model.latest.source_error
    rise = None if source is None or limits.rise is None else source + limits.rise
    return min((value for value in (limits.error, rise) if value is not None), default=None)


def shown_state(model: ModelView, limit: float | None) -> ShownState:
    """The state in words; of a model without an alert, on which side of the limit its estimate and range lie."""
    state = ShownState(*STATES[model.state])
    if model.state == "no-limits":
        return replace(state, word=model.reason or state.word)
    newest = model.latest
    if model.state != "ok" or limit is None or newest is None or newest.error is None:
        return state
    if newest.error > limit:
        note = f"the estimate is above the limit of {percent(limit)}, but not by enough or for long enough to alert"
        return replace(state, word="no alert", note=note)
    if newest.high is not None and newest.high > limit:
        return replace(state, note=f"its range reaches above the limit of {percent(limit)}")
    return state


@dataclass(frozen=True)
class ModelRow:
    """A model of the list, its state, its sparkline, and its newest window with labels."""

    model: ModelView
    state: ShownState
    spark: Sparkline | None
    labelled: WindowView | None


def list_rows(store: Store, models: list[ModelView]) -> list[ModelRow]:
    """The models in order of urgency, then by name."""
    order = sorted(models, key=lambda model: (URGENT.index(model.state), model.name))
    out = []
    for number, model in enumerate(order):
        windows_: list[WindowView] = []
        if model.latest is not None and number < MOST_SPARKS:
            windows_ = list_windows(
                store, model.name, version=model.latest.version, estimated=True, limit=SPARK_WINDOWS
            )
        labelled = next((w for w in reversed(windows_) if w.observed is not None), None)
        limit = error_limit(model, get_settings(store, model.name).limits)
        spark = sparkline([(window, window) for window in windows_], limit=limit)
        out.append(ModelRow(model, shown_state(model, limit), spark, labelled))
    return out


def sentence(models: list[ModelView]) -> str:
    """The whole list in a sentence.

    `3 models: 1 with an alert, 2 without an alert`
    """
    words = {
        "alert": "with an alert",
        "waiting": "waiting",
        "collecting": "collecting rows",
        "empty": "without rows",
        "no-limits": "without limits",
        "ok": "without an alert",
    }
    counts = [(sum(model.state == state for model in models), words[state]) for state in URGENT]
    parts = [f"{count} {word}" for count, word in counts if count]
    if len(models) == 1:
        return f"1 model, {parts[0].partition(' ')[2]}"
    return f"{len(models):,} models: {', '.join(parts)}"


KEPT = ("range", "from", "to", "as_of", "version", "metric")


@dataclass(frozen=True)
class SegmentRow:
    """A value of a segment: its newest numbers, the newest that labels have judged, and its sparkline."""

    value: str
    newest: SegmentView
    labelled: SegmentView | None
    spark: Sparkline | None


def model_values(store: Store, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Everything that `model.html.j2` needs."""
    model = get_model(store, name)
    settings = get_settings(store, name)
    version = asked.get("version") or None
    newest = list_windows(store, name, version=version, as_of=known_at(asked), limit=1)
    chosen = read_range(asked, newest[0] if newest else None)
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
    metrics = metric_names(windows)
    metric = asked.get("metric") or ERROR
    if windows and metric not in metrics:
        raise unknown("metric", metric[:60], metrics)
    drawn = to_points(windows, metric)
    estimated = any(point.value is not None for point in drawn)
    return {
        "model": model,
        "state": shown_state(model, error_limit(model, settings.limits)),
        "settings": settings,
        "version": version,
        "chosen": chosen,
        "presets": _presets(newest),
        "as_known": asked.get("as_of", "")[:10],
        "windows": windows,
        "days": days_shown(windows) if windows else (chosen.first, chosen.last),
        "cut": len(windows) == MOST,
        "suggested": None if settings.limits.on_error else suggest_limits(model),
        "metric": metric,
        "metrics": metrics,
        "chart": chart_data(drawn, metric, settings.limits, alerts) if estimated else None,
        "summary": _summary(model.name, metric, drawn),
        "points": [(point, name_of(point), address_of(point, name)) for point in reversed(drawn)],
        "together": max((len(point.windows) for point in drawn), default=1),
        "coverage": coverage(store, name, version),
        "firing": [alert for alert in alerts if alert.firing],
        "labelled": next((w for w in reversed(windows) if w.observed is not None), None),
        "segments": _segments(windows),
        "state_of": state_of,
        "query": lambda **new: _query(asked, new),
        "kept": {name: asked[name] for name in KEPT if asked.get(name) and name != "metric"},
    }


def _summary(name: str, metric: str, drawn: list[Point]) -> str:
    """The picture in a sentence, for those who do not see it."""
    values = [point.value for point in drawn if point.value is not None]
    if not values:
        return f"{name}: no estimate in this range"
    labelled = sum(point.observed is not None for point in drawn)
    return (
        f"Estimated {rule_title(metric)} of {name} over {len(drawn)} places in time: from {percent(min(values))} to "
        f"{percent(max(values))}, at last {percent(values[-1])}; observed at {labelled} of them. "
        "Arrow keys read it window by window, Enter opens one; the numbers stand in the table below."
    )


def _query(asked: Mapping[str, str], new: Mapping[str, str | None]) -> str:
    """The address's query with something changed; None takes it out."""
    kept = {name: asked[name] for name in KEPT if asked.get(name)}
    changed = {name.rstrip("_"): value for name, value in new.items()}
    out = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"?{urlencode(out)}" if out else "?"


def _presets(newest: list[WindowView]) -> list[tuple[str, str]]:
    """Names and words of the ranges that make sense for the windows' length."""
    short = bool(newest) and newest[0].spec in ("day", "week")
    skipped = ("1d", "7d") if short else ()
    return [(name, word) for name, (word, _) in PRESETS.items() if name not in skipped]


def _segments(windows: list[WindowView]) -> list[tuple[str, list[SegmentRow]]]:
    """By segment: its name, and its values, the largest first."""
    # Of versions side by side the one listed last is shown: one line cannot be both.
    shown = list({window.start: window for window in windows if window.segments}.values())[-SPARK_WINDOWS:]
    by_name: dict[str, dict[str, list[tuple[WindowView, SegmentView]]]] = {}
    for window in shown:
        for part in window.segments:
            by_name.setdefault(part.segment, {}).setdefault(part.value, []).append((window, part))
    out = []
    for name, by_value in by_name.items():
        parts = [part for points in by_value.values() for _, part in points]
        most = max(end for part in parts for end in (part.error, part.high, part.observed) if end is not None)
        times = shown[0].start, shown[-1].end
        largest_first = sorted(by_value.items(), key=lambda pair: -sum(part.rows for _, part in pair[1]))
        rows = []
        for value, points in largest_first:
            labelled = next((part for _, part in reversed(points) if part.observed is not None), None)
            rows.append(SegmentRow(value, points[-1][1], labelled, sparkline(points, most, times)))
        out.append((name, rows))
    return out
