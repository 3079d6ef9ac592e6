"""Strata of the label budget: how many labels each gets, and what they leave of the variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: The fewest labels bought in a stratum.
LEAST = 5
#: Error probabilities are kept this far from 0 and 1 when labels are allotted: the model may be wrong.
LEAST_PROBABILITY = 0.05


def plain_labels(error: float, margin: float, level: float, mass: Array) -> int:
    """How many rows plain sampling without replacement needs for +- margin.

    That is the interval of `with_labels` for one stratum and without error probabilities; and with no errors among m
    labels it reaches up to the rule of three, 1 - level = (1 - m / n)^(n margin), whatever the variance.
    Unequal masses make every row tell n sum(mass^2) times less (Kish); rows without mass are left alone.
    """
    n = int(np.count_nonzero(mass))
    if margin <= 0.0:
        return n
    unequal = n * float(mass @ mass)
    one = Strata(np.array([n]), np.array([min(max(error, 0.0), 1.0)]), np.ones(1), np.array([unequal]))
    three = n * (1.0 - math.pow(1.0 - level, unequal / (n * margin)))
    return min(n, max(math.ceil(three - 1e-9), int(one.reaching(margin, level).sum())))


@dataclass(frozen=True)
class Strata:
    """What labels are allotted by. With w_i = n mass_i, for each stratum:

    Attributes:
        counts: (H,) rows, N_h.
        error: (H,) the error to plan with.
        size: (H,) the mean of w_i.
        square: (H,) the mean of w_i^2.
    """

    counts: Indices
    error: Array
    size: Array
    square: Array

    @classmethod
    def of(cls, stratum: Indices, error_probability: Array, mass: Array) -> Strata:
        """The strata of a target; errors are means weighted by w_i^2, kept away from 0 and 1."""
        counts = np.bincount(stratum)
        w = len(mass) * mass
        square = np.bincount(stratum, w**2)
        error = np.bincount(stratum, w**2 * error_probability) / np.where(square > 0.0, square, 1.0)
        return cls(
            counts,
            np.clip(error, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY),
            np.bincount(stratum, w) / counts,
            square / counts,
        )

    @property
    def least(self) -> Indices:
        """(H,) the labels to begin with; none where there is no mass."""
        return np.where(self.size > 0.0, np.minimum(LEAST, self.counts), 0)

    def variance(self, h: Indices, n: Indices) -> Array:
        """What n labels in stratum h leave of the estimate's variance, as `with_labels` is to estimate it.

        (N_h / N)^2 (1/n - 1/N_h) times the expected variance of n values w_i (e_i - f_i) and the two
        pseudo-rows. For these values mean(w^2) e (1 - e) is a bound, and sharp if all f_i are alike.
        """
        N, e, n = self.counts[h], self.error[h], np.maximum(n, 1)  # none only where there is no mass
        pseudo = self.size[h] ** 2 * (0.5 + 2 * n / (n + 2) * (0.5 - e) ** 2) / (n + 1)
        padded = self.square[h] * e * (1.0 - e) * n / (n + 2) + pseudo
        return np.asarray((N / self.counts.sum()) ** 2 * (1 / n - 1 / N) * padded)

    def half_width(self, allocation: Indices, level: float) -> float:
        """The half-width of the interval that so many labels are expected to give; 0 if all are labelled."""
        variance = float(self.variance(np.arange(len(allocation)), allocation).sum())
        return student(level, allocation, self.counts) * math.sqrt(variance)

    def reaching(self, margin: float, level: float) -> Indices:
        """(H,) the fewest labels whose half-width is no more than the margin."""
        from scipy.special import ndtri

        bought, left = self._purchases()
        known = int(np.argmax(ndtri(0.5 + level / 2) * np.sqrt(left) <= margin))
        allocation = self._first(bought, known)
        for h in bought[known:]:  # Student's quantile asks for a few more than the normal one
            if self.half_width(allocation, level) <= margin:
                break
            allocation[h] += 1
        return allocation

    def buying(self, labels: int) -> Indices:
        """(H,) just so many labels."""
        least, most = int(self.least.sum()), int(self.counts.sum())
        if not least <= labels <= most:
            raise InputError(
                f"count {labels}: wanted between {least} (every stratum is sampled) and {most}, the target's rows"
            )
        return self._first(self._purchases()[0], labels - least)

    def _first(self, bought: Indices, number: int) -> Indices:
        more = np.bincount(bought[:number], minlength=len(self.counts))
        return np.asarray(self.least + more, dtype=np.intp)

    def _purchases(self) -> tuple[Indices, Array]:
        """The stratum of each label beyond the least, the best buy first, and the variance left before each.

        The variance is convex in a stratum's labels, so the best buys come in order and no other allotment of
        as many labels leaves less.
        """
        low = self.least
        extra = self.counts - low
        h = np.repeat(np.arange(len(low)), extra)
        n = np.arange(len(h)) - np.repeat(np.cumsum(extra) - extra, extra) + low[h]
        gain = self.variance(h, n) - self.variance(h, n + 1)
        order = np.argsort(-gain, kind="stable")
        return h[order], np.append(np.cumsum(gain[order][::-1])[::-1], 0.0)


def student(level: float, allocation: Indices, counts: Indices) -> float:
    """Student's quantile; degrees of freedom come from strata that are not labelled to the last row."""
    from scipy.special import stdtrit

    df = int(np.maximum(allocation - 1, 0)[allocation < counts].sum())
    return float(stdtrit(max(df, 1), 0.5 + level / 2))
