"""How to read a file of scores, and the content of such a file before it is checked."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from shiftgauge.errors import FileError, InputError

if TYPE_CHECKING:
    from shiftgauge.samples import Source

Threshold = float | Mapping[Hashable, float]
#: Common names for a column of predictions.
PREDICTION_NAMES = frozenset(
    f"{head}{tail}"
    for head in ("prediction", "predictions", "predicted", "pred", "y_pred", "yhat", "decision", "decisions")
    for tail in ("", "_label", "_class")
)


@dataclass(frozen=True)
class ReadOptions:
    """How to read scores from files.

    Attributes:
        kind: `"logits"`, `"probs"`, or None if the file says which it holds.
        logit_prefix, prob_prefix: prefixes of the score columns of a table; the class name follows.
        label: the label column.
        weight: the column of row weights, or None.
        prediction: the column of deployed predictions, read if it exists; None to ignore it.
        positive, negative: class names for a table of two classes with the single column `prob`.
        tolerance: how far the sum of a row's probabilities may be from 1; None for the default of their precision.
        id: the column of row ids, or None.
        threshold: with two classes, the probability from which the second is predicted, or `{name: threshold}`.
        insist: accept logits that look like probabilities.
        drop_unlabelled: drop source rows without a label.
    """

    kind: str | None = None
    logit_prefix: str = "logit_"
    prob_prefix: str = "prob_"
    label: str = "label"
    weight: str | None = None
    prediction: str | None = "prediction"
    positive: str | None = None
    negative: str | None = None
    tolerance: float | None = None
    id: str | None = None
    threshold: Threshold | None = None
    insist: bool = False
    drop_unlabelled: bool = False

    def __post_init__(self) -> None:
        if self.kind not in (None, "logits", "probs"):
            raise InputError(f"kind {self.kind!r} is not known; wanted 'logits' or 'probs'")

    def choose_kind(self, kinds: Sequence[str], path: object) -> str:
        """Which of `logits` and `probs` to read from a file that has these."""
        if self.kind is not None:
            if self.kind not in kinds:
                found = f"only {kinds[0]}" if kinds else "no scores"
                raise FileError(f"{path}: --{self.kind} was asked for, but the file holds {found}")
            return self.kind
        if len(kinds) == 2:
            raise FileError(
                f"{path}: holds both logits and probs; say which with --logits or --probs (kind=)"
            )
        return kinds[0]

    def prediction_column(
        self, names: Collection[str], where: object, argument: str = "prediction"
    ) -> str | None:
        """The column of predictions to read: the one named, or the default one if it exists.

        Predictions decide which rows are errors, so a column with a similar name is not ignored silently.
        """
        if self.prediction != ReadOptions.prediction or "prediction" in names:
            return self.prediction
        near = next((name for name in names if name.lower().replace(" ", "_") in PREDICTION_NAMES), None)
        if near is not None and self.threshold is None:
            raise FileError(
                f"{where}: does the column {near!r} hold the deployed decisions? then pass --prediction-column {near} "
                f"({argument}={near!r}); if not, --prediction-column '' ({argument}=None)"
            )
        return None

    def for_target(self, source: Source) -> ReadOptions:
        """The options for a target: a threshold applies to the source's second class, in whatever column it is."""
        if source.classes is None or source.k != 2 or not isinstance(self.threshold, int | float):
            return self
        return replace(self, threshold={source.classes[1]: self.threshold})


@dataclass(frozen=True)
class Content:
    """The content of a file, not yet checked: see `shiftgauge.Source` and `shiftgauge.Target`."""

    scores: Any
    kind: str
    labels: Any = None
    classes: tuple[Hashable, ...] | None = None
    weights: Any = None
    predictions: Any = None
    second: Any = None
    ids: Any = None
    columns: tuple[str, ...] = ()  # of a table
    notes: tuple[str, ...] = ()

    def arguments(self, options: ReadOptions) -> dict[str, Any]:
        """The arguments that `Source` and `Target` share."""
        return {
            self.kind: self.scores,
            "classes": self.classes,
            "weights": self.weights,
            "predictions": self.predictions,
            "threshold": options.threshold,
            "ids": self.ids,
            "tolerance": options.tolerance,
            "insist": options.insist,
        }


def check_spelling(
    names: Iterable[str], expected: Iterable[str], path: object, word: str, option: str = ""
) -> None:
    """Refuse a name that is close to, but not equal to, one that would have been read."""
    names = list(dict.fromkeys(names))
    absent = set(expected) - set(names)
    for name in names:
        close = get_close_matches(name.lower(), absent, cutoff=0.75)  # the closest first
        if close and name not in expected:
            other = f" Rename it, or pass {option} {shlex.quote(name)}" if option else ""
            raise FileError(f"{path}: unknown {word} {name!r}; did you mean {close[0]!r}?{other}")
