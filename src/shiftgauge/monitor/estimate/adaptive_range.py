"""The adaptive range: past misses of the estimates say how wide it must be.

Let s be a window's miss |observed - estimate| in units of u, half the width of the range that the scores alone give at
90%, and at least a point. The estimate is the one from scores alone: labels improve a window's answer, but what is
learned here is how wrong windows are that have none yet. The adaptive range is estimate -+ q u, where q is the quantile
at level 1 - a of the misses known so far and of twenty from other data, and a is adapted: after each observed error

    a <- a + g (alpha - missed),        alpha = 1 - level,

so that too many misses widen the range and too few narrow it. Summed over T windows this gives
|misses / T - alpha| <= (1 + g (1 + D)) / (g T) for labels that come D windows late, whatever the shift does: from
a <= 0 on the range is [0, 1], which misses nothing, so a is bounded (Gibbs and Candes 2021, proposition 4.1).

Late labels would make the range swing, so the step g is divided by 1 + D. The twenty misses from other data are the
prior before labels come; `benchmarks/adaptive_range.py` makes them, and shows what the rule gives on other data again.

References: Gibbs and Candes, Adaptive Conformal Inference Under Distribution Shift, 2021; Angelopoulos, Candes
and Tibshirani, Conformal PID Control for Time Series Prediction, 2023.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, computed_field
from sqlalchemy import Connection, Select, and_, select

from shiftgauge.monitor.db.models import model_row
from shiftgauge.monitor.db.schema import revisions, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import ENOUGH
from shiftgauge.monitor.records import Record

#: Misses of `auto` in units of the half-width, at shares 0.05, 0.10, ..., 0.95 and 0.995, over windows of 300 rows of
#: 23 families of data that count alike: 21 of natural tables, Fashion-MNIST and CIFAR-10 under corruptions.
PRIOR_MISSES = (
    0.02, 0.04, 0.07, 0.09, 0.11, 0.14, 0.17, 0.20, 0.23, 0.25,
    0.29, 0.33, 0.36, 0.40, 0.46, 0.54, 0.64, 0.86, 1.18, 2.28,
)  # fmt: skip
#: How far one window moves the level, and how many misses are remembered.
STEP, MEMORY = 0.05, 200
#: The least half-width, so that a window of very many rows does not promise too much.
MIN_HALF_WIDTH = 0.01


@dataclass(frozen=True)
class Miss:
    """A past window: its range as first published, and the observed error.

    Attributes:
        window_id: whose.
        time: of its first row.
        covered: whether the observed error lay in the range; None while there are too few labels.
        size: how far off the estimate was, in units of the half-width; None likewise.
        level: the nominal level of its range; None for the one that the settings have now.
    """

    window_id: int
    time: int
    covered: bool | None
    size: float | None = None
    level: float | None = None


def range_half_width(values: Mapping[str, Any]) -> float:
    """u: half the width of the range from scores alone, or else of a named method's interval; at least a point."""
    name = "scores_" if values.get("scores_low") is not None else ""
    low, high = values.get(f"{name}low"), values.get(f"{name}high")
    return MIN_HALF_WIDTH if low is None or high is None else max(MIN_HALF_WIDTH, float(high - low) / 2)


def miss_quantile(past: Sequence[Miss], level: float, elsewhere: Sequence[float] = PRIOR_MISSES) -> float:
    """q after these windows, in order of time; infinite if everything must be allowed for.

    >>> miss_quantile([], 0.9), miss_quantile([Miss(i, i, True, i / 10) for i in range(30)], 0.9)
    (0.86, 1.8)
    """
    judged = [miss for miss in past if miss.size is not None]
    last = max((i for i, miss in enumerate(past) if miss.size is not None), default=-1)
    waiting = len(past) - 1 - last
    # A range that had another level may have missed more or less often: each miss counts against its own.
    excess = sum(1.0 - (level if miss.level is None else miss.level) - (not miss.covered) for miss in judged)
    a = 1.0 - level + STEP / (1 + waiting) * excess
    if a <= 0.0:
        return math.inf
    sizes = sorted([*elsewhere, *(miss.size for miss in judged[-MEMORY:] if miss.size is not None)])
    rank = math.ceil(len(sizes) * (1.0 - a) - 1e-9)
    return sizes[rank - 1] if rank > 0 else 0.0


def adaptive_range(past: Sequence[Miss], values: Mapping[str, Any], level: float) -> tuple[float, float]:
    """The range around an estimate from scores, cut to [0, 1].

    >>> adaptive_range([], {"scores_error": 0.5, "scores_low": 0.4, "scores_high": 0.6}, 0.5)
    (0.475, 0.525)
    """
    half = miss_quantile(past, level) * range_half_width(values)
    return max(0.0, values["scores_error"] - half), min(1.0, values["scores_error"] + half)


def history(
    connection: Connection, version_id: int | Select[tuple[int]], before: int | None = None
) -> list[Miss]:
    """The estimated windows of a version in order of time, up to a time; each with the range it first showed.

    Of each window the first and the newest revision are read, however many lie between them.
    """
    first, last = revisions.alias(), revisions.alias()
    of = [version_id] if isinstance(version_id, int) else version_id
    query = (
        select(
            windows.c.id,
            windows.c.low.label("time"),
            *(first.c[name] for name in ("scores_error", "scores_low", "scores_high", "low", "high")),
            first.c.adaptive_low,
            first.c.adaptive_high,
            first.c.adaptive_level,
            last.c.observed,
            last.c.labels,
            last.c.rows,
        )
        .join(first, and_(first.c.window_id == windows.c.id, first.c.revision == 1))
        .join(last, and_(last.c.window_id == windows.c.id, last.c.revision == windows.c.revision))
        .where(windows.c.version_id.in_(of), first.c.adaptive_low.is_not(None))
        .order_by(windows.c.low, windows.c.id)
    )
    if before is not None:
        query = query.where(windows.c.low < before)
    return [_miss_of(row) for row in connection.execute(query)]


def _miss_of(row: Any) -> Miss:
    if row.observed is None or row.labels < min(ENOUGH, row.rows):
        return Miss(row.id, row.time, None)
    covered = bool(row.adaptive_low <= row.observed <= row.adaptive_high)
    size = abs(row.observed - row.scores_error) / range_half_width(row._mapping)
    return Miss(row.id, row.time, covered, size, row.adaptive_level)


class Coverage(Record):
    """How often the adaptive range covered the observed error, at the level that the settings have now."""

    windows: int = Field(description="with both an adaptive range at this level and an observed error")
    covered: int = Field(description="of these, those whose observed error lies within")
    level: float = Field(description="the nominal level")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> float | None:
        """covered / windows; None before the first."""
        return self.covered / self.windows if self.windows else None


def coverage(store: Store, model: str, version: str | None = None) -> Coverage:
    """How often the adaptive range, as it was first published, covered the observed error.

    Over all windows whose range has the level that the settings have now.
    """
    with store.read() as connection:
        row = model_row(connection, model)
        level = json.loads(row.settings)["level"]
        ids = select(versions.c.id).where(versions.c.model_id == row.id)
        if version is not None:
            ids = ids.where(versions.c.name == version)
        past = history(connection, ids)
    judged = [miss for miss in past if miss.covered is not None and miss.level == level]
    return Coverage(windows=len(judged), covered=sum(bool(miss.covered) for miss in judged), level=level)
