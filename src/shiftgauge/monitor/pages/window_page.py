"""What the page of a window shows: the estimate and the observed error side by side, and every revision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftgauge.monitor.db.models import get_settings
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import WindowView, get_window, list_revisions, neighbours
from shiftgauge.monitor.pages.format import format_range, pluralize, range_name
from shiftgauge.monitor.pages.scale import percent_scale
from shiftgauge.monitor.problems import unknown
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.reports.page import percent

#: A name, its look, its value and its ends.
Bounds = tuple[str, str, float | None, float | None, float | None]
#: Steps of the picture of a range that labels narrow, at most.
MOST_STEPS = 8
CHOSEN = {
    "random": "a random sample of the rows",
    "unknown": "labels that nobody requested",
}
CLOSING = {
    "random": "The labelled rows are a random sample: each label narrows the range.",
    "unknown": "Labels that nobody requested move the estimate. They do not narrow its range until most rows have one: "
    "request some.",
}


@dataclass(frozen=True)
class BarRow:
    """A row of the picture: a name, its look, its value and ends in percent of the width, and the same in words."""

    name: str
    look: str
    value: float | None
    low: float | None
    high: float | None
    text: str
    between: str


@dataclass(frozen=True)
class ComparisonChart:
    """The picture: rows, and ticks: their places in percent of the width, and their texts."""

    bars: list[BarRow]
    ticks: list[tuple[float, str]]


def window_values(store: Store, model: str, name: str, revision: str | None) -> dict[str, Any]:
    """Everything that `window.html.j2` needs."""
    revisions = list_revisions(store, model, name)
    shown = _chosen(revisions, revision) if revisions else get_window(store, model, name)
    before, after = neighbours(store, model, name)
    return {
        "w": shown,
        "revisions": revisions,
        "beside": comparison_bars(shown, get_settings(store, model).limits)
        if shown.error is not None
        else None,
        "closing": closing_bars(revisions),
        "closing_note": CLOSING[shown.evidence.chosen] if shown.evidence else "",
        "chosen": CHOSEN,
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


def closing_bars(revisions: list[WindowView]) -> ComparisonChart | None:
    """The range of the scores alone, and how labels narrowed it, by number of labels; None without labels."""
    by_labels = {view.evidence.n: view for view in reversed(revisions) if view.evidence}
    if not by_labels:
        return None
    counts = sorted(by_labels)
    if len(counts) > MOST_STEPS:  # the first, the last, and some between
        places = [round(i * (len(counts) - 1) / (MOST_STEPS - 1)) for i in range(MOST_STEPS)]
        counts = [counts[i] for i in places]
    newest = by_labels[counts[-1]].evidence
    assert newest is not None
    scores = newest.scores_range
    rows: list[Bounds] = [("scores alone", "methods", newest.scores_error, scores.low, scores.high)]
    for count in counts:
        view = by_labels[count]
        rows.append((pluralize(count, "label"), "estimate", view.error, view.low, view.high))
    return _chart(rows)


def comparison_bars(w: WindowView, limits: AlertLimits) -> ComparisonChart:
    """The estimate, what surrounds it, and the observed error, on one scale."""
    rise = None if w.source_error is None or limits.rise is None else w.source_error + limits.rise
    answers = (w.details.get("answers") or {}).values()
    rows: list[Bounds] = [
        (f"estimate, {range_name(w)}", "estimate", w.error, w.low, w.high),
        ("adaptive range", "adaptive", None, w.adaptive_low, w.adaptive_high),
        ("all methods", "methods", None, min(answers, default=None), max(answers, default=None)),
        ("observed error", "observed", w.observed, w.observed_low, w.observed_high),
        ("error on the source", "source", w.source_error, None, None),
        ("limit on the error", "limit", limits.error, None, None),
        ("limit on the rise", "limit", rise, None, None),
    ]
    return _chart([row for row in rows if row[2] is not None or row[3] is not None])


def _chart(rows: list[Bounds]) -> ComparisonChart:
    top, step = percent_scale([end for row in rows for end in row[2:] if end is not None])

    def x(value: float | None) -> float | None:
        return None if value is None else round(100 * value / top, 2)

    bars = [
        BarRow(
            name,
            look,
            x(value),
            x(low),
            x(high),
            percent(value),
            "" if low is None else format_range(low, high),
        )
        for name, look, value, low, high in rows
    ]
    ticks = [i * step for i in range(round(top / step) + 1)]
    return ComparisonChart(bars, [(round(100 * at / top, 2), f"{100 * at:.3g}%") for at in ticks])
