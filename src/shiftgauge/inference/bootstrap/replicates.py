"""The joint bootstrap: resample source and target rows, refit everything, read the estimate again.

A replicate is the same arrays under new row masses (multinomial counts), so nothing is copied. Temperature,
threshold, marginal and plan are all fitted again, each from a warm start.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge._threads import cores
from shiftgauge.calibration import Calibration, Temperature, fit_calibration, fit_temperature
from shiftgauge.calibration.temperature import HIGHEST, LOWEST, cumulants, tempered
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.view import View
from shiftgauge.samples import Sample, Source
from shiftgauge.transport import SoftTransport, smoothed, soft_transport

Array = npt.NDArray[np.float64]
S = TypeVar("S", bound=Sample)
R = TypeVar("R")

#: A temperature that moved by more than this share is fitted by passes over the data, not by its expansion.
EXPANSION = 0.15
#: Threads that work on replicates, on a machine of so many cores; each holds a copy of the scores.
THREADS = 2


@dataclass(frozen=True)
class Side:
    """One sample, ready to be resampled.

    Attributes:
        sample: the source or the target.
        z: (n, K) its log-scores, each row's maximum 0.
        groups: (n,) group numbers 0..G-1 of rows that are drawn together, or None.
        n_effective: the effective rows that noise is judged by.
        rows: how many rows a resample has: as many as there are, or as the sample stands for.
    """

    sample: Sample
    z: Array
    groups: npt.NDArray[np.intp] | None
    n_effective: float
    rows: int

    @staticmethod
    def of(view: View, groups: npt.NDArray[np.intp] | None, rows: int) -> Side:
        """Log-scores once, for all replicates."""
        z = view.calibration.log_scores(view.sample)
        shifted = np.ascontiguousarray(z - z.max(axis=1, keepdims=True))
        return Side(view.sample, shifted, groups, view.n_effective, rows)

    def draw(self, rng: np.random.Generator) -> Array:
        """(n,) row weights of one resample: counts of rows, or of whole groups, times the rows' own weights."""
        count = len(self.z) if self.groups is None else int(self.groups.max()) + 1
        if self.rows > len(self.z):  # a bag of a little bootstrap: as many rows as it stands for
            times = rng.multinomial(self.rows, np.full(count, 1.0 / count)).astype(np.float64)
        else:
            times = np.bincount(rng.integers(count, size=count), minlength=count).astype(np.float64)
        if self.groups is not None:
            times = times[self.groups]
        drawn = times if self.sample.weights is None else times * self.sample.weights
        return drawn if drawn.sum() > 0.0 else np.ones(len(self.z))


class Warm:
    """The solver of replicates: plans that start from those of the full sample, of the same side.

    The hard plan is smoothed by a few thousandths (see `shiftgauge.transport.smoothed`), the soft one met to
    1e-8; both are beneath what a few hundred replicates can resolve.
    """

    exact = False

    def __init__(self) -> None:
        self._prices: Array | None = None
        self._log_weights: Array | None = None

    def hard(self, view: View, marginal: Array) -> Any:
        """The smoothed plan from the full sample's prices."""
        if self._prices is None:
            from shiftgauge.transport import solve

            self._prices = solve(view.problem(marginal)).prices
        return smoothed(view.probs, marginal, view.mass, self._prices)

    def soft(self, view: View, marginal: Array) -> SoftTransport:
        """SCOT's plan from the full sample's weights."""
        if self._log_weights is None:
            plan = soft_transport(None, marginal, view.mass, probs=view.probs, tol=1e-6)
            self._log_weights = np.maximum(plan.log_weights, -50.0)
        start = self._log_weights
        return soft_transport(None, marginal, view.mass, probs=view.probs, start=start, tol=1e-8)


