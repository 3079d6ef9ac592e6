"""One line per target row: what the methods say about each."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfree.estimators.cot import COT
from labelfree.estimators.pair import Pair, taken
from labelfree.estimators.registry import DEFAULT
from labelfree.labelshift import Marginal


def row_table(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> dict[str, Any]:
    """Columns of equal length, one value per target row.

    Returns:
        `id` where the target's rows have one, `prediction` (name or index), `confidence` (calibrated),
        `transport_label` and `transport_cost` (the exact plan's class for the row and its cost, to the label shares
        of `marginal`), `error_probability` (by the posterior behind the method's answer: its mean is that answer).
    """
    own = taken(method, marginal=marginal, proportions=proportions)
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
        "error_probability": pair.target.doubt(pair.posterior(method, **own)),
    }
