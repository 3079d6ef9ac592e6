"""What the user said about the form of the files, and what a file was found to hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from labelfree.errors import FileError


@dataclass(frozen=True)
class Form:
    """How to read scores from files; whatever a file leaves open must be said here.

    Attributes:
        kind: `"logits"`, `"probs"`, or None where the file itself says it.
        logit_prefix, prob_prefix: what the columns of a table begin with, before the class name.
        label, weight, prediction: names of columns; weight and prediction are read only if named.
        positive, negative: class names for a table of two classes with the single column `prob`.
        tolerance: how far probabilities may sum from 1; None for the default of their precision.
    """

    kind: str | None = None
    logit_prefix: str = "logit_"
    prob_prefix: str = "prob_"
    label: str = "label"
    weight: str | None = None
    prediction: str | None = None
    positive: str | None = None
    negative: str | None = None
    tolerance: float | None = None

    def choose(self, held: Iterable[str], path: object) -> str:
        """Which of `logits` and `probs` to read from a file that holds these."""
        kinds = list(held)
        if self.kind is not None:
            if self.kind not in kinds:
                found = f"only {kinds[0]}" if kinds else "no scores"
                raise FileError(f"{path}: --{self.kind} was asked for, but the file holds {found}")
            return self.kind
        if len(kinds) == 2:
            raise FileError(f"{path}: holds both logits and probs; say which with --logits or --probs")
        return kinds[0]


@dataclass(frozen=True)
class Content:
    """What a file was found to hold, not yet checked: see `labelfree.Source` and `labelfree.Target`."""

    scores: Any
    kind: str
    labels: Any = None
    classes: tuple[Hashable, ...] | None = None
    weights: Any = None
    predictions: Any = None
    second: Any = None
    columns: tuple[str, ...] = ()  # of a table

    def arguments(self, tolerance: float | None) -> dict[str, Any]:
        """The arguments that `Source` and `Target` share."""
        return {
            self.kind: self.scores,
            "classes": self.classes,
            "weights": self.weights,
            "predictions": self.predictions,
            "tolerance": tolerance,
        }


def refuse_misspelt(
    found: Iterable[str], known: Iterable[str], path: object, word: str, option: str = ""
) -> None:
    """Refuse a name that is nearly, but not quite, one that would have been read, unless an option names it."""
    known = set(known)
    found = list(dict.fromkeys(found))
    absent = sorted(known - set(found))
    for name in found:
        if name in known:
            continue
        close = get_close_matches(name.lower(), absent, n=1, cutoff=0.75)
        if close:
            other = f" Rename it, or pass {option} {name}" if option else ""
            raise FileError(f"{path}: unknown {word} {name!r}; did you mean {close[0]!r}?{other}")
