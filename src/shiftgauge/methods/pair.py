"""A source and a target that have met: aligned and calibrated once, everything derived from them shared.

The noun between samples and answers. Every verb (estimates, intervals, metrics, slices, the doctor, the label
budget, the report, the figures) takes a `Pair` and asks it for what it needs; whatever was computed for one of
them is there for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge._lockstep import Memo
from shiftgauge.calibration import Calibration, fit_calibration
from shiftgauge.errors import InputError
from shiftgauge.labelshift import LabelShares, Marginal
from shiftgauge.methods.auto import Auto, check_proportions
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.posterior import Belief, belief, blended, tilt
from shiftgauge.methods.registry import DEFAULT, accepts, find, make
from shiftgauge.methods.scanned import ScanView, check_target, view_of
from shiftgauge.methods.scot import SCOT
from shiftgauge.methods.shift import ShiftVerdict, verdict
from shiftgauge.methods.view import SoftPlan, View
from shiftgauge.results import Estimate
from shiftgauge.samples import Source, Target, meeting_notes
from shiftgauge.scans import Scan, as_source

Array = npt.NDArray[np.float64]
T = TypeVar("T")

#: Entries of the target's rows that are resampled, where they are more than can be: about a hundred thousand rows.
BAG = 1 << 20


class Pair:
    """A source and a target, seen through one calibration.

    Args:
        source: scores with labels.
        target: scores without; its columns are brought into the source's order.
        calibration: `"temperature"`, `"vector"` or `"none"`; fitted on the source, once.
        seed: of the label-shift test's bootstrap, where one is needed.
        verb: who asks, for the message that refuses anything but a source and a target.

    Attributes:
        source, target: the calibrated `View` of each.
        calibration: the fitted calibration.

    >>> pair = Pair(Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1]),
    ...             Target(probs=[[.7, .3], [.4, .6]]), "none")
    >>> round(pair.estimate("ac").error, 3), pair.estimate("ac") is pair.estimate("ac")
    (0.35, True)
    """

    def __init__(
        self,
        source: Source | Scan,
        target: Target | Scan,
        calibration: str = "temperature",
        *,
        seed: int = 0,
        verb: str = "shiftgauge",
    ) -> None:
        known = as_source(source, verb)
        check_target(target, verb)
        aligned = target.aligned(known.classes, known.k)
        fitted = fit_calibration(calibration, known)
        self._meet(View(known, fitted), view_of(aligned, fitted), seed)

    def _meet(self, source: View, target: View | ScanView, seed: int) -> None:
        self.source, self.target, self.seed = source, target, seed
        self._known = Memo()

    @cached_property
    def home(self) -> Pair:
        """The source before those rows of the target that are kept in memory: this pair itself, if all are.

        What needs no more than a sample is read off it: figures, bins, starting points, replicates.
        """
        if isinstance(self.target, View):
            return self
        twin = object.__new__(Pair)
        twin._meet(self.source, self.target.home, self.seed)
        return twin

    @cached_property
    def bag(self) -> Pair:
        """The source before the rows of the target that are resampled: all, or a thinned sample of them."""
        if isinstance(self.target, View):
            return self
        home = self.target.home
        rows = np.arange(0, home.n, max(1, -(-home.n * home.k // BAG)))
        twin = object.__new__(Pair)
        view = View(home.sample.take(rows), self.calibration, n_effective=self.target.n_effective)
        twin._meet(self.source, view, self.seed)
        return twin

    def read_together(self, asked: Sequence[tuple[str, dict[str, Any]]], *, shift: bool = False) -> None:
        """Compute several methods' answers, and the test of shift, in as few passes over the target as it takes."""
        if isinstance(self.target, View):
            return  # nothing is gained in memory, and each is computed when it is asked for
        tasks: list[Callable[[], Any]] = [partial(self.estimate, name, **options) for name, options in asked]
        self.target.together([*tasks, *([lambda: self.shift] if shift else [])])

    @property
    def whole(self) -> View:
        """The target's view, where all rows are in memory; refused where they are not."""
        if isinstance(self.target, ScanView):
            raise InputError(
                f"the target is scanned ({self.target.n:,} rows), and this needs every row in memory; "
                "pass shiftgauge.Target of some of its rows"
            )
        return self.target

    def facing(self, target: Target | Scan) -> Pair:
        """The same source before another target: calibration and fitted methods are shared."""
        twin = object.__new__(Pair)
        source = self.source.sample
        view = view_of(target.aligned(source.classes, source.k), self.calibration)
        twin._meet(self.source, view, self.seed)
        return twin

    @property
    def calibration(self) -> Calibration:
        """What was fitted on the source."""
        return self.source.calibration

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.source.k

    @property
    def classes(self) -> tuple[Hashable, ...]:
        """The names of the classes, or their numbers."""
        names = self.source.sample.classes
        return tuple(range(self.k)) if names is None else names

    @cached_property
    def follows_argmax(self) -> bool:
        """Whether every deployed decision, of source and target, is the largest score."""
        return not (self.source.sample.decided or self.target.sample.decided)

    def fitted(self, method: str, **options: Any) -> Estimator:
        """A method fitted on the source; the same one however its defaults are spelled."""
        if accepts(find(method), "seed"):
            options = {"seed": self.seed, **options}
        return make(method, calibration=self.calibration.name, **options).fitted_on(self.source)

    def estimate(self, method: str, **options: Any) -> Estimate:
        """A method's answer for the target; `options` are the method's own, such as `marginal=`."""
        fitted = self.fitted(method, **options)

        def read() -> Estimate:
            found = fitted.estimate_view(self.target)
            return replace(found, warnings=(*self.notes, *found.warnings))

        return self.once(("estimate", fitted), read)

    def error(self, method: str, **options: Any) -> float:
        """The error that a method estimates; a score is refused."""
        found = self.estimate(method, **options).error
        if found is None:
            raise InputError(f"{method} is a score, not an error; wanted a method that estimates an error")
        return found

    def parts(self, method: str, **options: Any) -> list[tuple[float, Estimator]]:
        """The fitted methods behind an answer, with weights that sum to 1: the method itself, or what `auto` chose."""
        fitted = self.fitted(method, **options)
        if isinstance(fitted, Auto):
            return fitted.parts(self.estimate(method, **options).details)
        return [(1.0, fitted)]

    def posterior(self, method: str = DEFAULT, **options: Any) -> Array:
        """(n, K) the posterior behind a method's answer; its mean doubt of the predictions is that answer."""

        return self.once(
            ("posterior", self.fitted(method, **options)),
            lambda: self.belief(method, **options)(self.home.whole),
        )

    def belief(self, method: str = DEFAULT, **options: Any) -> Belief:
        """The same view by view, for rows that are not all in memory: a function of a view, (b, K) posteriors of it."""

        def blend() -> Belief:
            target = self.target
            parts = [(weight, belief(part, target)) for weight, part in self.parts(method, **options)]
            return tilt(blended(parts), target, self.error(method, **options))

        return self.once(("belief", self.fitted(method, **options)), blend)

    def soft_plan(self, marginal: Marginal = "source") -> SoftPlan:
        """SCOT's plan to the label masses that `marginal` stands for: posteriors of the target's rows."""
        scot = self.fitted("scot", marginal=marginal)
        assert isinstance(scot, SCOT)
        return self.target.soft_transport(scot.masses(self.target))

    def doubt(self, marginal: Marginal = "source") -> Array:
        """(n,) the probability that each target row's prediction is wrong, by `soft_plan`."""
        view = self.whole
        return view.doubt(self.soft_plan(marginal).posterior(view))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was done to the two on their way in, and where their decisions do not match."""
        source, target = self.source.sample, self.target.sample
        assert isinstance(source, Source)
        return meeting_notes(source, target)

    @property
    def shift(self) -> ShiftVerdict:
        """Which shift it is: the label-shift test."""

        def test() -> ShiftVerdict:
            return replace(verdict(self.source, self.target, seed=self.seed), warnings=self.notes)

        return self.once("shift", test)

    @property
    def label_shares(self) -> LabelShares:
        """The target's label shares by maximum likelihood, if only class proportions changed."""
        return self.target.label_shares(self.source.mean_posterior)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` returns, computed the first time that the key is asked for."""
        return self._known.get(key, compute)


def meant(
    method: str | None, marginal: Marginal | None, proportions: str = "unknown"
) -> tuple[str, dict[str, Any]]:
    """Whose answer is meant, and its options: the method named, SCOT where only label shares are, else the default."""
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


def taken(method: str, **options: Any) -> dict[str, Any]:
    """Of these options, those that the method's constructor takes."""
    return {name: value for name, value in options.items() if accepts(find(method), name)}
