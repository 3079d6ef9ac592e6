"""Entropy: a score that grows with uncertainty."""

from __future__ import annotations

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Rows


class Entropy(Estimator):
    """Mean entropy of the target's probabilities, in nats: a score to compare shifts by, not an error."""

    name = "entropy"
    title = "Entropy"
    meaning = "mean entropy of the probabilities in nats: a score, not an error"

    async def read(self, target: Rows) -> Reading:
        """The mean entropy."""
        return Reading(score=float(await target.mean(lambda rows: rows.entropy)))
