"""The paper's protocol: every method on every collected shift, as one table of estimates beside the true errors.

Beside the shifts themselves: mild label shift, targets resampled to class proportions drawn from a Dirichlet
distribution (alpha q with alpha = 50 in the paper's text, alpha K q in its authors' code); and COT and COTT in batches
of 10,000 rows drawn with replacement, as the paper computes them for larger targets, beside the whole target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.calibration import fit_calibration
from shiftgauge.errors import InputError
from shiftgauge.experiments.imports import import_object
from shiftgauge.experiments.scores import ScoredSet
from shiftgauge.experiments.sweep import Record, Sweep, Unit
from shiftgauge.labelshift import dirichlet_shares, resample_to
from shiftgauge.labelshift.marginal import total_variation
from shiftgauge.methods import METHODS, Estimator
from shiftgauge.methods.registry import accepts, make
from shiftgauge.rows import Rows

SHRUNK = "+shrunk"
"""Suffix of a method with the noise-aware marginal."""
MARGINALS = ("source", "uniform")
ALPHA = 50.0
SCALES = ("text", "code")
"""Mild label shift as in the paper's text and as in its authors' code."""
BATCH_METHODS = ("cot", "cott")
BATCH_ROWS = 10_000

ESTIMATES = {
    "dataset": "str", "network": "str", "seed": "int64", "shift": "str", "kind": "str", "n": "int64",
    "true_error": "float64", "pseudo_shift": "float64", "method": "str", "estimate": "float64", "is_score": "bool",
}  # fmt: skip
"""Columns of a table of estimates. ``estimate`` is an error, or a score if ``is_score``."""
BATCHES = {
    "dataset": "str", "network": "str", "seed": "int64", "shift": "str", "kind": "str", "method": "str",
    "true_error": "float64", "whole": "float64", "batched": "float64",
}  # fmt: skip
"""Columns of the batch ablation: the estimate on the whole target and the mean over batches."""


def check_marginal(marginal: str, option: str = "the marginal") -> str:
    """``marginal``, if it is a known one."""
    if marginal not in MARGINALS:
        raise InputError(f"{option} is {marginal!r}; it must be one of {', '.join(MARGINALS)}")
    return marginal


def label_shares(marginal: str, labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """The label proportions (K,) called ``source`` (those of ``labels``) or ``uniform``."""
    if check_marginal(marginal) == "uniform":
        return np.full(classes, 1 / classes)
    return np.asarray(np.bincount(labels, minlength=classes) / len(labels))


def load_method(text: str) -> type[Estimator]:
    """The estimator class that ``my_module:MyEstimator`` names."""
    method = import_object(text, "--estimator")
    if not (isinstance(method, type) and issubclass(method, Estimator)):
        raise InputError(f"--estimator is {text!r}, which is not a subclass of shiftgauge.methods.Estimator")
    if METHODS.get(method.name, method) is not method:
        raise InputError(
            f"--estimator is {text!r}, whose name {method.name!r} is taken; give it another `name`"
        )
    return method


class FittedMethods:
    """Methods fitted once on a source; each target is then calibrated once for all of them.

    methods: names (all, if there are none; with ``+shrunk`` for the noise-aware marginal) or estimator classes.
    marginal: ``source`` (the source's label proportions, as in the paper) or ``uniform`` (as in its authors' code for
    CIFAR, ImageNet and BREEDS).
    """

    def __init__(
        self,
        source: ScoredSet,
        methods: Sequence[str | type[Estimator]] = (),
        marginal: str = "source",
    ) -> None:
        check_marginal(marginal)
        sample = source.source()
        self._calibration = fit_calibration("temperature", sample)
        rows = Rows.of(sample).calibrated(self._calibration)
        plain: Any = (
            "source"
            if marginal == "source"
            else label_shares(marginal, source.labels, source.scores.shape[1])
        )
        names = [m for m in methods if isinstance(m, str)]
        own = [m for m in methods if not isinstance(m, str)]
        estimators = []
        for name, method in METHODS.items():
            variants = {"": plain, SHRUNK: "shrunk"} if accepts(method, "marginal") else {"": None}
            for suffix, masses in variants.items():
                if name + suffix in names or not methods:
                    options = {} if masses is None else {"marginal": masses}
                    estimators.append((name + suffix, make(name, **options)))
        estimators += [(method.name, method()) for method in own]
        self._methods = [(name, estimator.fit_rows(rows)) for name, estimator in estimators]

    def estimate(
        self, target: ScoredSet, second: NDArray[Any] | None = None
    ) -> dict[str, tuple[float, bool]]:
        """Method -> (estimate, whether it is a score); GDE only with the predictions ``second``."""
        rows = Rows.of(target.target(second)).calibrated(self._calibration)
        estimates = {}
        for name, estimator in self._methods:
            if estimator.needs_second and second is None:
                continue
            estimate = estimator.estimate_rows(rows)
            value = estimate.score if estimate.error is None else estimate.error
            if value is not None:
                estimates[name] = (value, estimate.error is None)
        return estimates


def estimates_sweep(marginal: str = "source", method: type[Estimator] | None = None) -> Sweep:
    """Every method on every collected shift, or only ``method``.

    GDE's second network is the next seed's; that of the last seed is the first seed's. ProjNorm is included if it was
    computed.
    """
    methods = () if method is None else (method,)

    def work(fitted: FittedMethods, unit: Unit) -> list[Record]:
        target = unit.target()
        estimates = fitted.estimate(target, unit.second())
        for name in unit.scores.projnorms(unit.shift) if method is None else ():
            estimates[name.partition("/")[0]] = (unit.scores.projnorm(name), True)
        return _records(unit, target, estimates)

    return Sweep(
        "estimates" if method is None else f"estimates-{method.name}",
        ESTIMATES,
        lambda source: FittedMethods(source, methods, marginal),
        work,
        {"marginal": marginal},
        (__name__, *(m.__module__ for m in methods)),
    )


def mild_label_shift_sweep(scale: str = "text", marginal: str = "source") -> Sweep:
    """Every method on every shift, each resampled once per seed."""

    def work(fitted: FittedMethods, unit: Unit) -> list[Record]:
        whole, second = unit.target(), unit.second()
        rng = unit.generator(SCALES.index(scale))
        rows = resampled_rows(whole.labels, whole.scores.shape[1], rng, scale=scale)
        if not len(rows):
            # The proportions need so many rows of a rare class that no row is left.
            return []
        target = whole.take(rows)
        return _records(unit, target, fitted.estimate(target, None if second is None else second[rows]))

    return Sweep(
        f"mild-{scale}",
        ESTIMATES,
        lambda source: FittedMethods(source, marginal=marginal),
        work,
        {"scale": scale, "alpha": ALPHA, "marginal": marginal},
        (__name__,),
    )


def resampled_rows(
    labels: NDArray[np.int64], classes: int, rng: np.random.Generator, scale: str = "text"
) -> NDArray[np.int64]:
    """Rows of a resampled target: proportions from Dirichlet(50 q), then rows without replacement."""
    marginal = np.bincount(labels, minlength=classes) / len(labels)
    shares = dirichlet_shares(marginal, ALPHA, scale=scale, seed=rng)
    return resample_to(labels, shares, seed=rng).astype(np.int64)


def batches_sweep(size: int = BATCH_ROWS, marginal: str = "source") -> Sweep:
    """COT and COTT on the whole target and in batches, for every shift with more rows than a batch."""

    def work(fitted: FittedMethods, unit: Unit) -> list[Record]:
        target = unit.target()
        batches = batch_rows(len(target.labels), unit.generator(), size)
        if not batches:
            return []
        whole = fitted.estimate(target)
        parts = [fitted.estimate(target.take(rows)) for rows in batches]
        return [
            _unit_record(unit, target)
            | {
                "method": method,
                "whole": whole[method][0],
                "batched": float(np.mean([part[method][0] for part in parts])),
            }
            for method in BATCH_METHODS
        ]

    return Sweep(
        "batches",
        BATCHES,
        lambda source: FittedMethods(source, methods=BATCH_METHODS, marginal=marginal),
        work,
        {"size": size, "marginal": marginal},
        (__name__,),
    )


def batch_rows(n: int, rng: np.random.Generator, size: int = BATCH_ROWS) -> list[NDArray[np.int64]]:
    """ceil(n / size) batches of ``size`` rows, each drawn with replacement; none if the target fits in one."""
    return [rng.integers(0, n, size) for _ in range(-(-n // size))] if n > size else []


def _unit_record(unit: Unit, target: ScoredSet) -> Record:
    return {
        "dataset": unit.dataset, "network": unit.network, "seed": unit.seed, "shift": unit.shift, "kind": target.kind,
        "true_error": target.error,
    }  # fmt: skip


def _records(unit: Unit, target: ScoredSet, estimates: Mapping[str, tuple[float, bool]]) -> list[Record]:
    """One record per method."""
    common = _unit_record(unit, target) | {
        "n": len(target.labels),
        "pseudo_shift": pseudo_label_shift(target),
    }
    return [
        common | {"method": name, "estimate": value, "is_score": is_score}
        for name, (value, is_score) in estimates.items()
    ]


def pseudo_label_shift(target: ScoredSet) -> float:
    """Total variation distance between the predicted and the true label proportions of a target."""
    k, n = target.scores.shape[1], len(target.labels)
    predicted = np.bincount(target.predictions, minlength=k) / n
    return total_variation(predicted, np.bincount(target.labels, minlength=k) / n)
