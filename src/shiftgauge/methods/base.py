"""The contract of every method: `fit(source)`, then `estimate(target)`.

A method's own file holds its formula (`_learn` from the source, `_read` off the target); the
bookkeeping that all methods share is here: calibration, matching target to source, details, warnings,
saving and loading.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import Calibration, check_calibration, fit_calibration
from shiftgauge.errors import FileError, InputError, NotFittedError, ShiftgaugeError
from shiftgauge.methods.saved import read_document, restored, write_document
from shiftgauge.methods.scanned import ScanView, check_target, view_of
from shiftgauge.methods.view import View
from shiftgauge.results import Estimate, Interval
from shiftgauge.samples import Source, Target
from shiftgauge.scans import Scan, as_source

E = TypeVar("E", bound="Estimator")


@dataclass
class Reading:
    """What a method reads off the target: an error or a score, with details and warnings."""

    error: float | None = None
    score: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    interval: Interval | None = None
    sampling: Interval | None = None


class Estimator(ABC):
    """Base of all methods. Attributes with a trailing underscore are learned by `fit`.

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

    def fit(self: E, source: Source | Scan) -> E:
        """Calibrate on the source and learn what the method needs from it."""
        held = as_source(source, "fit")
        return self.fit_view(View(held, fit_calibration(self.calibration, held)))

    def fit_view(self: E, view: View) -> E:
        """Learn from a source that is calibrated already, so that several methods can share the work."""
        source = view.sample
        assert isinstance(source, Source)
        self._check_decisions(source.decided, "source")
        self.calibration_ = view.calibration
        self.classes_ = source.classes
        self.n_source_ = source.n
        self.n_source_effective_ = source.n_effective
        self.source_error_ = source.error
        self.label_marginal_ = source.label_marginal
        self.source_warnings_ = (*_source_warnings(source), *view.calibration.warnings())
        self._learn(view)
        return self

    def fitted_on(self: E, view: View) -> E:
        """This method fitted on the view: the first of its kind and arguments that was asked for."""
        arguments = tuple((name, _content(value)) for name, value in self.get_params().items())
        return view.once(("fitted", type(self), arguments), lambda: self.fit_view(view))

    def estimate(self, target: Target | Scan) -> Estimate:
        """Read the error (or score) off the target."""
        if not hasattr(self, "calibration_"):
            raise NotFittedError(f"{self.title} is not fitted; call fit(source) before estimate(target)")
        check_target(target, "estimate")
        aligned = target.aligned(self.classes_, len(self.label_marginal_))
        return self.estimate_view(view_of(aligned, self.calibration_))

    def estimate_view(self, view: View | ScanView) -> Estimate:
        """Read off a target that is aligned and calibrated already."""
        target = view.sample
        before = target.passes if isinstance(target, Scan) else 0
        reading = self._read(view)
        if self.needs_argmax:  # a scan knows its decisions once it was read
            self._check_decisions(target.decided, "target")
        details: dict[str, Any] = {**self.calibration_.details(), "source_error": self.source_error_}
        if target.correction > 1e-12:  # beyond rounding
            details["largest_correction"] = target.correction
        if isinstance(target, Scan):
            reading.details["passes"] = target.passes - before
        warnings = list(self.source_warnings_) + _target_warnings(target, self.classes_)
        error = reading.error
        if error is not None:
            error = _clipped(error, reading.warnings)
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
            interval=reading.interval,
            sampling=reading.sampling,
            details={**details, **reading.details},
            warnings=(*warnings, *reading.warnings),
        )

    def _check_decisions(self, decided: float | None, where: str) -> None:
        """Refuse deployed decisions that are not the largest score, where the formula cannot follow them."""
        if self.needs_argmax and decided:
            raise InputError(
                f"{self.name}: the deployed decisions differ from the largest score in {100 * decided:.3g}% of the "
                f"{where}'s rows, and {self.title} estimates the error of the largest score; use auto, scot or doc"
            )

    def _learn(self, source: View) -> None:  # noqa: B027 (some methods need nothing from the source)
        """Learn the method's own state, in attributes with a trailing underscore."""

    @abstractmethod
    def _read(self, target: View | ScanView) -> Reading:
        """Apply the formula to the target."""

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

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator as readable JSON; `shiftgauge.load` brings it back."""
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"{self.title} is not fitted; there is nothing to save yet; call fit(source) first"
            )
        state = {name: value for name, value in vars(self).items() if name.endswith("_")}
        write_document(path, self.name, self.get_params(), state)

    @classmethod
    def load(cls: type[E], path: str | Path) -> E:
        """Read an estimator that `save` wrote; `shiftgauge.load` finds the right class by itself."""
        document = read_document(path)
        if document["method"] != cls.name:
            raise FileError(
                f"{path}: holds a fitted {document['method']!r}, not {cls.name!r}; use shiftgauge.load"
            )
        estimator = cls(**document["params"])
        for name, value in document["state"].items():
            setattr(estimator, name, restored(name, value))
        return estimator


def _content(value: Any) -> str:
    """An argument as something that a dictionary can hold: arrays by their numbers, of which `repr` shows a few."""
    if isinstance(value, np.ndarray):
        return f"{value.shape}{value.dtype}{value.tobytes()!r}"
    return repr(value)


def _clipped(error: float, warnings: list[str]) -> float:
    if not np.isfinite(error):
        raise ShiftgaugeError(
            "the formula gave no finite number for these scores; are they of a sane size? please report it"
        )
    if -1e-9 <= error <= 1.0 + 1e-9:  # rounding
        return float(min(1.0, max(0.0, error)))
    clipped = float(min(1.0, max(0.0, error)))
    warnings.append(f"the formula gave {error:.4f}, outside [0, 1]; clipped to {clipped:g}")
    return clipped


def _source_warnings(source: Source) -> list[str]:
    warnings = []
    unseen = np.flatnonzero(source.label_marginal == 0.0)
    if len(unseen):
        names = ", ".join(str(source.class_name(int(j))) for j in unseen[:5]) + (
            ", ..." if len(unseen) > 5 else ""
        )
        warnings.append(
            f"no source label is {names}: methods that use the source's class proportions take "
            f"{'it' if len(unseen) == 1 else 'them'} to be absent from the target too"
        )
    if source.error == 0.0:
        warnings.append(
            "the source has no errors: methods that learn from its errors have nothing to learn from"
        )
    return warnings


def _target_warnings(target: Any, classes: tuple[Hashable, ...] | None) -> list[str]:
    warnings = []
    if target.n == 1:
        warnings.append(
            "the target has one row: an error rate of one row is 0 or 1, and this is only its expectation"
        )
    if (classes is None) != (target.classes is None):
        nameless = "source" if classes is None else "target"
        warnings.append(f"the {nameless}'s columns have no names: they were taken to be in the other's order")
    return warnings
