"""The joint bootstrap of source and target, and the intervals read off it.

A replicate is the same rows under new weights (multinomial counts), so nothing is copied. Temperature, threshold,
marginal and plan are all fitted again, each from a warm start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.binomial import joint_rows, widened
from shiftgauge.calibration import (
    CALIBRATIONS,
    Calibration,
    Temperature,
    Vector,
    loss_slopes,
    refit_temperature,
    softmax,
    tempered,
)
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import is_missing, one_per_row
from shiftgauge.labelshift import shrink
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.results import Estimate, Interval
from shiftgauge.rows import Block, Rows, cores, ordered_map, run
from shiftgauge.transport import WarmStart

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
R = TypeVar("R")

#: Replicates by default.
REPLICATES = 200
#: More than this is probably a typing error: it would run for hours.
MOST_REPLICATES = 100_000
#: With fewer rows (or groups) than this on either side, resampling says too little about chance.
FEWEST = 10
#: Threads that work on replicates; each holds a copy of the scores.
THREADS = 2
KIND = "sampling error only"
NO_INTERVAL = (
    "no interval: the bootstrap resamples scores, and this answer rests on labels too; its range covers both"
)
#: A bootstrap bias above so many standard deviations, and so much error, is worth a warning.
LARGE_BIAS, SLIGHT_BIAS = 0.5, 0.005


@dataclass(frozen=True)
class Resampling:
    """The settings of a bootstrap, checked once.

    Attributes:
        replicates: how often to resample.
        level: the nominal coverage of what is read off the replicates.
        seed: of everything drawn.
        groups: (n_target,) the group of each target row, if rows come in correlated groups.
        source_groups: (n_source,) the same for the source.
    """

    replicates: int = REPLICATES
    level: float = RANGE_LEVEL
    seed: int = 0
    groups: Any = None
    source_groups: Any = None

    def __post_init__(self) -> None:
        validation.check_fraction(self.level, "level", RANGE_LEVEL)
        validation.check_count(self.replicates, "replicates", 20, ", better 200", MOST_REPLICATES)
        validation.check_count(self.seed, "seed", 0)


def group_numbers(values: Any, n: int, what: str) -> Indices | None:
    """(n,) group numbers 0..G-1; a missing group is refused."""
    if values is None:
        return None
    array = one_per_row(values, n, what)
    if array.dtype.kind not in "iub":  # whole numbers are never missing
        missing = next((row for row, value in enumerate(array.tolist()) if is_missing(value)), None)
        if missing is not None:
            raise InputError(
                f"{what}: row {missing} is missing; wanted a group in every row; give such rows groups of their own"
            )
    names, number = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{what}: only one group; wanted at least two to draw from")
    return np.asarray(number.reshape(-1), dtype=np.intp)


@dataclass(frozen=True)
class Side:
    """The source or the target, ready to be resampled.

    Attributes:
        block: the rows that are resampled: all, or a subsample.
        z: (m, K) their log-scores; each row's maximum is 0, except for vector scaling.
        groups: (m,) numbers of the groups that are drawn together, or None.
        units: how many rows (or groups) there are to draw from.
        draws: how many a resample has: those of the whole sample, of which these may be a subsample.
        n_effective: the effective rows of the whole sample, which noise is judged by.
        warm_start: where the plans of replicates start from.
    """

    block: Block
    z: Array
    groups: Indices | None
    units: int
    draws: int
    n_effective: float
    warm_start: WarmStart

    @staticmethod
    def of(rows: Rows, block: Block, calibration: Calibration, groups: Indices | None = None) -> Side:
        """The rows of a block, which are `rows` or a subsample of them; `groups` are of all `rows`."""
        z = calibration.log_scores(block.scores, block.kind)
        if not isinstance(calibration.calibrator, Vector):  # which is not invariant to a shift of a row
            z = np.ascontiguousarray(z - z.max(axis=1, keepdims=True))
        block = replace(block, decisions=block.predictions)  # no temperature changes them
        units, draws = len(block), rows.n
        if groups is not None:
            draws = int(groups.max()) + 1
            present, number = np.unique(groups[block.numbers], return_inverse=True)
            groups, units = np.asarray(number.reshape(-1), dtype=np.intp), len(present)
        return Side(block, z, groups, units, draws, rows.n_effective, WarmStart())

    def resample(self, rng: np.random.Generator) -> Array:
        """(m,) row weights of one resample: counts of rows, or of whole groups, times the rows' own weights."""
        if self.draws > self.units:  # a subsample, drawn from as often as the whole sample has rows
            times = rng.multinomial(self.draws, np.full(self.units, 1.0 / self.units)).astype(np.float64)
        else:
            times = np.bincount(rng.integers(self.units, size=self.units), minlength=self.units).astype(float)
        if self.groups is not None:
            times = times[self.groups]
        weights = times if self.block.weights is None else times * self.block.weights
        return weights if weights.sum() > 0.0 else np.ones(len(self.block))

    def rows(self, calibration: Calibration, weights: Array | None) -> Rows:
        """The rows of one replicate, calibrated, under its weights; their own weights if None."""
        fitted = calibration.calibrator
        if isinstance(fitted, Vector):
            probs = softmax(fitted.transform(self.z))
        else:
            probs = tempered(self.z, 1.0 / fitted.temperature if isinstance(fitted, Temperature) else 1.0)
        block = replace(self.block, calibration=calibration).with_probs(probs, weights)
        # The noise is that of the sample at hand, not of its resample.
        rows = Rows.of_block(block, block_rows=len(block)).with_n_effective(self.n_effective)
        rows.warm_start = self.warm_start
        return rows


