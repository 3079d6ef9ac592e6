"""What goes in: the classifier's scores on labelled source rows and on unlabelled target rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge import storage, validation
from shiftgauge.errors import InputError, Note, nearest
from shiftgauge.validation import FloatArray, IntArray
from shiftgauge.validation.labels import places
from shiftgauge.validation.target_labels import TargetLabels, check_target_labels

S = TypeVar("S", bound="Sample")

#: Matrices up to this size are copied, so that a buffer may be reused; larger ones are not, to save memory.
COPIED_BYTES = 1 << 25


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Sample:
    """What source and target have in common: scores, predictions, weights, class names.

    Attributes:
        kind: `"logits"` or `"probs"`.
        predictions: (n,) class indices: the deployed decisions, or the argmax of the scores.
        weights: (n,) row weights, or None for equal ones.
        classes: K names, or None.
        ids: (n,) what the caller knows each row by, or None.
        correction: the largest |row sum - 1| that renormalising will repair (0 for logits).
        decided: the share of rows whose deployed decision is not the largest score; None where no decisions came.
        kept: (n,) the rows' numbers in what arrived, where unlabelled ones were dropped; else None.
        notes: what was done to the data on the way in, a sentence each.
    """

    kind: str
    predictions: IntArray
    weights: npt.NDArray[np.float64] | None
    classes: tuple[Hashable, ...] | None
    ids: npt.NDArray[Any] | None
    correction: float
    decided: float | None
    kept: IntArray | None
    notes: tuple[str, ...]
    _by_place: bool  # whether decisions are by a threshold on whatever class stands second

    def _enter(
        self,
        where: str,
        logits: Any,
        probs: Any,
        classes: Sequence[Hashable] | None,
        weights: Any,
        predictions: Any,
        threshold: Any,
        ids: Any,
        tolerance: float | None,
        insist: bool,
    ) -> None:
        if (logits is None) == (probs is None):
            given = "neither" if logits is None else "both"
            raise InputError(
                f"{where}: {given} of logits= and probs= arrived; wanted exactly one, never guessed"
            )
        kind, values = ("probs", probs) if logits is None else ("logits", logits)
        if insist and kind == "probs":
            raise InputError(validation.IDLE_INSIST.format(who=where))
        checked = validation.check_scores(values, kind, where, tolerance, insist)
        scores = _read_only(checked.values)
        n, k = scores.shape
        names = validation.check_classes(classes, k, where)
        masses, lost = validation.check_weights(weights, n, where)
        made = validation.argmax(scores)
        decisions = made
        if predictions is not None and threshold is not None:
            raise InputError(
                f"{where}: decisions (predictions=, a column 'prediction') and a threshold both arrived; wanted one "
                "of the two; --prediction-column '' leaves a table's column out"
            )
        if predictions is not None:
            decisions = validation.check_labels(predictions, n, k, names, f"{where} predictions")
        if threshold is not None:
            decisions = validation.above_threshold(scores, kind, names, threshold, where)
        self._set(
            scores=scores,
            kind=kind,
            classes=names,
            weights=masses,
            predictions=decisions,
            ids=None if ids is None else validation.check_ids(ids, n, where),
            correction=checked.correction,
            decided=None if decisions is made else validation.decided_share(scores, decisions),
            kept=None,
            notes=_notes(where, checked, lost),
            _by_place=threshold is not None and not isinstance(threshold, Mapping),
        )

    def _set(self, **fields: Any) -> None:
        vars(self).update(fields)

    @property
    def scores(self) -> FloatArray:
        """(n, K) logits or probabilities, read-only.

        Arrays of more than 32 MiB are not copied: do not change them while the sample is in use, or pass a copy.
        """
        scores: FloatArray = vars(self)["scores"]
        return scores

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.scores)

    @property
    def k(self) -> int:
        """The number of classes: the columns, never the labels seen."""
        return int(self.scores.shape[1])

    @property
    def mass(self) -> npt.NDArray[np.float64]:
        """(n,) each row's share of the whole; sums to 1."""
        if self.weights is None:
            return np.full(self.n, 1.0 / self.n)
        return np.asarray(self.weights / self.weights.sum())

    def share(self, rows: npt.NDArray[np.bool_]) -> float:
        """The share of mass in the rows marked True."""
        return float(np.mean(rows)) if self.weights is None else min(1.0, float(self.mass[rows].sum()))

    @property
    def n_effective(self) -> float:
        """Kish's effective number of rows: n, or less where weights differ."""
        if self.weights is None:
            return float(self.n)
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    def class_name(self, j: int) -> Hashable:
        """The name of column j: as given, or the index itself."""
        return j if self.classes is None else self.classes[j]

    @property
    def decides_by_place(self) -> bool:
        """Whether decisions are by a threshold on whatever class stands second."""
        return self._by_place

    def with_notes(self: S, notes: Sequence[str], kept: IntArray | None = None) -> S:
        """The same rows with further notes, and their numbers in what arrived."""
        return self._twin(notes=(*self.notes, *notes), kept=kept)

    def with_classes(self: S, classes: tuple[Hashable, ...] | None) -> S:
        """The same rows with names for the columns, which were checked already."""
        return self._twin(classes=classes)

    def _twin(self: S, **changes: Any) -> S:
        """The same sample with some fields changed: the one builder besides the constructor."""
        twin = object.__new__(type(self))
        twin._set(**{**vars(self), **changes})
        return twin

    def take(self: S, rows: npt.NDArray[Any]) -> S:
        """Some of the rows, by number or mask, without checking them again."""
        per_row = ("scores", "predictions", "weights", "ids", "kept", "labels", "second", "rows")
        changes: dict[str, Any] = {
            name: value[rows] for name, value in vars(self).items() if name in per_row and value is not None
        }
        labelled: TargetLabels | None = vars(self).get("labelled")
        if labelled is not None:
            changes["labelled"] = labelled.take(rows, self.n)
        return self._twin(**changes)

    def save(self, path: str | Path) -> None:
        """Write the sample as an `.npz` that `load` and the command read; whole or not at all."""
        storage.save_sample(path, vars(self))

    def __repr__(self) -> str:
        names = ""
        if self.classes is not None:
            shown = ", ".join(repr(c) for c in self.classes[:3])
            names = f", classes=[{shown}{', ...' if self.k > 3 else ''}]"
        return f"{type(self).__name__}({self.kind}, {self.n} rows x {self.k} classes{names})"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Source(Sample):
    """The classifier's scores on labelled rows, checked once and then trusted.

    Args:
        logits: (n, K) scores before the softmax; or
        probs: (n, K) probabilities. Exactly one of the two; shiftgauge never guesses.
        labels: (n,) true classes, as column indices or, with `classes`, as names. Whole numbers beside names
            that are no numbers are indices.
        classes: K names, one per column.
        weights: (n,) non-negative row weights.
        predictions: (n,) the deployed decisions where they are not the argmax; or
        threshold: of two classes, from which probability on the second is decided for; `{name: threshold}` to
            say which class is meant.
        ids: (n,) what each row is known by; travels along.
        tolerance: how far a row of `probs` may sum from 1; by default 1e-2, 1e-4 or 1e-6 for
            float16, float32 or float64, and what rounding to a few decimals explains. Rows are renormalised
            and the largest correction reported.
        insist: take `logits` as such though every row looks like probabilities.
        drop_unlabelled: leave out rows whose label is missing, and say how many, instead of refusing.

    >>> Source(probs=[[0.9, 0.1], [0.4, 0.6]], labels=[0, 0]).error
    0.5
    """

    labels: IntArray

    def __init__(
        self,
        logits: Any = None,
        labels: Any = None,
        *,
        probs: Any = None,
        classes: Sequence[Hashable] | None = None,
        weights: Any = None,
        predictions: Any = None,
        threshold: float | Mapping[Hashable, float] | None = None,
        ids: Any = None,
        tolerance: float | None = None,
        insist: bool = False,
        drop_unlabelled: bool = False,
    ) -> None:
        self._enter("source", logits, probs, classes, weights, predictions, threshold, ids, tolerance, insist)
        if labels is None:
            raise InputError("source labels: none arrived; wanted one true label per row (labels=...)")
        if drop_unlabelled:
            labels = self._drop_unlabelled(labels)
        self._set(labels=validation.check_labels(labels, self.n, self.k, self.classes, "source labels"))

    def _drop_unlabelled(self, labels: Any) -> Any:
        array = validation.as_array(labels, "source labels").reshape(-1)
        missing = validation.missing_rows(array, "source labels")
        if len(array) != self.n or not missing.any():
            return labels
        if missing.all():
            raise InputError(f"source labels: all {self.n} rows are unlabelled; wanted some with labels")
        n, kept = self.n, np.flatnonzero(~missing)
        self._set(**{**vars(self.take(kept)), "kept": kept})
        if self.decided is not None:
            self._set(decided=validation.decided_share(self.scores, self.predictions))
        said = Note(f"{n - len(kept):,} of {n:,} source rows have no label and were dropped")
        self._set(notes=(*self.notes, said))
        return array[kept]

    @classmethod
    def load(cls, path: str | Path) -> Source:
        """Read a source from an `.npz` that `save` wrote, or any with the same keys; nothing is unpickled."""
        with storage.name_file_in_errors(path):
            return cls(**storage.load_sample(path, "source"))

    @property
    def error(self) -> float:
        """The share of mass whose prediction is not its label."""
        return self.share(self.predictions != self.labels)

    @property
    def label_marginal(self) -> npt.NDArray[np.float64]:
        """(K,) the share of each label."""
        return np.asarray(np.bincount(self.labels, self.mass, self.k), dtype=np.float64)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Target(Sample):
    """The classifier's scores on new rows, with few labels or none.

    Args:
        logits: (n, K) scores before the softmax; or
        probs: (n, K) probabilities.
        classes: K names; columns are matched to the source's by name, in any order.
        weights: (n,) non-negative row weights.
        predictions: (n,) the deployed decisions where they are not the argmax; or
        threshold: as for `Source`.
        second: a second, independently trained model on the same rows, for GDE: (n, K) scores or
            (n,) predictions.
        ids: (n,) what each row is known by; travels into the rows and picks that are written.
        labels: labels of some rows, as evidence for `auto`: `{row number or id: label}`, or one entry per row with
            missing ones; `shiftgauge.estimate(..., labels=)` takes the same.
        tolerance, insist: as for `Source`.

    >>> Target(probs=[[0.9, 0.1], [0.4, 0.6]])
    Target(probs, 2 rows x 2 classes)
    """

    second: IntArray | None
    labelled: TargetLabels | None

    def __init__(
        self,
        logits: Any = None,
        *,
        probs: Any = None,
        classes: Sequence[Hashable] | None = None,
        weights: Any = None,
        predictions: Any = None,
        threshold: float | Mapping[Hashable, float] | None = None,
        second: Any = None,
        ids: Any = None,
        labels: Any = None,
        tolerance: float | None = None,
        insist: bool = False,
    ) -> None:
        self._enter("target", logits, probs, classes, weights, predictions, threshold, ids, tolerance, insist)
        given = check_target_labels(labels, self.n, self.k, self.classes, self.ids is not None)
        if given is not None and given.by_id:
            assert self.ids is not None
            given = given.by_row(self.ids)
        self._set(labelled=given)
        self._set(second=None if second is None else self._second_predictions(second))

    def _second_predictions(self, second: Any) -> IntArray:
        array = validation.as_array(second, "second model")
        if array.ndim != 2 or array.shape[1] == 1:
            return validation.check_labels(second, self.n, self.k, self.classes, "second model's predictions")
        scores = validation.check_scores(second, "logits", "second model's", insist=True).values
        if scores.shape != (self.n, self.k):
            raise InputError(
                f"second model: scores of shape {scores.shape} for a target of shape {(self.n, self.k)}; "
                "wanted the same rows and classes"
            )
        return validation.argmax(scores)

    @classmethod
    def load(cls, path: str | Path) -> Target:
        """Read a target from an `.npz` that `save` wrote, or any with the same keys; labels are left behind."""
        with storage.name_file_in_errors(path):
            return cls(**storage.load_sample(path, "target"))

    def aligned(self, classes: tuple[Hashable, ...] | None, k: int) -> Target:
        """The same target with its columns in the source's order; refuses what cannot be matched."""
        order = class_order(self.classes, self.k, classes, k)
        if order is None:
            return self
        refuse_other_second(self._by_place, order, classes)
        place = np.argsort(order)
        scores = np.ascontiguousarray(self.scores[:, order])
        scores.flags.writeable = False
        return self._twin(
            scores=scores,
            classes=classes,
            predictions=place[self.predictions],
            second=None if self.second is None else place[self.second],
            labelled=None if self.labelled is None else self.labelled.in_class_order(order),
        )


