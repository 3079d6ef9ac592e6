"""One line per target row: what the methods say about each."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfree.estimators.cot import COT
from labelfree.estimators.scot import SCOT
from labelfree.estimators.view import View
from labelfree.labelshift import Marginal
from labelfree.types import Source, Target


def row_table(
    source: Source, target: Target, *, calibration: str = "temperature", marginal: Marginal = "source"
) -> dict[str, Any]:
    """Columns of equal length, one value per target row.

    Returns:
        `prediction` (name or index), `confidence` (calibrated), `transport_label` and `transport_cost`
        (the exact plan's class for the row and its cost), `error_probability` (SCOT: 1 - r of the prediction).
    """
    cot = COT(calibration=calibration, marginal=marginal).fit(source)
    scot = SCOT(calibration=calibration, marginal=marginal).fit_view(View(source, cot.calibration_))
    view = View(target.aligned(source.classes, source.k), cot.calibration_)
    hard = view.transport(cot.masses(view))
    soft = view.soft_transport(scot.masses(view))
    names = np.asarray(source.classes if source.classes is not None else range(source.k))
    return {
        "prediction": names[view.predictions],
        "confidence": view.confidence,
        "transport_label": names[hard.assigned],
        "transport_cost": hard.cost,
        "error_probability": view.doubt(soft.posterior),
    }