class Replicates:
    """Draws replicates of a source and a target, calibrated anew.

    Args:
        pair: the source and the target. Of a large target the rows of `pair.bootstrap_subsample` are drawn, as often
            as the target has rows (a bag of little bootstraps; Kleiner, Talwalkar, Sarkar and Jordan, A Scalable
            Bootstrap for Massive Data, 2014).
        settings: the groups of rows to draw together.
    """

    def __init__(self, pair: Pair, settings: Resampling) -> None:
        self.calibration, self.settings = pair.calibration, settings
        source_groups = group_numbers(settings.source_groups, pair.source.n, "source_groups")
        groups = group_numbers(settings.groups, pair.target.n, "groups")
        few = pair.bootstrap_subsample
        self.source = Side.of(pair.source, pair.source_block, pair.calibration, source_groups)
        self.target = Side.of(pair.target, few.target_block, pair.calibration, groups)
        fitted, labels = pair.calibration.calibrator, self.source.block.labels
        self._slopes: Array | None = None
        if isinstance(fitted, Temperature) and labels is not None:
            self._slopes = loss_slopes(self.source.z, labels, 1.0 / fitted.temperature)

    @property
    def too_few(self) -> str | None:
        """Why there can be no interval, if there can be none."""
        for name, side in (("source", self.source), ("target", self.target)):
            if side.draws < FEWEST:
                what = "row" if side.groups is None else "group"
                return (
                    f"no interval: {side.draws} {name} {what}{'s' * (side.draws != 1)} cannot show how far chance "
                    f"goes; wanted at least {FEWEST}"
                )
        return None

    def recalibrate(self, weights: Array) -> Calibration:
        """The calibration fitted on the source under new weights."""
        labels, mass = self.source.block.labels, weights / weights.sum()
        fitted = self.calibration.calibrator
        assert labels is not None
        if isinstance(fitted, Temperature) and self._slopes is not None:
            new: Any = refit_temperature(self.source.z, labels, mass, fitted.temperature, self._slopes)
        else:
            new = CALIBRATIONS[self.calibration.name](self.source.z, labels, mass)
        return replace(self.calibration, calibrator=new, report={})

    def draw(self, seed: np.random.SeedSequence | None) -> tuple[Rows, Rows]:
        """The source and the target of one replicate; the samples themselves without a seed."""
        if seed is None:
            return self.source.rows(self.calibration, None), self.target.rows(self.calibration, None)
        rng = np.random.default_rng(seed)
        left, right = self.source.resample(rng), self.target.resample(rng)
        calibration = self.recalibrate(left)
        return self.source.rows(calibration, left), self.target.rows(calibration, right)

    def map(self, read: Callable[[Rows, Rows], R]) -> list[R]:
        """`read(source, target)` of the samples themselves first, then of every replicate, in order.

        Each replicate has its own stream of the seed: the result does not depend on the threads.
        """
        seeds = np.random.SeedSequence(self.settings.seed).spawn(self.settings.replicates)
        first = read(*self.draw(None))  # fills the warm starts before the threads begin
        rest = ordered_map(lambda seed: read(*self.draw(seed)), seeds, min(THREADS, cores()))
        return [first, *rest]


