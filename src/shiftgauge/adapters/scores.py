"""The result of an adapter: scores and the columns collected with them, as a `Source` or a `Target`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.samples import RawScores, Source, Target


@dataclass(frozen=True, repr=False, eq=False)
class CollectedScores(RawScores):
    """Scores as they came out of the model, one row per example in the order they came in.

    Functions take it as it is: labelled scores as a source, others as a target.

    Attributes:
        scores: (n, K) numbers, in memory or memory-mapped.
        kind: `"logits"` or `"probs"`: what the model was said to return.
        labels: (n,) labels where there were any, else None.
        second: (n,) a second model's predictions, else None.
        classes: K names, or None.
        predictions: (n,) the deployed decisions, where they are known.
        weights: (n,) row weights, or None.
        ids: (n,) what each row is known by, or None.
        indexed: whether labels and a second model's predictions are column numbers, not names.
    """

    scores: npt.NDArray[Any]
    kind: str = "logits"
    labels: npt.NDArray[Any] | None = None
    second: npt.NDArray[Any] | None = None
    classes: tuple[Hashable, ...] | None = None
    predictions: npt.NDArray[Any] | None = None
    weights: npt.NDArray[Any] | None = None
    ids: npt.NDArray[Any] | None = None
    indexed: bool = True

    @property
    def labelled(self) -> bool:
        """Whether labels came with the scores."""
        return self.labels is not None

    def source(
        self,
        *,
        classes: Sequence[Hashable] | None = None,
        kind: str | None = None,
        weights: Any = None,
        predictions: Any = None,
        threshold: float | Mapping[Hashable, float] | None = None,
        ids: Any = None,
        tolerance: float | None = None,
        insist: bool = False,
        drop_unlabelled: bool = False,
    ) -> Source:
        """The labelled scores as a `Source`; `kind` says anew what they are, all else is as for `Source`."""
        if self.labels is None:
            raise InputError(
                "collected: no labels came with the scores, so this cannot be a source; wanted y= (from_sklearn), the "
                "column labels= (from_dataframe), or batches of (inputs, labels) (collect; unpack= says where they are)"
            )
        names = self._names(classes)
        return Source(
            labels=self._named(self.labels, names, "collected labels"),
            classes=names,
            threshold=threshold,
            tolerance=tolerance,
            insist=insist,
            drop_unlabelled=drop_unlabelled,
            **self._arguments(kind, insist, threshold, weights=weights, predictions=predictions, ids=ids),
        )

    def target(
        self,
        *,
        classes: Sequence[Hashable] | None = None,
        kind: str | None = None,
        weights: Any = None,
        predictions: Any = None,
        threshold: float | Mapping[Hashable, float] | None = None,
        second: Any = None,
        ids: Any = None,
        labels: Any = None,
        tolerance: float | None = None,
        insist: bool = False,
    ) -> Target:
        """The scores as a `Target`, as for `source`; labels that were collected are left behind."""
        names = self._names(classes)
        if second is None and self.second is not None:
            second = self._named(self.second, names, "collected second model")
        return Target(
            second=second,
            labels=labels,
            classes=names,
            threshold=threshold,
            tolerance=tolerance,
            insist=insist,
            **self._arguments(kind, insist, threshold, weights=weights, predictions=predictions, ids=ids),
        )

    def _arguments(self, kind: str | None, insist: bool, threshold: Any, **given: Any) -> dict[str, Any]:
        """The scores, and what was collected with them where nothing else is given."""
        kind = check_kind(kind or self.kind, "collected")
        if kind == "logits" and not insist:
            self._refuse_probabilities()
        for name in given:
            if given[name] is None and not (name == "predictions" and threshold is not None):
                given[name] = getattr(self, name)
        return {kind: self.scores, **given}

    def _refuse_probabilities(self) -> None:
        """The scores of a model that ends in softmax, before validation names arguments that no adapter takes."""
        parts = [self.scores[rows] for rows in validation.chunks(*self.scores.shape)]
        if parts and all(map(validation.like_probabilities, parts)):
            raise InputError(
                "collected: every row is 0 or more and sums to 1, as probabilities do (does the model end in "
                "softmax?); wanted .source(kind='probs') and .target(kind='probs'), or insist=True there if they are "
                "logits all the same"
            )

    def _named(self, values: Any, names: tuple[Hashable, ...] | None, what: str) -> Any:
        """Column numbers as names, where there are names: validation would take 1 for a class called "1"."""
        if names is None or not self.indexed:
            return values
        n, k = self.scores.shape
        return np.array(names, dtype=object)[validation.check_labels(values, n, k, None, what)]

    def _names(self, classes: Sequence[Hashable] | None) -> tuple[Hashable, ...] | None:
        chosen = self.classes if classes is None else classes
        return validation.check_classes(chosen, int(self.scores.shape[1]), "collected")

    def __repr__(self) -> str:
        n, k = self.scores.shape
        labels = "no labels" if self.labels is None else "labels"
        return f"CollectedScores({self.kind}, {n} rows x {k} classes, {labels})"


def index_ids(frame: Any, n: int) -> npt.NDArray[Any] | None:
    """(n,) the row ids of a pandas frame or series: its index, unless it numbers the rows from 0 or repeats."""
    index = getattr(frame, "index", None)
    if (
        index is None
        or not hasattr(index, "is_unique")
        or len(index) != n
        or getattr(index, "nlevels", 1) > 1
    ):
        return None
    ids = np.asarray(index)
    counted = ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(n))
    return None if counted or not index.is_unique else ids


def check_kind(kind: str, where: str) -> str:
    """`"logits"` or `"probs"`: what a model returns."""
    if kind not in ("logits", "probs"):
        raise InputError(
            f"{where}: kind {kind!r} is not known; wanted 'logits' or 'probs': what the model returns"
        )
    return kind