class Replicator:
    """Draws replicates of a source and a target and hands their calibrated views to whoever asks.

    Args:
        pair: the source and the target that met; their calibration is fitted again on every replicate. Of a target
            that is not all in memory, the rows of `pair.bag` are drawn, as often as the target has rows (a bag of
            little bootstraps; Kleiner, Talwalkar, Sarkar and Jordan, A Scalable Bootstrap for Massive Data, 2014).
        source_groups, target_groups: (n,) group numbers of rows to draw together, or None.
    """

    def __init__(
        self,
        pair: Pair,
        source_groups: npt.NDArray[np.intp] | None = None,
        target_groups: npt.NDArray[np.intp] | None = None,
    ) -> None:
        bag = pair.bag
        source, target = bag.source.sample, bag.whole.sample
        assert isinstance(source, Source)
        self.source, self.target = source, target
        self.calibration = pair.calibration
        self.left = Side.of(bag.source, source_groups, source.n)
        self.right = Side.of(bag.whole, target_groups, pair.target.n)
        self._warm = (Warm(), Warm())
        self._expansion = self._expand() if self.calibration.name == "temperature" else None

    def _expand(self) -> tuple[float, Array] | None:
        """1/T of the full source and (n, 5) each row's slope of the loss and its next derivatives in 1/T."""
        assert isinstance(self.calibration.calibrator, Temperature)
        t = self.calibration.calibrator.temperature
        if not LOWEST < t < HIGHEST:
            return None
        terms = cumulants(self.left.z, 1.0 / t)
        terms[:, 0] -= self.left.z[np.arange(self.source.n), self.source.labels]
        return 1.0 / t, terms

    def recalibrated(self, mass: Array) -> Calibration:
        """The calibration under new source masses: the loss's expansion in 1/T to fourth order, then Newton.

        Where the temperature moves too far for that, and for other calibrations, a full fit.
        """
        if self.calibration.name == "none":
            return self.calibration
        if self._expansion is not None:
            b0, terms = self._expansion
            a, b, c, d = mass @ terms
            delta = 0.0
            for _ in range(20):
                slope = a + delta * (b + delta * (c / 2 + delta * d / 6))
                rate = b + delta * (c + delta * d / 2)
                if rate <= 0.0:
                    break
                delta -= slope / rate
                if abs(delta) > EXPANSION * b0:
                    break
            if abs(delta) <= EXPANSION * b0:
                return replace(self.calibration, calibrator=Temperature(1.0 / (b0 + delta)), report={})
        if self.calibration.name == "temperature":
            fitted = fit_temperature(self.left.z, self.source.labels, mass)
            return replace(self.calibration, calibrator=fitted, report={})
        return fit_calibration(self.calibration.name, _reweighted(self.source, mass))

    def views(self, seed: np.random.SeedSequence | None) -> tuple[View, View]:
        """The calibrated views of one replicate; of the full samples where there is no seed."""
        if seed is None:
            left, right = self.source, self.target
            calibration = self.calibration
        else:
            rng = np.random.default_rng(seed)
            left = _reweighted(self.source, self.left.draw(rng))
            right = _reweighted(self.target, self.right.draw(rng))
            calibration = self.recalibrated(left.mass)
        return (
            self._view(left, calibration, self.left, self._warm[0]),
            self._view(right, calibration, self.right, self._warm[1]),
        )

    def _view(self, sample: Sample, calibration: Calibration, side: Side, warm: Warm) -> View:
        if isinstance(calibration.calibrator, Temperature) or calibration.name == "none":
            t = calibration.calibrator.temperature if isinstance(calibration.calibrator, Temperature) else 1.0
            probs = tempered(side.z, 1.0 / t)
        else:
            probs = calibration.probs(sample)
        # The noise is that of the sample at hand, not of its resample.
        return View(sample, calibration, probs=probs, solver=warm, n_effective=side.n_effective)

    def fitted(self, estimator: Estimator, view: View) -> Estimator:
        """The estimator fitted on a replicate's source, with the noise of the sample at hand."""
        estimator.fit_view(view)
        estimator.n_source_effective_ = self.source.n_effective
        return estimator

    def run(self, read: Callable[[View, View], R], replicates: int, seed: int) -> list[R]:
        """`read(source view, target view)` of the full sample first, then of every replicate, in order.

        Each replicate has its own stream of the seed: the result does not depend on the threads.
        """
        seeds = np.random.SeedSequence(seed).spawn(replicates)
        first = read(*self.views(None))  # fills the warm starts before the threads begin
        with ThreadPoolExecutor(min(THREADS, cores())) as pool:
            return [first, *pool.map(lambda s: read(*self.views(s)), seeds)]


def _reweighted(sample: S, weights: Array) -> S:
    """The same rows under other weights, without checking them again."""
    twin = object.__new__(type(sample))
    twin._set(**{**vars(sample), "weights": weights})
    return twin