@dataclass(frozen=True)
class Draws:
    """What the bootstrap drew.

    Attributes:
        centre: the method's value in the world that the replicates are drawn from.
        values: (B,) the estimate of each replicate.
        gap: the largest certified gap of the replicates' smoothed transports; 0 if none was solved.
    """

    centre: float
    values: Array
    gap: float

    @property
    def bias(self) -> float:
        """How far the replicates lie from the centre, on average."""
        return float(self.values.mean() - self.centre)

    @property
    def spread(self) -> float:
        """The replicates' standard deviation."""
        return float(self.values.std(ddof=1))


def with_interval(pair: Pair, point: Estimate, settings: Resampling, **options: Any) -> Estimate:
    """The pair's estimate by one method (`point`), with an interval for its sampling error.

    Rows of source and target are drawn anew, jointly, and everything is fitted again: temperature, threshold,
    marginal, plan. With theta* the replicates and theta' the truth of the world they are drawn from, all on
    the scale of arcsin sqrt(error), the interval is theta - bias -+ t rms: bias = mean(theta*) - theta', rms
    the root mean square of theta* - theta', and t Student's quantile with B - 1 degrees of freedom. The bias
    comes off twice, once of the estimate and once of its replicates; the rms counts that the bias is itself an
    estimate, a rough one where a threshold makes theta* lumpy (measured; see `benchmarks/interval_coverage.py`).
    Methods that transport to a label marginal q have a kink where q meets the target's own shares h, and there a
    plain bootstrap sees twice the noise there was. So replicates are drawn from the world whose marginal is the
    shrunken one q' (see `shiftgauge.labelshift.shrink`): q* = q' + (resampled q - q), and theta' is the value of
    the plan to q' itself.

    References: Davison and Hinkley, Bootstrap Methods and their Application, 1997; Andrews, Inconsistency of
    the Bootstrap when a Parameter is on the Boundary, 2000.
    """
    method = point.method
    if point.labels is not None:
        return replace(point, warnings=(*point.warnings, NO_INTERVAL))
    error = pair.error(method, **options)
    replicates = Replicates(pair, settings)
    if (reason := replicates.too_few) is not None:
        return replace(point, warnings=(*point.warnings, reason))
    drawn = _draw(replicates, pair.parts(method, **options))
    details = {
        **point.details,
        "bootstrap_bias": drawn.bias,
        "bootstrap_sd": drawn.spread,
        "bootstrap_replicates": settings.replicates,
        "bootstrap_gap": drawn.gap,
        "estimand": "the error of the population that the target came from",
        "label_noise": float(np.sqrt(error * (1.0 - error) / pair.target.n_effective)),
    }
    warnings = list(point.warnings)
    if abs(drawn.bias) > max(LARGE_BIAS * drawn.spread, SLIGHT_BIAS):
        warnings.append(
            f"the estimate is biased by about {100 * drawn.bias:+.1f} points at this sample size (bootstrap); "
            "the interval is shifted accordingly; marginal='shrunk' or more rows reduce it"
        )
    rows = joint_rows(pair.source.n_effective, pair.target.n_effective)
    ends = widened(
        *bounds(error, drawn, settings.level), rows, NormalDist().inv_cdf(0.5 + settings.level / 2)
    )
    interval = Interval(settings.level, *ends, KIND)
    return replace(point, interval=interval, details=details, warnings=tuple(warnings))


