"""How well confidence matches accuracy: expected calibration error and negative log-likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]


def confidence_bin(confidence: FloatArray, bins: int) -> npt.NDArray[np.intp]:
    """(n,) the equal-width bin of each confidence on [0, 1]; each bin holds its right edge.

    >>> confidence_bin(np.array([0.0, 0.1, 0.11, 1.0]), 10).tolist()
    [0, 0, 1, 9]
    """
    edges = np.linspace(0.0, 1.0, bins + 1)
    return np.digitize(confidence, edges[1:-1], right=True)


def ece(
    confidence: FloatArray,
    correct: npt.NDArray[np.bool_],
    mass: FloatArray | None = None,
    bins: int = 15,
) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy over confidence bins.

    ECE = sum_b mass_b |accuracy_b - confidence_b|, with `bins` equal bins on [0, 1]
    (Guo et al., On Calibration of Modern Neural Networks, 2017).

    Args:
        confidence: (n,) the probability given to the prediction.
        correct: (n,) whether the prediction is the label.
        mass: (n,) row masses that sum to 1; equal by default.
        bins: the number of bins.

    >>> round(ece(np.array([0.8, 0.8]), np.array([True, False])), 3)
    0.3
    """
    if mass is None:
        mass = np.full(len(confidence), 1.0 / len(confidence))
    bin_of = confidence_bin(confidence, bins)
    gap = np.bincount(bin_of, weights=mass * (correct - confidence), minlength=bins)
    return float(np.abs(gap).sum())


def mean_nll(logits: FloatArray, labels: npt.NDArray[np.intp], mass: FloatArray) -> float:
    """The mean negative log-likelihood of the labels under softmax(logits), by mass.

    Args:
        logits: (n, K) finite log-scores, up to a constant per row.
        labels: (n,) class indices.
        mass: (n,) row masses that sum to 1.
    """
    return float(mass @ (log_sum_exp(logits) - logits[np.arange(len(labels)), labels]))


def log_sum_exp(logits: FloatArray) -> FloatArray:
    """(n,) log sum_j exp(logits_ij), without overflow."""
    top = logits.max(axis=1)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(axis=1)))
