"""MaNo: the matrix norm of normalised logits, as a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration.fit import log_scores, softmax
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Block, Rows

#: The order of the norm, and the criterion beyond which the softmax is trusted, as in the paper.
ORDER, SURE = 4, 5.0


class MaNo(Estimator):
    """The entry-wise 4-norm of the target's normalised logits, scaled by (n K)^(1/4): a score that grows with accuracy.

    The criterion Phi is the mean cross-entropy of a uniform label, mean_i [log sum_j exp(z_ij) - mean_j z_ij]:
    large where the softmax is sure. Where Phi > 5 rows are normalised by the softmax; else by its Taylor
    approximation 1 + z + z^2 / 2, which does not exaggerate uncertain logits. No calibration is applied. The
    approximation depends on a constant that is added to a row of logits, which probabilities do not tell:
    rows are centred first, so that logits and probabilities give the same score.

    (Xie, Odonnat, Feofanov, Deng, Zhang and An, MaNo: Exploiting Matrix Norm for Unsupervised Accuracy
    Estimation Under Distribution Shifts, 2024.)
    """

    name = "mano"
    title = "MaNo"
    meaning = "4-norm of the normalised logits: a score that falls with error, not an error"

    async def read(self, target: Rows) -> Reading:
        """The norm after the normalisation that the criterion chooses."""
        criterion, *norms = await target.mean(_row_terms)
        norm = float(norms[0 if criterion > SURE else 1] / target.k) ** (1.0 / ORDER)
        details: dict[str, Any] = {
            "criterion": float(criterion),
            "normalisation": "softmax" if criterion > SURE else "taylor",
        }
        return Reading(score=norm, details=details)


def _row_terms(rows: Block) -> npt.NDArray[np.float64]:
    """(n, 3) each row's term of the criterion, and of the norm after either normalisation."""
    z = log_scores(rows.scores, rows.kind)
    z = z - z.mean(axis=1, keepdims=True)
    top = z.max(axis=1, keepdims=True)
    sure = top[:, 0] + np.log(np.exp(z - top).sum(axis=1))
    return np.column_stack([sure, *((q**ORDER).sum(axis=1) for q in (softmax(z), _taylor(z)))])


def _taylor(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(n, K) 1 + z + z^2 / 2, which is never below 1/2, scaled to rows that sum to 1."""
    v = 1.0 + z + z**2 / 2.0
    return np.asarray(v / v.sum(axis=1, keepdims=True))
