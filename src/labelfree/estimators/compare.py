"""One line for one method, or for all that the evidence allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labelfree import _door
from labelfree.calibration import fit_calibration
from labelfree.errors import InputError
from labelfree.estimators.registry import METHODS, accepts, find, make
from labelfree.estimators.view import View
from labelfree.labelshift import Marginal, check_marginal
from labelfree.results import Comparison, Estimate
from labelfree.types import Sample, Source, Target


def estimate(source: Source, target: Target, method: str = "cott", **options: Any) -> Estimate:
    """Estimate the error on the target by one method.

    Args:
        source: scores with labels.
        target: scores without.
        method: a name from `labelfree.METHODS`.
        options: the method's own, such as `calibration=` and `marginal=`.

    >>> import labelfree as lf
    >>> source = lf.Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1])
    >>> lf.estimate(source, lf.Target(probs=[[.7, .3], [.4, .6]]), method="ac", calibration="none")
    ac: error 35.0% (3 source rows, 2 target rows)
    """
    return make(method, **options).fit(source).estimate(target)


def compare(
    source: Source,
    target: Target,
    methods: Sequence[str] | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal = "source",
    target_labels: Any = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Estimate by several methods at once; calibration and transport are solved once and shared.

    Args:
        source: scores with labels.
        target: scores without.
        methods: names in the order wanted; by default every method the evidence allows.
        calibration: for all methods.
        marginal: for the methods that take one.
        target_labels: true labels of the target, where they are known and the methods are to be checked.
        progress: called with the name of each step as it begins.
    """
    if not isinstance(source, Source) or not isinstance(target, Target):
        raise InputError("compare: wanted labelfree.Source(...) and labelfree.Target(...)")
    check_marginal(marginal)
    say = progress or (lambda step: None)
    warnings = []
    if isinstance(methods, str):
        methods = [methods]
    if methods is None:
        chosen = [
            name for name, method in METHODS.items() if target.second is not None or not method.needs_second
        ]
        if target.second is None:
            warnings.append("gde left out: it needs a second model's predictions (second=, --second)")
    else:
        chosen = list(dict.fromkeys(find(name).name for name in methods))
        if not chosen:
            raise InputError("compare: no methods named; wanted some, or none at all for every method")
    say("calibration")
    source_view = View(source, fit_calibration(calibration, source))
    aligned = target.aligned(source.classes, source.k)
    target_view = View(aligned, source_view.calibration)
    estimates = []
    for name in chosen:
        say(name)
        options = {"calibration": calibration}
        if accepts(METHODS[name], "marginal"):
            options["marginal"] = marginal
        estimator = make(name, **options).fit_view(source_view)
        estimates.append(estimator.estimate_view(target_view))
    shared = [w for w in estimates[0].warnings if all(w in e.warnings for e in estimates)]
    return Comparison(
        estimates=tuple(estimates),
        source={**_summary(source), "error": source.error},
        target={**_summary(target), **_truth(target, target_labels)},
        warnings=(*warnings, *shared),
    )


def _summary(sample: Sample) -> dict[str, Any]:
    names = None
    if sample.classes is not None:  # names that JSON does not know, such as dates, are written as text
        names = [c if isinstance(c, str | int | float) else str(c) for c in sample.classes]
    return {"n": sample.n, "k": sample.k, "classes": names, "scores": sample.kind}


def _truth(target: Target, labels: Any) -> dict[str, float]:
    if labels is None:
        return {}
    truth = _door.as_labels(labels, target.n, target.k, target.classes, "target labels")
    return {"true_error": target.share(target.predictions != truth)}
