"""The range that was measured to hold: sampling error, the doubt about the method, and what all methods miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge._proportion import joint_rows, wilson
from shiftgauge.methods.novelty import Rows
from shiftgauge.methods.view import View
from shiftgauge.results import Estimate, Interval

Array = npt.NDArray[np.float64]

#: The level of the range beside the answer.
RANGE_LEVEL = 0.95
KIND: Final = "measured: sampling error, label noise of these rows, and doubt about the method"
SAMPLING_KIND: Final = "sampling error and label noise of these rows alone"
#: Beyond the methods' own disagreement, the truth lay above the largest of them by at most ABOVE + SLOPE x the
#: distance of the confidences, and never more than MOST was needed (and DULL for a blunt model); below the least of
#: them by at most BELOW. Set on natural tables with whole families left out (`docs/natural.md`), for a range that holds
#: in about 95%. A floor that leaves `unchanged` out needs FLOOR in place of BELOW.
ABOVE, SLOPE, MOST, DULL, BELOW, FLOOR = 0.03, 0.6, 0.075, 0.02, 0.01, 0.03
#: Methods that read other class proportions into every shift run far off on natural tables: where they lie beyond the
#: others, so much of that counts.
WILD: Final = ("cott:mlls", "label-shift")
HEARD = 0.3
#: How much of that margin other levels took, on the same tables.
FACTORS: Final = ((0.5, -0.8), (0.8, 0.2), (0.9, 0.7), (0.95, 1.0), (0.975, 1.7), (0.99, 2.5))
#: A range that reaches less than the first from the answer is "ok", from the second on it is "stop". Set so that "ok"
#: goes to more than half of the answers that miss by less than 3 points, and "stop" to four in five of those that
#: miss by more than 15 (`benchmarks/silent.py`).
NARROW, WIDE = 0.15, 0.17
OK, CAUTION, STOP = "ok", "caution", "stop"
#: The methods that take the source's class proportions for the target's.
PROPORTIONAL: Final = ("cot:shrunk", "scot:shrunk")


@dataclass(frozen=True)
class Span:
    """The range around an answer.

    Attributes:
        error: the answer.
        low, high: the range's ends.
        sampling_low, sampling_high: the ends that sampling alone gives, label noise of these rows included.
        floor: the lower end without `unchanged`, where the samples are seen to differ: below it nothing but
            the belief that errors did not follow speaks for the target.
    """

    error: float
    low: float
    high: float
    sampling_low: float
    sampling_high: float
    floor: float

    @property
    def sampling(self) -> float:
        """The half-width of what sampling alone gives."""
        return (self.sampling_high - self.sampling_low) / 2.0

    @property
    def reach(self) -> float:
        """How far the range goes from the answer, on its longer side."""
        return max(self.high - self.error, self.error - self.low)

    @property
    def grade(self) -> str:
        """`"ok"`, `"caution"` or `"stop"`, by the reach."""
        return OK if self.reach < NARROW else CAUTION if self.reach < WIDE else STOP


def span(
    answers: Mapping[str, float],
    error: float,
    kind: str,
    unlike: float,
    blunt: float,
    n_source: float,
    n_target: float,
    *,
    proportions: str = "unknown",
    level: float = 0.95,
) -> Span:
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
        unlike: how far the confidences of source and target are apart (`unlikeness`).
        blunt: how far the model confuses its classes at home, 0 to 1 (`shiftgauge.methods.auto.bluntness`).
        n_source, n_target: effective rows.
        proportions: what the user knows.
        level: the share of targets in which either end should hold; 0.95 is the measured one.
    """
    given_up = (kind == "label" and proportions != "same") or proportions == "changed"
    kept = {name: value for name, value in answers.items() if not (given_up and name in PROPORTIONAL)}
    heard = 1.0 if proportions == "changed" else HEARD
    low, high = _reached(kept, error, heard)
    differ = kind in ("label", "other")
    least, _ = _reached({n: v for n, v in kept.items() if not (differ and n == "unchanged")}, error, heard)
    levels, factors = np.array(FACTORS).T
    factor = float(np.interp(level, levels, factors))
    below, under = max(factor, 0.0) * BELOW, max(factor, 0.0) * FLOOR
    sampling_low, sampling_high = wilson(error, joint_rows(n_source, n_target), _quantile(level))
    down, up = error - sampling_low, sampling_high - error
    above = factor * (min(ABOVE + SLOPE * unlike, MOST) + DULL * blunt)
    floor = float(np.clip(least - under - down, 0.0, error))
    return Span(
        error,
        max(floor, float(np.clip(low - below - down, 0.0, error))),
        float(np.clip(high + above + up, error, 1.0)),
        sampling_low,
        sampling_high,
        floor,
    )


