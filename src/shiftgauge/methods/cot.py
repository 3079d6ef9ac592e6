"""COT: confidence optimal transport."""

from __future__ import annotations

from shiftgauge.methods.base import Reading
from shiftgauge.methods.marginal import MarginalEstimator, unproved
from shiftgauge.rows import Rows
from shiftgauge.transport import exact_transport


class COT(MarginalEstimator):
    """Confidence optimal transport: the cost of moving the target's probabilities to the label masses q.

    error = min over plans x >= 0 of sum_ij x_ij (1 - p_ij), with row masses kept and class masses q:
    the Wasserstein distance between the confidence vectors and one-hot labels under the L-infinity cost,
    solved exactly on the whole target and certified (`details["certificate"]`: primal, dual, gap).

    Never below AC, with equality when q is the share of the model's own predictions; at least half the
    total variation between those shares and q, however badly the model is calibrated.
    (Lu et al., Characterizing Out-of-Distribution Error via Optimal Transport, 2023.)

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.9, .1], [.2, .8]], labels=[0, 1])
    >>> target = Target(probs=[[.9, .1], [.6, .4]])
    >>> round(COT(calibration="none").fit(source).estimate(target).error, 6)
    0.35
    """

    name = "cot"
    title = "COT"
    meaning = "cost of transporting the target's probabilities to the label shares"
    needs_argmax = True

    async def read(self, target: Rows) -> Reading:
        """The cost of the optimal plan."""
        choice = await self.choose_marginal(target)
        transport = await exact_transport(target, choice.masses)
        return Reading(
            error=transport.value,
            details={"certificate": transport.certificate.to_dict(), **choice.details},
            warnings=unproved(transport),
        )
