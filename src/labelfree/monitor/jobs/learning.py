"""The band that learns: from how far past estimates missed, how far this one may.

Let s be a window's miss |realised - estimate| in units of its own doubt u (half the wider of interval and band of
disagreement, and at least a point). The band is estimate -+ q u, and after each realised error

    q <- q + step (missed - alpha),        alpha = 1 - level,

online gradient descent on the quantile loss: too many misses widen it, too few narrow it. Summed over T windows,
|misses / T - alpha| = |q_T - q_0| / (step T), whatever the shift does and however late the labels come, as long
as q stays bounded, and it does, since the error is a share: long-run coverage is the level asked for.

References: Gibbs and Candes, Adaptive Conformal Inference Under Distribution Shift, 2021; Angelopoulos, Candes
and Tibshirani, Conformal PID Control for Time Series Prediction, 2023 (quantile tracking).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from labelfree.monitor.store.schema import revisions, windows

#: Where q begins, and how far one window moves it.
START, STEP = 1.5, 0.4
#: The least doubt, so that a window of very many rows does not promise what nobody knows.
LEAST = 0.01
#: A realised error that rests on fewer labels teaches nothing.
ENOUGH = 30


@dataclass(frozen=True)
class Miss:
    """A past window: its band as first published, and what turned out.

    Attributes:
        window_id: whose.
        time: of its first row.
        covered: whether the realised error lay in the band; None while too few labels are there.
    """

    window_id: int
    time: int
    covered: bool | None


def doubt(values: dict[str, Any]) -> float:
    """u: half the wider of interval and band of disagreement, and at least a point."""
    widths = [
        (values[f"{name}high"] - values[f"{name}low"]) / 2
        for name in ("", "band_")
        if values.get(f"{name}low") is not None and values.get(f"{name}high") is not None
    ]
    return float(max([LEAST, *widths]))


def reach(past: Sequence[Miss], level: float) -> float:
    """q after these windows."""
    q = START
    for miss in past:
        if miss.covered is not None:
            q = max(0.0, q + STEP * ((not miss.covered) - (1.0 - level)))
    return q


def learned(past: Sequence[Miss], values: dict[str, Any], level: float) -> tuple[float, float]:
    """The band around an estimate, cut to [0, 1].

    >>> learned([], {"error": 0.2, "low": 0.15, "high": 0.25}, 0.9)
    (0.125, 0.275)
    """
    half = reach(past, level) * doubt(values)
    return max(0.0, values["error"] - half), min(1.0, values["error"] + half)


def history(connection: Connection, version_id: int, before: int | None = None) -> list[Miss]:
    """The estimated windows of a version in order of time, up to a time; each with the band it first showed."""
    held = (
        select(
            windows.c.id,
            windows.c.low.label("time"),
            revisions.c.learned_low,
            revisions.c.learned_high,
            revisions.c.realised,
            revisions.c.labels,
            revisions.c.rows,
        )
        .join(revisions, revisions.c.window_id == windows.c.id)
        .where(windows.c.version_id == version_id, revisions.c.learned_low.is_not(None))
        .order_by(windows.c.low, windows.c.id, revisions.c.revision)
    )
    if before is not None:
        held = held.where(windows.c.low < before)
    first: dict[int, Any] = {}
    last: dict[int, Any] = {}
    for row in connection.execute(held):
        first.setdefault(row.id, row)
        last[row.id] = row
    return [Miss(number, row.time, _covered(row, last[number])) for number, row in first.items()]


def _covered(first: Any, last: Any) -> bool | None:
    if last.realised is None or last.labels < min(ENOUGH, last.rows):
        return None
    return bool(first.learned_low <= last.realised <= first.learned_high)
