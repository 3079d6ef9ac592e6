"""The observed error of a window: what the labels so far say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from shiftgauge.binomial import wilson
from shiftgauge.errors import InputError
from shiftgauge.inference import with_labels
from shiftgauge.monitor.db.ids import LatestLabels
from shiftgauge.monitor.db.models import ScoreFormat
from shiftgauge.monitor.db.rows import decisions, numbers, segment_of, weights_of
from shiftgauge.monitor.estimate.answer import target_of
from shiftgauge.validation.labels import MISSING


@dataclass(frozen=True)
class ObservedError:
    """The error by labels.

    Attributes:
        error, low, high: None where the labels do not suffice.
        labels: how many there are.
        kind: `all rows`, `sample` (as if the labelled rows were drawn at random) or `design` (requested rows).
        warnings: sentences.
    """

    error: float | None
    low: float | None
    high: float | None
    labels: int
    kind: str | None
    warnings: tuple[str, ...] = ()


def true_classes(rows: Any, labels: LatestLabels, form: ScoreFormat) -> npt.NDArray[np.int32]:
    """(n,) the class of each row by its label, as an index; -1 where there is no label, or none of this version."""
    matched = labels.find(numbers(rows, "key"))
    if not labels.texts:
        return matched
    classes = form.index_of(labels.texts)
    return np.where(matched >= 0, classes[matched], np.int32(-1)).astype(np.int32)


def is_wrong(rows: Any, truth: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """(n,) whether the prediction is not the label (False where there is none)."""
    return np.asarray((truth >= 0) & (decisions(rows) != truth))


def _weights(rows: Any) -> npt.NDArray[np.float64]:
    weights = weights_of(rows)
    return np.ones(rows.num_rows) if weights is None else weights


def observed_error(
    rows: Any, truth: npt.NDArray[np.int32], level: float, design: Any = None, kind: str = "probs"
) -> ObservedError:
    """The error by the labels so far.

    With every row labelled, or rows labelled as they happened to be, it is the (weighted) share of wrong rows
    with Wilson's interval, for the population that the rows came from (weights by Kish's effective number).
    Where rows were requested (`design`, see `label_requests`), only requested ones count, through the unbiased
    estimator of `shiftgauge.with_labels`, for the error of just these rows.
    """
    there = truth >= 0
    count = int(there.sum())
    if not count:
        return ObservedError(None, None, None, 0, None)
    wrong = is_wrong(rows, truth)
    if design is not None and count < len(truth):
        return _by_design(rows, truth, wrong, design, level, kind)
    weights = _weights(rows)[there]
    if weights.sum() <= 0:
        return ObservedError(None, None, None, count, None, ("the labelled rows have no weight",))
    share = float(weights @ wrong[there] / weights.sum())
    low, high = wilson(
        share, float(weights.sum() ** 2 / np.square(weights).sum()), float(ndtri(0.5 + level / 2))
    )
    return ObservedError(share, low, high, count, "all rows" if count == len(truth) else "sample")


def _by_design(rows: Any, truth: Any, wrong: Any, design: Any, level: float, kind: str) -> ObservedError:
    """Through the plan: labels of rows that were not requested are not used, since they are not a random choice."""
    plan, place = design.placed(numbers(rows, "key"))
    if plan is None:
        return ObservedError(
            None, None, None, int((truth >= 0).sum()), None, ("rows of the label request were erased",)
        )
    known = {int(row): int(truth[place[row]]) for row in plan.rows if truth[place[row]] >= 0}
    try:
        combined = with_labels(plan, target_of(rows.take(place), kind), known, level=level)
    except InputError as problem:
        return ObservedError(
            None, None, None, len(known), None, (f"labels so far do not suffice: {problem}",)
        )
    error = min(1.0, max(0.0, combined.error))
    return ObservedError(
        error,
        combined.interval.low,
        combined.interval.high,
        combined.labels,
        "design",
        tuple(combined.warnings),
    )


def observed_by_segment(
    segments: list[dict[str, Any]], rows: Any, truth: npt.NDArray[np.int32]
) -> list[dict[str, Any]]:
    """The segments with their observed errors; values that were counted together have none."""
    wrong, weights = is_wrong(rows, truth), _weights(rows)
    out = []
    for segment in segments:
        texts = segment_of(rows, segment["segment"])
        mine = np.array([(text or MISSING) == segment["value"] for text in texts]) & (truth >= 0)
        total = float(weights[mine].sum())
        share = float(weights[mine] @ wrong[mine] / total) if total > 0 else None
        out.append({**segment, "observed": share, "labels": int(mine.sum())})
    return out
