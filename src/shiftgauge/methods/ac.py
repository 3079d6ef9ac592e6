"""AC: average confidence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shiftgauge.methods.base import Estimator
from shiftgauge.rows import Block


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
    meaning = "one minus average confidence"

    def row_error(self, rows: Block) -> npt.NDArray[np.float64]:
        """(b,) one minus the confidence."""
        return 1.0 - rows.confidence
