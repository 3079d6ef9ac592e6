"""Bias-corrected temperature: one temperature for all classes and one offset for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration.fit import softmax
from shiftgauge.calibration.vector import OFFSETS, OPTIONS, SCALES

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BiasCorrected:
    """p = softmax(scale z + offset)."""

    scale: float
    offset: Array

    def probs(self, logits: Array) -> Array:
        """(n, K) calibrated probabilities of (n, K) log-scores."""
        return softmax(logits * self.scale + self.offset)


def bias_corrected(logits: Array, labels: npt.NDArray[np.intp], mass: Array) -> BiasCorrected:
    """Minimise the source's negative log-likelihood over one scale and K offsets (convex; L-BFGS).

    At the minimum the mean posterior of the source equals its label shares, which is what makes MLLS
    consistent for a classifier whose confidence is wrong class by class.

    Args:
        logits: (n, K) finite log-scores.
        labels: (n,) class indices.
        mass: (n,) row masses that sum to 1.

    Reference: Alexandari, Kundaje and Shrikumar, 2020 (there: BCTS).
    """
    from scipy.optimize import minimize

    z = logits - logits.max(axis=1, keepdims=True)
    n, k = z.shape
    of_label = z[np.arange(n), labels]
    share = np.bincount(labels, weights=mass, minlength=k)

    def loss(x: Array) -> tuple[float, npt.NDArray[np.float64]]:
        a = z * x[0] + x[1:]
        top = a.max(axis=1, keepdims=True)
        p = np.exp(a - top)
        total = p.sum(axis=1, keepdims=True)
        value = mass @ (top + np.log(total))[:, 0] - x[0] * (mass @ of_label) - share @ x[1:]
        p *= mass[:, None] / total
        slope = np.concatenate([[float((p * z).sum() - mass @ of_label)], p.sum(axis=0) - share])
        return float(value), slope

    start = np.concatenate([[1.0], np.zeros(k)])
    bounds = [SCALES] + [OFFSETS] * k
    found = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=OPTIONS,
    )
    return BiasCorrected(float(found.x[0]), found.x[1:])
