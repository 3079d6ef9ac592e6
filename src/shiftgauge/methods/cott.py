"""COTT: confidence optimal transport with a threshold."""

from __future__ import annotations

from shiftgauge.methods.base import Reading
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.threshold import TIE, cut_at_share
from shiftgauge.methods.view import View

#: From this share of rows whose side is a matter of chance on, it is said.
MUCH_TIED = 0.05


class COTT(MarginalEstimator):
    """COT with thresholding: the share of target mass whose transport cost reaches the source's threshold.

    The source is transported to its own label shares; with m source errors the threshold is its m-th
    largest cost. Ties stay on one side, at the cut whose share of the source is nearest to its error.
    A row that is split between labels counts by its parts.

    Where rows tie, optimal plans differ: `details["tie_mass"]` bounds the mass whose side of the cut
    another optimal plan could change. By complementary slackness every optimal plan uses only labels
    that are tight at the optimal prices, so a row's cost lies between its cheapest and dearest tight
    label; the same range on the source bounds the threshold.
    (Lu et al., Characterizing Out-of-Distribution Error via Optimal Transport, 2023.)
    """

    name = "cott"
    title = "COTT"
    meaning = "share of rows whose transport cost exceeds the threshold learned on the source"
    needs_argmax = True

    def _learn(self, source: View) -> None:
        q, e = self.label_marginal_, self.source_error_
        _, _, mass, cost = source.transport(q).pieces()
        cut = cut_at_share(cost, mass, e)
        self.threshold_, self.identified_ = cut.value, cut.identified
        low, high = source.transport_range(q)
        self.threshold_low_ = min(cut.value, cut_at_share(low, source.mass, e).value)
        self.threshold_high_ = max(cut.value, cut_at_share(high, source.mass, e).value)

    def _read(self, target: View | ScanView) -> Reading:
        choice = self._masses(target)
        transport = target.transport(choice.masses)
        cuts = (self.threshold_, self.threshold_low_, self.threshold_high_)
        error, tied = target.cost_shares(choice.masses, *(cut - TIE for cut in cuts))
        reading = Reading(
            error=error,
            details={
                "certificate": transport.certificate.to_dict(),
                "threshold": self.threshold_,
                "tie_mass": tied,
                **choice.details,
            },
            warnings=self._unproved(transport),
        )
        if tied >= MUCH_TIED:
            reading.warnings.append(
                f"rows tie: another equally good plan could move {tied:.0%} of the target across the threshold; "
                "pass logits or full precision, or take scot or doc"
            )
        if not self.identified_:
            reading.warnings.append(
                "the threshold is not identified by the source's errors: it lies just beyond every source cost"
            )
        return reading
