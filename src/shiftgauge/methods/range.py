"""The range of `auto`: what its answer says of the error of exactly these rows, as one distribution.

The distribution is a two-piece Student t with 2 degrees of freedom, cut to [0, 1]. Half of its mass lies on each side
of the answer, so the answer is its median; the scale of each side follows from what the scores show:

    scale = hypot(constant + a * disagreement + b * largest + c * ks_distance + d * weakness, sampling error),

disagreement is the median distance of the methods' answers from this one, largest the distance of the farthest on this
side. The constants were fitted by maximum likelihood on real shifts (`benchmarks/fit_auto.py`,
`docs/explanation/natural.md`). Every range, at whatever level, is an interval between two quantiles of it; labels
update it (`shiftgauge.methods.labels`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from math import hypot, sqrt
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from shiftgauge.binomial import joint_rows, wilson
from shiftgauge.errors import InputError
from shiftgauge.results import Interval, Range

Array = npt.NDArray[np.float64]

#: Fitted constants of `auto`, its range and its grades, with what each does.
CONSTANTS: Final[dict[str, Any]] = json.loads(
    resources.files("shiftgauge.methods").joinpath("auto_constants.json").read_text(encoding="utf-8")
)
#: The level of every range and interval, unless another one is asked for.
RANGE_LEVEL: Final = 0.9
KIND: Final = "measured: sampling error, label noise of these rows, and error of the method"
SAMPLING_KIND: Final = "sampling error and label noise of these rows alone"
OK, CAUTION, STOP = "ok", "caution", "stop"
#: The level of the range that grades were measured by.
GRADE_LEVEL: Final = RANGE_LEVEL


class Distribution(Protocol):
    """A distribution of the error of exactly these rows."""

    def quantile(self, share: float) -> float:
        """The error below which this share of the mass lies."""


@dataclass(frozen=True)
class ErrorDistribution:
    """The distribution around an answer from scores alone.

    Attributes:
        error: the answer, its median.
        scale_low, scale_high: the scales of the two sides.

    >>> around = ErrorDistribution(0.2, 0.02, 0.05)
    >>> [round(around.quantile(share), 3) for share in (0.05, 0.5, 0.95)]
    [0.144, 0.2, 0.343]
    """

    error: float
    scale_low: float
    scale_high: float

    def cdf(self, x: Array) -> Array:
        """(m,) the mass up to each error."""
        above = 0.5 * _part(x - self.error, self.scale_high, 1.0 - self.error)
        below = 0.5 * _part(self.error - x, self.scale_low, self.error)
        return np.asarray(np.where(x >= self.error, 0.5 + above, 0.5 - below))

    def quantile(self, share: float) -> float:
        """The error below which this share of the mass lies."""
        if share >= 0.5:
            return self.error + _distance(2.0 * share - 1.0, self.scale_high, 1.0 - self.error)
        return self.error - _distance(1.0 - 2.0 * share, self.scale_low, self.error)

    def range(self, level: float) -> Range:
        """The range at a level."""
        return range_of(self, level, KIND)

    def half_width(self, level: float) -> float:
        """How far the range goes from the answer, on its longer side."""
        ends = self.range(level)
        return max(ends.high - self.error, self.error - ends.low)

    @property
    def grade(self) -> str:
        """`"ok"`, `"caution"` or `"stop"`, by the longer side of the range at 90%."""
        return grade_of(self.half_width(GRADE_LEVEL))


def grade_of(longer_side: float) -> str:
    """The grade of a range at 90% whose longer side is this long."""
    ok, stop = CONSTANTS["grades"]["longer_side"]
    return OK if longer_side < ok else CAUTION if longer_side < stop else STOP


def wide_range_warning(longer_side: float) -> str:
    """What to say of an answer with the grade `"stop"`."""
    return (
        f"the range goes {100 * longer_side:.0f} points beyond the answer: do not act on the number alone; label some "
        "rows (shiftgauge label-plan)"
    )


def range_of(distribution: Distribution, level: float, kind: str) -> Range:
    """The range between two quantiles that leave out the same mass on both sides."""
    low, high = distribution.quantile(0.5 - level / 2), distribution.quantile(0.5 + level / 2)
    return Range(level, min(1.0, max(0.0, low)), min(1.0, max(0.0, high)), kind)


def _central(z: Array) -> Array:
    """The mass of Student's t with 2 degrees of freedom between -z and z."""
    return np.asarray(z / np.sqrt(2.0 + z * z))


def _part(distance: Array, scale: float, room: float) -> Array:
    """The share of one side's mass within this distance; the side ends at `room`."""
    if room <= 0.0 or scale <= 0.0:  # all of this side's mass is at the answer itself
        return np.ones_like(distance)
    return np.asarray(_central(np.clip(distance, 0.0, room) / scale) / _central(np.float64(room / scale)))


def _distance(share: float, scale: float, room: float) -> float:
    """The distance within which this share of one side's mass lies."""
    if room <= 0.0 or scale <= 0.0:
        return 0.0
    central = share * float(_central(np.float64(room / scale)))
    return min(room, scale * central * sqrt(2.0) / sqrt(max(1.0 - central * central, 1e-300)))


def error_distribution(
    answers: Mapping[str, float],
    error: float,
    ks_distance: float,
    weakness: float,
    n_source: float,
    n_target: float,
) -> ErrorDistribution:
    """The distribution around an answer.

    Args:
        answers: the methods' errors by label, `unchanged` among them.
        error: the answer.
        ks_distance: between the confidences of source and target (`shiftgauge.methods.evidence`).
        weakness: of the model, 0 to 1 (`shiftgauge.methods.auto.weakness`).
        n_source, n_target: effective rows.
    """
    values = np.array(list(answers.values()))
    n = joint_rows(n_source, n_target)
    smoothed = (error * n + 1.0) / (n + 2.0)
    sampling = sqrt(smoothed * (1.0 - smoothed) / n)
    distances = {"above": values.max() - error, "below": error - values.min()}
    scales = {}
    for side, largest in distances.items():
        c = CONSTANTS["range"][side]
        scale = (
            c["constant"]
            + c["disagreement"] * float(np.median(np.abs(values - error)))
            + c["largest"] * max(0.0, float(largest))
            + c["ks_distance"] * ks_distance
            + c["weakness"] * weakness
        )
        scales[side] = hypot(scale, sampling)
    return ErrorDistribution(error, scales["below"], scales["above"])


def sampling_interval(error: float, n_source: float, n_target: float, level: float) -> Interval:
    """Wilson's interval for the error with the sampling noise of source and target rows alone."""
    from scipy.special import ndtri

    ends = wilson(error, joint_rows(n_source, n_target), float(ndtri(0.5 + level / 2)))
    return Interval(level, *ends, SAMPLING_KIND)


def check_level(function: str, level: float) -> None:
    """Refuse levels outside those that were measured."""
    if not isinstance(level, int | float) or isinstance(level, bool) or not 0.5 <= level <= 0.99:
        raise InputError(f"{function}: level is {level!r}; wanted a number from 0.5 to 0.99, such as 0.9")
