"""Agreement-on-the-line: several models' agreement on the target tells each one's accuracy there."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.results import Estimate
from shiftgauge.samples import Source, Target

Array = npt.NDArray[np.float64]

#: Fewer models than this leave nothing to fit a line to.
FEWEST = 3
#: Below this R^2 the agreements are not on a line, and accuracies are not promised to be.
STRAIGHT = 0.95


def aline(models: Mapping[str, tuple[Source, Target]]) -> dict[str, Estimate]:
    """Each model's error on the target, by the line that the models' agreements lie on (ALine-D).

    Where accuracies in and out of distribution lie on a line (on the probit scale), so do the agreements of
    pairs of models, with the same slope a and bias b; agreement needs no labels. For every pair (i, j), with
    acc and agr on the probit scale,

        (acc_T(i) + acc_T(j)) / 2 = agr_T(i, j) + a [(acc_S(i) + acc_S(j)) / 2 - agr_S(i, j)],

    solved for all acc_T by least squares. `details` hold the slope, the bias, R^2 of the line, and ALine-S,
    which reads acc_T off the line itself: a acc_S + b.

    Args:
        models: at least three: name -> (source, target), scores of the same rows in the same order.

    Reference: Baek, Jiang, Raghunathan and Kolter, Agreement-on-the-Line, 2022.
    """
    names = list(models)
    _check(models)
    sources = [source for source, _ in models.values()]
    targets = [target.aligned(source.classes, source.k) for source, target in models.values()]
    labels, mass_s, mass_t = sources[0].labels, sources[0].mass, targets[0].mass
    seen_s, seen_t = [s.predictions for s in sources], [t.predictions for t in targets]
    pairs = list(combinations(range(len(names)), 2))
    agree_s, agree_t = (
        np.array([_probit(float(mass @ (seen[i] == seen[j])), len(mass)) for i, j in pairs])
        for seen, mass in ((seen_s, mass_s), (seen_t, mass_t))
    )
    right = np.array([_probit(float(mass_s @ (seen == labels)), len(labels)) for seen in seen_s])
    slope, bias, straight = _line(agree_s, agree_t)
    found = _solve(pairs, right, agree_s, agree_t, slope)
    out = {}
    for number, name in enumerate(names):
        details: dict[str, Any] = {
            "slope": slope,
            "bias": bias,
            "r_squared": straight,
            "aline_s": 1.0 - _share(slope * float(right[number]) + bias),
            "source_error": sources[number].error,
            "models": len(names),
        }
        warnings: tuple[str, ...] = ()
        if straight < STRAIGHT:
            warnings = (
                f"the models' agreements are not on a line (R^2 {straight:.2f}): the method promises nothing",
            )
        out[name] = Estimate(
            method="aline",
            error=1.0 - _share(float(found[number])),
            score=None,
            n_source=sources[number].n,
            n_target=targets[number].n,
            details=details,
            warnings=warnings,
        )
    return out


def _check(models: Mapping[str, tuple[Source, Target]]) -> None:
    if not isinstance(models, Mapping) or len(models) < FEWEST:
        count = len(models) if isinstance(models, Mapping) else type(models).__name__
        raise InputError(
            f"aline: arrived {count} models; wanted a mapping of at least {FEWEST}: name -> (source, target)"
        )
    first, (source, target) = next(iter(models.items()))
    for name, (left, right) in models.items():
        if not isinstance(left, Source) or not isinstance(right, Target):
            raise InputError(f"aline: model {name!r} holds no (Source, Target)")
        if left.classes != source.classes and left.classes is not None and source.classes is not None:
            raise InputError(
                f"aline: {name!r} has the classes {left.classes[:5]}, {first!r} {source.classes[:5]}; wanted the same "
                "classes in the same order"
            )
        if left.n != source.n or right.n != target.n or not np.array_equal(left.labels, source.labels):
            raise InputError(
                f"aline: {name!r} and {first!r} have other rows; wanted scores of the same rows in the same order"
            )


def _probit(share: float, n: int) -> float:
    """The normal quantile of a share; of 0 and 1, that of half a row."""
    from scipy.special import ndtri

    return float(ndtri(np.clip(share, 0.5 / n, 1.0 - 0.5 / n)))


def _share(value: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(value))


def _line(x: Array, y: Array) -> tuple[float, float, float]:
    """Slope, bias and R^2; a slope of 1 where all x are the same."""
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx)) if dx @ dx > 1e-12 else 1.0
    rest = dy - slope * dx
    total = float(dy @ dy)
    return (
        slope,
        float(y.mean() - slope * x.mean()),
        1.0 - float(rest @ rest) / total if total > 1e-12 else 1.0,
    )


def _solve(pairs: list[tuple[int, int]], right: Array, agree_s: Array, agree_t: Array, slope: float) -> Array:
    """(m,) accuracies on the target, on the probit scale."""
    A = np.zeros((len(pairs), len(right)))
    for row, (i, j) in enumerate(pairs):
        A[row, [i, j]] = 0.5
    return np.asarray(np.linalg.lstsq(A, agree_t + slope * (A @ right - agree_s), rcond=None)[0])
