"""At most how wrong: one number to act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftgauge.inference.decisions.answers import Answer, check_level
from shiftgauge.inference.decisions.critic import Discrepancy, discrepancy
from shiftgauge.methods.pair import Pair
from shiftgauge.results import Result, percent
from shiftgauge.samples import Source, Target
from shiftgauge.scans import Scan

#: From here on a ceiling says nothing.
VACUOUS = 0.95


@dataclass(frozen=True, repr=False)
class Ceiling(Result):
    """The error is at most this.

    Attributes:
        value: the ceiling.
        error: the estimate it stands above.
        level: the share of natural targets, of families left out, in which such a ceiling held.
        largest: the method that allows the largest error, and
        largest_error: what it says.
        margin: what is added: what all methods missed where it was measured, and
        sampling: the sampling error of source and target rows, label noise included.
        critic: the disagreement discrepancy, and
        critic_bound: source error + discrepancy + its sampling noise, the bound of Rosenfeld and Garg: for
            a second opinion. Vacuous under strong label shift.
        warnings: those of the estimate.
    """

    value: float
    error: float
    level: float
    largest: str
    largest_error: float
    margin: float
    sampling: float
    critic: Discrepancy
    critic_bound: float
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The ceiling in one line."""
        if self.value >= VACUOUS:
            return f"no useful ceiling: {self.largest} allows {percent(self.largest_error)}"
        return f"the error is at most {percent(self.value)} (held in {100 * self.level:g}% where it was measured)"

    def content(self) -> dict[str, Any]:
        """The ceiling as plain values."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("critic", "warnings")},
            "critic": {
                "target": self.critic.target,
                "source": self.critic.source,
                "noise": self.critic.noise,
            },
            "sentence": self.sentence(),
        }

    def heading(self) -> str:
        """The ceiling in one line."""
        return self.sentence()

    def __repr__(self) -> str:
        return f"Ceiling({self.sentence()})"


def ceiling(
    source: Source | Scan,
    target: Target | Scan,
    *,
    level: float = 0.95,
    calibration: str = "temperature",
    proportions: str = "unknown",
) -> Ceiling:
    """A ceiling for the error on the target: the largest of the defensible methods, with a learned margin.

    It is the upper end of the range that `auto` shows (`shiftgauge.methods.span`), at the level asked for.
    The margin was learned on natural tables with whole families left out; a shift that leaves no trace in the
    scores (labels that mean something else) can still exceed it. Beside it stands the critic's bound
    (`shiftgauge.inference.decisions.critic`), which rests on another assumption.

    Args:
        source: scores with labels.
        target: scores without.
        level: from 0.5 to 0.99.
        calibration: as for every method.
        proportions: what is known of the target's class proportions (see `shiftgauge.methods.auto`).

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = 2 * rng.normal(size=(4000, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = ceiling(sg.Source(logits=z[:2000], labels=y[:2000]), sg.Target(logits=z[2000:]))
    >>> (z[2000:].argmax(1) != y[2000:]).mean() <= found.value < 0.5
    True
    """
    check_level("ceiling", level)
    return ceiling_of(Answer(Pair(source, target, calibration, verb="ceiling"), proportions), level)


def ceiling_of(found: Answer, level: float = 0.95) -> Ceiling:
    """The same for an answer that is there already."""
    held = found.span(level)
    answers = {**found.estimate.details["answers"], "auto": found.error}
    kept = {name: value for name, value in answers.items() if value <= held.high}
    largest = max(kept, key=lambda name: kept[name])
    critic = discrepancy(found.pair.source, found.pair.target, level=level)
    return Ceiling(
        value=held.high,
        error=found.error,
        level=level,
        largest=largest,
        largest_error=kept[largest],
        margin=max(0.0, held.high - kept[largest] - (held.sampling_high - found.error)),
        sampling=held.sampling_high - found.error,
        critic=critic,
        critic_bound=min(1.0, found.source_error + critic.value + critic.noise),
        warnings=found.estimate.warnings,
    )
