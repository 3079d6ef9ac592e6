"""DoC: difference of confidences."""

from __future__ import annotations

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Rows


class DoC(Estimator):
    """Difference of confidences: source error + (mean confidence on source - on target).

    The drop in confidence is taken to be the drop in accuracy. May leave [0, 1]; it is then clipped,
    with a warning. (Guillory et al., Predicting with Confidence on Unseen Distributions, 2021.)
    """

    name = "doc"
    title = "DoC"
    meaning = "source error plus the drop in confidence"

    async def learn(self, source: Rows) -> None:
        """The source's mean confidence."""
        self.confidence_ = float(await source.mean(lambda rows: rows.confidence))

    async def read(self, target: Rows) -> Reading:
        """The source error plus the drop in mean confidence."""
        confidence = float(await target.mean(lambda rows: rows.confidence))
        return Reading(
            error=self.source_error_ + self.confidence_ - confidence,
            details={"source_confidence": self.confidence_, "target_confidence": confidence},
        )