def _reached(answers: Mapping[str, float], error: float, heard: float) -> tuple[float, float]:
    """The least and the largest of the answers; the wild ones count by `heard` beyond the others."""
    firm = [error, *(value for name, value in answers.items() if name not in WILD)]
    wild = [value for name, value in answers.items() if name in WILD] or firm
    low, high = min(firm), max(firm)
    return low - heard * max(low - min(wild), 0.0), high + heard * max(max(wild) - high, 0.0)


def span_of(error: float, details: Mapping[str, Any], n_source: float, n_target: float, level: float) -> Span:
    """The range of an answer of `auto`, from its details, at another level."""
    return span(
        details["answers"],
        error,
        details["shift"],
        details["unlikeness"],
        details["bluntness"],
        n_source,
        n_target,
        proportions=details["proportions"],
        level=level,
    )


def at_level(estimate: Estimate, n_source: float, n_target: float, level: float) -> Estimate:
    """An answer of `auto` with its range, and the sampling part of it, at another level.

    `details["grade"]` stays: grades were set on the range at RANGE_LEVEL.
    """
    assert estimate.error is not None
    held = span_of(estimate.error, estimate.details, n_source, n_target, level)
    return replace(
        estimate,
        interval=Interval(level, held.low, held.high, KIND),
        sampling=Interval(level, held.sampling_low, held.sampling_high, SAMPLING_KIND),
        details={**estimate.details, **range_details(held, level)},
    )


def range_details(held: Span, level: float) -> dict[str, Any]:
    """The range as plain values."""
    return {
        "ceiling": held.high,
        "band": {
            "low": held.low,
            "high": held.high,
            "sampling": held.sampling,
            "level": level,
            "kind": KIND,
        },
    }


def unlikeness(source: Rows, target: Rows) -> float:
    """The largest difference between the distributions of the two samples' confidences (Kolmogorov-Smirnov)."""
    steps = Steps.of(source)
    counts = np.bincount(steps.cell(target), weights=target.mass, minlength=steps.count)
    return steps.farthest(np.asarray(counts, dtype=np.float64))


@dataclass(frozen=True)
class Steps:
    """The steps of the source's distribution of confidences, where the target's is compared with it.

    Between two steps the source's distribution is flat and the target's rises, so that they are farthest apart at a
    step, or just before one.

    Attributes:
        values: (m,) the source's different confidences, rising.
        reached: (m,) the mass of the source up to each of them.
    """

    values: Array
    reached: Array

    @staticmethod
    def of(source: Rows) -> Steps:
        """The steps of a sample."""
        values, number = np.unique(source.confidence, return_inverse=True)
        mass = np.bincount(number.reshape(-1), weights=source.mass, minlength=len(values))
        return Steps(values, np.cumsum(mass))

    @property
    def count(self) -> int:
        """The cells: each value, and what lies before, between and beyond them."""
        return 2 * len(self.values) + 1

    def cell(self, rows: Rows | View) -> npt.NDArray[np.intp]:
        """(n,) 2 i + 1 for confidences equal to value i, 2 i for those between it and the one before."""
        place = np.searchsorted(self.values, rows.confidence)
        on = self.values[np.minimum(place, len(self.values) - 1)] == rows.confidence
        return np.asarray(2 * place + on, dtype=np.intp)

    def farthest(self, shares: Array) -> float:
        """The largest difference from a distribution with these shares of the cells."""
        other = np.cumsum(shares)
        before = np.append(0.0, self.reached[:-1])
        return float(max(np.abs(other[:-1:2] - before).max(), np.abs(other[1::2] - self.reached).max()))


def _quantile(level: float) -> float:
    """Two standard errors at 95%, as the margins were set with; Student's is not worth it here."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2)) * 2.0 / 1.959963984540054
