"""The answer for a window: the library's estimate, range, kind of shift, doctor's findings and report; and labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shiftgauge.inference import estimate
from shiftgauge.methods import Pair
from shiftgauge.methods.range import RANGE_LEVEL, ErrorDistribution
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.monitor.db.rows import decisions, scores_of, segment_of, weights_of
from shiftgauge.monitor.estimate.labels import WindowLabels
from shiftgauge.monitor.settings import Settings
from shiftgauge.reports import report
from shiftgauge.samples import Source, Target
from shiftgauge.validation.labels import MISSING
from shiftgauge.validation.target_labels import UNKNOWN

#: Beyond this many rows the estimate is still of all of them, but the report and the interval of a named method rest on
#: a random choice of so many: resampling takes time in proportion, and the source's noise dominates long before.
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
        metrics: one dictionary per metric beside the error.
    """

    values: dict[str, Any]
    warnings: list[str]
    segments: list[dict[str, Any]]
    details: dict[str, Any]
    report: dict[str, Any]
    metrics: list[dict[str, Any]] = field(default_factory=list)


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
    source: Source,
    rows: Any,
    kind: str,
    settings: Settings,
    about: dict[str, str],
    source_segments: Mapping[str, Sequence[Any]],
) -> WindowEstimate:
    """Estimate a window's error from its scores.

    Args:
        kind: of their scores.
        about: names for the report.
        source_segments: the segments of the source's rows, by name, where it has some: then the report and the details
            say which segments changed, and how the rise splits by each.
    """
    part = rows if rows.num_rows <= LARGE else rows.take(_sample_rows(rows.num_rows))
    groups = {name: _values(part, name) for name in settings.segments}
    target = target_of(part, kind, source.classes)
    made = report(
        source,
        target,
        settings.method,
        by=groups or None,
        source_by=_as_segments(source_segments, groups) or None,
        level=settings.level,
        replicates=settings.replicates,
        about=about,
    ).summary
    answer = made["answer"]
    warnings = list(answer["warnings"])  # those of the interval are among them
    if part is not rows:
        answer = _of_all_rows(source, rows, kind, settings, answer)
        rests = "the report rests" if answer["range"] else "the interval and the report rest"
        warnings.append(f"{SUBSAMPLED}{rows.num_rows:,} rows; {rests} on {LARGE:,} of them, drawn at random")
    ends, details = answer["range"] or answer.get("interval"), answer["details"]
    scores = None
    if answer["range"]:
        around = ErrorDistribution(answer["error"], details["scale_low"], details["scale_high"])
        scores = around.range(RANGE_LEVEL)
    values = {
        "method": settings.method,
        "error": answer["error"],
        "low": ends["low"] if ends else None,
        "high": ends["high"] if ends else None,
        "level": ends["level"] if ends else None,
        "sampling": _sampling(answer),
        "scores_error": answer["error"],
        "scores_low": scores.low if scores else None,
        "scores_high": scores.high if scores else None,
        "shift": details.get("shift"),
        "status": made["diagnosis"]["level"],
    }
    kept = {
        "choice": details.get("choice"),
        "reason": details.get("reason"),
        "answers": details.get("answers"),
        "range": ends["kind"] if ends else None,
        "doctor": made["diagnosis"]["reasons"],
        "drivers": _drivers(made["drivers"]),
    }
    segments = [segment for table in made["slices"] for segment in _segments(table)]
    return WindowEstimate(values, list(dict.fromkeys(warnings)), segments, kept, made)


def _as_segments(given: Mapping[str, Sequence[Any]], groups: Mapping[str, Any]) -> dict[str, Any]:
    """The source's values of the watched segments; those that the window counts together, too."""
    out = {}
    for name in groups.keys() & given.keys():
        known = set(groups[name].tolist())
        other = next((value for value in known if value.startswith("(other: ")), None)
        texts = [text or MISSING for text in given[name]]
        out[name] = np.array([t if t in known or other is None else other for t in texts], dtype=object)
    return out


def _drivers(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the window's page shows of the drivers; the report has them whole."""
    if found is None:
        return None
    names = ("column", "distance", "p_adjusted", "mix", "within", "mix_range", "within_range")
    return {
        "rise": found["rise"],
        "columns": [{name: one[name] for name in names} for one in found["columns"]],
        "counts": found["counts"],
    }


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


def _of_all_rows(
    source: Source, rows: Any, kind: str, settings: Settings, answer: dict[str, Any]
) -> dict[str, Any]:
    """The estimate of all rows; around that of a named method stands the interval of some of them."""
    target = target_of(rows, kind, source.classes)
    whole = estimate(source, target, settings.method, level=settings.level).content()
    ends = answer.get("interval")
    if whole["range"] is None and ends is not None:
        moved = whole["error"] - answer["error"]
        low, high = max(0.0, ends["low"] + moved), min(1.0, ends["high"] + moved)
        whole["interval"] = {**ends, "low": low, "high": high}
    return whole


def window_pair(source: Source, rows: Any, kind: str, labels: WindowLabels | None) -> Pair:
    """The source and the window, with the labels that are evidence."""
    target = target_of(rows, kind, source.classes)
    if labels is None:
        return Pair(source, target)
    names = range(target.k) if source.classes is None else source.classes
    known = {row: names[j] for row, j in labels.classes.items()}
    return Pair(source, target, labels=known, labels_chosen=labels.chosen)


def with_labels(estimate_: WindowEstimate, pair: Pair, level: float, about: Sequence[str]) -> WindowEstimate:
    """The window's answer from its scores and labels together; segments and the report stay those of the scores."""
    combined = estimate(pair, method=DEFAULT, level=level)
    assert combined.error is not None
    assert combined.range is not None
    assert combined.labels is not None
    # The library's warnings about the scores are among the combined ones, as far as they still hold.
    still = [text for text in estimate_.warnings if text.startswith(SUBSAMPLED)]
    below = combined.error - combined.range.low
    sampling = estimate_.values["sampling"]
    values = {
        "error": combined.error,
        "low": combined.range.low,
        "high": combined.range.high,
        "level": combined.range.level,
        "sampling": below if sampling is None else min(sampling, below),
    }
    details = {**estimate_.details, "labels": combined.labels.to_dict(), "range": combined.range.kind}
    if combined.labels.chosen != UNKNOWN:
        # The doctor doubts the scores; a random sample of labels does not depend on them.
        values["status"], details["doctor"] = combined.details["grade"], []
    return replace(
        estimate_,
        values=estimate_.values | values,
        warnings=[*combined.warnings, *still, *(LABEL_WARNING + text for text in about)],
        details=details,
    )


#: How the warning begins that the report and the segments rest on some of the rows.
SUBSAMPLED = "the estimate is of all "
#: How warnings about labels begin, so that the next revision can tell them from the estimate's own.
LABEL_WARNING = "labels: "


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
            "low": row["range"] and row["range"]["low"],
            "high": row["range"] and row["range"]["high"],
        }
        for row in table["rows"]
    ]