def class_order(
    own: tuple[Hashable, ...] | None, own_k: int, classes: tuple[Hashable, ...] | None, k: int
) -> IntArray | None:
    """(K,) the target's columns in the order of the source's classes; None where they are in it already.

    Args:
        own, own_k: the names of the target's columns, or None, and how many they are.
        classes, k: the source's.
    """
    here = {} if own is None or classes is None else places(own, classes)
    if classes is not None and own is not None and own != classes:
        for name in classes:
            if name not in here:
                hint = nearest(str(name), [str(c) for c in own if c not in classes])
                raise InputError(f"target: no column for the source's class {name!r}{hint}")
    if own_k != k:
        extra = [c for c in own or () if classes is not None and c not in classes]
        more = f"; class {extra[0]!r} is not among them" if extra else ""
        raise InputError(f"target: {own_k} classes, but the source has {k}; wanted the same columns{more}")
    if classes is None or own is None or own == classes:
        return None
    return np.array([here[name] for name in classes], dtype=np.intp)


def refuse_other_second(by_place: bool, order: IntArray, classes: tuple[Hashable, ...] | None) -> None:
    """Refuse decisions by a threshold on the second column where another class stands second on the source."""
    if by_place and classes is not None and order[-1] != len(order) - 1:
        raise InputError(
            f"target threshold: it is about {classes[0]!r}, the second of the target's columns, and the source's "
            f"second class is {classes[1]!r}; name the class on both: threshold={{{classes[1]!r}: ...}}"
        )


