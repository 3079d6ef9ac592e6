"""Estimates for a source and a target: by one method or several, with an interval if asked for, and with warnings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shiftgauge import validation
from shiftgauge.errors import InputError, Note
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.resampling import REPLICATES, Resampling, with_interval
from shiftgauge.labelshift import LABEL_SHIFT, Marginal, check_marginal
from shiftgauge.methods.auto import check_proportions
from shiftgauge.methods.labels import at_level
from shiftgauge.methods.pair import Pair, accepted_options
from shiftgauge.methods.range import RANGE_LEVEL, check_level
from shiftgauge.methods.registry import DEFAULT, METHODS, accepts, find
from shiftgauge.methods.shift import ShiftTestResult
from shiftgauge.results import Comparison, Estimate
from shiftgauge.rows import AnyTarget, Block, RowBuffer, Rows, run, to_target
from shiftgauge.samples import Source
from shiftgauge.validation.target_labels import RANDOM

#: Warnings of a method whose assumption about the class proportions is refuted, by the kind of shift.
REFUTED = {
    "label": "only class proportions seem to have changed, and this takes the source's; try auto",
    "other": "more than class proportions changed, and this assumes that only they did; try auto",
}

#: Why methods with `needs_argmax` are left out.
DECIDED = "they estimate the error of the largest score, and deployed decisions differ from it"


def estimate(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    method: str = DEFAULT,
    *,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    level: float = RANGE_LEVEL,
    interval: bool = False,
    replicates: int = REPLICATES,
    groups: Any = None,
    source_groups: Any = None,
    seed: int = 0,
) -> Estimate:
    """Estimate the error on the target by one method, from scores alone or with labels of some target rows.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        method: a name from `shiftgauge.methods.METHODS`.
        calibration: `"temperature"`, `"vector"` or `"none"`; fitted on the source.
        marginal: for cot, cott and scot: the label shares to transport to: `"source"` (their default), `"shrunk"`,
            `"bbse"`, `"rlls"`, `"mlls"`, an array of K shares, or a mapping from class names to shares.
        proportions: for auto: what is known about the target's class proportions: `"unknown"`, `"same"` (as on the
            source) or `"changed"`.
        labels: for auto: labels of some target rows, which make the answer better: `{row number or id: label}`, or one
            entry per row with missing ones (None, NaN, NA, masked).
        labels_chosen: how the labelled rows were chosen: `"random"`, `"unknown"` (labels that came by themselves), or
            the `LabelPlan` that chose them.
        level: of the range of `auto`, and of the interval.
        interval: whether to resample for an interval of the sampling error; see `shiftgauge.interval`.
        replicates, groups, source_groups, seed: of the interval; the seed also of `auto`'s label-shift test.

    >>> import shiftgauge as sg
    >>> source = sg.Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1])
    >>> sg.estimate(source, sg.Target(probs=[[.7, .3], [.4, .6]]), method="ac", calibration="none")
    ac: error 35.0% (3 source rows, 2 target rows)
    """
    settings = Resampling(replicates, level, seed, groups, source_groups)
    options = _method_options(marginal, proportions)
    pair = to_pair("estimate", source, target, calibration, seed, labels, labels_chosen)
    check_labelled_method(pair, method)
    pair.estimate_all([(method, options)], shift=_refuting_shift(find(method).name, options) is not None)
    return _estimate(pair, method, settings if interval else None, level, options)


def check_labelled_method(pair: Pair, method: str) -> None:
    """Refuse a named method for a pair with labels."""
    if pair.labels is not None and find(method).name != DEFAULT:
        raise InputError(
            f"labels combine with {DEFAULT} alone, and here {find(method).name} answers from scores; leave the method "
            "out, or the labels; compare(...) shows both"
        )


def _method_options(marginal: Marginal | None, proportions: str) -> dict[str, Any]:
    """The options of the method itself that are not the default; a method that does not take one refuses it."""
    options: dict[str, Any] = {} if marginal is None else {"marginal": marginal}
    return options if proportions == "unknown" else {**options, "proportions": proportions}


def interval(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    method: str = DEFAULT,
    *,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    proportions: str = "unknown",
    level: float = RANGE_LEVEL,
    replicates: int = REPLICATES,
    groups: Any = None,
    source_groups: Any = None,
    seed: int = 0,
) -> Estimate:
    """Estimate the error on the target with an interval for its sampling error: `estimate(..., interval=True)`.

    The estimand is the error of the population that the target rows came from, under the method's own
    assumption; what the assumption is worth is not covered. (The error on just these rows differs from it
    by label noise with standard deviation `details["label_noise"]`.) See
    `shiftgauge.inference.resampling.with_interval` for how it is made.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        method: a name from `shiftgauge.methods.METHODS`, not a score.
        calibration, marginal, proportions: as for `estimate`.
        level: the nominal coverage.
        replicates: how often to resample.
        groups, source_groups: the group of each row, if rows come in correlated groups.
        seed: of the resampling.

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
    return estimate(
        source,
        target,
        method,
        calibration=calibration,
        marginal=marginal,
        proportions=proportions,
        level=level,
        interval=True,
        replicates=replicates,
        groups=groups,
        source_groups=source_groups,
        seed=seed,
    )


def shift_test(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    *,
    calibration: str = "temperature",
    false_alarms: float = 0.05,
    seed: int = 0,
) -> ShiftTestResult:
    """Test whether the target is the source with other class proportions.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        calibration: of the confidence that defines the cells (it hardly matters).
        false_alarms: the share of them to allow, among targets that only have other class proportions.
        seed: of the parametric bootstrap, if counts are sparse.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); y = rng.integers(2, size=4000)
    >>> z = rng.normal(size=(4000, 2)); z[np.arange(4000), y] += 2
    >>> shift_test(sg.Source(logits=z[:2000], labels=y[:2000]), sg.Target(logits=z[2000:])).kind
    'none'
    """
    validation.check_fraction(false_alarms, "false_alarms", 0.05)
    validation.check_count(seed, "seed", 0)
    return to_pair("shift_test", source, target, calibration, seed).shift.at(false_alarms)


