"""Entropy: a score that grows with doubt."""

from __future__ import annotations

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View


class Entropy(Estimator):
    """Mean entropy of the target's probabilities, in nats: a score to compare shifts by, not an error."""

    name = "entropy"
    title = "Entropy"
    meaning = "mean entropy of the probabilities in nats: a score, not an error"

    def _read(self, target: View | ScanView) -> Reading:
        return Reading(score=float(target.mean(lambda rows: rows.entropy)))
