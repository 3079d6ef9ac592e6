"""One answer for a source and a target: the estimate, its interval if asked for, and what speaks against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shiftgauge import validation
from shiftgauge.errors import InputError, Note
from shiftgauge.inference.bootstrap import REPLICATES, Resampling, with_interval
from shiftgauge.inference.decisions.answers import check_level
from shiftgauge.inference.words import renamed
from shiftgauge.labelshift import LABEL_SHIFT, Marginal, check_marginal
from shiftgauge.methods.auto import check_proportions
from shiftgauge.methods.pair import Pair, taken
from shiftgauge.methods.registry import DEFAULT, METHODS, accepts, find
from shiftgauge.methods.shift import ShiftVerdict
from shiftgauge.methods.span import RANGE_LEVEL, at_level
from shiftgauge.results import Comparison, Estimate
from shiftgauge.samples import Sample, Source, Target
from shiftgauge.scans import Scan

Progress = Callable[[str], None]

#: What a kind of shift says against a method that it refutes.
DOUBTS = {
    "label": "only class proportions seem to have changed, and this takes the source's; try auto",
    "other": "more than class proportions changed, and this assumes that only they did; try auto",
}

#: Why methods with `needs_argmax` are left out.
DECIDED = "they estimate the error of the largest score, and deployed decisions differ from it"


def estimate(
    source: Source | Scan,
    target: Target | Scan,
    method: str = DEFAULT,
    *,
    interval: bool = False,
    replicates: int = REPLICATES,
    level: float = 0.95,
    groups: Any = None,
    source_groups: Any = None,
    seed: int = 0,
    **options: Any,
) -> Estimate:
    """Estimate the error on the target by one method.

    Args:
        source: scores with labels.
        target: scores without.
        method: a name from `shiftgauge.METHODS`.
        interval: whether to resample for an interval of the sampling error; see `shiftgauge.interval`.
        replicates, groups, source_groups, seed: of the interval.
        level: of the interval, and of the range of `auto`.
        options: the method's own, such as `calibration=` and `marginal=`.

    >>> import shiftgauge as sg
    >>> source = sg.Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1])
    >>> sg.estimate(source, sg.Target(probs=[[.7, .3], [.4, .6]]), method="ac", calibration="none")
    ac: error 35.0% (3 source rows, 2 target rows)
    """
    calibration = options.pop("calibration", "temperature")
    settings = Resampling(replicates, level, seed, groups, source_groups)
    pair = Pair(source, target, calibration, seed=seed, verb="estimate")
    return answer(pair, method, settings if interval else None, level=level, **options)


def interval(source: Source | Scan, target: Target | Scan, method: str = DEFAULT, **options: Any) -> Estimate:
    """Estimate the error on the target with an interval for its sampling error: `estimate(..., interval=True)`.

    The estimand is the error of the population that the target rows came from, under the method's own
    assumption; what the assumption is worth is not covered. (The error on just these rows differs from it
    by label noise with standard deviation `details["label_noise"]`.) See
    `shiftgauge.inference.bootstrap.with_interval` for how it is made.

    Args:
        source: scores with labels.
        target: scores without.
        method: a name from `shiftgauge.METHODS`, not a score.
        options: those of `estimate`: `level` (the nominal coverage), `replicates` (how often to resample),
            `groups` and `source_groups` (the group of each row, where rows come in correlated groups), `seed`,
            and the method's own, such as `calibration=` and `marginal=`.

    Returns:
        The `Estimate` with `interval`, and in `details` `bootstrap_bias` and `bootstrap_sd`. With fewer than
        ten rows (or groups) on either side there is no interval, and a warning says so.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(400, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = interval(sg.Source(logits=z[:200], labels=y[:200]), sg.Target(logits=z[200:]), "ac")
    >>> found.interval.low < found.error < found.interval.high
    True
    """
    return estimate(source, target, method, interval=True, **options)


@renamed(level="false_alarms")
def shift_test(
    source: Source | Scan,
    target: Target | Scan,
    *,
    calibration: str = "temperature",
    false_alarms: float = 0.05,
    seed: int = 0,
) -> ShiftVerdict:
    """Test whether the target is the source with other class proportions.

    Args:
        source: scores with labels.
        target: scores without.
        calibration: of the confidence that defines the cells (it hardly matters).
        false_alarms: the share of them to allow, among targets that only have other class proportions.
        seed: of the parametric bootstrap, where counts are sparse.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); y = rng.integers(2, size=4000)
    >>> z = rng.normal(size=(4000, 2)); z[np.arange(4000), y] += 2
    >>> shift_test(sg.Source(logits=z[:2000], labels=y[:2000]), sg.Target(logits=z[2000:])).kind
    'none'
    """
    validation.check_fraction(false_alarms, "false_alarms", 0.05)
    validation.check_count(seed, "seed", 0)
    return Pair(source, target, calibration, seed=seed, verb="shift_test").shift.at(false_alarms)


def compare(
    source: Source | Scan,
    target: Target | Scan,
    methods: Sequence[str] | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal = "source",
    proportions: str = "unknown",
    target_labels: Any = None,
    interval: bool = False,
    replicates: int = REPLICATES,
    level: float = 0.95,
    groups: Any = None,
    source_groups: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Estimate by several methods at once; calibration, transport and the shift test are computed once.

    Args:
        source: scores with labels.
        target: scores without.
        methods: names in the order wanted; by default every method the evidence allows.
        calibration: for all methods.
        marginal: for the methods that take one.
        proportions: for `auto`: `"same"`, `"changed"` or `"unknown"`, as in `estimate`.
        target_labels: true labels of the target, where they are known and the methods are to be checked.
        interval: whether to resample for an interval of every estimated error.
        replicates, groups, source_groups, seed: of the intervals.
        level: of the intervals, and of the range of `auto`.
        progress: called with the name of each step as it begins.
    """
    say = progress or (lambda step: None)
    settings = Resampling(replicates, level, seed, groups, source_groups)
    say("calibration")
    pair = Pair(source, target, calibration, seed=seed, verb="compare")
    return compared(
        pair,
        methods,
        settings if interval else None,
        level=level,
        marginal=marginal,
        proportions=proportions,
        truth=true_error(target, target_labels),
        progress=say,
    )


