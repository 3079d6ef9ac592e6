"""What `auto` chose, and the reason in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Choice:
    """What `auto` chose, and why.

    Attributes:
        weights: of the methods by label (`scot:shrunk` is SCOT with marginal `"shrunk"`), summing to 1, the largest
            first. `unchanged` may have a weight below 0: then a rise over the source error counts more than once.
        reason: one sentence.
        added: this is added to the weighted mean.
    """

    weights: dict[str, float]
    reason: str
    added: float = 0.0

    def error(self, answers: Mapping[str, float]) -> float:
        """The answer: the weighted mean of the methods' answers, and what is added to it."""
        mean = sum(weight * answers[label] for label, weight in self.weights.items())
        return float(np.clip(mean + self.added, 0.0, 1.0))

    def details(self) -> dict[str, Any]:
        """What the estimate says of it."""
        return {
            "choice": str(self),
            "parts": self.parts(),
            "added": self.added,
            "reason": self.reason,
        }

    def parts(self) -> list[dict[str, Any]]:
        """The methods as plain values: method, marginal (or None), weight."""
        return [
            {"method": method, "marginal": marginal or None, "weight": weight}
            for label, weight in self.weights.items()
            for method, _, marginal in [label.partition(":")]
        ]

    def __str__(self) -> str:
        positive = {label: w for label, w in self.weights.items() if w > 0.0}
        whole = sum(positive.values())
        rise = f", plus {100 * (whole - 1.0):.0f}% of the rise" if len(positive) < len(self.weights) else ""
        if len(positive) == 1:
            return next(iter(positive)) + rise
        return ", ".join(f"{100 * w / whole:.0f}% {label}" for label, w in positive.items()) + rise


def reason_for(kind: str, differ: float, against: float, proportions: str) -> str:
    """What the test shows, then what the answer therefore rests on, by the weights of the hypotheses.

    Args:
        kind: of shift, by the label-shift test.
        differ: how far the target's scores differ from the source's, 0 to 1.
        against: the evidence against the source's proportions, 0 to 1.
        proportions: what the user knows of them.
    """
    test = {
        "none": "no difference between source and target beyond sampling noise was seen",
        "label": "other class proportions could explain the difference",
        "other": "class proportions alone do not explain the difference",
        "unknown": "there are too few rows per class to tell which kind of shift it is",
    }[kind]
    if proportions == "changed":
        return (
            f"{test}; you said that the class proportions changed, so the answer does not rest on the source's "
            "proportions"
        )
    if differ <= 0.0:
        but = "but " if kind in ("label", "other") else ""
        return (
            f"{test}; {but}the scores lie where the source's do, so the answer follows the change in confidence, a "
            "rise in error more than a fall"
        )
    if proportions == "same":
        rests = "the source's class proportions, as you said"
    elif kind == "label":
        return (
            f"{test}; half of the answer rests on proportions estimated from the scores, half on the change in "
            "confidence"
        )
    elif against <= 0.0:
        rests = "the source's class proportions"
    elif against >= 1.0:
        other = "proportions estimated from them" if kind == "unknown" else "the median of several methods"
        return (
            f"{test}; the scores do not fit the source's class proportions, so half of the answer rests on {other}, "
            "half on the change in confidence"
        )
    else:
        rests = "the source's class proportions in part, since the scores fit them poorly"
    mass, mixed = ("much", "") if differ >= 1.0 else ("part", ", in part on the change in confidence")
    return f"{test}; {mass} of the target has scores that the source hardly has, so the answer rests on {rests}{mixed}"
