"""Alerts: what fired, what resolved, and which messages could not be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shiftgauge.methods.labels import MOST_LABELLED
from shiftgauge.monitor.db.windows import ENOUGH, WindowView
from shiftgauge.monitor.periods import HOUR, iso
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.results import percent
from shiftgauge.validation.target_labels import UNKNOWN


def confirmation(confirmed: bool) -> str:
    """What to say of an alert about an error.

    >>> confirmation(False)
    'not confirmed: label some rows'
    """
    return "confirmed" if confirmed else "not confirmed: label some rows"


#: The setting behind each rule.
SETTINGS = {
    "error": "error",
    "rise": "rise",
    "width": "width",
    "silence": "silence_hours",
    "not-estimated": "not_estimated_hours",
}
#: Rules about an error, and what its value rests on.
ERRORS = {"error": "error", "rise": "rise over the source's error"}
SCORES, BOTH, LABELS = "the estimated {}", "the {} from scores and labels", "the {} by labels"


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
        confirmed: whether the range's lower end exceeds the limit too; None for rules that are not about an error.
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

    A limit on the error (or on its rise) fires where each of these windows exceeds it by more than its sampling part.
    The window's error is its answer from scores and labels together. Where a named method answers from scores alone,
    the observed error replaces it as soon as 30 rows, or all, are labelled. A window with so many labels that lies
    within the limit resolves the alert; without labels it resolves where every one of these windows lies within the
    limit, so that it does not flap.

    Args:
        version: whose.
        newest: its estimated windows, newest first.
        limits: what is allowed.
    """
    last = newest[: limits.windows]
    if len(last) < limits.windows:
        return []
    out = [
        _on_error(rule, version, last, getattr(limits, rule))
        for rule in ERRORS
        if getattr(limits, rule) is not None
    ]
    if limits.width is not None:
        out.append(_on_width(version, last, limits.width))
    return out


def _on_error(rule: str, version: str, last: Sequence[WindowView], limit: float) -> Finding:
    readings = [_read_window(w, w.source_error if rule == "rise" else 0.0) for w in last]
    labelled = next((one for one in readings if one.labelled), None)
    shown, count = readings[0], f" for {len(last)} windows" if len(last) > 1 else ""
    state, where = None, "beyond"
    if all(one.value - one.sampling > limit for one in readings):
        state = "fire"
    elif labelled is not None and labelled.value <= limit:
        state, where, shown, count = "resolve", "within", labelled, ""
    elif all(one.value <= limit for one in readings):
        state, where = "resolve", "within"
    message = (
        f"{shown.basis.format(ERRORS[rule])} of {version} is {percent(shown.value)} in {shown.window}: {where} "
        f"{percent(limit)}{count}"
    )
    confirmed = any(one.floor is not None and one.floor > limit for one in readings)
    return Finding(rule, version, state, limit, shown.value, message, shown.window, confirmed)


@dataclass(frozen=True)
class WindowReading:
    """What a window says of the error (or of its rise).

    Attributes:
        window: its name.
        basis: what the value rests on, in words.
        value: the error.
        sampling: its sampling part.
        floor: what confirms an alert where it exceeds the limit; None where nothing can.
        labelled: whether enough rows have labels to resolve an alert.
    """

    window: str
    basis: str
    value: float
    sampling: float
    floor: float | None
    labelled: bool


def _read_window(w: WindowView, base: float | None) -> WindowReading:
    """A window's error (of an estimated one: it has an estimate and a source), less a base."""
    assert w.error is not None
    assert base is not None
    if w.evidence is None and w.observed is not None and w.has_enough_labels:
        # A named method does not use labels. With every row labelled the observed error is exact.
        low = w.observed if w.labels >= w.rows or w.observed_low is None else w.observed_low
        observed = w.observed - base
        return WindowReading(w.name, LABELS, observed, w.observed - low, observed, True)
    floor, basis, labelled = w.low if w.measured else None, SCORES, False
    if w.evidence is not None:
        basis = LABELS if w.evidence.n >= w.rows else BOTH
        labelled = w.evidence.n >= min(ENOUGH, w.rows)
        if floor is not None and w.evidence.chosen == UNKNOWN and w.evidence.n < MOST_LABELLED * w.rows:
            # Complaints come first: labels that nobody requested do not confirm what the scores do not say.
            floor = min(floor, w.evidence.scores_range.low)
    return WindowReading(
        w.name, basis, w.error - base, w.sampling or 0.0, None if floor is None else floor - base, labelled
    )


def _on_width(version: str, last: Sequence[WindowView], limit: float) -> Finding:
    """The range is too wide to say much; a named method has no measured range, so this rule does not apply."""
    widths = [w.high - w.low for w in last if w.measured and w.high is not None and w.low is not None]
    state = None
    if len(widths) == len(last) and all(width > limit for width in widths):
        state = "fire"
    elif len(widths) == len(last) and all(width <= limit for width in widths):
        state = "resolve"
    where = "within" if state == "resolve" else "beyond"
    width_text = percent(widths[0]) if widths else "unknown"
    message = (
        f"the width of the range of {version} is {width_text} in {last[0].name}: {where} {percent(limit)}"
    )
    return Finding("width", version, state, limit, widths[0] if widths else None, message, last[0].name)


def silence(limits: AlertLimits, last_row: int | None, created: int, now: int) -> Finding | None:
    """No rows for too long (counted from the model's making, where none ever came)."""
    if limits.silence_hours is None:
        return None
    since = last_row or created
    hours = (now - since) / HOUR
    quiet = hours > limits.silence_hours
    message = f"no rows since {iso(since)}" if quiet else f"rows are arriving again, the last at {iso(since)}"
    return Finding("silence", None, "fire" if quiet else "resolve", limits.silence_hours, hours, message)


def not_estimated(limits: AlertLimits, overdue: Sequence[Any], now: int) -> Finding | None:
    """Windows that should have been estimated long ago, and are not.

    Args:
        limits: what is allowed.
        overdue: closed windows without an estimate, oldest first: `name`, `due`, `reason`.
        now: the time.
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
    message = (
        f"{count} could not be estimated, the first {late[0].name}: {late[0].reason or 'no worker took it'}"
    )
    return Finding("not-estimated", None, "fire", limits.not_estimated_hours, hours, message, late[0].name)
