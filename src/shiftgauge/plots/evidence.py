"""The small tables behind the figures: histograms and shares, as plain values that JSON can carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import fit_calibration
from shiftgauge.calibration.metrics import confidence_bin, ece
from shiftgauge.labelshift import Marginal
from shiftgauge.methods import COTT, Pair
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.threshold import share_beyond
from shiftgauge.methods.view import View
from shiftgauge.samples import Source
from shiftgauge.scans import Total

Array = npt.NDArray[np.float64]
BINS = 20
RELIABILITY_BINS = 10


def confidence_table(pair: Pair) -> dict[str, Any]:
    """Shares of source and target in equal bins of confidence, and the mean confidence of each."""
    out: dict[str, Any] = {"edges": np.linspace(0.0, 1.0, BINS + 1).tolist()}
    views: tuple[tuple[str, View | ScanView], ...] = (("source", pair.source), ("target", pair.target))
    for name, view in views:
        out[name], mass = view.fold(lambda rows: _counted(rows.confidence, rows.weights))
        out[name] = (out[name] / mass).tolist()
        out[f"{name}_mean"] = float(view.mean(lambda rows: rows.confidence))
    return out


def proportions_table(pair: Pair) -> dict[str, Any]:
    """Class shares: source labels and predictions, target predictions, and target labels as MLLS estimates them.

    The last holds if nothing but the class proportions changed between source and target.
    """
    source, target = pair.source, pair.target
    return {
        "classes": [str(name) for name in pair.classes],
        "source_labels": source.label_marginal.tolist(),
        "source_predictions": source.pseudo_labels.tolist(),
        "target_predictions": target.pseudo_labels.tolist(),
        "estimated_target_labels": pair.label_shares.shares.tolist(),
    }


def costs_table(pair: Pair, marginal: Marginal = "source") -> dict[str, Any]:
    """Transport costs of source and target in equal bins, COTT's threshold, and the shares beyond it."""
    fitted = pair.fitted("cott", marginal=marginal)
    assert isinstance(fitted, COTT)
    home = pair.home  # of a target that is not all in memory, the rows at home
    plans = {
        "source": pair.source.transport(fitted.label_marginal_),
        "target": home.whole.transport(fitted.masses(pair.target)),
    }
    out: dict[str, Any] = {"edges": np.linspace(0.0, 1.0, BINS + 1).tolist(), "threshold": fitted.threshold_}
    for name, plan in plans.items():
        _, _, mass, cost = plan.pieces()
        out[name] = _histogram(cost, mass)
        out[f"{name}_mean"] = float(mass @ cost)
        out[f"{name}_beyond"] = share_beyond(cost, mass, fitted.threshold_)
    return out


def reliability_table(view: View) -> dict[str, Any]:
    """Accuracy against confidence on a calibrated source, as the scores came and as they were calibrated."""
    assert isinstance(view.sample, Source)
    raw = View(view.sample, fit_calibration("none", view.sample))
    right = view.predictions == view.labels
    out: dict[str, Any] = {"calibration": view.calibration.name}
    for name, seen in (("before", raw), ("after", view)):
        bins = confidence_bin(seen.confidence, RELIABILITY_BINS)
        mass = np.bincount(bins, view.mass, RELIABILITY_BINS)
        filled = mass > 0.0
        sums = [np.bincount(bins, view.mass * v, RELIABILITY_BINS)[filled] for v in (seen.confidence, right)]
        out[name] = {
            "confidence": (sums[0] / mass[filled]).tolist(),
            "accuracy": (sums[1] / mass[filled]).tolist(),
            "mass": mass[filled].tolist(),
            "ece": ece(seen.confidence, right, view.mass),
        }
    return out


def _counted(values: Array, mass: Array) -> Total:
    """The mass in each bin, and in all."""
    counts, _ = np.histogram(np.clip(values, 0.0, 1.0), bins=BINS, range=(0.0, 1.0), weights=mass)
    return Total((counts, float(mass.sum())))


def _histogram(values: Array, mass: Array) -> list[float]:
    counts, _ = np.histogram(np.clip(values, 0.0, 1.0), bins=BINS, range=(0.0, 1.0), weights=mass)
    return [float(c) for c in counts]
