"""What the user said about the form of the files, and what a file was found to hold."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from shiftgauge.errors import FileError, InputError, nearest

if TYPE_CHECKING:
    from shiftgauge.samples import Source


#: Names that people give to a column of decisions.
DECISIONS = frozenset(
    f"{head}{tail}"
    for head in ("prediction", "predictions", "predicted", "pred", "y_pred", "yhat", "decision", "decisions")
    for tail in ("", "_label", "_class")
)


@dataclass(frozen=True)
class Form:
    """How to read scores from files; whatever a file leaves open must be said here.

    Attributes:
        kind: `"logits"`, `"probs"`, or None where the file itself says it.
        logit_prefix, prob_prefix: what the columns of a table begin with, before the class name.
        label: the column of labels.
        weight: the column of row weights; read only if named.
        prediction: the column of deployed decisions; read where it is there, and never if None.
        positive, negative: class names for a table of two classes with the single column `prob`.
        tolerance: how far probabilities may sum from 1; None for the default of their precision.
        id: the column of what rows are known by; read only if named.
        threshold: of two classes, from which probability on the second is decided for, or `{name: threshold}`.
        insist: take scores as logits though they look like probabilities.
        drop_unlabelled: leave out source rows without a label.
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
    threshold: float | Mapping[Hashable, float] | None = None
    insist: bool = False
    drop_unlabelled: bool = False

    def but(self, **said: Any) -> Form:
        """The same with some of it said otherwise; refuses words that it does not know."""
        names = [f.name for f in fields(self)]
        for name in said:
            if name not in names:
                raise InputError(f"{name}= is not known{nearest(name, names)}; wanted {', '.join(names)}")
        if said.get("kind") not in (None, "logits", "probs"):
            raise InputError(f"kind {said['kind']!r} is not known; wanted 'logits' or 'probs'")
        return replace(self, **said)

    def choose(self, held: Iterable[str], path: object) -> str:
        """Which of `logits` and `probs` to read from a file that holds these."""
        kinds = list(held)
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

    def wanted_prediction(
        self, names: Collection[str], where: object, said: str = "prediction"
    ) -> str | None:
        """The column of decisions to read: one that was named, or the usual one if it is there.

        One that is called nearly so would decide what is right and wrong, and is not passed over in silence.
        """
        if self.prediction != Form.prediction or "prediction" in names:
            return self.prediction
        near = next((name for name in names if name.lower().replace(" ", "_") in DECISIONS), None)
        if near is not None and self.threshold is None:
            raise FileError(
                f"{where}: does the column {near!r} hold the deployed decisions? then pass --prediction-column {near} "
                f"({said}={near!r}); if not, --prediction-column '' ({said}=None)"
            )
        return None

    def for_target(self, source: Source) -> Form:
        """The same for a target: a threshold is about the source's second class, wherever its column stands there."""
        if source.classes is None or source.k != 2 or not isinstance(self.threshold, int | float):
            return self
        return replace(self, threshold={source.classes[1]: self.threshold})


@dataclass(frozen=True)
class Content:
    """What a file was found to hold, not yet checked: see `shiftgauge.Source` and `shiftgauge.Target`."""

    scores: Any
    kind: str
    labels: Any = None
    classes: tuple[Hashable, ...] | None = None
    weights: Any = None
    predictions: Any = None
    second: Any = None
    ids: Any = None
    columns: tuple[str, ...] = ()  # of a table
    likely: str | None = None  # the column that may hold the labels, where the one asked for is not there
    notes: tuple[str, ...] = ()

    def arguments(self, form: Form) -> dict[str, Any]:
        """The arguments that `Source` and `Target` share."""
        return {
            self.kind: self.scores,
            "classes": self.classes,
            "weights": self.weights,
            "predictions": self.predictions,
            "threshold": form.threshold,
            "ids": self.ids,
            "tolerance": form.tolerance,
            "insist": form.insist,
        }


def refuse_misspelt(
    found: Iterable[str], known: Iterable[str], path: object, word: str, option: str = ""
) -> None:
    """Refuse a name that is nearly, but not quite, one that would have been read, unless an option names it."""
    known = set(known)
    found = list(dict.fromkeys(found))
    absent = known - set(found)
    for name in found:
        if name in known:
            continue
        close = get_close_matches(name.lower(), absent, cutoff=0.75)  # the closest first
        if close:
            other = f" Rename it, or pass {option} {name}" if option else ""
            raise FileError(f"{path}: unknown {word} {name!r}; did you mean {close[0]!r}?{other}")
