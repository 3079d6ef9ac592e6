"""CBPE: confidence-based performance estimation, with isotonic calibration of the confidence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.threshold import TIE
from shiftgauge.rows import Block, Rows

Array = npt.NDArray[np.float64]


class CBPE(Estimator):
    """One minus the mean calibrated confidence, the calibration being isotonic: P(right | confidence) may only rise.

    The confidence of the prediction is mapped to the share of right rows by isotonic regression on the source
    (a straight line between the steps, the ends kept beyond them), and

        error = 1 - mean_i P(right | confidence_i).

    `details["sampling_error"]` is how far the error on so many rows would scatter around it by chance alone,
    the standard deviation of right and wrong on the source over the root of the target's rows. The number that
    users of NannyML know for accuracy; theirs calibrates every class apart and takes the highest.

    Right where calibration held; blind to anything that breaks it. (NannyML, Confidence-based Performance
    Estimation; isotonic calibration: Zadrozny and Elkan, 2002.)

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.9, .1], [.8, .2], [.6, .4], [.6, .4]], labels=[0, 0, 0, 1])
    >>> CBPE().fit(source).estimate(Target(probs=[[.6, .4], [.9, .1]])).error
    0.25
    """

    name = "cbpe"
    title = "CBPE"
    meaning = "one minus mean confidence after isotonic calibration"

    async def learn(self, source: Rows) -> None:
        """The isotonic map from confidence to accuracy."""
        rows = await source.collect()
        right = (rows.predictions == rows.labels).astype(np.float64)
        self.knots_, self.levels_ = isotonic(rows.confidence, right, rows.row_share)
        self.spread_ = float(np.sqrt(self.source_error_ * (1.0 - self.source_error_)))

    async def read(self, target: Rows) -> Reading:
        """One minus the mean calibrated confidence."""
        knots, levels = self.knots_, self.levels_

        def row_errors(rows: Block) -> Array:
            wrong = 1.0 - np.interp(rows.confidence, knots, levels)
            outside = (rows.confidence < knots[0] - TIE) | (rows.confidence > knots[-1] + TIE)
            return np.column_stack([wrong, outside])

        error, outside = await target.mean(row_errors)
        return Reading(
            error=float(error),
            details={
                "sampling_error": self.spread_ / float(np.sqrt(target.n_effective)),
                "beyond_source": float(outside),
            },
        )


def isotonic(x: Array, y: Array, mass: Array) -> tuple[Array, Array]:
    """Knots and levels of the increasing step function nearest to y in mean square (pool adjacent violators).

    Equal x (up to rounding) are one point. Of a run of equal levels only the ends are kept, so that a straight line
    between knots gives the steps and what is between them.

    >>> isotonic(np.array([1., 2., 3.]), np.array([0., 1., 0.]), np.ones(3) / 3)
    (array([1., 2., 3.]), array([0. , 0.5, 0.5]))
    """
    order = np.argsort(x, kind="stable")
    order = order[mass[order] > 0.0]
    rising = x[order]
    first = np.append(True, np.diff(rising) > TIE)
    points, number = rising[first], np.cumsum(first) - 1
    weight = np.bincount(number, weights=mass[order])
    mean = np.bincount(number, weights=(mass * y)[order]) / weight
    blocks: list[list[float]] = []  # level, weight, points
    for level, w in zip(mean, weight, strict=True):
        blocks.append([float(level), float(w), 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            last = blocks.pop()
            before = blocks[-1]
            total = before[1] + last[1]
            blocks[-1] = [(before[0] * before[1] + last[0] * last[1]) / total, total, before[2] + last[2]]
    levels = np.repeat([b[0] for b in blocks], [int(b[2]) for b in blocks])
    change = np.diff(levels) != 0.0
    ends = np.append(True, change) | np.append(change, True)
    return np.asarray(points[ends]), np.asarray(levels[ends])
