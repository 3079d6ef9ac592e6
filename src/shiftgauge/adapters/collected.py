"""The result of an adapter: scores and the columns collected with them, as a `Source` or a `Target`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.samples import Source, Target


@dataclass(frozen=True, repr=False, eq=False)
class Collected:
    """Scores as they came out of the model, one row per example in the order they came in.

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

    def source(
        self, *, classes: Sequence[Hashable] | None = None, kind: str | None = None, **options: Any
    ) -> Source:
        """The labelled scores as a `Source`; `kind` says anew what they are, `options` are the source's own."""
        if self.labels is None:
            raise InputError(
                "collected: no labels came with the scores, so this cannot be a source; wanted labels=, y, or "
                "batches of (inputs, labels); collect can be told where they are with unpack="
            )
        names = self._names(classes)
        labels = self._named(self.labels, names, "collected labels")
        return Source(labels=labels, **self._shared(names, kind, options))

    def target(
        self, *, classes: Sequence[Hashable] | None = None, kind: str | None = None, **options: Any
    ) -> Target:
        """The scores as a `Target`, as for `source`; labels, if there were any, are left behind."""
        names = self._names(classes)
        second = None if self.second is None else self._named(self.second, names, "collected second model")
        return Target(**{"second": second, **self._shared(names, kind, options)})

    def _shared(
        self, names: tuple[Hashable, ...] | None, kind: str | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        """The arguments of both; what is said now goes before what was collected."""
        kind = check_kind(kind or self.kind, "collected")
        if kind == "logits" and not options.get("insist"):
            self._refuse_probabilities()
        held = {"predictions": self.predictions, "weights": self.weights, "ids": self.ids}
        if "threshold" in options:
            del held["predictions"]
        return {kind: self.scores, "classes": names, **held, **options}

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
        return f"Collected({self.kind}, {n} rows x {k} classes, {labels})"


def check_kind(kind: str, where: str) -> str:
    """`"logits"` or `"probs"`: what a model returns."""
    if kind not in ("logits", "probs"):
        raise InputError(
            f"{where}: kind {kind!r} is not known; wanted 'logits' or 'probs': what the model returns"
        )
    return kind
