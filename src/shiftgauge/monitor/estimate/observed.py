"""The observed error of a window: what the labels so far say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from shiftgauge.binomial import wilson
from shiftgauge.monitor.db.ids import LatestLabels
from shiftgauge.monitor.db.models import ScoreFormat
from shiftgauge.monitor.db.rows import decisions, numbers, segment_of, weights_of
from shiftgauge.validation.labels import MISSING

NO_WEIGHT = "the labelled rows have no weight"


@dataclass(frozen=True)
class ObservedError:
    """The error by labels.

    Attributes:
        error, low, high: None where the labels do not suffice.
        labels: how many there are.
        kind: `all rows`, `requested` (only requested rows have labels) or `sample` (as if the labelled rows were drawn
            at random).
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
    rows: Any,
    truth: npt.NDArray[np.int32],
    level: float,
    requested: npt.NDArray[np.bool_] | None = None,
) -> ObservedError:
    """The error of the labelled rows: the (weighted) share of wrong ones, with Wilson's interval.

    The interval is for the population that the rows came from (weights by Kish's effective number), as if the labelled
    rows were drawn at random.

    Args:
        rows: the window's rows.
        truth: (n,) their classes by labels, -1 where there is none.
        level: of the interval.
        requested: (n,) which rows were requested; None for none.
    """
    there = truth >= 0
    count = int(there.sum())
    if not count:
        return ObservedError(None, None, None, 0, None)
    weights = _weights(rows)[there]
    if weights.sum() <= 0:
        return ObservedError(None, None, None, count, None, (NO_WEIGHT,))
    share = float(weights @ is_wrong(rows, truth)[there] / weights.sum())
    low, high = wilson(
        share, float(weights.sum() ** 2 / np.square(weights).sum()), float(ndtri(0.5 + level / 2))
    )
    kind = "sample" if requested is None or not requested[there].all() else "requested"
    return ObservedError(share, low, high, count, "all rows" if count == len(truth) else kind)


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
