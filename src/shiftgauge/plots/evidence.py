"""The small tables behind the figures: histograms and shares, as plain values that JSON can carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import Calibration, fit_calibration
from shiftgauge.calibration.metrics import confidence_bin, ece
from shiftgauge.labelshift import Marginal
from shiftgauge.methods import COTT, Pair
from shiftgauge.methods.threshold import TIE
from shiftgauge.rows import Block, Rows, Totals, run
from shiftgauge.samples import Source
from shiftgauge.transport import exact_transport

Array = npt.NDArray[np.float64]
BINS = 20
RELIABILITY_BINS = 10


def confidence_table(pair: Pair) -> dict[str, Any]:
    """Shares of source and target in equal bins of confidence, and the mean confidence of each."""
    out: dict[str, Any] = {"edges": np.linspace(0.0, 1.0, BINS + 1).tolist()}
    for name, rows in (("source", pair.source), ("target", pair.target)):
        counts, total, mass = run(rows.fold(_confidences))
        out[name] = (counts / mass).tolist()
        out[f"{name}_mean"] = float(total / mass)
    return out


def proportions_table(pair: Pair) -> dict[str, Any]:
    """Class shares: source labels and predictions, target predictions, and target labels as MLLS estimates them.

    The last holds if nothing but the class proportions changed between source and target.
    """
    return {
        "classes": [str(name) for name in pair.classes],
        "source_labels": pair.source_sample.label_marginal.tolist(),
        "source_predictions": run(pair.source.moments()).pseudo_labels.tolist(),
        "target_predictions": run(pair.target.moments()).pseudo_labels.tolist(),
        "estimated_target_labels": pair.label_shares.shares.tolist(),
    }


def costs_table(pair: Pair, marginal: Marginal = "source") -> dict[str, Any]:
    """Transport costs of source and target in equal bins, COTT's threshold, and the shares beyond it."""
    fitted = pair.fitted("cott", marginal=marginal)
    assert isinstance(fitted, COTT)
    out: dict[str, Any] = {"edges": np.linspace(0.0, 1.0, BINS + 1).tolist(), "threshold": fitted.threshold_}

    async def costs(rows: Rows, masses: Array) -> Totals:
        plan = await exact_transport(rows, masses)
        return await rows.fold(_costs, plan, float(fitted.threshold_ - TIE))

    async def both() -> tuple[Totals, Totals]:
        chosen = await fitted.choose_marginal(pair.target)
        return await costs(pair.source, fitted.label_marginal_), await costs(pair.target, chosen.masses)

    for name, (counts, total, beyond, mass) in zip(("source", "target"), run(both()), strict=True):
        out[name] = (counts / mass).tolist()
        out[f"{name}_mean"] = float(total / mass)
        out[f"{name}_beyond"] = float(min(1.0, beyond / mass))
    return out


def reliability_table(source: Source, calibration: Calibration) -> dict[str, Any]:
    """Accuracy against confidence on the source, as the scores came and as they were calibrated."""
    right = source.predictions == source.labels
    out: dict[str, Any] = {"calibration": calibration.name}
    for name, fitted in (("before", fit_calibration("none", source)), ("after", calibration)):
        confidence = run(Rows.of(source).calibrated(fitted).collect()).confidence
        bins = confidence_bin(confidence, RELIABILITY_BINS)
        mass = np.bincount(bins, source.mass, RELIABILITY_BINS)
        filled = mass > 0.0
        sums = [np.bincount(bins, source.mass * v, RELIABILITY_BINS)[filled] for v in (confidence, right)]
        out[name] = {
            "confidence": (sums[0] / mass[filled]).tolist(),
            "accuracy": (sums[1] / mass[filled]).tolist(),
            "mass": mass[filled].tolist(),
            "ece": ece(confidence, right, source.mass),
        }
    return out


def _confidences(block: Block) -> Totals:
    """The mass in each bin of confidence, the sum of the confidences, and all mass."""
    w, c = block.mass, block.confidence
    return Totals((_histogram(c, w), float(np.einsum("i,i->", w, c)), float(w.sum())))


def _costs(block: Block, plan: Any, cut: float) -> Totals:
    """The mass in each bin of transport cost, the sum of the costs, the mass at the cut or beyond it, and all mass."""
    pieces = plan.pieces(block)
    mass, cost = pieces.mass, pieces.cost
    total = float(np.einsum("i,i->", mass, cost))
    return Totals((_histogram(cost, mass), total, float(mass[cost >= cut].sum()), float(block.mass.sum())))


def _histogram(values: Array, mass: Array) -> Array:
    counts, _ = np.histogram(np.clip(values, 0.0, 1.0), bins=BINS, range=(0.0, 1.0), weights=mass)
    return np.asarray(counts, dtype=np.float64)
