"""COTT: confidence optimal transport with a threshold."""

from __future__ import annotations

from shiftgauge.methods.base import Reading
from shiftgauge.methods.marginal import MarginalEstimator, unproved
from shiftgauge.methods.threshold import TIE, threshold_at_share
from shiftgauge.rows import Block, Rows, Totals
from shiftgauge.transport import SmoothedTransport, Transport, exact_transport

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

    async def learn(self, source: Rows) -> None:
        """The threshold, and the range that ties leave it in."""
        await super().learn(source)
        e, rows = self.source_error_, await source.collect()
        plan = await exact_transport(source, self.label_marginal_)
        pieces = plan.pieces(rows)
        threshold = threshold_at_share(pieces.cost, pieces.mass / rows.mass.sum(), e)
        self.threshold_, self.identified_ = threshold.value, threshold.identified
        low, high = plan.cost_range(rows)
        self.threshold_low_ = min(threshold.value, threshold_at_share(low, rows.row_share, e).value)
        self.threshold_high_ = max(threshold.value, threshold_at_share(high, rows.row_share, e).value)

    async def read(self, target: Rows) -> Reading:
        """The share of mass whose cost reaches the threshold."""
        choice = await self.choose_marginal(target)
        transport = await exact_transport(target, choice.masses)
        cuts = (self.threshold_, self.threshold_low_, self.threshold_high_)
        beyond, at_ties, mass = await target.fold(
            _mass_beyond, transport, *(float(cut - TIE) for cut in cuts)
        )
        error, tied = float(min(1.0, beyond / mass)), float(min(1.0, at_ties / mass))
        reading = Reading(
            error=error,
            details={
                "certificate": transport.certificate.to_dict(),
                "threshold": self.threshold_,
                "tie_mass": tied,
                **choice.details,
            },
            warnings=unproved(transport),
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


def _mass_beyond(
    rows: Block, plan: Transport | SmoothedTransport, cut: float, low: float, high: float
) -> Totals:
    """The mass whose cost is `cut` or more; that of rows which ties could bring across; and all mass.

    Ties could bring a row across if one optimal plan gives it `low` or more, and another one less than `high`.
    """
    pieces = plan.pieces(rows)
    least, most = plan.cost_range(rows)
    tied = rows.mass[(most >= low) & (least < high)].sum()
    return Totals((pieces.mass[pieces.cost >= cut].sum(), tied, rows.mass.sum()))