def _read_only(scores: FloatArray) -> FloatArray:
    """The scores as a read-only array: a copy of a small one, a view of a large one."""
    kept = scores.copy(order="K") if scores.nbytes <= COPIED_BYTES else scores
    made: FloatArray = kept.view(np.ndarray)
    made.flags.writeable = False
    return made


def rounding_note(where: str, decimals: int, correction: float) -> Note:
    """What is said of probabilities that are rounded."""
    return Note(
        f"the {where}'s probabilities are rounded to {decimals} decimals: "
        f"rows sum to 1 within {correction:.2g} and were renormalised"
    )


def _notes(where: str, checked: validation.Scores, lost: int) -> tuple[str, ...]:
    notes: list[str] = []
    if checked.decimals is not None:
        notes.append(rounding_note(where, checked.decimals, checked.correction))
    if lost:
        rows = "1 weight" if lost == 1 else f"{lost:,} weights"
        below = f"below {validation.SMALLEST_WEIGHT:g} of the largest"
        notes.append(f"{rows} of the {where} {below} {'is' if lost == 1 else 'are'} treated as zero")
    return tuple(map(Note, notes))


def meeting_notes(source: Source, target: Any) -> tuple[str, ...]:
    """What the reader of an answer should know of how source and target were read.

    The notes of both, how often deployed decisions differ from the argmax, and a warning where only one side
    has such decisions: then the source's errors are those of another classifier than the target's.
    """
    notes = [*source.notes, *target.notes]
    for where, sample in (("source", source), ("target", target)):
        if sample.decided:
            share = f"{100 * sample.decided:.1f}%"
            notes.append(
                Note(f"the deployed decisions differ from the largest score in {share} of the {where}'s rows")
            )
    for where, sample, other, absent in (
        ("source", source, "target", target),
        ("target", target, "source", source),
    ):
        if sample.decided and absent.decided is None:
            notes.append(
                f"deployed decisions came with the {where} only; those of the {other} were taken to be the largest "
                "score, which is another classifier; give both (predictions=, threshold=, --prediction-column)"
            )
    return tuple(notes)


