"""A source and a target: aligned and calibrated once, with everything derived from them computed once and shared.

Every function (estimates, intervals, metrics, slices, the doctor, label plans, the report, the figures) asks a `Pair`
for what it needs; whatever was computed for one of them is there for the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import Calibration, fit_calibration
from shiftgauge.errors import InputError
from shiftgauge.labelshift import LabelShares, Marginal, mlls
from shiftgauge.methods.auto import Auto, check_proportions
from shiftgauge.methods.base import Estimator, target_rows
from shiftgauge.methods.labels import with_labels
from shiftgauge.methods.posterior import Posterior, mean_posterior, recalibrate_to
from shiftgauge.methods.registry import DEFAULT, accepts, find, make
from shiftgauge.methods.shift import ShiftTestResult, shift_test_result
from shiftgauge.results import Estimate
from shiftgauge.rows import AnySource, AnyTarget, Block, Rows, gather, run, to_source, to_target
from shiftgauge.samples import Source, Target, class_order, meeting_notes
from shiftgauge.validation.target_labels import RANDOM, TargetLabels, check_chosen, check_target_labels

Array = npt.NDArray[np.float64]

#: Entries of the target's rows that the bootstrap resamples, if there are more: about a hundred thousand rows.
BOOTSTRAP_ENTRIES = 1 << 20


class RowPlan(ABC):
    """A plan of the rows to label: `labels_chosen=` takes it."""

    @abstractmethod
    def check_pair(self, pair: Pair) -> None:
        """Refuse another target than the plan's, and labels of rows that were not planned."""


