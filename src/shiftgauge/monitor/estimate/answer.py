"""The answer for a window: the library's estimate, range, kind of shift, doctor's findings and report."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftgauge.inference import estimate
from shiftgauge.methods.range import range_of
from shiftgauge.monitor.db.rows import decisions, scores_of, segment_of, weights_of
from shiftgauge.monitor.estimate.adaptive_range import UNIT_LEVEL
from shiftgauge.monitor.settings import Settings
from shiftgauge.reports import report
from shiftgauge.samples import Source, Target
from shiftgauge.validation.labels import MISSING

#: Beyond this many rows the estimate is still of all of them, but the range and the report rest on a random
#: choice of so many: resampling takes time in proportion, and the source's noise dominates long before.
LARGE = 20_000
#: Only so many values of a segment are estimated one by one, the largest ones.
MOST_VALUES = 20


@dataclass(frozen=True)
class WindowEstimate:
    """What is kept of an estimate.

    Attributes:
        values: columns of the table `revisions`.
        warnings: sentences.
        segments: one dictionary per value of a watched segment.
        details: plain values.
        report: the report's summary.
    """

    values: dict[str, Any]
    warnings: list[str]
    segments: list[dict[str, Any]]
    details: dict[str, Any]
    report: dict[str, Any]


def target_of(rows: Any, kind: str, classes: Sequence[Hashable] | None = None) -> Target:
    """The rows as a `Target`; they were checked on arrival, in the precision they had then."""
    predictions: Any = decisions(rows)
    if classes is not None:
        predictions = [classes[j] for j in predictions.tolist()]
    weights = weights_of(rows)
    weights = weights if weights is not None and weights.max() > 0 else None
    scores: dict[str, Any] = {kind: scores_of(rows)}
    return Target(**scores, classes=classes, predictions=predictions, weights=weights, tolerance=0.02)


def estimate_rows(
    source: Source, rows: Any, kind: str, settings: Settings, about: dict[str, str]
) -> WindowEstimate:
    """Estimate a window's error.

    Args:
        source: the version's labelled scores.
        rows: the window's rows.
        kind: of their scores.
        settings: method, level, replicates, segments.
        about: names for the report.
    """
    part = rows if rows.num_rows <= LARGE else rows.take(_sample_rows(rows.num_rows))
    groups = {name: _values(part, name) for name in settings.segments}
    target = target_of(part, kind, source.classes)
    made = report(
        source,
        target,
        settings.method,
        by=groups or None,
        level=settings.level,
        replicates=settings.replicates,
        about=about,
    ).summary
    answer = made["answer"]
    error, ends = answer["error"], answer["range"] or answer.get("interval")
    warnings = list(answer["warnings"])  # those of the interval are among them
    if part is not rows:
        error, ends = _recentre(source, rows, kind, settings, error, ends)
        warnings.append(
            f"the estimate is of all {rows.num_rows:,} rows; range and report rest on {LARGE:,} of them, "
            "drawn at random"
        )
    details = answer["details"]
    unit = None
    if answer["range"]:
        unit = range_of(answer["error"], details, source.n_effective, target.n_effective, UNIT_LEVEL)
    values = {
        "method": settings.method,
        "error": error,
        "low": ends["low"] if ends else None,
        "high": ends["high"] if ends else None,
        "level": ends["level"] if ends else None,
        "sampling": _sampling(answer),
        "range95_low": unit.low if unit else None,
        "range95_high": unit.high if unit else None,
        "shift": details.get("shift"),
        "status": made["verdict"]["level"],
    }
    kept = {
        "choice": details.get("choice"),
        "reason": details.get("reason"),
        "answers": details.get("answers"),
        "range": ends["kind"] if ends else None,
    }
    segments = [segment for table in made["slices"] for segment in _segments(table)]
    return WindowEstimate(values, list(dict.fromkeys(warnings)), segments, kept, made)


def _sample_rows(n: int) -> Any:
    return np.sort(np.random.default_rng(0).choice(n, LARGE, replace=False))


def _sampling(answer: dict[str, Any]) -> float | None:
    """The half-width of the sampling error: of the range's sampling part, or of a named method's interval.

    Of an interval the lower side counts, which alerts read.
    """
    if answer["sampling"]:
        return float(answer["sampling"]["high"] - answer["sampling"]["low"]) / 2.0
    ends = answer.get("interval")
    return None if ends is None else max(0.0, float(answer["error"] - ends["low"]))


def _recentre(
    source: Source, rows: Any, kind: str, settings: Settings, error: float, ends: Any
) -> tuple[float, Any]:
    """The estimate of all rows, and the range of some of them around it."""
    whole = estimate(source, target_of(rows, kind, source.classes), settings.method).error
    assert whole is not None
    if ends is None:
        return whole, None
    shift = whole - error
    return whole, {**ends, "low": max(0.0, ends["low"] + shift), "high": min(1.0, ends["high"] + shift)}


def _values(rows: Any, name: str) -> Any:
    """(n,) the segment of each row; the rarest values are counted together."""
    shown = np.array([text or MISSING for text in segment_of(rows, name)], dtype=object)
    names, inverse, count = np.unique(shown.astype(str), return_inverse=True, return_counts=True)
    if len(names) > MOST_VALUES:
        rare = np.argsort(-count, kind="stable")[MOST_VALUES:]
        shown[np.isin(inverse.reshape(-1), rare)] = f"(other: {len(rare)})"
    return shown


def _segments(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "segment": table["column"],
            "value": row["slice"],
            "rows": row["rows"],
            "error": row["error"],
            "low": row["interval"]["low"],
            "high": row["interval"]["high"],
        }
        for row in table["rows"]
    ]