def compare(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    methods: Sequence[str] | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal = "source",
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    truth: Any = None,
    interval: bool = False,
    replicates: int = REPLICATES,
    level: float = RANGE_LEVEL,
    groups: Any = None,
    source_groups: Any = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Estimate by several methods at once; calibration, transport and the shift test are computed once.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        methods: names in the order wanted; by default every method the evidence allows.
        calibration: for all methods.
        marginal: for the methods that take one.
        proportions: for `auto`: `"same"`, `"changed"` or `"unknown"`, as in `estimate`.
        labels, labels_chosen: labels of some target rows, as in `estimate`; they change the answer of `auto` alone.
        truth: true labels of all target rows, to compare the answers with; they change no answer.
        interval: whether to resample for an interval of every estimated error.
        replicates, groups, source_groups, seed: of the intervals.
        level: of the intervals, and of the range of `auto`.
        progress: called with the name of each step as it begins.
    """
    say = progress or (lambda step: None)
    settings = Resampling(replicates, level, seed, groups, source_groups)
    check_marginal(marginal)
    check_proportions(proportions)
    if not isinstance(source, Pair):
        say("calibration")
    pair = to_pair("compare", source, target, calibration, seed, labels, labels_chosen)
    known = None if truth is None else true_error(pair.target_sample, truth, pair.source_sample.classes)
    chosen, warnings = _choose_methods(pair, methods)
    asked = [(name, accepted_options(name, marginal=marginal, proportions=proportions)) for name in chosen]
    pair.estimate_all(asked, shift=any(_refuting_shift(name, own) for name, own in asked))
    estimates = []
    for name, options in asked:
        say(name if not interval else f"{name}, with its interval")
        is_score = pair.estimate(name, **options).error is None
        resampled = settings if interval and not is_score else None
        estimates.append(_estimate(pair, name, resampled, level, options))
    shared = [w for w in estimates[0].warnings if all(w in e.warnings for e in estimates)]
    return Comparison(
        estimates=tuple(estimates),
        source={**_summary(pair.source_sample), "error": pair.source_sample.error},
        target={**_summary(pair.target), **({} if known is None else {"true_error": known})},
        warnings=(*warnings, *shared),
    )


def _estimate(
    pair: Pair, method: str, settings: Resampling | None, level: float, options: dict[str, Any]
) -> Estimate:
    """One method's estimate for a pair; the range of `auto` is at the level, and an interval never changes it."""
    if method == DEFAULT:
        check_level("estimate", level)
    found = pair.estimate(method, **options)
    if method == DEFAULT and level != RANGE_LEVEL:
        found = at_level(found, pair.source.n_effective, pair.target.n_effective, level)
    if settings is not None:
        found = with_interval(pair, found, settings, **options)
    refuting = _refuting_shift(method, options)
    against = [REFUTED[refuting]] if refuting is not None and pair.shift.kind == refuting else []
    return replace(found, warnings=(*found.warnings, *against))


def _refuting_shift(method: str, options: dict[str, Any]) -> str | None:
    """The kind of shift under which the method's class proportions are wrong; None if it assumes none."""
    marginal = options.get("marginal", "source")
    transports = accepts(METHODS[method], "marginal") and isinstance(marginal, str)
    if method == "label-shift" or (transports and marginal in LABEL_SHIFT):
        return "other"
    return "label" if transports else None


def _choose_methods(pair: Pair, methods: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The names of the methods to run, and what to say of those that were left out."""
    if methods is not None:
        names = [methods] if isinstance(methods, str) else methods
        chosen = list(dict.fromkeys(find(name).name for name in names))
        if not chosen:
            raise InputError("compare: no methods named; wanted some, or none at all for every method")
        return chosen, []
    chosen = list(METHODS)
    left_out: list[str] = []
    if not pair.target.has_second:
        chosen = [name for name in chosen if not METHODS[name].needs_second]
        left_out.append(Note("gde left out: it needs a second model's predictions (second=, --second)"))
    if not pair.follows_argmax:
        left_out.append(
            Note(f"{' and '.join(n for n in chosen if METHODS[n].needs_argmax)} left out: {DECIDED}")
        )
        chosen = [name for name in chosen if not METHODS[name].needs_argmax]
    return chosen, left_out


def _summary(sample: Source | Rows) -> dict[str, Any]:
    names = None
    if sample.classes is not None:  # names that JSON does not know, such as dates, are written as text
        names = [c if isinstance(c, str | int | float) else str(c) for c in sample.classes]
    return {"n": sample.n, "k": sample.k, "classes": names, "scores": sample.kind}


def true_error(target: AnyTarget, labels: Any, classes: tuple[Hashable, ...] | None = None) -> float:
    """The error by labels of all target rows; `classes` are the source's names, for a target that has none."""
    target = to_target(target, "truth")
    truth = validation.check_labels(labels, target.n, target.k, target.classes or classes, "truth")
    rows = target if isinstance(target, Rows) else Rows.of(target)
    predictions, mass = run(rows.fold(_predictions)).joined()
    return float(min(1.0, mass[predictions != truth].sum() / mass.sum()))


def _predictions(block: Block) -> RowBuffer:
    return RowBuffer.of(np.asarray(block.predictions), block.mass)
