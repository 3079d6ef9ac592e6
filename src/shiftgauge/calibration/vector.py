"""Vector scaling: a scale and an offset per class, for models that are wrong class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration.metrics import FloatArray

#: Bounds that keep separable classes from running off to infinity.
SCALES = (0.05, 20.0)
OFFSETS = (-20.0, 20.0)
#: Of L-BFGS, which runs to convergence.
OPTIONS = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9}


@dataclass(frozen=True)
class Vector:
    """Calibrated log-scores are `scale_j * z_j + offset_j` (vector scaling; Guo et al., 2017).

    z is the log-score less the row's largest, so that logits and log-probabilities give the same.
    """

    scale: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]

    def transform(self, logits: FloatArray) -> FloatArray:
        """(n, K) log-scores in, calibrated log-scores out."""
        z = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(z * self.scale + self.offset)

    def details(self) -> dict[str, Any]:
        """What to report: the scale and offset of each class."""
        return {"vector": {"scale": self.scale.tolist(), "offset": self.offset.tolist()}}

    def warnings(self) -> tuple[str, ...]:
        """A sentence where a class ran to the end of its range."""
        at_bound = np.isin(self.scale, SCALES) | np.isin(self.offset, OFFSETS)
        if not at_bound.any():
            return ()
        return (
            f"vector scaling ran to its bound for {int(at_bound.sum())} of {len(self.scale)} classes "
            "(too few labels of them?); consider temperature scaling",
        )


def fit_vector(logits: FloatArray, labels: npt.NDArray[np.intp], mass: npt.NDArray[np.float64]) -> Vector:
    """Minimise the source's negative log-likelihood over a scale and an offset per class.

    The loss is convex in both; L-BFGS with its exact gradient runs to convergence. Scales start at 1
    and offsets at 0, so that a class the labels never pull on stays as it was.

    Args:
        logits: (n, K) finite log-scores.
        labels: (n,) class indices.
        mass: (n,) row masses that sum to 1.
    """
    from scipy.optimize import minimize

    z = logits - logits.max(axis=1, keepdims=True)
    n, k = z.shape
    rows = np.arange(n)
    share = np.bincount(labels, weights=mass, minlength=k)
    pull = np.bincount(labels, weights=mass * z[rows, labels], minlength=k)

    def loss(x: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        scaled = z * x[:k] + x[k:]
        top = scaled.max(axis=1, keepdims=True)
        p = np.exp(scaled - top)
        total = p.sum(axis=1, keepdims=True)
        value = mass @ (top + np.log(total))[:, 0] - mass @ scaled[rows, labels]
        p *= mass[:, None] / total
        return float(value), np.concatenate([(p * z).sum(0) - pull, p.sum(0) - share])

    start = np.concatenate([np.ones(k), np.zeros(k)])
    found = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[SCALES] * k + [OFFSETS] * k,
        options=OPTIONS,
    )
    return Vector(scale=found.x[:k], offset=found.x[k:])
