"""Is the model still good enough? Suitable, not suitable, or cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftgauge import validation
from shiftgauge.inference.decisions.answers import Answer, check_level
from shiftgauge.methods.pair import Pair
from shiftgauge.results import Result, percent
from shiftgauge.samples import Source, Target
from shiftgauge.scans import Scan

SUITABLE, NOT, UNSURE = "suitable", "not suitable", "cannot say"


@dataclass(frozen=True, repr=False)
class Suitability(Result):
    """The verdict on "the error is at most the source's plus the margin".

    Attributes:
        verdict: `"suitable"`, `"not suitable"` or `"cannot say"`.
        error, low, high: the estimate, and between what it lies at the level; where the samples are seen to
            differ, `low` leaves out the belief that nothing followed from it.
        limit: the source error plus the margin.
        margin, level: what was asked for.
        warnings: those of the estimate.
    """

    verdict: str
    error: float
    low: float
    high: float
    limit: float
    margin: float
    level: float
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The verdict in one line."""
        between = f"{percent(self.low)} to {percent(self.high)}"
        return f"{self.verdict}: the error is {between}, the limit {percent(self.limit)}"

    def content(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return {**vars(self), "warnings": list(self.warnings), "sentence": self.sentence()}

    def heading(self) -> str:
        """The verdict in one line."""
        return self.sentence()

    def __repr__(self) -> str:
        return f"Suitability({self.sentence()})"


def suitable(
    source: Source | Scan,
    target: Target | Scan,
    margin: float = 0.05,
    *,
    level: float = 0.95,
    calibration: str = "temperature",
    proportions: str = "unknown",
) -> Suitability:
    """Test whether the error on the target is at most the source's plus a margin.

    "suitable" where the upper end of the range at the level is within the limit, "not suitable" where the lower
    end is beyond it, else "cannot say". Of 990 natural targets at level 95%, "suitable" was wrong in 4% of the cases
    in which it was given at a margin of 20 points, and in 13 of 64 at 10 points, most of them in two families whose
    change leaves no trace in scores (`docs/natural.md`); margins of a few points are nearly always "cannot say".

    Args:
        source: scores with labels.
        target: scores without.
        margin: how much more error is acceptable.
        level: how sure the answer must be, from 0.5 to 0.99.
        calibration, proportions: as for `auto`.

    Reference: Pouget et al., Suitability Filter: A Statistical Framework for Classifier Evaluation in
    Real-World Deployment Settings, 2025 (there with a test of correctness estimates).
    """
    check_level("suitable", level)
    validation.check_fraction(margin, "margin", 0.05)
    return suitable_of(Answer(Pair(source, target, calibration, verb="suitable"), proportions), margin, level)


def suitable_of(found: Answer, margin: float, level: float = 0.95) -> Suitability:
    """The same for an answer that is there already."""
    held = found.span(level)
    limit = min(1.0, found.source_error + margin)
    verdict = SUITABLE if held.high <= limit else NOT if held.floor > limit else UNSURE
    return Suitability(
        verdict, found.error, held.floor, held.high, limit, margin, level, found.estimate.warnings
    )
