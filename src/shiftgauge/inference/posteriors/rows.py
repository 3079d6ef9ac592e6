"""One line per target row: what the methods say about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shiftgauge.labelshift import Marginal
from shiftgauge.methods.cot import COT
from shiftgauge.methods.pair import Pair, taken
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.methods.scanned import block_of
from shiftgauge.methods.view import View
from shiftgauge.transport import Streamed


def row_table(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> dict[str, Any]:
    """Columns of equal length, one value per target row.

    Returns:
        `id` where the target's rows have one, `prediction` (name or index), `confidence` (calibrated),
        `transport_label` and `transport_cost` (the exact plan's class for the row and its cost, to the label shares
        of `marginal`; left out where deployed decisions differ from the largest score), `error_probability` (by the
        posterior behind the method's answer: its mean is that answer).
    """
    read = row_reader(pair, method, marginal=marginal, proportions=proportions)
    return read(pair.whole, 0)


def row_reader(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> Callable[[View, int], dict[str, Any]]:
    """What gives the columns of `row_table` for some rows: for their view, and the number of the first of them."""
    own = taken(method, marginal=marginal, proportions=proportions)
    asked = [(method, own), *([("cot", {"marginal": marginal})] if pair.follows_argmax else [])]
    pair.read_together(asked)
    hard = None
    if pair.follows_argmax:
        cot = pair.fitted("cot", marginal=marginal)
        assert isinstance(cot, COT)
        hard = pair.target.transport(cot.masses(pair.target))
    believed = pair.belief(method, **own)
    names = np.asarray(pair.classes)

    def read(rows: View, start: int) -> dict[str, Any]:
        plan: dict[str, Any] = {}
        if hard is not None:
            label, cost = (
                hard.rows(block_of(rows, start)) if isinstance(hard, Streamed) else (hard.assigned, hard.cost)
            )
            plan = {"transport_label": names[label], "transport_cost": cost}
        ids = rows.sample.ids
        return {
            **({} if ids is None else {"id": ids}),
            "prediction": names[rows.predictions],
            "confidence": rows.confidence,
            **plan,
            "error_probability": rows.doubt(believed(rows)),
        }

    return read