class RawScores(ABC):
    """Scores of a model, perhaps with labels, that every function takes in place of a `Source` or a `Target`."""

    @property
    @abstractmethod
    def labelled(self) -> bool:
        """Whether labels came with the scores."""

    @abstractmethod
    def source(self) -> Source:
        """The scores as a source."""

    @abstractmethod
    def target(self) -> Target:
        """The scores as a target, without labels."""


def check_source(given: Any, function: str) -> Source:
    """A `Source` as it is, and raw scores as a source; anything else is refused."""
    if isinstance(given, RawScores):
        return given.source()
    if not isinstance(given, Source):
        raise InputError(
            f"{function}: arrived {type(given).__name__}; wanted shiftgauge.Source(logits=..., labels=...)"
        )
    return given


def check_target(given: Any, function: str) -> Target:
    """A `Target` as it is, and raw scores without labels as a target; anything else is refused."""
    if isinstance(given, RawScores):
        if given.labelled:
            raise InputError(
                f"{function}: labels came with the target's scores; wanted .target(), which leaves them out, or "
                ".target(labels=...), which uses them"
            )
        return given.target()
    if not isinstance(given, Target):
        raise InputError(f"{function}: arrived {type(given).__name__}; wanted shiftgauge.Target(logits=...)")
    return given
