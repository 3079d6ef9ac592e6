"""The rules of alerts: what the windows of a version, and the model as a whole, say of each limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from shiftgauge.methods.labels import MOST_LABELLED
from shiftgauge.monitor.db.windows import ENOUGH, WindowView
from shiftgauge.monitor.periods import HOUR, during_window, moment, window_date
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.settings import METRICS, AlertLimits, split_metric
from shiftgauge.results import percent
from shiftgauge.validation.target_labels import UNKNOWN


def confirmation(confirmed: bool) -> str:
    """What to say of an alert about an error.

    >>> confirmation(False)
    'not confirmed: label some rows'
    """
    return "confirmed" if confirmed else "not confirmed: label some rows"


#: Rules about an error, and what its value rests on.
ERRORS = {"error": "error", "rise": "rise over the source's error"}
SCORES, BOTH, LABELS = "the estimated {}", "the {} from scores and labels", "the {} by labels"
#: Metrics as messages name them; where no class is named, the mean over classes.
METRIC_NAMES = {"f1": "F1", "roc_auc": "ROC AUC", "class_error": "error"}


def metric_title(name: str) -> str:
    """A metric in words.

    >>> metric_title("recall:fraud"), metric_title("f1"), metric_title("class_error")
    ('recall of class fraud', 'mean F1', 'error of each class')
    """
    kind, of = split_metric(name)
    title = METRIC_NAMES.get(kind, kind)
    if of is not None:
        return f"{title} of class {of}"
    return {"roc_auc": title, "class_error": f"{title} of each class"}.get(kind, f"mean {title}")


def limit_of(limits: AlertLimits, rule: str) -> float | None:
    """The limit behind a rule; None where there is none."""
    kind, _ = split_metric(rule)
    if kind in METRICS:
        return limits.metrics.get(rule, limits.metrics.get(kind) if kind == "class_error" else None)
    names = {"silence": "silence_hours", "not-estimated": "not_estimated_hours"}
    value: float | None = getattr(limits, names.get(rule, rule))
    return value


class AlertMessage(Record):
    """What a webhook gets: a message about an alert."""

    event: str = Field(description="fired, confirmed or resolved")
    alert: int
    model: str
    version: str | None
    rule: str
    limit: float | None
    value: float | None
    window: str | None
    confirmed: bool | None
    message: str
    time: str = Field(json_schema_extra={"format": "date-time"})


@dataclass(frozen=True)
class Finding:
    """What a rule says of a version or model.

    Attributes:
        rule: its name.
        version: None for the whole model.
        state: `"fire"`, `"resolve"`, or None for neither (between the two nothing changes).
        limit, value: what is allowed, and the value it is compared with.
        message: one sentence.
        window: the window that decided, or None.
        confirmed: whether the range as a whole lies beyond the limit; None for rules that are not about a metric.
    """

    rule: str
    version: str | None
    state: str | None
    limit: float
    value: float | None
    message: str
    window: str | None = None
    confirmed: bool | None = None


def window_findings(version: str, newest: Sequence[WindowView], limits: AlertLimits) -> list[Finding]:
    """Rules on windows, read from the last `limits.windows` of them.

    A limit on the error, its rise or a metric fires where each of these windows lies beyond it by more than its
    sampling part. The window's error is its answer from scores and labels together. Where a named method answers from
    scores alone, the observed error replaces it as soon as 30 rows, or all, are labelled; its metrics stay those of the
    scores. A window with so many labels that lies within the limit resolves the alert; without labels it resolves where
    every one of these windows lies within the limit, so that it does not flap.

    Args:
        newest: its estimated windows, newest first.
    """
    last = newest[: limits.windows]
    if len(last) < limits.windows:
        return []
    out = []
    for rule, title in ERRORS.items():
        limit = getattr(limits, rule)
        if limit is not None:
            readings = [_read_error(w, w.source_error if rule == "rise" else 0.0) for w in last]
            out.append(_on_limit(rule, title, version, readings, limit))
    for metric in last[0].metrics:
        limit = limit_of(limits, metric.name)
        found = [_read_metric(w, metric.name) for w in last]
        if limit is not None and all(one is not None for one in found):
            readings = [one for one in found if one is not None]
            out.append(_on_limit(metric.name, metric_title(metric.name), version, readings, limit))
    if limits.width is not None:
        out.append(_on_width(version, last, limits.width))
    return out


def amount(rule: str, value: float) -> str:
    """A value or limit in words; rises and widths are differences, in percentage points.

    >>> amount("error", 0.16), amount("rise", 0.08)
    ('16.0%', '8.0 points')
    """
    return f"{100 * value:.1f} points" if rule in ("rise", "width") else percent(value)


@dataclass(frozen=True)
class WindowReading:
    """What a window says of the error, its rise or a metric.

    Attributes:
        window: its name.
        basis: what the value rests on, in words.
        value: the number.
        sampling: its sampling part.
        confirms: the end of the range that confirms an alert if it lies beyond the limit too; None where nothing can.
        labelled: whether enough rows have labels to resolve an alert.
    """

    window: str
    basis: str
    value: float
    sampling: float
    confirms: float | None
    labelled: bool


def _on_limit(
    rule: str, title: str, version: str, readings: Sequence[WindowReading], limit: float
) -> Finding:
    """Fire where every window lies beyond the limit, resolve where labels or every window lie within it."""
    below = METRICS.get(split_metric(rule)[0]) == "below"
    sign = -1.0 if below else 1.0

    def excess(value: float) -> float:
        return sign * (value - limit)

    labelled = next((one for one in readings if one.labelled), None)
    shown, count = readings[0], f" for {len(readings)} windows" if len(readings) > 1 else ""
    state, side = None, "below" if below else "above"
    if all(excess(one.value) > one.sampling for one in readings):
        state = "fire"
    elif labelled is not None and excess(labelled.value) <= 0.0:
        state, shown, count = "resolve", labelled, ""
    elif all(excess(one.value) <= 0.0 for one in readings):
        state = "resolve"
    confirming = next(
        (one for one in readings if one.confirms is not None and excess(one.confirms) > 0.0), None
    )
    if state == "resolve":
        side = "back above" if below else "back below"
    elif state is None and confirming is not None:  # what is said then is that the alert is confirmed
        shown, count = confirming, ""
    message = (
        f"{shown.basis.format(title)} of {version} is {amount(rule, shown.value)} {during_window(shown.window)}: "
        f"{side} the limit of {amount(rule, limit)}{count}"
    )
    confirmed = confirming is not None
    return Finding(rule, version, state, limit, shown.value, message, shown.window, confirmed)


def _read_error(w: WindowView, base: float | None) -> WindowReading:
    """A window's error (of an estimated one: it has an estimate and a source), less a base."""
    assert w.error is not None
    assert base is not None
    if w.evidence is None and w.observed is not None and w.has_enough_labels:
        # A named method does not use labels. With every row labelled the observed error is exact.
        low = w.observed if w.labels >= w.rows or w.observed_low is None else w.observed_low
        observed = w.observed - base
        return WindowReading(w.name, LABELS, observed, w.observed - low, observed, True)
    floor = w.low if w.measured else None
    if w.evidence is not None and floor is not None and _chosen_by_nobody(w):
        # Complaints come first: labels that nobody requested do not confirm what the scores do not say.
        floor = min(floor, w.evidence.scores_range.low)
    labelled = w.evidence is not None and w.evidence.n >= min(ENOUGH, w.rows)
    confirms = None if floor is None else floor - base
    return WindowReading(w.name, _basis(w), w.error - base, w.sampling or 0.0, confirms, labelled)


