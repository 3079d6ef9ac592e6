"""Intervals for the estimated error, from the joint bootstrap of source and target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge._proportion import joint_rows, widened
from shiftgauge.inference.bootstrap.replicates import Replicator
from shiftgauge.inference.bootstrap.settings import Resampling, too_few
from shiftgauge.labelshift import shrink
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.methods.view import View
from shiftgauge.results import Estimate, Interval

Array = npt.NDArray[np.float64]

KIND = "sampling error only"
#: A bootstrap bias above so many standard deviations, and so much error, is worth a warning.
LARGE_BIAS, SLIGHT_BIAS = 0.5, 0.005


@dataclass(frozen=True)
class Draws:
    """What the bootstrap drew.

    Attributes:
        centre: what the method is after in the world that the replicates are drawn from.
        values: (B,) the estimate of each replicate.
        gap: the largest certified gap of the replicates' smoothed transports; 0 where none was solved.
    """

    centre: float
    values: Array
    gap: float

    @property
    def bias(self) -> float:
        """How far the replicates lie from what the method is after, on average."""
        return float(self.values.mean() - self.centre)

    @property
    def spread(self) -> float:
        """The replicates' standard deviation."""
        return float(self.values.std(ddof=1))


def with_interval(pair: Pair, point: Estimate, settings: Resampling, **options: Any) -> Estimate:
    """The pair's estimate by one method (`point`), with an interval for its sampling error.

    A named method has it as its `interval`; `auto` keeps its range, and has it as `sampling`.

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
    error = pair.error(method, **options)
    by_source, by_target = settings.numbers(pair.source.sample, pair.target.sample)
    if (reason := too_few(pair.source, pair.target, by_source, by_target)) is not None:
        return replace(point, warnings=(*point.warnings, reason))
    parts = pair.parts(method, **options)
    drawn = blended([(weight, bootstrap(pair, part, settings)) for weight, part in parts])
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
    sampling = Interval(settings.level, *ends, KIND)
    shown = point.interval if method == DEFAULT else sampling
    return replace(point, interval=shown, sampling=sampling, details=details, warnings=tuple(warnings))


def bootstrap(pair: Pair, estimator: Estimator, settings: Resampling) -> Draws:
    """Draw replicates of a method's error; `with_interval` reads them."""
    params, method = estimator.get_params(), type(estimator)
    work = Replicator(pair, *settings.numbers(pair.source.sample, pair.target.sample))
    offset = _offset(method(**params), *work.views(None))

    def read(left: View, right: View, **other: Any) -> tuple[float, float]:
        fitted = work.fitted(method(**{**params, **other}), left)
        if offset is not None:
            fitted.label_marginal_ = _moved(fitted.label_marginal_, offset)
        found = fitted.estimate_view(right)
        assert found.error is not None
        proof = found.details.get("certificate")
        return found.error, abs(proof["gap"]) if proof else 0.0

    results = np.array(work.run(read, settings.replicates, settings.seed))
    centre = results[0, 0]
    # In that world q' is the truth: not shrunk again.
    if offset is not None and params["marginal"] == "shrunk":
        centre, _ = read(*work.views(None), marginal="source")
    return Draws(float(centre), results[1:, 0], float(results[:, 1].max()))


def bounds(point: float, drawn: Draws, level: float) -> tuple[float, float]:
    """The bias-corrected interval on the scale of arcsin sqrt(error), where a share's noise is constant."""
    from scipy.special import stdtrit

    off = _angle(drawn.values) - _angle(drawn.centre)
    bias, sd = off.mean(), off.std(ddof=1)
    reach = float(stdtrit(len(off) - 1, 0.5 + level / 2)) * np.hypot(sd, bias)
    ends = _share(_angle(point) - bias + np.array([-reach, reach]))
    return float(ends[0]), float(ends[1])


def _angle(share: Any) -> Any:
    return np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0)))


def _share(angle: Array) -> Array:
    return np.asarray(np.sin(np.clip(angle, 0.0, np.pi / 2)) ** 2)


def _offset(estimator: Estimator, left: View, right: View) -> Array | None:
    """q' - q for the methods that transport to the source's shares, or less the noise; None for others."""
    if not isinstance(estimator, MarginalEstimator) or not isinstance(estimator.marginal, str):
        return None
    if estimator.marginal not in ("source", "shrunk"):
        return None
    estimator.fit_view(left)
    h, variance = estimator._reference(right)
    q = estimator.label_marginal_
    shrunk, _ = shrink(q, h, variance, left.n_effective, right.n_effective)
    return shrunk - q


def _moved(q: Array, offset: Array) -> Array:
    moved = np.maximum(q + offset, 0.0)
    return np.asarray(moved / moved.sum())


def blended(parts: Sequence[tuple[float, Draws]]) -> Draws:
    """The draws of a weighted mean of methods; replicate b of each is the same resample, so they are added."""
    centre = sum(weight * one.centre for weight, one in parts)
    values = np.sum([weight * one.values for weight, one in parts], axis=0)
    return Draws(float(centre), values, max(one.gap for _, one in parts))
