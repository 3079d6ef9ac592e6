"""Intervals for the estimated error, from the joint bootstrap of source and target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.errors import InputError
from labelfree.estimators.base import Estimator
from labelfree.estimators.marginal import MarginalEstimator
from labelfree.estimators.registry import make
from labelfree.estimators.view import View
from labelfree.labelshift import shrink
from labelfree.results import Estimate, Interval
from labelfree.trust.columns import is_missing, one_per_row
from labelfree.trust.replicate import Replicator
from labelfree.types import Source, Target

Array = npt.NDArray[np.float64]
Groups = Any

KIND = "sampling error only"
#: A bootstrap bias above so many standard deviations, and so much error, is worth a warning.
LARGE_BIAS, SLIGHT_BIAS = 0.5, 0.005
#: Fewer rows (or groups) than this on either side cannot show how far chance goes.
FEWEST = 10


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


def interval(
    source: Source,
    target: Target,
    method: str = "cott",
    *,
    level: float = 0.95,
    replicates: int = 200,
    groups: Groups = None,
    source_groups: Groups = None,
    seed: int = 0,
    **options: Any,
) -> Estimate:
    """Estimate the error on the target with an interval for its sampling error.

    The estimand is the error of the population that the target rows came from, under the method's own
    assumption; what the assumption is worth is not covered. (The error on just these rows differs from it
    by label noise with standard deviation `details["label_noise"]`.)

    Rows of source and target are drawn anew, jointly, and everything is fitted again: temperature, threshold,
    marginal, plan. With theta* the replicates and theta' the truth of the world they are drawn from, all on
    the scale of arcsin sqrt(error), the interval is theta - bias -+ t rms, where bias = mean(theta*) - theta',
    rms is the root mean square of theta* - theta', and t Student's quantile. Like the basic interval
    2 theta - theta* it moves against the bias; the rms counts that the bias is itself an estimate, a rough
    one where a threshold makes theta* lumpy (measured; see `benchmarks/interval_coverage.py`). Methods that
    transport to a label marginal q have a kink where q meets the target's own shares h, and there a plain
    bootstrap sees twice the noise there was. So replicates are drawn from the world whose marginal is the
    shrunken one q' (see `labelfree.labelshift.shrink`): q* = q' + (resampled q - q), and theta' is the value
    of the plan to q' itself.

    Args:
        source: scores with labels.
        target: scores without.
        method: a name from `labelfree.METHODS`, not a score.
        level: the nominal coverage.
        replicates: how often to resample.
        groups: (n_target,) group of each target row, where rows come in correlated groups.
        source_groups: (n_source,) the same for the source.
        seed: of the resampling.
        options: the method's own, such as `calibration=` and `marginal=`.

    Returns:
        The `Estimate` with `interval`, and in `details` `bootstrap_bias` and `bootstrap_sd`. With fewer than
        ten rows (or groups) on either side there is no interval, and a warning says so.

    References: Davison and Hinkley, Bootstrap Methods and their Application, 1997; Andrews, Inconsistency of
    the Bootstrap when a Parameter is on the Boundary, 2000.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(400, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = interval(lf.Source(logits=z[:200], labels=y[:200]), lf.Target(logits=z[200:]), "ac")
    >>> found.interval.low < found.error < found.interval.high
    True
    """
    check_resampling(level, replicates, seed)
    estimator = make(method, **options)
    point = estimator.fit(source).estimate(target)
    if point.error is None:
        raise InputError(
            f"interval: {method} is a score, not an error; wanted a method that estimates an error"
        )
    if (reason := _too_few(source, target, source_groups, groups)) is not None:
        return replace(point, warnings=(*point.warnings, reason))
    stand_in = _stand_in(estimator, point)
    drawn = bootstrap(
        stand_in,
        source,
        target,
        replicates=replicates,
        groups=groups,
        source_groups=source_groups,
        seed=seed,
    )
    low, high = bounds(point.error, drawn, level)
    bias = float(drawn.values.mean() - drawn.centre)
    details = {
        **point.details,
        "bootstrap_bias": bias,
        "bootstrap_sd": float(drawn.values.std(ddof=1)),
        "bootstrap_replicates": replicates,
        "bootstrap_gap": drawn.gap,
        "estimand": "the error of the population that the target came from",
        "label_noise": float(np.sqrt(point.error * (1.0 - point.error) / target.n_effective)),
    }
    warnings = list(point.warnings)
    if stand_in is not estimator:
        details["bootstrap_method"] = repr(stand_in)
        warnings.append(
            "the interval takes the choice of method as given; see the band for what it could be worth"
        )
    if abs(bias) > max(LARGE_BIAS * details["bootstrap_sd"], SLIGHT_BIAS):
        warnings.append(
            f"the estimate is biased by about {100 * bias:+.1f} points at this sample size (bootstrap); "
            "the interval is shifted accordingly; marginal='shrunk' or more rows reduce it"
        )
    return replace(
        point, interval=Interval(level, low, high, KIND), details=details, warnings=tuple(warnings)
    )


def bootstrap(
    estimator: Estimator,
    source: Source,
    target: Target,
    *,
    replicates: int = 200,
    groups: Groups = None,
    source_groups: Groups = None,
    seed: int = 0,
) -> Draws:
    """Draw replicates of a method's error; `interval` reads them."""
    aligned = target.aligned(source.classes, source.k)
    params = estimator.get_params()
    method = type(estimator)
    by_source = _groups(source_groups, source.n, "source_groups")
    by_target = _groups(groups, target.n, "groups")
    work = Replicator(source, aligned, params["calibration"], by_source, by_target)
    offset = _offset(method(**params), *work.views(None))

    def read(left: View, right: View, **other: Any) -> tuple[float, float]:
        fitted = work.fitted(method(**{**params, **other}), left)
        if offset is not None:
            fitted.label_marginal_ = _moved(fitted.label_marginal_, offset)
        found = fitted.estimate_view(right)
        assert found.error is not None
        proof = found.details.get("certificate")
        return found.error, abs(proof["gap"]) if proof else 0.0

    results = np.array(work.run(read, replicates, seed))
    centre = results[0, 0]
    if (
        offset is not None and params["marginal"] == "shrunk"
    ):  # in that world q' is the truth: not shrunk again
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
    shrunk, _ = shrink(q, h, variance, left.sample.n_effective, right.sample.n_effective)
    return shrunk - q


def _moved(q: Array, offset: Array) -> Array:
    moved = np.maximum(q + offset, 0.0)
    return np.asarray(moved / moved.sum())


def _stand_in(estimator: Estimator, point: Estimate) -> Estimator:
    """What is resampled: the method itself; for `auto`, the method with the most weight."""
    if estimator.name != "auto":
        return estimator
    heaviest = point.details["parts"][0]
    options = {} if heaviest["marginal"] is None else {"marginal": heaviest["marginal"]}
    return make(heaviest["method"], calibration=estimator.calibration, **options)


def _too_few(source: Source, target: Target, source_groups: Groups, groups: Groups) -> str | None:
    """Why there can be no interval, if there can be none."""
    for side, sample, grouped in (("source", source, source_groups), ("target", target, groups)):
        number = _groups(grouped, sample.n, "groups" if side == "target" else "source_groups")
        units = sample.n if number is None else int(number.max()) + 1
        if units < FEWEST:
            what = "row" if number is None else "group"
            return (
                f"no interval: {units} {side} {what}{'s' * (units != 1)} cannot show how far chance goes; "
                f"wanted at least {FEWEST}"
            )
    return None


def check_resampling(level: float, replicates: int, seed: int) -> None:
    """What every bootstrap is told: the level, how many replicates, the seed."""
    _door.check_fraction(level, "level", 0.95)
    _door.check_count(replicates, "replicates", 20, ", better 200")
    _door.check_count(seed, "seed", 0)


def _groups(values: Groups, n: int, what: str) -> npt.NDArray[np.intp] | None:
    if values is None:
        return None
    array = one_per_row(values, n, what)
    missing = next((row for row, value in enumerate(array.tolist()) if is_missing(value)), None)
    if missing is not None:
        raise InputError(
            f"{what}: row {missing} is missing; wanted a group in every row; give such rows groups of their own"
        )
    names, number = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{what}: only one group; wanted at least two to draw from")
    return np.asarray(number.reshape(-1), dtype=np.intp)
