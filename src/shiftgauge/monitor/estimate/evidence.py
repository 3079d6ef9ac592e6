"""Which labels of a window are evidence for its error, and how their rows were chosen.

Labels that nobody requested, such as complaints, are no random sample: they move the answer and do not narrow its range
until most rows have one. Labels of requested rows are a random sample, and narrow it. A window with both uses the
requested ones alone: the others would turn the sample into one that nobody knows the origin of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

from shiftgauge.methods.labels import MOST_LABELLED
from shiftgauge.monitor.db.rows import from_arrow_stream, numbers, weights_of
from shiftgauge.monitor.db.schema import plans
from shiftgauge.validation.target_labels import RANDOM, UNKNOWN

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
        rows: the window's rows.
        truth: (n,) their classes by labels, -1 where there is none.
        design: the rows that were requested, or None.
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
