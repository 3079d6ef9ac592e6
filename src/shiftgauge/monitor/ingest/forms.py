"""A version's form: how many classes, what they are called, logits or probabilities."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

from shiftgauge.monitor.problems import invalid
from shiftgauge.monitor.store.schema import versions


@dataclass(frozen=True)
class Form:
    """What the rows of a version must look like; None where nobody has said yet."""

    k: int | None = None
    classes: tuple[str, ...] | None = None
    kind: str | None = None

    def fixed_by(self, kind: str, k: int, classes: tuple[str, ...] | None, version: str) -> Form:
        """The form after rows of this shape; refuses rows that contradict it."""
        if self.kind is not None and kind != self.kind:
            raise invalid(
                f"rows of {kind}, but earlier rows of version {version!r} are {self.kind}; wanted those"
            )
        if self.k is not None and k != self.k:
            raise invalid(
                f"rows of {k} classes, but version {version!r} has {self.k}; wanted one score per class"
            )
        names = self.classes
        if classes is not None and names is not None and set(classes) != set(names):
            odd = next(name for name in classes if name not in names)
            raise invalid(
                f"class {odd[:60]!r} is none of version {version!r}; it has {', '.join(names[:8])[:200]}"
            )
        if classes is not None and names is None and self.k is not None:
            raise invalid(
                f"the scores name classes, but version {version!r} numbers them; wanted plain lists"
            )
        return replace(self, kind=kind, k=k, classes=names or classes)

    def index_of(self, labels: list[str]) -> npt.NDArray[np.int32]:
        """(n,) class indices of labels given as texts; -1 where a label is no class."""
        if self.classes is not None:
            place = {name: j for j, name in enumerate(self.classes)}
            return np.array([place.get(text, -1) for text in labels], dtype=np.int32)
        k = self.k or 0
        return np.array([int(t) if t.isdecimal() and int(t) < k else -1 for t in labels], dtype=np.int32)

    def order(self, classes: tuple[str, ...] | None) -> npt.NDArray[np.intp] | None:
        """The columns in this form's order, or None where they are in it already."""
        if classes is None or self.classes is None or classes == self.classes:
            return None
        return np.array([classes.index(name) for name in self.classes], dtype=np.intp)


def form_of(row: Any) -> Form:
    """The form that a row of the table `versions` holds."""
    return Form(row.k, None if row.classes is None else tuple(json.loads(row.classes)), row.kind)


def forms(connection: Connection, model_id: int) -> dict[str, Form]:
    """The forms of a model's versions, by name."""
    found = connection.execute(select(versions).where(versions.c.model_id == model_id))
    return {row.name: form_of(row) for row in found}
