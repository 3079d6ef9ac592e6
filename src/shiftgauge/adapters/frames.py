"""DataFrames of any make, through the Arrow interface: pandas, polars, pyarrow, DuckDB and others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.adapters.scores import CollectedScores, index_ids
from shiftgauge.errors import InputError
from shiftgauge.io.batches import arrow_table
from shiftgauge.io.frames import WHERE, as_table
from shiftgauge.io.layout import binary_probabilities, score_columns
from shiftgauge.io.options import ReadOptions
from shiftgauge.io.values import check_column, collect_columns, parse_labels

#: How scores are named: a prefix of their columns, the columns themselves, or class -> column.
Columns = str | Sequence[str] | Mapping[Hashable, str | None]


def from_dataframe(
    frame: Any,
    *,
    probs: Columns | None = None,
    logits: Columns | None = None,
    labels: str | None = "label",
    weights: str | None = None,
    predictions: str | None = "prediction",
    second: str | None = None,
    ids: str | None = None,
) -> CollectedScores:
    """Read scores by column names; `.source()` and `.target()` of the result go on from there.

    Args:
        frame: anything with `__arrow_c_stream__` (pandas 2.2, polars, pyarrow, a DuckDB relation), or an
            older pandas frame.
        probs: which columns hold probabilities: a prefix (`"prob_"`; the rest of the name is the class), a
            list of columns (their names are the classes), or a mapping class -> column. Of two classes one
            may be None: it is one minus the other.
        logits: the same for logits. With neither, columns that begin with `prob_` or `logit_` are taken.
        labels: the column of true labels; a target needs none. The default is read where it is there.
        weights, ids: columns of row weights, and of row ids. Without ids, the index of a pandas frame is taken, unless
            it numbers the rows from 0.
        predictions: the column of deployed decisions, read where it is there; None to leave it out.
        second: for a target, the column of a second model's predictions.

    >>> import pyarrow as pa
    >>> frame = pa.table({"p_fraud": [0.9, 0.2], "truth": ["fraud", "fraud"]})
    >>> from_dataframe(frame, probs={"fine": None, "fraud": "p_fraud"}, labels="truth").source().error
    0.5
    """
    if probs is not None and logits is not None:
        raise InputError(f"{WHERE}: both probs= and logits= were given; wanted one: what are the scores?")
    table = as_table(frame)
    if table.num_rows == 0:
        raise InputError(f"{WHERE}: has no rows; wanted at least one")
    kind, columns = _columns(table, probs, logits)
    classes = tuple(columns)
    decisions = ReadOptions(prediction=predictions).prediction_column(
        table.column_names, WHERE, "predictions"
    )
    if labels == "label" and labels not in table.column_names:
        labels = None
    wanted = {"labels": labels, "predictions": decisions, "second": second, "ids": ids}
    texts = {
        word: check_column(name, table.column_names, WHERE)
        for word, name in wanted.items()
        if name is not None
    }
    if weights is not None:
        check_column(weights, table.column_names, WHERE)
    scores = [name for name in columns.values() if name is not None]
    matrix, mass, held = collect_columns(arrow_table(table, WHERE), scores, list(texts.values()), weights)
    given = {
        word: held[name] if word == "ids" else parse_labels(held[name], classes)
        for word, name in texts.items()
    }
    return CollectedScores(
        scores=_matrix(matrix, columns, kind),
        kind=kind,
        classes=classes,
        weights=mass,
        indexed=False,
        **{"ids": index_ids(frame, table.num_rows), **given},
    )


def frame_column(table: Any, name: str) -> npt.NDArray[Any]:
    """(n,) a column of an Arrow table that is not a score, as objects; None where it is empty."""
    check_column(name, table.column_names, WHERE)
    return collect_columns(arrow_table(table, WHERE), [], [name])[2][name]


def _columns(
    table: Any, probs: Columns | None, logits: Columns | None
) -> tuple[str, dict[Hashable, str | None]]:
    kind, said = ("logits", logits) if probs is None else ("probs", probs)
    if said is None:
        kind, names, classes = score_columns(table.column_names, ReadOptions(), WHERE)
        return kind, dict(zip(classes, names, strict=True))
    if isinstance(said, str):
        options = ReadOptions(kind=kind, logit_prefix=said, prob_prefix=said)
        _, names, classes = score_columns(table.column_names, options, WHERE)
        return kind, dict(zip(classes, names, strict=True))
    columns: dict[Hashable, str | None] = {}
    columns.update(said if isinstance(said, Mapping) else {name: name for name in said})
    for name in columns.values():
        if name is not None:
            check_column(name, table.column_names, WHERE)
    return kind, columns


def _matrix(found: npt.NDArray[Any], columns: dict[Hashable, str | None], kind: str) -> npt.NDArray[Any]:
    """(n, K) the columns that were found, and for a class without one, one minus the other."""
    if found.shape[1] == len(columns):
        return found
    if len(columns) != 2 or not found.shape[1] or kind != "probs":
        raise InputError(
            f"{WHERE}: a class without a column is one minus the other: two classes, probs= only"
        )
    first, second = columns.values()
    both = binary_probabilities(found, WHERE, column=str(first or second))
    return both if first is None else np.ascontiguousarray(both[:, ::-1])
