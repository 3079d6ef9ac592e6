"""The label marginal that COT, COTT and SCOT transport to: an argument, with its assumption."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError, nearest

#: A name from `MARGINALS`, an array of K masses, or a mapping from class names to masses.
Marginal: TypeAlias = Any

#: What each name assumes about the target's labels.
MARGINALS = {
    "source": "the target has the source's class proportions",
    "shrunk": "as source, less what sampling noise alone would explain",
    "bbse": "only class proportions changed; estimated from the predictions (BBSE)",
    "rlls": "only class proportions changed; estimated from the predictions, regularised (RLLS)",
    "mlls": "only class proportions changed; estimated by maximum likelihood (MLLS)",
}

#: The names that estimate the target's own label shares, under label shift.
LABEL_SHIFT = ("bbse", "rlls", "mlls")


def check_marginal(marginal: Marginal) -> None:
    """Refuse a marginal that is neither a known name nor something like an array."""
    if isinstance(marginal, str) and marginal not in MARGINALS:
        known = ", ".join(MARGINALS)
        raise InputError(
            f"marginal {marginal!r} is not known; wanted {known}, or one mass per class{nearest(marginal, MARGINALS)}"
        )
    if marginal is None:
        raise InputError("marginal None is not known; wanted a name such as 'source', or one mass per class")


def total_variation(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Half the L1 distance between two distributions over classes.

    It is also W_1 between them as distributions of one-hot labels under the L-infinity ground cost, the
    paper's measure of pseudo-label shift.

    >>> total_variation(np.array([0.5, 0.5]), np.array([0.75, 0.25]))
    0.25
    """
    return float(np.abs(a - b).sum() / 2)