def bootstrap(pair: Pair, estimator: Estimator, settings: Resampling) -> Draws:
    """Draw replicates of a method's error; `with_interval` reads them."""
    return _draw(Replicates(pair, settings), [(1.0, estimator)])


def _draw(replicates: Replicates, parts: Sequence[tuple[float, Estimator]]) -> Draws:
    """The draws of a weighted mean of methods, all read off the same replicates."""
    samples = replicates.draw(None)
    readers = [_Reader.of(estimator, *samples) for _, estimator in parts]
    weights = np.array([weight for weight, _ in parts])

    def read(source: Rows, target: Rows) -> tuple[float, float]:
        errors, gaps = zip(*(reader.read(source, target) for reader in readers), strict=True)
        return float(weights @ errors), max(gaps)

    results = np.array(replicates.map(read))
    centre = float(weights @ [reader.read(*samples, centre=True)[0] for reader in readers])
    return Draws(centre, results[1:, 0], float(results[:, 1].max()))


@dataclass(frozen=True)
class _Reader:
    """Fits a method on a replicate's source and reads its target.

    Attributes:
        method, params: the class of the method, and its arguments.
        offset: (K,) q' - q (see `with_interval`); None for methods that do not transport to the source's shares.
    """

    method: type[Estimator]
    params: dict[str, Any]
    offset: Array | None

    @staticmethod
    def of(estimator: Estimator, source: Rows, target: Rows) -> _Reader:
        """The reader of a method, for replicates of these samples."""
        method, params = type(estimator), estimator.get_params()
        return _Reader(method, params, _marginal_offset(method(**params), source, target))

    def read(self, source: Rows, target: Rows, centre: bool = False) -> tuple[float, float]:
        """The error, and the certified gap of its transport; `centre` is the truth that replicates are drawn from."""
        params = self.params
        if centre and self.offset is not None:  # there q' is the truth, so it is not shrunk again
            params = {**params, "marginal": "source"}
        fitted = self.method(**params).fit_rows(source)
        if self.offset is not None:
            moved = np.maximum(fitted.label_marginal_ + self.offset, 0.0)
            fitted.label_marginal_ = np.asarray(moved / moved.sum())
        found = fitted.estimate_rows(target)
        assert found.error is not None
        proof = found.details.get("certificate")
        return found.error, abs(proof["gap"]) if proof else 0.0


def bounds(point: float, drawn: Draws, level: float) -> tuple[float, float]:
    """The bias-corrected interval on the scale of arcsin sqrt(error), where the noise of a share is constant."""
    from scipy.special import stdtrit

    off = _angle(drawn.values) - _angle(drawn.centre)
    bias, sd = off.mean(), off.std(ddof=1)
    half_width = float(stdtrit(len(off) - 1, 0.5 + level / 2)) * np.hypot(sd, bias)
    ends = _share(_angle(point) - bias + np.array([-half_width, half_width]))
    return float(ends[0]), float(ends[1])


def _angle(share: Any) -> Any:
    return np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0)))


def _share(angle: Array) -> Array:
    return np.asarray(np.sin(np.clip(angle, 0.0, np.pi / 2)) ** 2)


def _marginal_offset(estimator: Estimator, source: Rows, target: Rows) -> Array | None:
    """q' - q for the methods that transport to the source's shares, shrunken or not; None for others."""
    if not isinstance(estimator, MarginalEstimator) or not isinstance(estimator.marginal, str):
        return None
    if estimator.marginal not in ("source", "shrunk"):
        return None
    q = estimator.fit_rows(source).label_marginal_
    h, variance = estimator.reference_shares(run(target.moments()))
    shrunk, _ = shrink(q, h, variance, source.n_effective, target.n_effective)
    return shrunk - q
