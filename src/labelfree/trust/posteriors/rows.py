"""One line per target row: what the methods say about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labelfree.estimators.cot import COT
from labelfree.estimators.pair import Pair, taken
from labelfree.estimators.registry import DEFAULT
from labelfree.estimators.scanned import block_of
from labelfree.estimators.view import View
from labelfree.labelshift import Marginal
from labelfree.transport import Streamed


def row_table(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> dict[str, Any]:
    """Columns of equal length, one value per target row.

    Returns:
        `id` where the target's rows have one, `prediction` (name or index), `confidence` (calibrated),
        `transport_label` and `transport_cost` (the exact plan's class for the row and its cost, to the label shares
        of `marginal`), `error_probability` (by the posterior behind the method's answer: its mean is that answer).
    """
    read = row_reader(pair, method, marginal=marginal, proportions=proportions)
    return read(pair.whole, 0)


def row_reader(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> Callable[[View, int], dict[str, Any]]:
    """What gives the columns of `row_table` for some rows: for their view, and the number of the first of them."""
    own = taken(method, marginal=marginal, proportions=proportions)
    cot = pair.fitted("cot", marginal=marginal)
    assert isinstance(cot, COT)
    pair.read_together([(method, own), ("cot", {"marginal": marginal})])
    hard = pair.target.transport(cot.masses(pair.target))
    believed = pair.belief(method, **own)
    names = np.asarray(pair.classes)

    def read(rows: View, start: int) -> dict[str, Any]:
        label, cost = (
            hard.rows(block_of(rows, start)) if isinstance(hard, Streamed) else (hard.assigned, hard.cost)
        )
        ids = rows.sample.ids
        return {
            **({} if ids is None else {"id": ids}),
            "prediction": names[rows.predictions],
            "confidence": rows.confidence,
            "transport_label": names[label],
            "transport_cost": cost,
            "error_probability": rows.doubt(believed(rows)),
        }

    return read
