"""The source's joint distribution of predictions and labels: what BBSE and RLLS invert."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def joint_confusion(predictions: Indices, labels: Indices, mass: Array, k: int) -> Array:
    """(K, K) the share of the source predicted as j and labelled c, in row j and column c.

    Args:
        predictions: (n,) predicted classes.
        labels: (n,) true classes.
        mass: (n,) row masses that sum to 1.
        k: the number of classes.

    >>> joint_confusion(np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]), np.full(4, .25), 2).tolist()
    [[0.25, 0.0], [0.25, 0.5]]
    """
    counts = np.bincount(predictions * k + labels, weights=mass, minlength=k * k)
    return np.asarray(counts.reshape(k, k), dtype=np.float64)


def normalised(masses: Array, fallback: Array) -> Array:
    """Non-negative masses that sum to 1; the fallback where nothing positive is left."""
    kept = np.maximum(masses, 0.0)
    total = kept.sum()
    return np.asarray(kept / total) if total > 0.0 else fallback.copy()
