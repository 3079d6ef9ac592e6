"""Alerts: what fired, what resolved, and which messages could not be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shiftgauge.monitor.db.windows import WindowView
from shiftgauge.monitor.periods import HOUR, iso
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.results import percent


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
#: Rules about an error: what an estimate and what labels are called.
ERRORS = {
    "error": ("the estimated error", "the error by labels"),
    "rise": ("the estimated rise over the source's error", "the rise over the source's error by labels"),
}


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
        confirmed: whether the range's lower end or labels exceed the limit too; None for rules that are not about
            an error.
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

    A limit on the error (or on its rise) fires where each of these windows exceeds it: the estimate by more than
    its sampling part, or the labels by more than theirs. Labels replace the estimate as soon as 30 of them, or
    all, are there: a window whose observed error lies within the limit does not exceed it, and resolves the
    alert. Without labels it resolves where every one of these estimates lies within the limit, so that it does
    not flap.

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
    labelled = next((one for one in readings if one.observed is not None), None)
    shown, count = readings[0], f" for {len(last)} windows" if len(last) > 1 else ""
    state, where = None, "beyond"
    if all(one.exceeds(limit) for one in readings):
        state = "fire"
    elif labelled is not None and labelled.value <= limit:
        state, where, shown, count = "resolve", "within", labelled, ""
    elif all(one.value <= limit for one in readings):
        state, where = "resolve", "within"
    words = ERRORS[rule][shown.observed is not None]
    message = (
        f"{words} of {version} is {percent(shown.value)} in {shown.window}: {where} {percent(limit)}{count}"
    )
    confirmed = any(one.confirms(limit) for one in readings)
    return Finding(rule, version, state, limit, shown.value, message, shown.window, confirmed)


@dataclass(frozen=True)
class WindowReading:
    """What a window says of the error (or of its rise): the estimate, and the labels where they are enough."""

    window: str
    estimate: float
    sampling: float
    floor: float | None
    observed: float | None
    observed_low: float | None

    @property
    def value(self) -> float:
        """The observed error, or the estimate."""
        return self.estimate if self.observed is None else self.observed

    def exceeds(self, limit: float) -> bool:
        """Whether the estimate or the labels exceed the limit by more than their sampling error."""
        if self.observed is not None and self.observed <= limit:
            return False
        by_labels = self.observed_low is not None and self.observed_low > limit
        return by_labels or self.estimate - self.sampling > limit

    def confirms(self, limit: float) -> bool:
        """Whether the labels, or without them the range's lower end, exceed the limit."""
        value = self.floor if self.observed is None else self.observed
        return value is not None and value > limit


def _read_window(w: WindowView, base: float | None) -> WindowReading:
    """A window's error (of an estimated one: it has an estimate and a source), less a base."""
    assert w.error is not None
    assert base is not None
    # With every row labelled the observed error is exact: nothing is sampled.
    low = w.observed if w.labels >= w.rows else w.observed_low
    observed = w.observed if w.has_enough_labels else None
    return WindowReading(
        w.name,
        w.error - base,
        w.sampling or 0.0,
        w.low - base if w.measured and w.low is not None else None,
        None if observed is None else observed - base,
        None if observed is None or low is None else low - base,
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
