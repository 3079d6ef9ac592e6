"""The labels of a window: the error that they observe, and which of them are evidence for the estimate.

Labels that nobody requested, such as complaints, are no random sample: they move the answer and do not narrow its range
until most rows have one. Labels of requested rows are a random sample, and narrow it. A window with both uses the
requested ones alone: the others would turn the sample into one that nobody knows the origin of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sqlalchemy import Connection, select

from shiftgauge.binomial import wilson
from shiftgauge.methods.labels import MOST_LABELLED
from shiftgauge.monitor.db.ids import LatestLabels
from shiftgauge.monitor.db.models import ScoreFormat
from shiftgauge.monitor.db.rows import decisions, from_arrow_stream, numbers, segment_of, weights_of
from shiftgauge.monitor.db.schema import plans
from shiftgauge.validation.labels import MISSING
from shiftgauge.validation.target_labels import RANDOM, UNKNOWN

NO_WEIGHT = "the labelled rows have no weight"
#: A plan is a random sample of the rows that were there when it was made. If more than this share of a window's rows
#: came later, its labels count as of unknown origin.
MOST_LATER = 0.1


@dataclass(frozen=True)
class LabelDesign:
    """The rows that were requested, in the order in which to label them.

    Attributes:
        table: columns `key`, the keyed hash of each row's id, and `error_probability`.
        rows: how many rows the window had then.
    """

    table: Any
    rows: int

    def column(self, name: str) -> npt.NDArray[Any]:
        """(m,) a column of the table."""
        return np.asarray(self.table.column(name).to_numpy())


def label_design(connection: Connection, window_id: int) -> LabelDesign | None:
    """The rows of a window that were requested, or None."""
    row = connection.execute(select(plans).where(plans.c.window_id == window_id)).first()
    if row is None:
        return None
    return LabelDesign(from_arrow_stream(row.payload), row.rows)


@dataclass(frozen=True)
class WindowLabels:
    """The labels that are evidence.

    Attributes:
        classes: the class of each labelled row, as an index, by the row's number in the window.
        chosen: `"random"` or `"unknown"`, as `shiftgauge.estimate` takes it.
        warnings: sentences.
    """

    classes: dict[int, int]
    chosen: str
    warnings: tuple[str, ...] = ()


def requested_rows(rows: Any, design: LabelDesign | None) -> npt.NDArray[np.bool_]:
    """(n,) which rows of a window were requested."""
    return np.isin(numbers(rows, "key"), [] if design is None else design.column("key"))


def window_labels(
    rows: Any, truth: npt.NDArray[np.int32], design: LabelDesign | None, *, all_random: bool
) -> WindowLabels | None:
    """The labels that are evidence for a window's error; None if there are none.

    Args:
        truth: (n,) their classes by labels, -1 where there is none.
        all_random: whether the settings say that labels are of a random sample of rows.
    """
    labelled = truth >= 0
    requested = labelled & requested_rows(rows, design)
    chosen, warnings = RANDOM if all_random else UNKNOWN, []
    if design is not None and requested.any() and not all_random and labelled.mean() < MOST_LABELLED:
        labelled = requested
        later = 1.0 - design.rows / len(truth)
        chosen = RANDOM if later <= MOST_LATER else UNKNOWN
        if chosen == UNKNOWN:
            warnings.append(
                f"{100 * later:.0f}% of the rows came after the label request: its labels do not narrow the range"
            )
    places = np.flatnonzero(labelled)
    weights = weights_of(rows)
    if not len(places) or (weights is not None and weights[places].sum() <= 0.0):
        return None
    return WindowLabels({int(i): int(truth[i]) for i in places}, chosen, tuple(warnings))


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
        truth: (n,) their classes by labels, -1 where there is none.
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
