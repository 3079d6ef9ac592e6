"""label-shift: confidence under posteriors corrected for new class proportions."""

from __future__ import annotations

from shiftgauge.labelshift import mlls, reweighted, total_variation
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Rows, gather


class LabelShift(Estimator):
    """Re-weight the posteriors to the maximum-likelihood label shares and read the error off them.

    With pi the target's label shares by MLLS and w_c = pi_c / prior_c, where prior is the mean posterior of
    the source,

        r_ic = p_ic w_c / sum_k p_ik w_k,      error = 1 - mean_i r_{i, y^_i}.

    **This is SCOT at the marginal pi.** *Proof.* At the maximum of the likelihood mean_i r_ic = pi_c (the
    fixed point of EM). SCOT's plan is the only one of the form p_ic w_c / sum_k p_ik w_k that meets the
    marginal pi, its objective being strictly convex up to a common factor of w. So r is SCOT's plan. QED

    Right where only the class proportions changed (P(x | y) did not) and the source is calibrated; blind to
    any other shift, which it takes for a change of proportions. (Saerens et al., 2002.)

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.9, .1], [.1, .9]], labels=[0, 1])
    >>> target = Target(probs=[[.9, .1]] * 3 + [[.1, .9]])
    >>> round(LabelShift(calibration="none").fit(source).estimate(target).error, 6)
    0.1
    """

    name = "label-shift"
    title = "Label shift"
    meaning = "mean error probability after re-weighting the posteriors to new class proportions"

    async def learn(self, source: Rows) -> None:
        """The source's mean posterior."""
        self.prior_ = (await source.moments()).mean_posterior

    async def read(self, target: Rows) -> Reading:
        """The mean error probability under the re-weighted posteriors."""
        found, moments = await gather(mlls(target, self.prior_), target.moments())
        weights = found.weights
        shift = total_variation(moments.pseudo_labels, found.shares)
        error = await target.mean(lambda rows: rows.error_probability(reweighted(rows.probs, weights)))
        return Reading(
            error=float(error),
            details={
                "label_marginal": found.shares.tolist(),
                "marginal": "mlls",
                "likelihood_gap": found.gap,
                "pseudo_label_shift": shift,
            },
        )
