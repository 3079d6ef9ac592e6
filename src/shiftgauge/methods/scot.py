"""SCOT: soft confidence optimal transport."""

from __future__ import annotations

import numpy as np

from shiftgauge.methods.base import Reading
from shiftgauge.methods.marginal import Array, MarginalEstimator
from shiftgauge.rows import Block, Moments, Rows
from shiftgauge.transport import SoftTransport, soft_transport


class SCOT(MarginalEstimator):
    """Soft confidence optimal transport: the mass that the soft plan takes off the prediction.

    Transport rows to labels with ground cost -log p_ij and entropic regularisation 1. The plan is
    r_ij = p_ij w_j / sum_k p_ik w_k with K weights w such that mean_i r_ij = q_j, and

        error = 1 - mean_i r_{i, y^_i}.

    **Theorem.** Let h_j be the share of rows predicted as j. Whatever the calibration,
    SCOT(q) >= TV(h, q).

    *Proof.* Give row i a label drawn from r_i. The pair (prediction, label) is a coupling of h and q: its
    first marginal is h, its second is mean_i r_ij = q_j. Under any coupling P(label != prediction)
    >= TV(h, q), since for every set A of classes h(A) - q(A) = P(prediction in A) - P(label in A)
    <= P(prediction in A, label not in A) <= P(label != prediction). The left side is SCOT(q). QED

    The paper's bound for COT is half of this. Where q is the true label distribution, TV(h, q) is itself
    a lower bound of the true error, by the same proof with the true labels in place of the drawn ones.

    With q = mean_i p_i the weights are 1 and SCOT is AC; with q from maximum likelihood under label shift
    it is the confidence under the corrected posteriors. The projection is known as a way to adjust a
    classifier to a known class distribution (Heiser, Allikivi and Kull, Shift Happens: Adjusting
    Classifiers, 2020; prior matching; OTTER is its unregularised form); reading the error off it is ours.

    Probabilities of exactly zero count as small positive ones (`calibration.log_scores`); the mass that the plan
    puts on them is in `details["floor_mass"]`, with a warning where it matters.

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.9, .1], [.2, .8]], labels=[0, 1])
    >>> target = Target(probs=[[.8, .2], [.8, .2]])
    >>> round(SCOT(calibration="none").fit(source).estimate(target).error, 6)
    0.5
    """

    name = "scot"
    title = "SCOT"
    meaning = "mass that the soft plan to the label shares takes off the prediction"

    @staticmethod
    def reference_shares(moments: Moments) -> tuple[Array, Array]:
        """(K,) each: the mean probability of each class, and its variance per row."""
        h = moments.mean_posterior
        return h, np.maximum(moments.mean_square - h**2, 0.0)

    async def read(self, target: Rows) -> Reading:
        """The mass that the plan takes off the predictions."""
        choice = await self.choose_marginal(target)
        plan = await soft_transport(target, choice.masses)
        error, on_floor = 1.0 - plan.kept, 0.0
        if target.has_zeros and target.warm_start is None:
            on_floor = await target.mean(lambda rows: _mass_on_zeros(rows, plan))
        reading = Reading(
            error=float(error),
            details={
                "marginal_error": plan.marginal_error,
                "passes": plan.passes,
                "floor_mass": float(on_floor),
                **choice.details,
            },
        )
        if on_floor > 1e-6:
            reading.warnings.append(
                f"{100 * on_floor:.3g}% of the mass went to labels whose given probability is exactly zero; "
                "pass logits, or unrounded probabilities"
            )
        if plan.marginal_error > 1e-6:
            reading.warnings.append(f"the label shares were met only to {plan.marginal_error:.1e}")
        return reading


def _mass_on_zeros(rows: Block, plan: SoftTransport) -> Array:
    """(b,) the share of each row that the plan puts on labels whose given probability is exactly zero."""
    return np.zeros(len(rows)) if rows.zeros is None else (plan.posterior(rows) * rows.zeros).sum(axis=1)
