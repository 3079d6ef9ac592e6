"""`auto`'s answer for a pair, and its range at any level: what the decisions share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from shiftgauge.errors import InputError
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.span import Span, span_of
from shiftgauge.results import Estimate


@dataclass(frozen=True)
class Answer:
    """`auto`'s estimate with the pair behind it, and what the user knows of the class proportions."""

    pair: Pair
    proportions: str = "unknown"

    @cached_property
    def estimate(self) -> Estimate:
        """The estimate."""
        return self.pair.estimate("auto", proportions=self.proportions)

    @property
    def error(self) -> float:
        """The estimated error."""
        assert self.estimate.error is not None
        return self.estimate.error

    @property
    def source_error(self) -> float:
        """The error on the source."""
        return float(self.estimate.details["source_error"])

    def span(self, level: float) -> Span:
        """The range at a level."""
        return span_of(
            self.error,
            self.estimate.details,
            self.pair.source.n_effective,
            self.pair.target.n_effective,
            level,
        )


def check_level(verb: str, level: float) -> None:
    """Levels between those that were measured."""
    if not isinstance(level, int | float) or isinstance(level, bool) or not 0.5 <= level <= 0.99:
        raise InputError(f"{verb}: level is {level!r}; wanted a number from 0.5 to 0.99, such as 0.95")
