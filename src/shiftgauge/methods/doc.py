"""DoC: difference of confidences."""

from __future__ import annotations

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View


class DoC(Estimator):
    """Difference of confidences: source error + (mean confidence on source - on target).

    The drop in confidence is taken to be the drop in accuracy. May leave [0, 1]; it is then clipped,
    with a warning. (Guillory et al., Predicting with Confidence on Unseen Distributions, 2021.)
    """

    name = "doc"
    title = "DoC"
    meaning = "source error plus the drop in confidence"

    def _learn(self, source: View) -> None:
        self.confidence_ = float(source.mass @ source.confidence)

    def _read(self, target: View | ScanView) -> Reading:
        confidence = float(target.mean(lambda rows: rows.confidence))
        return Reading(
            error=self.source_error_ + self.confidence_ - confidence,
            details={"source_confidence": self.confidence_, "target_confidence": confidence},
        )