def _read_metric(w: WindowView, name: str) -> WindowReading | None:
    """A window's metric; None where it was not estimated, or too few rows are behind it."""
    one = next((metric for metric in w.metrics if metric.name == name), None)
    if one is None or one.value is None or (w.measured and one.low is None):
        return None
    worse = one.low if METRICS[one.metric] == "above" else one.high
    confirms = None if _chosen_by_nobody(w) else worse
    labelled = w.evidence is not None and (one.labels >= ENOUGH or w.evidence.n >= w.rows)
    return WindowReading(w.name, _basis(w), one.value, one.sampling or 0.0, confirms, labelled)


def _basis(w: WindowView) -> str:
    if w.evidence is None:
        return SCORES
    return LABELS if w.evidence.n >= w.rows else BOTH


def _chosen_by_nobody(w: WindowView) -> bool:
    """Whether the answer rests on labels that nobody requested, of fewer than most rows."""
    evidence = w.evidence
    return evidence is not None and evidence.chosen == UNKNOWN and evidence.n < MOST_LABELLED * w.rows


def _on_width(version: str, last: Sequence[WindowView], limit: float) -> Finding:
    """The range is too wide to say much; a named method has no measured range, so this rule does not apply."""
    widths = [w.high - w.low for w in last if w.measured and w.high is not None and w.low is not None]
    state = None
    if len(widths) == len(last) and all(width > limit for width in widths):
        state = "fire"
    elif len(widths) == len(last) and all(width <= limit for width in widths):
        state = "resolve"
    side = "back below" if state == "resolve" else "above"
    width_text = amount("width", widths[0]) if widths else "unknown"
    message = (
        f"the width of the range of {version} is {width_text} {during_window(last[0].name)}: {side} the limit of "
        f"{amount('width', limit)}"
    )
    return Finding("width", version, state, limit, widths[0] if widths else None, message, last[0].name)


def silence(limits: AlertLimits, last_row: int | None, created: int, now: int) -> Finding | None:
    """No rows for too long (counted from the model's making, where none ever came)."""
    if limits.silence_hours is None:
        return None
    since = last_row or created
    hours = (now - since) / HOUR
    quiet = hours > limits.silence_hours
    message = (
        f"no rows since {moment(since)}" if quiet else f"rows are arriving again, the last on {moment(since)}"
    )
    return Finding("silence", None, "fire" if quiet else "resolve", limits.silence_hours, hours, message)


def not_estimated(limits: AlertLimits, overdue: Sequence[Any], now: int) -> Finding | None:
    """Windows that should have been estimated long ago, and are not.

    Args:
        overdue: closed windows without an estimate, oldest first: `name`, `due`, `reason`.
    """
    if limits.not_estimated_hours is None:
        return None
    late = [w for w in overdue if now - w.due > limits.not_estimated_hours * HOUR]
    if not late:
        return Finding(
            "not-estimated",
            None,
            "resolve",
            limits.not_estimated_hours,
            0.0,
            "every closed window is estimated",
        )
    hours = (now - late[0].due) / HOUR
    count = f"{len(late)} windows" if len(late) > 1 else "a window"
    reason = late[0].reason or "no worker took it"
    message = f"{count} could not be estimated, the first {window_date(late[0].name)}: {reason}"
    return Finding("not-estimated", None, "fire", limits.not_estimated_hours, hours, message, late[0].name)