def compared(
    pair: Pair,
    methods: Sequence[str] | None = None,
    settings: Resampling | None = None,
    *,
    level: float = RANGE_LEVEL,
    marginal: Marginal = "source",
    proportions: str = "unknown",
    truth: float | None = None,
    progress: Progress = lambda step: None,
) -> Comparison:
    """Several methods' answers for one pair, with intervals where settings are given."""
    check_marginal(marginal)
    check_proportions(proportions)
    chosen, warnings = _chosen(pair, methods)
    asked = [(name, taken(name, marginal=marginal, proportions=proportions)) for name in chosen]
    doubtful = any(_refuted_by(name, own.get("marginal", "source")) for name, own in asked)
    pair.read_together(asked, shift=doubtful)
    estimates = []
    for name, options in asked:
        progress(name if settings is None else f"{name}, with its interval")
        own = None if _is_score(pair, name, options) else settings
        estimates.append(answer(pair, name, own, level=level, **options))
    shared = [w for w in estimates[0].warnings if all(w in e.warnings for e in estimates)]
    known = pair.source.sample
    assert isinstance(known, Source)
    return Comparison(
        estimates=tuple(estimates),
        source={**_summary(known), "error": known.error},
        target={**_summary(pair.target.sample), **({} if truth is None else {"true_error": truth})},
        warnings=(*warnings, *shared),
    )


def answer(
    pair: Pair,
    method: str,
    settings: Resampling | None = None,
    *,
    level: float = RANGE_LEVEL,
    **options: Any,
) -> Estimate:
    """One method's answer for a pair: with an interval where settings are given, with its doubts always.

    The range of `auto` is at the level asked for. An interval stands beside it and never changes it.
    """
    doubtful = _refuted_by(find(method).name, options.get("marginal", "source")) is not None
    pair.read_together([(method, options)], shift=doubtful)
    if method == DEFAULT:
        check_level("estimate", level)
    found = pair.estimate(method, **options)
    if method == DEFAULT and level != RANGE_LEVEL:
        found = at_level(found, pair.source.n_effective, pair.target.n_effective, level)
    if settings is not None:
        found = with_interval(pair, found, settings, **options)
    against = doubts(pair, method, options.get("marginal", "source"))
    return replace(found, warnings=(*found.warnings, *against))


def doubts(pair: Pair, method: str, marginal: Marginal) -> list[str]:
    """What the kind of shift says against what the method assumes of the class proportions."""
    against = _refuted_by(method, marginal)
    if against is None or pair.shift.kind != against:
        return []
    return [DOUBTS[against]]


def _refuted_by(method: str, marginal: Marginal) -> str | None:
    """The kind of shift under which the method's class proportions are wrong; None where it assumes none."""
    transports = accepts(METHODS[method], "marginal") and isinstance(marginal, str)
    if method == "label-shift" or (transports and marginal in LABEL_SHIFT):
        return "other"
    return "label" if transports else None


def _chosen(pair: Pair, methods: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The names of the methods to run, and what to say of those that were left out."""
    if methods is not None:
        names = [methods] if isinstance(methods, str) else methods
        chosen = list(dict.fromkeys(find(name).name for name in names))
        if not chosen:
            raise InputError("compare: no methods named; wanted some, or none at all for every method")
        return chosen, []
    chosen = list(METHODS)
    left_out: list[str] = []
    if pair.target.second is None:
        chosen = [name for name in chosen if not METHODS[name].needs_second]
        left_out.append(Note("gde left out: it needs a second model's predictions (second=, --second)"))
    if not pair.follows_argmax:
        left_out.append(
            Note(f"{' and '.join(n for n in chosen if METHODS[n].needs_argmax)} left out: {DECIDED}")
        )
        chosen = [name for name in chosen if not METHODS[name].needs_argmax]
    return chosen, left_out


def _is_score(pair: Pair, name: str, options: dict[str, Any]) -> bool:
    return pair.estimate(name, **options).error is None


def _summary(sample: Sample | Scan) -> dict[str, Any]:
    names = None
    if sample.classes is not None:  # names that JSON does not know, such as dates, are written as text
        names = [c if isinstance(c, str | int | float) else str(c) for c in sample.classes]
    return {"n": sample.n, "k": sample.k, "classes": names, "scores": sample.kind}


def true_error(target: Target | Scan, labels: Any) -> float | None:
    """The error by labels of the target that were given to check; None where there are none."""
    if labels is None:
        return None
    if isinstance(target, Scan):
        raise InputError(
            "target labels: a scanned target is not checked against labels; pass shiftgauge.Target of some rows"
        )
    truth = validation.check_labels(labels, target.n, target.k, target.classes, "target labels")
    return target.share(target.predictions != truth)
