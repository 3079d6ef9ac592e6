"""The noise-aware marginal: do not read sampling noise as shift."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def shrink(
    source: Array, reference: Array, variance: Array, n_source: float, n_target: float
) -> tuple[Array, float]:
    """Move the source marginal q towards the target's own reference h by the share that is noise.

    q' = h + s (q - h),  s = max(0, 1 - noise / |h - q|^2),  where noise is the squared distance that
    sampling alone would give: sum_j q_j (1 - q_j) / n_source + sum_j var_j / n_target. With no shift and
    few rows s is near 0 and the estimate falls back on the target's own reference; with many rows or a
    real shift s is near 1.

    Args:
        source: (K,) q, the source's label shares.
        reference: (K,) h, the target's predicted shares.
        variance: (K,) the variance over rows of each column's contribution to h.
        n_source, n_target: effective numbers of rows.

    Returns:
        q' (K,) and s.

    >>> q, s = shrink(np.array([.6, .4]), np.array([.5, .5]), np.array([.25, .25]), 100, 100)
    >>> round(s, 3), q.round(3).tolist()
    (0.51, [0.551, 0.449])
    """
    distance = float(np.square(reference - source).sum())
    noise = float((source * (1.0 - source)).sum() / n_source + variance.sum() / n_target)
    s = max(0.0, 1.0 - noise / distance) if distance > 0.0 else 0.0
    return reference + s * (source - reference), s
