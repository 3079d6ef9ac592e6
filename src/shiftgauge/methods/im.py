"""IM: importance re-weighting by confidence."""

from __future__ import annotations

import numpy as np

from shiftgauge.calibration.metrics import confidence_bin
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Rows

BINS = 10


class IM(Estimator):
    """Importance re-weighting: each confidence bin keeps its source error, the target decides its weight.

    Ten equal bins on [0, 1], each with its right edge. A target bin without source rows takes the error
    of the nearest bin that has some (of two equally near, the less confident one); the mass concerned is
    in the details. (Chen et al., Mandoline, 2021, with confidence as the only slice.)
    """

    name = "im"
    title = "IM"
    meaning = "source error per confidence bin, re-weighted to the target"

    async def learn(self, source: Rows) -> None:
        """The source error of each confidence bin."""
        rows = await source.collect()
        bins = confidence_bin(rows.confidence, BINS)
        wrong = rows.row_share * (rows.predictions != rows.labels)
        mass = np.bincount(bins, weights=rows.row_share, minlength=BINS)
        errors = np.bincount(bins, weights=wrong, minlength=BINS)
        filled = np.flatnonzero(mass > 0.0)
        nearest = filled[np.abs(np.arange(BINS)[:, None] - filled).argmin(axis=1)]
        self.bin_error_ = errors[nearest] / mass[nearest]
        self.bin_empty_ = (mass == 0.0).astype(np.float64)

    async def read(self, target: Rows) -> Reading:
        """The bins' errors, weighted by the target's share of each bin."""
        mass = await target.shares(lambda rows: confidence_bin(rows.confidence, BINS), BINS)
        borrowed = float(mass @ self.bin_empty_)
        reading = Reading(error=float(mass @ self.bin_error_), details={"borrowed_mass": borrowed})
        if borrowed > 0.01:
            reading.warnings.append(
                f"{100 * borrowed:.1f}% of the target lies in confidence bins without source rows; "
                "they took the error of the nearest bin"
            )
        return reading
