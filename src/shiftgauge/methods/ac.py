"""AC: average confidence."""

from __future__ import annotations

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View


class AC(Estimator):
    """Average confidence: error = mean(1 - p_y^) on the target.

    Right where confidence stays calibrated under the shift; it is the most optimistic of all transport
    costs, and falls short when the model grows overconfident. (Hendrycks and Gimpel, 2017.)

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.8, .2], [.3, .7]], labels=[0, 0])
    >>> AC(calibration="none").fit(source).estimate(Target(probs=[[.9, .1], [.4, .6]])).error
    0.25
    """

    name = "ac"
    title = "AC"
    meaning = "mean doubt: one minus average confidence"

    def _read(self, target: View | ScanView) -> Reading:
        return Reading(error=float(target.mean(lambda rows: 1.0 - rows.confidence)))
