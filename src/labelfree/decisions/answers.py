"""Both samples calibrated, `auto` read off them, and its range at any level: what the decisions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labelfree.calibration import fit_calibration
from labelfree.errors import InputError
from labelfree.estimators.auto import Auto
from labelfree.estimators.span import Span, span
from labelfree.estimators.view import View
from labelfree.results import Estimate
from labelfree.types import Source, Target


@dataclass(frozen=True)
class Answer:
    """`auto`'s estimate with the calibrated samples behind it."""

    source: View
    target: View
    estimate: Estimate

    @property
    def error(self) -> float:
        """The estimated error."""
        assert self.estimate.error is not None
        return self.estimate.error

    def span(self, level: float) -> Span:
        """The range at a level."""
        details = self.estimate.details
        return span(
            details["answers"],
            self.error,
            details["shift"],
            details["unlikeness"],
            self.source.n_effective,
            self.target.n_effective,
            proportions=details["proportions"],
            level=level,
        )


def answer(verb: str, source: Any, target: Any, calibration: str, proportions: str) -> Answer:
    """Check, align, calibrate and estimate."""
    for given, wanted, how in ((source, Source, "logits=..., labels=..."), (target, Target, "logits=...")):
        if not isinstance(given, wanted):
            raise InputError(
                f"{verb}: arrived {type(given).__name__}; wanted labelfree.{wanted.__name__}({how})"
            )
    fitted = fit_calibration(calibration, source)
    return of_views(View(source, fitted), View(target.aligned(source.classes, source.k), fitted), proportions)


def of_views(source: View, target: View, proportions: str = "unknown") -> Answer:
    """The same for samples that are aligned and calibrated already."""
    auto = Auto(source.calibration.name, proportions).fit_view(source)
    return Answer(source, target, auto.estimate_view(target))


def check_level(verb: str, level: float) -> None:
    """Levels between those that were measured."""
    if not isinstance(level, int | float) or isinstance(level, bool) or not 0.5 <= level <= 0.99:
        raise InputError(f"{verb}: level is {level!r}; wanted a number from 0.5 to 0.99, such as 0.95")
