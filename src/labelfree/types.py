"""What goes in: the classifier's scores on labelled source rows and on unlabelled target rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree._door import FloatArray, IntArray
from labelfree.errors import InputError, nearest


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Sample:
    """What source and target have in common: scores, predictions, weights, class names.

    Attributes:
        scores: (n, K) logits or probabilities as given, read-only; not copied, so leave them alone.
        kind: `"logits"` or `"probs"`.
        predictions: (n,) class indices: the deployed decisions, or the argmax of the scores.
        weights: (n,) row weights, or None for equal ones.
        classes: K names, or None.
        correction: the largest |row sum - 1| that renormalising will repair (0 for logits).
    """

    scores: FloatArray
    kind: str
    predictions: IntArray
    weights: npt.NDArray[np.float64] | None
    classes: tuple[Hashable, ...] | None
    correction: float

    def _enter(
        self,
        where: str,
        logits: Any,
        probs: Any,
        classes: Sequence[Hashable] | None,
        weights: Any,
        predictions: Any,
        tolerance: float | None,
    ) -> None:
        if (logits is None) == (probs is None):
            given = "neither" if logits is None else "both"
            raise InputError(
                f"{where}: {given} of logits= and probs= arrived; wanted exactly one, never guessed"
            )
        kind, values = ("probs", probs) if logits is None else ("logits", logits)
        scores, correction = _door.as_scores(values, kind, where, tolerance)
        n, k = scores.shape
        names = _door.as_classes(classes, k, where)
        self._set(
            scores=_read_only(scores),
            kind=kind,
            classes=names,
            weights=_door.as_weights(weights, n, where),
            predictions=_argmax(scores)
            if predictions is None
            else _door.as_labels(predictions, n, k, names, f"{where} predictions"),
            correction=correction,
        )

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.scores.shape[0])

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
        return float(np.mean(rows)) if self.weights is None else float(self.mass[rows].sum())

    @property
    def n_effective(self) -> float:
        """Kish's effective number of rows: n, or less where weights differ."""
        if self.weights is None:
            return float(self.n)
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    def class_name(self, j: int) -> Hashable:
        """The name of column j: as given, or the index itself."""
        return j if self.classes is None else self.classes[j]

    def __repr__(self) -> str:
        names = "" if self.classes is None else f", classes={list(self.classes[:3])}..."
        return f"{type(self).__name__}({self.kind}, {self.n} rows x {self.k} classes{names})"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Source(Sample):
    """The classifier's scores on labelled rows, checked once and then trusted.

    Args:
        logits: (n, K) scores before the softmax; or
        probs: (n, K) probabilities. Exactly one of the two; labelfree never guesses.
        labels: (n,) true classes, as column indices or, with `classes`, as names.
        classes: K names, one per column. Labels are then always names.
        weights: (n,) non-negative row weights.
        predictions: (n,) the deployed decisions where they are not the argmax.
        tolerance: how far a row of `probs` may sum from 1; by default 1e-2, 1e-4 or 1e-6 for
            float16, float32 or float64. Rows are renormalised and the largest correction reported.

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
        tolerance: float | None = None,
    ) -> None:
        self._enter("source", logits, probs, classes, weights, predictions, tolerance)
        if labels is None:
            raise InputError("source labels: none arrived; wanted one true label per row (labels=...)")
        self._set(labels=_door.as_labels(labels, self.n, self.k, self.classes, "source labels"))

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
    """The classifier's scores on rows nobody has labelled.

    Args:
        logits: (n, K) scores before the softmax; or
        probs: (n, K) probabilities.
        classes: K names; columns are matched to the source's by name, in any order.
        weights: (n,) non-negative row weights.
        predictions: (n,) the deployed decisions where they are not the argmax.
        second: a second, independently trained model on the same rows, for GDE: (n, K) scores or
            (n,) predictions.
        tolerance: as for `Source`.

    >>> Target(probs=[[0.9, 0.1], [0.4, 0.6]])
    Target(probs, 2 rows x 2 classes)
    """

    second: IntArray | None

    def __init__(
        self,
        logits: Any = None,
        *,
        probs: Any = None,
        classes: Sequence[Hashable] | None = None,
        weights: Any = None,
        predictions: Any = None,
        second: Any = None,
        tolerance: float | None = None,
    ) -> None:
        self._enter("target", logits, probs, classes, weights, predictions, tolerance)
        self._set(second=None if second is None else self._second_predictions(second))

    def _second_predictions(self, second: Any) -> IntArray:
        array = _door.as_array(second, "second model")
        if array.ndim != 2 or array.shape[1] == 1:
            return _door.as_labels(second, self.n, self.k, self.classes, "second model's predictions")
        scores, _ = _door.as_scores(second, "logits", "second model's", None)
        if scores.shape != self.scores.shape:
            raise InputError(
                f"second model: scores of shape {scores.shape} for a target of shape {self.scores.shape}; "
                "wanted the same rows and classes"
            )
        return _argmax(scores)

    def aligned(self, classes: tuple[Hashable, ...] | None, k: int) -> Target:
        """The same target with its columns in the source's order; refuses what cannot be matched."""
        if self.k != k:
            raise InputError(f"target: {self.k} classes, but the source has {k}; wanted the same columns")
        if classes is None or self.classes is None or self.classes == classes:
            return self
        here = {name: j for j, name in enumerate(self.classes)}
        for name in classes:
            if name not in here:
                hint = nearest(str(name), [str(c) for c in self.classes if c not in classes])
                raise InputError(f"target: no column for the source's class {name!r}{hint}")
        order = np.array([here[name] for name in classes], dtype=np.intp)
        place = np.argsort(order)
        twin = object.__new__(Target)
        twin._set(
            scores=_read_only(np.ascontiguousarray(self.scores[:, order])),
            kind=self.kind,
            classes=classes,
            weights=self.weights,
            predictions=place[self.predictions],
            second=None if self.second is None else place[self.second],
            correction=self.correction,
        )
        return twin


def _argmax(scores: FloatArray) -> IntArray:
    """The first largest score of every row."""
    out = np.empty(len(scores), dtype=np.intp)
    for rows in _door.chunks(*scores.shape):
        np.argmax(scores[rows], axis=1, out=out[rows])
    return out


def _read_only(array: FloatArray) -> FloatArray:
    view: FloatArray = array.view()
    view.flags.writeable = False
    return view


def check_sample(given: Any, wanted: type[Sample], verb: str) -> None:
    """Refuse what is not a `Source`, or not a `Target`."""
    if not isinstance(given, wanted):
        how = "logits=..., labels=..." if wanted is Source else "logits=..."
        raise InputError(f"{verb}: arrived {type(given).__name__}; wanted labelfree.{wanted.__name__}({how})")
