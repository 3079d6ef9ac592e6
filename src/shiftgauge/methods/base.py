"""The contract of every method: `fit(source)`, then `estimate(target)`.

A method's own file holds its formula: `learn` from the source, `read` off the target, both coroutines over `Rows`; or,
if it is a mean over rows, `row_error` alone. What all methods share is here: calibration, matching target to source,
details, warnings, saving and loading.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import Calibration, check_calibration, fit_calibration
from shiftgauge.errors import FileError, InputError, NotFittedError, ShiftgaugeError
from shiftgauge.methods.saved import read_document, restore, restore_argument, write_document
from shiftgauge.results import Estimate, Interval, Range
from shiftgauge.rows import AnySource, AnyTarget, Block, Rows, run, to_source, to_target
from shiftgauge.samples import Target

E = TypeVar("E", bound="Estimator")


@dataclass
class Reading:
    """What a method reads off the target: an error or a score, with details and warnings."""

    error: float | None = None
    score: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    range: Range | None = None
    sampling: Interval | None = None


class Estimator(ABC):
    """Base of all methods. Attributes with a trailing underscore are learned by `fit`.

    A method that is a mean over rows needs `row_error` alone, and works at any size:

        class Gini(Estimator):
            name, title, meaning = "gini", "Gini", "mean Gini impurity"

            def row_error(self, rows):
                return 1.0 - (rows.probs**2).sum(axis=1)

    Args:
        calibration: `"temperature"`, `"vector"` or `"none"`; fitted on the source.
    """

    #: The registry name.
    name: ClassVar[str]
    #: The name people print.
    title: ClassVar[str]
    #: One line: what the number is.
    meaning: ClassVar[str]
    #: Whether the target must carry a second model's predictions.
    needs_second: ClassVar[bool] = False
    #: Whether the formula takes every prediction to be the largest score; deployed decisions that differ are refused.
    needs_argmax: ClassVar[bool] = False
    #: Whether the number of rows itself is evidence, as for a method that tests a hypothesis first.
    counts_rows: ClassVar[bool] = False

    calibration_: Calibration
    classes_: tuple[Hashable, ...] | None
    n_source_: int
    n_source_effective_: float
    source_error_: float
    label_marginal_: npt.NDArray[np.float64]
    source_warnings_: tuple[str, ...]

    def __init__(self, calibration: str = "temperature") -> None:
        check_calibration(calibration)
        self.calibration = calibration

    # -- the formula -----------------------------------------------------------------------------------

    async def learn(self, source: Rows) -> None:  # noqa: B027 (some methods need nothing from the source)
        """Learn the method's own state from labelled rows, in attributes with a trailing underscore."""

    async def read(self, target: Rows) -> Reading:
        """Apply the formula to the target; by default the mean of `row_error`."""
        return Reading(error=float(await target.mean(self.row_error)))

    def row_error(self, rows: Block) -> npt.NDArray[np.float64]:
        """(b,) the estimated error of each row of a block; for methods that are a mean over rows."""
        raise NotImplementedError(f"{type(self).__name__} defines neither read nor row_error")

    # -- fitting and estimating --------------------------------------------------------------------------

    def fit(self: E, source: AnySource) -> E:
        """Calibrate on the source and learn what the method needs from it."""
        sample = to_source(source, "fit")
        return self.fit_rows(Rows.of(sample).calibrated(fit_calibration(self.calibration, sample)))

    def fit_rows(self: E, rows: Rows) -> E:
        """Learn from labelled rows that are calibrated already, so that several methods can share the work."""
        run(self._fit(rows))
        return self

    async def fitted_on(self: E, rows: Rows) -> E:
        """This method fitted on labelled rows: the first of its class and arguments that was asked for."""
        arguments = tuple((name, _content(value)) for name, value in self.get_params().items())
        return await rows.once(("fitted", type(self), arguments), self._fit, rows)

    async def _fit(self: E, rows: Rows) -> E:
        block = await rows.collect()
        assert block.labels is not None
        self._check_decisions(rows.decided, "source")
        assert isinstance(rows.calibration, Calibration)
        self.calibration_ = rows.calibration
        self.classes_ = rows.classes
        self.n_source_ = rows.n
        self.n_source_effective_ = rows.n_effective
        self.source_error_ = block.share(block.predictions != block.labels)
        self.label_marginal_ = np.bincount(block.labels, block.row_share, block.k).astype(np.float64)
        self.source_warnings_ = (*self._source_warnings(), *rows.calibration.warnings())
        await self.learn(rows)
        return self

    def estimate(self, target: AnyTarget) -> Estimate:
        """Read the error (or score) off the target."""
        sample = to_target(target, "estimate")
        if not hasattr(self, "calibration_"):
            raise NotFittedError(f"{self.title} is not fitted; call fit(source) before estimate(target)")
        return self.estimate_rows(
            target_rows(sample, self.classes_, self.calibration_, len(self.label_marginal_))
        )

    def estimate_rows(self, rows: Rows) -> Estimate:
        """Read off a target that is aligned and calibrated already."""
        return run(self.answer(rows))

    async def answer(self, target: Rows) -> Estimate:
        """The estimate for a target that is aligned and calibrated already."""
        before = target.passes
        reading = await self.read(target)
        if self.needs_argmax:  # rows that are read in passes know their decisions afterwards
            self._check_decisions(target.decided, "target")
        details: dict[str, Any] = {**self.calibration_.details(), "source_error": self.source_error_}
        if target.correction > 1e-12:  # beyond rounding
            details["largest_correction"] = target.correction
        if not target.in_memory:
            reading.details["passes"] = target.passes - before
        error = reading.error
        if error is not None:
            error = _clip(error, reading.warnings)
        elif reading.score is None or not np.isfinite(reading.score):
            raise ShiftgaugeError(
                f"{self.title} gave no finite number for these scores; are they of a sane size?"
            )
        return Estimate(
            method=self.name,
            error=error,
            score=reading.score,
            n_source=self.n_source_,
            n_target=target.n,
            range=reading.range,
            sampling=reading.sampling,
            details={**details, **reading.details},
            warnings=(*self.source_warnings_, *_target_warnings(target, self.classes_), *reading.warnings),
        )

    def _check_decisions(self, decided: float | None, where: str) -> None:
        """Refuse deployed decisions that are not the largest score, if the formula cannot follow them."""
        if self.needs_argmax and decided:
            raise InputError(
                f"{self.name}: the deployed decisions differ from the largest score in {100 * decided:.3g}% of the "
                f"{where}'s rows, and {self.title} estimates the error of the largest score; use auto, scot or doc"
            )

    def _source_warnings(self) -> list[str]:
        warnings = []
        unseen = np.flatnonzero(self.label_marginal_ == 0.0)
        if len(unseen):
            named = [str(j if self.classes_ is None else self.classes_[j]) for j in unseen[:5]]
            names = ", ".join(named) + (", ..." if len(unseen) > 5 else "")
            warnings.append(
                f"no source label is {names}: methods that use the source's class proportions take "
                f"{'it' if len(unseen) == 1 else 'them'} to be absent from the target too"
            )
        if self.source_error_ == 0.0:
            warnings.append(
                "the source has no errors: methods that learn from its errors have nothing to learn from"
            )
        return warnings

    # -- parameters, as scikit-learn names them ------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments and their values."""
        return {
            name: getattr(self, name)
            for name in inspect.signature(type(self).__init__).parameters
            if name != "self"
        }

    def set_params(self: E, **params: Any) -> E:
        """Replace constructor arguments; fit again afterwards."""
        for name in params:
            if name not in self.get_params():
                raise InputError(f"{self.name} takes no {name}=; it takes {', '.join(self.get_params())}")
        fresh = type(self)(**{**self.get_params(), **params})
        vars(self).clear()  # what was learned belonged to the old arguments
        vars(self).update(vars(fresh))
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({given})"

    # -- saving and loading, without pickle -------------------------------------------------------------

    @classmethod
    def schema(cls) -> str:
        """A digest of the names of its parameters and of what it learns; a file with another one is refused."""
        names = set(inspect.signature(cls.__init__).parameters)
        for part in cls.__mro__:
            for member in vars(part).values():
                code = getattr(member, "__code__", None)
                names |= {name for name in getattr(code, "co_names", ()) if name.endswith("_")}
        return hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:12]

    def state(self) -> dict[str, Any]:
        """What `fit` learned, by attribute name."""
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator as readable JSON; `shiftgauge.load` reads it."""
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"{self.title} is not fitted; there is nothing to save yet; call fit(source) first"
            )
        write_document(path, self)

    @classmethod
    def load(cls: type[E], path: str | Path) -> E:
        """Read an estimator that `save` wrote; `shiftgauge.load` finds the right class by itself."""
        document = read_document(path)
        if document["method"] != cls.name:
            raise FileError(
                f"{path}: holds a fitted {document['method']!r}, not {cls.name!r}; use shiftgauge.load"
            )
        try:
            return cls.from_document(document)
        except FileError as problem:
            raise FileError(f"{path}: {problem}") from None

    @classmethod
    def from_document(cls: type[E], document: Mapping[str, Any]) -> E:
        """The estimator that a saved document describes: its parameters and what it learned."""
        if document.get("schema") != cls.schema():
            raise FileError(
                f"another version of shiftgauge saved this {cls.name} (form {document.get('schema')}, this version "
                f"needs {cls.schema()}); read it with that version, or fit and save it again"
            )
        estimator = cls(**{name: restore_argument(value) for name, value in document["params"].items()})
        for name, value in document["state"].items():
            setattr(estimator, name, restore(name, value))
        return estimator


def target_rows(
    target: Target | Rows, classes: tuple[Hashable, ...] | None, calibration: Calibration, k: int
) -> Rows:
    """A target's rows, aligned with the source's classes and calibrated."""
    aligned = target.aligned(classes, k)
    rows = aligned if isinstance(aligned, Rows) else Rows.of(aligned)
    return rows.calibrated(calibration)


def _content(value: Any) -> str:
    """An argument as a dictionary key: arrays by their numbers, of which `repr` shows only a few."""
    if isinstance(value, np.ndarray):
        return f"{value.shape}{value.dtype}{value.tobytes()!r}"
    return repr(value)


def _clip(error: float, warnings: list[str]) -> float:
    if not np.isfinite(error):
        raise ShiftgaugeError(
            "the formula gave no finite number for these scores; are they of a sane size? please report it"
        )
    clipped = float(min(1.0, max(0.0, error)))
    if abs(clipped - error) > 1e-9:  # beyond rounding
        warnings.append(f"the formula gave {error:.4f}, outside [0, 1]; clipped to {clipped:g}")
    return clipped


def _target_warnings(target: Rows, classes: tuple[Hashable, ...] | None) -> list[str]:
    warnings = []
    if target.n == 1:
        warnings.append(
            "the target has one row: an error rate of one row is 0 or 1, and this is only its expectation"
        )
    if (classes is None) != (target.classes is None):
        nameless = "source" if classes is None else "target"
        warnings.append(f"the {nameless}'s columns have no names: they were taken to be in the other's order")
    return warnings
