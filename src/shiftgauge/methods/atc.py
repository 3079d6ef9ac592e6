"""ATC: average thresholded confidence, with two scores."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.threshold import TIE, threshold_at_share
from shiftgauge.rows import Block, Rows


class _ATC(Estimator):
    """The share of target rows that score no better than the source's m-th worst row, m its errors.

    (Garg et al., Leveraging Unlabeled Data to Predict Out-of-Distribution Performance, 2022.)
    """

    @staticmethod
    @abstractmethod
    def uncertainty(rows: Block) -> npt.NDArray[np.float64]:
        """(b,) minus the score: large where an error is likely."""

    async def learn(self, source: Rows) -> None:
        """The threshold beyond which the source has its share of errors."""
        rows = await source.collect()
        threshold = threshold_at_share(self.uncertainty(rows), rows.row_share, self.source_error_)
        self.threshold_, self.identified_ = threshold.value, threshold.identified

    async def read(self, target: Rows) -> Reading:
        """The share of rows at or beyond the threshold."""
        uncertainty, threshold = self.uncertainty, self.threshold_ - TIE
        error = await target.share(lambda rows: uncertainty(rows) >= threshold)
        reading = Reading(error=error, details={"threshold": -self.threshold_})
        if not self.identified_:
            reading.warnings.append(
                "the threshold is not identified by the source's errors: it lies just beyond every source score"
            )
        return reading


class ATCMC(_ATC):
    """ATC with the score max_j p_j: share of target rows at or below the source's m-th smallest maximum.

    With m source errors the threshold is the m-th smallest source score; ties stay on one side, at the
    cut whose share of the source is nearest to its error. (Garg et al., 2022.)
    """

    name = "atc-mc"
    title = "ATC-MC"
    meaning = "share of rows less confident than the threshold learned on the source"

    @staticmethod
    def uncertainty(rows: Block) -> npt.NDArray[np.float64]:
        """(b,) minus the largest probability."""
        return np.asarray(-rows.probs.max(axis=1))


class ATCNE(_ATC):
    """ATC with the score sum_j p_j log p_j (negative entropy); otherwise as ATC-MC. (Garg et al., 2022.)"""

    name = "atc-ne"
    title = "ATC-NE"
    meaning = "share of rows of higher entropy than the threshold learned on the source"

    @staticmethod
    def uncertainty(rows: Block) -> npt.NDArray[np.float64]:
        """(b,) the entropy."""
        return rows.entropy
