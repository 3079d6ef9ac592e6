"""The range around `auto`'s answer: sampling error, disagreement of the methods, and what all methods miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from shiftgauge.binomial import joint_rows, wilson
from shiftgauge.errors import InputError
from shiftgauge.results import Estimate, Interval, Range

#: The level of the range beside the answer.
RANGE_LEVEL = 0.95
KIND: Final = "measured: sampling error, label noise of these rows, and error of the method"
SAMPLING_KIND: Final = "sampling error and label noise of these rows alone"
#: Margins beyond the methods' own disagreement.
#: Upper margin = min(ABOVE + SLOPE * ks_distance, MOST) + WEAK * weakness;
#: lower margin = BELOW, or FLOOR for the lower end without `unchanged`. Set on natural tables with whole families left
#: out (`docs/natural.md`), for a range that holds in about 95%.
ABOVE, SLOPE, MOST, WEAK, BELOW, FLOOR = 0.03, 0.6, 0.075, 0.02, 0.01, 0.03
#: Methods that read other class proportions into every shift can be far off on natural tables: of what they lie beyond
#: the other methods, only this fraction counts.
UNSTABLE: Final = ("cott:mlls", "label-shift")
UNSTABLE_FRACTION = 0.3
#: How much of that margin other levels took, on the same tables.
FACTORS: Final = ((0.5, -0.8), (0.8, 0.2), (0.9, 0.7), (0.95, 1.0), (0.975, 1.7), (0.99, 2.5))
#: A range with a half-width below the first is "ok", from the second on it is "stop". Set so that "ok"
#: goes to more than half of the answers that miss by less than 3 points, and "stop" to four in five of those that
#: miss by more than 15 (`benchmarks/silent.py`).
NARROW, WIDE = 0.15, 0.17
OK, CAUTION, STOP = "ok", "caution", "stop"
#: The methods that take the source's class proportions for the target's.
PROPORTIONAL: Final = ("cot:shrunk", "scot:shrunk")


@dataclass(frozen=True)
class ErrorRange:
    """The range around an answer.

    Attributes:
        error: the answer.
        low, high: the range's ends.
        sampling_low, sampling_high: the ends that sampling alone gives, label noise of these rows included.
        floor: the lower end without `unchanged`, where the samples are seen to differ: below it nothing but
            the assumption of an unchanged error supports it.
        level: of the range.
    """

    error: float
    low: float
    high: float
    sampling_low: float
    sampling_high: float
    floor: float
    level: float = RANGE_LEVEL

    @property
    def range(self) -> Range:
        """The range."""
        return Range(self.level, self.low, self.high, KIND)

    @property
    def sampling(self) -> Interval:
        """The part of it that sampling alone gives."""
        return Interval(self.level, self.sampling_low, self.sampling_high, SAMPLING_KIND)

    @property
    def half_width(self) -> float:
        """How far the range goes from the answer, on its longer side."""
        return max(self.high - self.error, self.error - self.low)

    @property
    def grade(self) -> str:
        """`"ok"`, `"caution"` or `"stop"`, by the half-width."""
        return OK if self.half_width < NARROW else CAUTION if self.half_width < WIDE else STOP


def error_range(
    answers: Mapping[str, float],
    error: float,
    kind: str,
    ks_distance: float,
    weakness: float,
    n_source: float,
    n_target: float,
    *,
    proportions: str = "unknown",
    level: float = 0.95,
) -> ErrorRange:
    """The range for the error on just these rows.

    From the least to the largest of the defensible methods (where other class proportions explain the shift,
    or are known to have changed, those that take the source's proportions are not; unless they are known to
    have changed, those that read other proportions into every shift count in part), widened by what all
    methods together missed where it was measured, and by the sampling error of source and target rows,
    label noise included (Wilson's, so that an error of 0 among few rows is not taken for certainty).

    Args:
        answers: the methods' errors by label, `unchanged` among them.
        error: the answer.
        kind: of shift, by the J test.
        ks_distance: between the confidences of source and target (`shiftgauge.methods.evidence`).
        weakness: of the model, 0 to 1 (`shiftgauge.methods.auto.weakness`).
        n_source, n_target: effective rows.
        proportions: what the user knows.
        level: the share of targets in which either end should hold; 0.95 is the measured one.
    """
    given_up = (kind == "label" and proportions != "same") or proportions == "changed"
    kept = {name: value for name, value in answers.items() if not (given_up and name in PROPORTIONAL)}
    fraction = 1.0 if proportions == "changed" else UNSTABLE_FRACTION
    low, high = _extremes(kept, error, fraction)
    differ = kind in ("label", "other")
    least, _ = _extremes(
        {n: v for n, v in kept.items() if not (differ and n == "unchanged")}, error, fraction
    )
    levels, factors = np.array(FACTORS).T
    factor = float(np.interp(level, levels, factors))
    below, under = max(factor, 0.0) * BELOW, max(factor, 0.0) * FLOOR
    sampling_low, sampling_high = wilson(error, joint_rows(n_source, n_target), _quantile(level))
    down, up = error - sampling_low, sampling_high - error
    above = factor * (min(ABOVE + SLOPE * ks_distance, MOST) + WEAK * weakness)
    floor = float(np.clip(least - under - down, 0.0, error))
    return ErrorRange(
        error,
        max(floor, float(np.clip(low - below - down, 0.0, error))),
        float(np.clip(high + above + up, error, 1.0)),
        sampling_low,
        sampling_high,
        floor,
        level,
    )


def _extremes(answers: Mapping[str, float], error: float, fraction: float) -> tuple[float, float]:
    """The least and the largest of the answers; unstable ones count by `fraction` beyond the others."""
    stable = [error, *(value for name, value in answers.items() if name not in UNSTABLE)]
    unstable = [value for name, value in answers.items() if name in UNSTABLE] or stable
    low, high = min(stable), max(stable)
    return low - fraction * max(low - min(unstable), 0.0), high + fraction * max(max(unstable) - high, 0.0)


def range_of(
    error: float, details: Mapping[str, Any], n_source: float, n_target: float, level: float
) -> ErrorRange:
    """The range of an answer of `auto`, from its details, at another level."""
    return error_range(
        details["answers"],
        error,
        details["shift"],
        details["ks_distance"],
        details["weakness"],
        n_source,
        n_target,
        proportions=details["proportions"],
        level=level,
    )


def check_level(function: str, level: float) -> None:
    """Refuse levels outside those that were measured."""
    if not isinstance(level, int | float) or isinstance(level, bool) or not 0.5 <= level <= 0.99:
        raise InputError(f"{function}: level is {level!r}; wanted a number from 0.5 to 0.99, such as 0.95")


def at_level(estimate: Estimate, n_source: float, n_target: float, level: float) -> Estimate:
    """An answer of `auto` with its range, and the sampling part of it, at another level.

    `details["grade"]` stays: grades were set on the range at RANGE_LEVEL.
    """
    assert estimate.error is not None
    limits = range_of(estimate.error, estimate.details, n_source, n_target, level)
    return replace(estimate, range=limits.range, sampling=limits.sampling)


def _quantile(level: float) -> float:
    """Two standard errors at 95%, as the margins were set with; Student's is not worth it here."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2)) * 2.0 / 1.959963984540054
