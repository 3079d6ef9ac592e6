"""DataFrames of any make, through the Arrow interface: pandas, polars, pyarrow, DuckDB and others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError
from labelfree.io.form import Form
from labelfree.io.tables import column_named, numbers, score_columns, stored, texts
from labelfree.types import Source, Target

WHERE = "the frame"
#: How scores are named: a prefix of their columns, the columns themselves, or class -> column.
Columns = str | Sequence[str] | Mapping[Hashable, str | None]


def from_dataframe(
    frame: Any,
    *,
    probs: Columns | None = None,
    logits: Columns | None = None,
    labels: str | None = None,
    weights: str | None = None,
    predictions: str | None = None,
    second: str | None = None,
    tolerance: float | None = None,
) -> Source | Target:
    """Read scores by column names: a `Source` if a label column is named, a `Target` if none is.

    Args:
        frame: anything with `__arrow_c_stream__` (pandas 2.2, polars, pyarrow, a DuckDB relation), or an
            older pandas frame.
        probs: which columns hold probabilities: a prefix (`"prob_"`; the rest of the name is the class), a
            list of columns (their names are the classes), or a mapping class -> column. Of two classes one
            may be None: it is one minus the other.
        logits: the same for logits. With neither, columns that begin with `prob_` or `logit_` are taken.
        labels: the column of true labels.
        weights, predictions: columns of row weights and of deployed decisions.
        second: for a target, the column of a second model's predictions.
        tolerance: as for `Source`.

    >>> import pyarrow as pa
    >>> frame = pa.table({"p_fraud": [0.9, 0.2], "truth": ["fraud", "fraud"]})
    >>> from_dataframe(frame, probs={"fine": None, "fraud": "p_fraud"}, labels="truth").error
    0.5
    """
    if probs is not None and logits is not None:
        raise InputError(f"{WHERE}: both probs= and logits= were given; wanted one: what are the scores?")
    table = as_table(frame)
    if table.num_rows == 0:
        raise InputError(f"{WHERE}: has no rows; wanted at least one")
    kind, columns = _columns(table, probs, logits)
    classes = tuple(columns)
    given: dict[str, Any] = {
        kind: _matrix(table, columns, kind),
        "classes": classes,
        "tolerance": tolerance,
        "weights": None if weights is None else numbers(table, column_named(table, weights, WHERE), WHERE),
        "predictions": _names(table, predictions, classes),
    }
    if labels is None:
        return Target(second=_names(table, second, classes), **given)
    if second is not None:
        raise InputError(f"{WHERE}: second= is for a target, and labels= makes a source; leave one out")
    return Source(labels=_names(table, labels, classes), **given)


def as_table(frame: Any) -> Any:
    """The frame as a pyarrow table, without copying where its memory is Arrow already."""
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            return frame
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
        if hasattr(frame, "with_format"):  # a Hugging Face data set
            return frame.with_format("arrow")[:]
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        text = str(problem).strip().splitlines()[0][:160].rstrip(".")
        raise InputError(
            f"{WHERE}: a {type(frame).__name__} cannot be read through the Arrow interface ({text}); "
            "wanted a pandas, polars or pyarrow frame, or a DuckDB relation"
        ) from None


def _columns(
    table: Any, probs: Columns | None, logits: Columns | None
) -> tuple[str, dict[Hashable, str | None]]:
    kind, said = ("logits", logits) if probs is None else ("probs", probs)
    if said is None:
        kind, names, classes = score_columns(table.column_names, Form(), WHERE)
        return kind, dict(zip(classes, names, strict=True))
    if isinstance(said, str):
        form = Form(kind=kind, logit_prefix=said, prob_prefix=said)
        _, names, classes = score_columns(table.column_names, form, WHERE)
        return kind, dict(zip(classes, names, strict=True))
    columns: dict[Hashable, str | None] = {}
    columns.update(said if isinstance(said, Mapping) else {name: name for name in said})
    for name in columns.values():
        if name is not None:
            column_named(table, name, WHERE)
    return kind, columns


def _matrix(table: Any, columns: dict[Hashable, str | None], kind: str) -> npt.NDArray[Any]:
    found = {c: numbers(table, name, WHERE) for c, name in columns.items() if name is not None}
    if len(found) < len(columns):
        if len(columns) != 2 or not found or kind != "probs":
            raise InputError(
                f"{WHERE}: a class without a column is one minus the other: two classes, probs= only"
            )
        (p,) = found.values()
        outside = ~((p >= 0) & (p <= 1))
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(f"{WHERE}: row {row} is {p[row]:g}; wanted probabilities from 0 to 1")
        return np.column_stack([found.get(c, 1.0 - p) for c in columns])
    return np.column_stack(list(found.values()))


def _names(table: Any, column: str | None, classes: tuple[Hashable, ...]) -> npt.NDArray[Any] | None:
    """A column of class names: as text where all classes are texts, as stored where they are not."""
    if column is None:
        return None
    name = column_named(table, column, WHERE)
    return texts(table, name) if all(isinstance(c, str) for c in classes) else stored(table, name)
