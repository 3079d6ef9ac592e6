"""What a pass of a model over a loader leaves: scores, labels where there were any, a second model's word."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.errors import InputError
from labelfree.types import Source, Target


@dataclass(frozen=True, repr=False, eq=False)
class Collected:
    """Scores as they came out of the model, one row per example in the loader's order.

    Attributes:
        scores: (n, K) float32, in memory or memory-mapped.
        kind: `"logits"` or `"probs"`: what the model was said to return.
        labels: (n,) class indices where the loader had labels, else None.
        second: (n,) a second model's predictions, else None.
        classes: K names, or None.
    """

    scores: npt.NDArray[np.float32]
    kind: str = "logits"
    labels: npt.NDArray[Any] | None = None
    second: npt.NDArray[np.intp] | None = None
    classes: tuple[Hashable, ...] | None = None

    def source(self, *, classes: Sequence[Hashable] | None = None, **options: Any) -> Source:
        """The labelled scores as a `Source`; `options` are the source's own (`weights=`, `predictions=`)."""
        if self.labels is None:
            raise InputError(
                "collected: the loader had no labels, so this cannot be a source; "
                "wanted batches of (inputs, labels), or say where they are with unpack="
            )
        names = self._names(classes)
        n, k = self.scores.shape
        labels = _door.as_labels(self.labels, n, k, None, "collected labels")
        named = labels if names is None else np.array(names, dtype=object)[labels]
        scores: dict[str, Any] = {self.kind: self.scores}
        return Source(labels=named, classes=names, **scores, **options)

    def target(self, *, classes: Sequence[Hashable] | None = None, **options: Any) -> Target:
        """The scores as a `Target`; labels, if there were any, are left behind."""
        names = self._names(classes)
        second = self.second
        named = None if second is None else second if names is None else np.array(names, dtype=object)[second]
        scores: dict[str, Any] = {self.kind: self.scores}
        return Target(classes=names, second=named, **scores, **options)

    def _names(self, classes: Sequence[Hashable] | None) -> tuple[Hashable, ...] | None:
        chosen = self.classes if classes is None else classes
        return _door.as_classes(chosen, int(self.scores.shape[1]), "collected")

    def __repr__(self) -> str:
        n, k = self.scores.shape
        labels = "no labels" if self.labels is None else "labels"
        return f"Collected({self.kind}, {n} rows x {k} classes, {labels})"
