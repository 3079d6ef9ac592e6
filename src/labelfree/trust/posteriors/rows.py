"""One line per target row: what the methods say about each."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfree.estimators.cot import COT
from labelfree.estimators.pair import Pair
from labelfree.labelshift import Marginal


def row_table(pair: Pair, *, marginal: Marginal = "source") -> dict[str, Any]:
    """Columns of equal length, one value per target row.

    Returns:
        `id` where the target's rows have one, `prediction` (name or index), `confidence` (calibrated),
        `transport_label` and `transport_cost` (the exact plan's class for the row and its cost),
        `error_probability` (SCOT: 1 - r of the prediction).
    """
    cot = pair.fitted("cot", marginal=marginal)
    assert isinstance(cot, COT)
    hard = pair.target.transport(cot.masses(pair.target))
    names = np.asarray(pair.classes)
    ids = pair.target.sample.ids
    return {
        **({} if ids is None else {"id": ids}),
        "prediction": names[pair.target.predictions],
        "confidence": pair.target.confidence,
        "transport_label": names[hard.assigned],
        "transport_cost": hard.cost,
        "error_probability": pair.doubt(marginal),
    }
