"""Nuclear norm: a score of confidence and dispersity together."""

from __future__ import annotations

import numpy as np

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Block, Rows, Totals


class NuclearNorm(Estimator):
    """The nuclear norm of the target's prediction matrix, scaled to [0, 1]: a score that grows with accuracy.

    With P (n, K) the probabilities, ||P||_* / sqrt(n K): 1 where every row is certain and the classes are
    equally many, 1 / sqrt(K) where all rows are certain of one class, 1 / K where all rows are uniform. So it
    falls with uncertainty and with predictions that collapse onto few classes. The singular values of P are the roots
    of the eigenvalues of the K x K matrix P' P, which one pass over the rows adds up.

    (Deng, Suh, Gould and Zheng, Confidence and Dispersity Speak, 2023; there with min(n, K) in place of K.)

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.9, .1], [.2, .8]], labels=[0, 1])
    >>> round(NuclearNorm("none").fit(source).estimate(Target(probs=[[1., 0.], [0., 1.]])).score, 9)
    1.0
    """

    name = "nuclear-norm"
    title = "Nuclear norm"
    meaning = "nuclear norm of the predictions: a score that falls with error, not an error"

    async def read(self, target: Rows) -> Reading:
        """The sum of the singular values."""
        gram, mass = await target.fold(_gram)
        gram = gram / mass
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0))
        return Reading(score=float(values.sum() / np.sqrt(target.k)))


def _gram(rows: Block) -> Totals:
    """(K, K) sum_i w_i p_i p_i', and sum_i w_i."""
    return Totals(((rows.probs * rows.mass[:, None]).T @ rows.probs, float(rows.mass.sum())))
