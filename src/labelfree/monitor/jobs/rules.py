"""The rules of alerts: which limits are exceeded now, and which no longer, from the windows as they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labelfree.monitor.settings import Limits
from labelfree.monitor.spans import HOUR, iso
from labelfree.results import percent


@dataclass(frozen=True)
class Finding:
    """What a rule says of a version or model.

    Attributes:
        rule: its name.
        version: None for the whole model.
        state: `"fire"`, `"resolve"`, or None for neither (between the two nothing changes).
        limit, value: what is allowed, what was found.
        message: one sentence.
        window: the window that decided, or None.
    """

    rule: str
    version: str | None
    state: str | None
    limit: float
    value: float | None
    message: str
    window: str | None = None


@dataclass(frozen=True)
class Measure:
    """How a rule reads a window: what must lie above the limit to fire, and what below it to resolve."""

    sure: Callable[[Any], float | None]
    likely: Callable[[Any], float | None]
    words: str


def _minus_source(name: str) -> Callable[[Any], float | None]:
    def read(window: Any) -> float | None:
        value = getattr(window, name)
        return None if value is None or window.source_error is None else value - window.source_error

    return read


def _spread(window: Any) -> float | None:
    return None if window.band_low is None else float(window.band_high - window.band_low)


MEASURES = {
    "error": Measure(lambda w: w.low, lambda w: w.error, "the estimated error"),
    "rise": Measure(_minus_source("low"), _minus_source("error"), "the rise of the error over the source's"),
    "disagreement": Measure(_spread, _spread, "the disagreement between methods"),
}


def window_findings(version: str, newest: Sequence[Any], limits: Limits) -> list[Finding]:
    """Rules on windows: a limit fires where the last k windows are surely beyond it (the interval's lower end),
    and resolves where the last k are likely within it (the estimate), so that it does not flap between.

    Args:
        version: whose.
        newest: its estimated windows, newest first.
        limits: what is allowed.
    """
    out = []
    last = newest[: limits.windows]
    for rule, measure in MEASURES.items():
        limit = getattr(limits, rule)
        if limit is None or not last:
            continue
        sure, likely = [measure.sure(w) for w in last], [measure.likely(w) for w in last]
        whole = len(last) == limits.windows
        fire = whole and all(value is not None and value > limit for value in sure)
        calm = whole and all(value is not None and value <= limit for value in likely)
        state = "fire" if fire else "resolve" if calm else None
        count = f" for {limits.windows} windows" if limits.windows > 1 else ""
        value = likely[0]
        said = "unknown" if value is None else percent(value)
        message = f"{measure.words} of {version} is {said} in {last[0].name}: beyond {percent(limit)}{count}"
        if state == "resolve":
            message = (
                f"{measure.words} of {version} is {said} in {last[0].name}: within {percent(limit)}{count}"
            )
        out.append(Finding(rule, version, state, limit, value, message, last[0].name))
    return out


def silence(limits: Limits, last_row: int | None, created: int, now: int) -> Finding | None:
    """No rows for too long (counted from the model's making, where none ever came)."""
    if limits.silence_hours is None:
        return None
    since = last_row or created
    hours = (now - since) / HOUR
    quiet = hours > limits.silence_hours
    message = f"no rows since {iso(since)}" if quiet else f"rows are arriving again, the last at {iso(since)}"
    return Finding("silence", None, "fire" if quiet else "resolve", limits.silence_hours, hours, message)


def not_estimated(limits: Limits, overdue: Sequence[Any], now: int) -> Finding | None:
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
