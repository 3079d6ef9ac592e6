"""The band that learns: from how far past estimates missed, how far this one may.

Let s be a window's miss |realised - estimate| in units of its own doubt u (half the wider of its range and its range at
95%, and at least a point). The band is estimate -+ q u, where q is the quantile at level 1 - a of the misses
known so far and of twenty from elsewhere, and a is adapted: after each realised error

    a <- a + g (alpha - missed),        alpha = 1 - level,

so that too many misses widen the band and too few narrow it. Summed over T windows this gives
|misses / T - alpha| <= (1 + g (1 + D)) / (g T) for labels that come D windows late, whatever the shift does: from
a <= 0 on the band is [0, 1], which misses nothing, so a is bounded (Gibbs and Candes 2021, proposition 4.1).

Late labels would make the band swing, so the step g is divided by 1 + D. The twenty misses from elsewhere are what a
band can rest on before labels come; `benchmarks/band.py` makes them, and shows what the rule gives on data that they
were not taken from.

References: Gibbs and Candes, Adaptive Conformal Inference Under Distribution Shift, 2021; Angelopoulos, Candes
and Tibshirani, Conformal PID Control for Time Series Prediction, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, select

from shiftgauge.monitor.service.windows import ENOUGH
from shiftgauge.monitor.store.schema import revisions, windows

#: Misses of `auto` in units of its doubt, at shares 0.05, 0.10, ..., 0.95 and 0.995, over windows of 300 rows of
#: seven families of data that count alike: five of natural tables, Fashion-MNIST and CIFAR-10 under corruptions.
ELSEWHERE = (
    0.02, 0.03, 0.05, 0.07, 0.09, 0.10, 0.12, 0.15, 0.17, 0.20,
    0.22, 0.25, 0.28, 0.31, 0.35, 0.40, 0.47, 0.55, 0.81, 3.05,
)  # fmt: skip
#: How far one window moves the level, and how many misses are remembered.
STEP, MEMORY = 0.05, 200
#: The level of the range whose half-width is the unit of misses, whatever level the settings ask for.
UNIT_LEVEL = 0.95
#: The least doubt, so that a window of very many rows does not promise what nobody knows.
LEAST = 0.01


@dataclass(frozen=True)
class Miss:
    """A past window: its band as first published, and what turned out.

    Attributes:
        window_id: whose.
        time: of its first row.
        covered: whether the realised error lay in the band; None while too few labels are there.
        size: how far off the estimate was, in units of its doubt; None likewise.
    """

    window_id: int
    time: int
    covered: bool | None
    size: float | None = None


def doubt(values: Mapping[str, Any]) -> float:
    """u: half the wider of the range and the range at 95%, and at least a point."""
    widths = [
        (values[f"{name}high"] - values[f"{name}low"]) / 2
        for name in ("", "band_")
        if values.get(f"{name}low") is not None and values.get(f"{name}high") is not None
    ]
    return float(max([LEAST, *widths]))


def reach(past: Sequence[Miss], level: float, elsewhere: Sequence[float] = ELSEWHERE) -> float:
    """q after these windows, in order of time; infinite where everything must be allowed for.

    >>> reach([], 0.9), reach([Miss(i, i, True, i / 10) for i in range(30)], 0.9)
    (0.55, 1.8)
    """
    judged = [miss for miss in past if miss.size is not None]
    last = max((i for i, miss in enumerate(past) if miss.size is not None), default=-1)
    waiting = len(past) - 1 - last
    alpha = 1.0 - level
    a = alpha + STEP / (1 + waiting) * sum(alpha - (not miss.covered) for miss in judged)
    if a <= 0.0:
        return math.inf
    sizes = sorted([*elsewhere, *(miss.size for miss in judged[-MEMORY:] if miss.size is not None)])
    rank = math.ceil(len(sizes) * (1.0 - a) - 1e-9)
    return sizes[rank - 1] if rank > 0 else 0.0


def learned(past: Sequence[Miss], values: Mapping[str, Any], level: float) -> tuple[float, float]:
    """The band around an estimate, cut to [0, 1].

    >>> learned([], {"error": 0.5, "low": 0.25, "high": 0.75}, 0.9)
    (0.3625, 0.6375)
    """
    half = reach(past, level) * doubt(values)
    return max(0.0, values["error"] - half), min(1.0, values["error"] + half)


def history(
    connection: Connection, version_id: int | Select[tuple[int]], before: int | None = None
) -> list[Miss]:
    """The estimated windows of a version in order of time, up to a time; each with the band it first showed.

    Of each window the first and the newest revision are read, however many lie between them.
    """
    first, last = revisions.alias(), revisions.alias()
    of = [version_id] if isinstance(version_id, int) else version_id
    held = (
        select(
            windows.c.id,
            windows.c.low.label("time"),
            *(first.c[name] for name in ("error", "low", "high", "band_low", "band_high")),
            first.c.learned_low,
            first.c.learned_high,
            last.c.realised,
            last.c.labels,
            last.c.rows,
        )
        .join(first, and_(first.c.window_id == windows.c.id, first.c.revision == 1))
        .join(last, and_(last.c.window_id == windows.c.id, last.c.revision == windows.c.revision))
        .where(windows.c.version_id.in_(of), first.c.learned_low.is_not(None))
        .order_by(windows.c.low, windows.c.id)
    )
    if before is not None:
        held = held.where(windows.c.low < before)
    return [_judged(row) for row in connection.execute(held)]


def _judged(row: Any) -> Miss:
    if row.realised is None or row.labels < min(ENOUGH, row.rows):
        return Miss(row.id, row.time, None)
    covered = bool(row.learned_low <= row.realised <= row.learned_high)
    return Miss(row.id, row.time, covered, abs(row.realised - row.error) / doubt(row._mapping))