class Pair:
    """A source and a target, seen through one calibration.

    Args:
        source: scores with labels.
        target: scores without; its columns are brought into the source's order.
        calibration: `"temperature"`, `"vector"` or `"none"`; fitted on the source, once.
        seed: of the label-shift test's bootstrap, where one is needed.
        labels: labels of some target rows, as evidence for `auto`; by default those of the target.
        labels_chosen: how the labelled rows were chosen: `"random"`, `"unknown"`, or the `LabelPlan` that chose them.
        function: who asks, for the message that refuses anything but a source and a target.

    Attributes:
        source_sample, target_sample: the two as they were given.
        source, target: the calibrated `Rows` of each.

    `**options` of its functions are arguments of the method's class in `shiftgauge.methods`, such as `marginal=`: each
    class has its own, and refuses others. `shiftgauge.estimate` names those that users need.

    >>> pair = Pair(Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1]),
    ...             Target(probs=[[.7, .3], [.4, .6]]), "none")
    >>> round(pair.estimate("ac").error, 3), pair.estimate("ac") is pair.estimate("ac")
    (0.35, True)
    """

    def __init__(
        self,
        source: AnySource,
        target: AnyTarget,
        calibration: str = "temperature",
        *,
        seed: int = 0,
        labels: Any = None,
        labels_chosen: Any = RANDOM,
        function: str = "shiftgauge",
    ) -> None:
        sample, target = to_source(source, function), to_target(target, function)
        fitted = fit_calibration(calibration, sample)
        self.source_sample, self.seed = sample, seed
        self.target_sample: Target | Rows = target
        self.source = Rows.of(sample).calibrated(fitted)
        self.target = target_rows(target, sample.classes, fitted, sample.k)
        plan = labels_chosen if isinstance(labels_chosen, RowPlan) else None
        self.labels = _target_labels(labels, RANDOM if plan else labels_chosen, target, sample, function)
        if plan is not None:
            plan.check_pair(self)

    def _with_rows(self, target: Rows) -> Pair:
        """The same source beside other rows, without labels."""
        twin = object.__new__(Pair)
        twin.source_sample, twin.source, twin.seed = self.source_sample, self.source, self.seed
        twin.target_sample = twin.target = target
        twin.labels = None
        return twin

    def with_target(self, target: AnyTarget, labels: TargetLabels | None = None) -> Pair:
        """The same source beside another target: calibration and fitted methods are shared.

        `labels` are checked labels of its rows, classes in the source's order; by default those of the target.
        """
        target = to_target(target, "with_target")
        sample = self.source_sample
        twin = self._with_rows(target_rows(target, sample.classes, self.calibration, sample.k))
        twin.target_sample = target
        twin.labels = labels or _target_labels(None, RANDOM, target, sample, "with_target")
        return twin

    @cached_property
    def subsample(self) -> Pair:
        """The source beside the target's subsample, which is in memory: this pair itself if the target is small.

        For what needs no more than a sample: figures, bins, starting points.
        """
        drawn = run(self.target.subsample())
        return self if drawn is self.target else self._with_rows(drawn)

    @cached_property
    def bootstrap_subsample(self) -> Pair:
        """The source beside the rows of the target that the bootstrap resamples."""
        rows = self.subsample.target_block
        step = max(1, -(-len(rows) * rows.k // BOOTSTRAP_ENTRIES))
        if len(rows) == self.target.n and step == 1:
            return self.subsample
        kept = np.arange(0, len(rows), step)
        thinned = replace(rows.take(kept), row_numbers=rows.numbers[kept])
        return self._with_rows(
            Rows.of_block(thinned, self.target.classes).with_n_effective(self.target.n_effective)
        )

    @property
    def source_block(self) -> Block:
        """All rows of the source."""
        return run(self.source.collect())

    @property
    def target_block(self) -> Block:
        """All rows of the target; refused if they do not fit memory."""
        return run(self.target.collect())

    @property
    def calibration(self) -> Calibration:
        """What was fitted on the source."""
        assert isinstance(self.source.calibration, Calibration)
        return self.source.calibration

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.source.k

    @property
    def classes(self) -> tuple[Hashable, ...]:
        """The names of the classes, or their numbers."""
        names = self.source.classes
        return tuple(range(self.k)) if names is None else names

    @cached_property
    def follows_argmax(self) -> bool:
        """Whether every deployed decision, of source and target, is the largest score."""
        return not (self.source.decided or self.target.decided)

    def fitted(self, method: str, **options: Any) -> Estimator:
        """A method fitted on the source; the same one however its defaults are spelled."""
        return run(self._fitted(method, **options))

    async def _fitted(self, method: str, **options: Any) -> Estimator:
        if accepts(find(method), "seed"):
            options = {"seed": self.seed, **options}
        return await make(method, calibration=self.calibration.name, **options).fitted_on(self.source)

    def estimate(self, method: str, **options: Any) -> Estimate:
        """A method's answer for the target; `options` are the method's own, such as `marginal=`."""
        return run(self._estimate(method, **options))

    async def _estimate(self, method: str, **options: Any) -> Estimate:
        fitted = await self._fitted(method, **options)
        return await self.target.once(("estimate", fitted), self._answer, fitted)

    async def _answer(self, fitted: Estimator) -> Estimate:
        answer = await fitted.answer(self.target)
        if self.labels is not None and isinstance(fitted, Auto):
            answer = await with_labels(answer, self.target, self.labels)
        return replace(answer, warnings=(*self.notes, *answer.warnings))

    def estimate_all(self, asked: Sequence[tuple[str, dict[str, Any]]], *, shift: bool = False) -> None:
        """Compute several methods' answers, and the test of shift, in as few passes over the target as it takes."""
        tasks: list[Coroutine[Any, Any, Any]] = [self._estimate(name, **options) for name, options in asked]
        run(gather(*tasks, *([self._shift()] if shift else [])))

    def error(self, method: str, **options: Any) -> float:
        """The error that a method estimates; a score is refused."""
        error = self.estimate(method, **options).error
        if error is None:
            raise InputError(f"{method} is a score, not an error; wanted a method that estimates an error")
        return error

    def parts(self, method: str, **options: Any) -> list[tuple[float, Estimator]]:
        """The fitted methods behind an answer, with weights that sum to 1: the method itself, or what `auto` chose."""
        fitted = self.fitted(method, **options)
        if isinstance(fitted, Auto):
            return fitted.parts(self.estimate(method, **options).details)
        return [(1.0, fitted)]

    def posterior(self, method: str = DEFAULT, **options: Any) -> Posterior:
        """The posterior behind a method's answer: (b, K) for a block; its mean error probability is that answer."""
        parts, error = self.parts(method, **options), self.error(method, **options)
        key = ("posterior", self.fitted(method, **options))
        return run(self.target.once(key, self._posterior, parts, error))

    async def _posterior(self, parts: list[tuple[float, Estimator]], error: float) -> Posterior:
        return await recalibrate_to(error, await mean_posterior(parts, self.target), self.target)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was done to the two when they were read, and where their decisions do not match."""
        return meeting_notes(self.source_sample, self.target)

    @property
    def shift(self) -> ShiftTestResult:
        """Which shift it is: the label-shift test."""
        return run(self._shift())

    async def _shift(self) -> ShiftTestResult:
        result = await shift_test_result(self.source, self.target, seed=self.seed)
        return replace(result, warnings=self.notes)

    @property
    def label_shares(self) -> LabelShares:
        """The target's label shares by maximum likelihood, if only class proportions changed."""

        async def shares() -> LabelShares:
            moments = await self.source.moments()
            return await mlls(self.target, moments.mean_posterior)

        return run(shares())


def _target_labels(
    labels: Any, chosen: str, target: Target | Rows, source: Source, function: str
) -> TargetLabels | None:
    """The labels of target rows as evidence, their classes in the source's order."""
    own = target.labelled if isinstance(target, Target) else None
    if labels is None:
        check_chosen(chosen)
        given = None if own is None else replace(own, chosen=chosen)
    else:
        if own is not None:
            raise InputError(
                f"{function}: labels arrived twice, with the target and as labels=; wanted one of the two"
            )
        names = source.classes if target.classes is None else target.classes
        has_ids = target.has_ids if isinstance(target, Rows) else target.ids is not None
        given = check_target_labels(labels, target.n, target.k, names, has_ids, chosen)
        by_number = given is not None and not given.by_id
        if by_number and isinstance(target, Rows) and not target.engine.keeps_order:
            raise InputError(
                f"{function}: labels arrived by row number, and rows of a Spark frame have none; wanted labels by id: "
                "name the column of ids (shiftgauge.scan(frame, id=...))"
            )
        if given is not None and given.by_id and isinstance(target, Target):
            assert target.ids is not None
            given = given.by_row(target.ids)
    order = class_order(target.classes, target.k, source.classes, source.k)
    return given if given is None or order is None else given.in_class_order(order)


def resolve_method(
    method: str | None, marginal: Marginal | None, proportions: str = "unknown"
) -> tuple[str, dict[str, Any]]:
    """The method that answers, and its options: the one named, SCOT for given label shares, else the default."""
    check_proportions(proportions)
    name = method or (DEFAULT if marginal is None else "scot")
    options: dict[str, Any] = {} if marginal is None else {"marginal": marginal}
    if proportions == "unknown":
        return name, options
    if not accepts(find(name), "proportions"):
        raise InputError(
            f"proportions {proportions!r} is for auto, and here {name} answers; leave it out, or let auto answer"
        )
    return name, {**options, "proportions": proportions}


def accepted_options(method: str, **options: Any) -> dict[str, Any]:
    """Of these options, those that the method's constructor takes."""
    return {name: value for name, value in options.items() if accepts(find(method), name)}
