"""Which columns of a table hold what, and how its rows become a `Block`: the same for every format."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError, format_names
from shiftgauge.io.batches import TableBatch
from shiftgauge.io.options import ReadOptions, check_spelling
from shiftgauge.io.values import check_column, encode_column, numeric_column, parse_labels
from shiftgauge.rows import LABELS, Block, renumbered, row_location
from shiftgauge.times import bin_times, split_bin
from shiftgauge.validation.labels import are_indices, is_missing

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]
#: Approximate scores per batch, and the least rows of one: decoding few rows of many columns is slow.
BATCH_SCORES, BATCH_ROWS = 1 << 19, 1 << 11


@dataclass(frozen=True)
class Layout:
    """Which columns of a table hold what; every part has its layout.

    Attributes:
        kind: `"logits"` or `"probs"`.
        scores: the score columns, in the order of the classes.
        classes: the class names; two, if the single score column is the probability of the second.
        dtype: the dtype of the scores, at the highest precision of all files.
        names: all columns; any of them may be requested.
        prediction, weight, second, id, label: the columns that hold these, or None.
        drop: whether rows without a label are allowed.
        threshold: as in `ReadOptions`.
        zone: the time zone of bins of times.
        batch_rows: rows per block, chosen once so that all workers sum the same blocks.
    """

    kind: str
    scores: tuple[str, ...]
    classes: tuple[Hashable, ...] | None
    dtype: str
    names: tuple[str, ...]
    prediction: str | None = None
    weight: str | None = None
    second: str | None = None
    id: str | None = None
    label: str | None = None
    drop: bool = False
    threshold: float | Mapping[Hashable, float] | None = None
    zone: str | None = None
    batch_rows: int = 0

    def __post_init__(self) -> None:
        if not self.batch_rows:
            object.__setattr__(self, "batch_rows", max(BATCH_ROWS, BATCH_SCORES // self.k))

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(self.scores if self.classes is None else self.classes)

    def columns_to_read(self, columns: Sequence[str] = ()) -> list[str]:
        """The columns of the table to read for a block with these additional columns."""
        own = (self.prediction, self.weight, self.second, self.id)
        others = [self._column(name) for name in columns]
        return list(dict.fromkeys([*self.scores, *(n for n in own if n is not None), *others]))

    def _column(self, name: str) -> str:
        """The column of the table for a requested one."""
        if name == LABELS:
            assert self.label is not None  # checked before a source is read
            return self.label
        return check_column(split_bin(name, self.names)[0], self.names, "target")

    def blocks(self, batches: Iterable[TableBatch], columns: Sequence[str] = ()) -> Iterator[Block]:
        """The blocks of several batches."""
        return (self.block(batch, columns) for batch in batches)

    def block(self, batch: TableBatch, columns: Sequence[str] = ()) -> Block:
        """The rows of a batch; an error names the file and the row's number in it."""
        scores = self._matrix(batch)
        if len(self.scores) < self.k:
            scores = binary_probabilities(scores, batch.where, batch.first)
        with row_location(batch.where, batch.first):
            decisions = (
                self.decide(scores) if self.prediction is None else self._predictions(batch, self.prediction)
            )
            return Block(
                scores,
                batch.where,
                batch.first,
                decisions=decisions,
                weights=None
                if self.weight is None
                else numeric_column(batch, self.weight).astype(np.float64),
                second=None
                if self.second is None
                else self._predictions(batch, self.second, "second model's "),
                ids=None if self.id is None else _ids(batch.batch.column(self.id)),
                labels=self._labels(batch) if LABELS in columns else None,
                columns={name: self._other(batch, name) for name in columns if name != LABELS},
            )

    def _matrix(self, batch: TableBatch) -> Array:
        """(b, K) the scores in C order, copied once, in their stored precision."""
        columns = [numeric_column(batch, name) for name in self.scores]
        dtype = np.result_type(self.dtype, *{_floating(column.dtype) for column in columns})
        matrix = np.empty((batch.batch.num_rows, len(columns)), dtype)
        for j, column in enumerate(columns):
            matrix[:, j] = column
        return matrix

    def decide(self, scores: Array) -> Indices | None:
        """(b,) the predictions by the threshold, if there is one."""
        if self.threshold is None:
            return None
        return validation.above_threshold(scores, self.kind, self.classes, self.threshold, "target")

    def _predictions(self, batch: TableBatch, name: str, whose: str = "") -> Indices:
        """(b,) class numbers of a column of predictions."""
        try:
            return self._class_numbers(*_distinct_values(batch, name), f"{whose}predictions")
        except InputError as problem:
            raise InputError(f"{problem}; --prediction-column '' leaves them out") from None

    def _labels(self, batch: TableBatch) -> Indices:
        """(b,) the labels in the encoding of a `Block` while a source is read."""
        assert self.label is not None
        values, place = _distinct_values(batch, self.label)
        labelled = np.array([not (self.drop and is_missing(v)) for v in values], np.bool_)
        out = np.full(len(place), -1, np.intp)
        rows = np.flatnonzero(labelled[place])
        if len(rows):
            values, place = values[labelled], (np.cumsum(labelled) - 1)[place[rows]]
            try:
                out[rows] = self._class_numbers(values, place, "source labels")
            except InputError as problem:
                raise InputError(renumbered(str(problem), lambda row: int(rows[row]))) from None
            if self.classes is not None and are_indices(
                parse_labels(values, self.classes).tolist(), self.classes
            ):
                out[rows] += self.k
        return out

    def _class_numbers(self, values: npt.NDArray[np.object_], place: Indices, what: str) -> Indices:
        """(b,) class numbers; distinct values are looked up once, all rows only to find the row of an error."""
        try:
            indices = validation.check_labels(
                parse_labels(values, self.classes), len(values), self.k, self.classes, what
            )
        except InputError:
            rows = parse_labels(values[place], self.classes)
            return validation.check_labels(rows, len(rows), self.k, self.classes, what)
        return np.asarray(indices[place], dtype=np.intp)

    def _other(self, batch: TableBatch, name: str) -> Array:
        """(b,) a column as stored, or the bins of its times."""
        column, width = split_bin(name, self.names)
        values, codes = encode_column(batch.batch.column(column))
        if width is None:
            return np.asarray(_objects(values)[codes])
        return bin_times(_objects(values)[codes], width, f"{column!r}", self.zone)


def _distinct_values(batch: TableBatch, name: str) -> tuple[npt.NDArray[np.object_], Indices]:
    """The distinct values of a column, and (b,) which of them each row holds."""
    values, codes = encode_column(batch.batch.column(name))
    used, place = np.unique(codes, return_inverse=True)
    return _objects([values[u] for u in used]), place


def _ids(column: Any) -> Array:
    """(b,) the row ids: integers and texts as numpy arrays, anything else as objects."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values, codes = encode_column(column)
    return np.asarray(_objects(values)[codes])


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def _floating(dtype: Any) -> np.dtype[Any]:
    """The floating dtype of a column: floats as stored, anything else as float64."""
    dtype = np.dtype(dtype)
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def stored_dtype(schemas: Iterable[Any], columns: Sequence[str]) -> str:
    """The floating dtype that represents the columns of all these Arrow schemas exactly."""
    import pyarrow as pa

    types = {schema.field(name).type for schema in schemas for name in columns}
    dtypes = {t.to_pandas_dtype() if pa.types.is_floating(t) else np.float64 for t in types}
    return str(np.result_type(*(dtypes or {np.float64})))


def table_layout(
    names: tuple[str, ...],
    schemas: Sequence[Any],
    options: ReadOptions,
    where: object,
    second: str | None = None,
    zone: str | None = None,
    more: Mapping[str, str] | None = None,
) -> Layout:
    """The layout of a table, by the names of its columns.

    Args:
        names: the columns.
        schemas: the Arrow schemas of its files; none if numbers are read as float64.
        options: how to read it.
        where: the table's name in messages.
        second: the column of a second model's predictions.
        zone: the time zone of bins of times.
        more: columns that only later files have, with the first file that has each.
    """
    one_column = options.positive is not None or options.negative is not None
    find = _two_classes if one_column else score_columns
    kind, chosen, classes = find(names, options, where)
    check_no_new_classes(more or {}, options)
    prediction = options.prediction_column(names, where)
    for name in (options.weight, prediction, options.id, second):
        if name is not None:
            check_column(name, names, where)
    if options.label == ReadOptions.label and options.label not in names:  # not a name that the user chose
        check_spelling(names, [options.label], where, "column", "--label-column")
    return Layout(
        kind,
        tuple(chosen),
        classes,
        stored_dtype(schemas, chosen),
        names,
        prediction=prediction,
        weight=options.weight,
        second=second,
        id=options.id,
        label=options.label if options.label in names else None,
        drop=options.drop_unlabelled,
        threshold=options.threshold,
        zone=zone,
    )


def score_columns(
    names: Sequence[str], options: ReadOptions, path: object
) -> tuple[str, list[str], tuple[str, ...]]:
    """The kind of the scores, their columns and their classes, by the prefixes of the columns."""
    prefixes = {"logits": options.logit_prefix, "probs": options.prob_prefix}
    special = {options.label, options.weight, options.prediction, options.id}
    columns = {
        kind: [name for name in names if name.startswith(prefix) and name not in special]
        for kind, prefix in prefixes.items()
    }
    kinds = [kind for kind, names_of_kind in columns.items() if names_of_kind]
    if not kinds:
        others = [name for name in names if name not in special]
        hint = (
            f"; rename them {options.prob_prefix}NAME or {options.logit_prefix}NAME, one per class, or name their "
            "prefix with --prob-prefix or --logit-prefix"
        )
        if "prob" in names:
            hint = "; for two classes with one column of probabilities pass --positive NAME --negative NAME"
        elif len(others) == 1:
            hint = (
                f"; for two classes name {others[0]!r} 'prob' and pass --positive NAME --negative NAME, or write one "
                f"column per class: {options.prob_prefix}NAME"
            )
        raise FileError(
            f"{path}: no columns begin with {options.logit_prefix!r} or {options.prob_prefix!r} "
            f"(found {format_names(names)}){hint}"
        )
    kind = options.choose_kind(kinds, path)
    chosen = columns[kind]
    return kind, chosen, tuple(name[len(prefixes[kind]) :] for name in chosen)


def check_no_new_classes(more: Mapping[str, str], options: ReadOptions) -> None:
    """Files may have additional columns, but not scores of an additional class."""
    for name, file in more.items():
        if name.startswith((options.logit_prefix, options.prob_prefix)):
            raise FileError(
                f"{file}: has a column {name!r}, which the first file lacks; wanted the same classes"
            )


def _two_classes(
    names: Sequence[str], options: ReadOptions, path: object
) -> tuple[str, list[str], tuple[str, ...]]:
    """The same for two classes, of which one column holds the probability of the second."""
    if options.positive is None or options.negative is None:
        raise FileError(f"{path}: with one column of probabilities both --positive and --negative are needed")
    if options.kind == "logits":
        raise FileError(
            f"{path}: --positive and --negative go with one column 'prob' of probabilities, not --logits"
        )
    return "probs", [check_column("prob", names, path)], (options.negative, options.positive)


def binary_probabilities(
    matrix: npt.NDArray[Any], path: object, first: int = 0, column: str = "prob"
) -> npt.NDArray[Any]:
    """(n, 2) probabilities of two classes from (n, 1) of the second; `first` is the number of the first row."""
    p = matrix[:, 0]
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise FileError(
            f"{path}: column {column!r}, row {first + row} is {p[row]:g}; wanted probabilities from 0 to 1"
        )
    return np.column_stack([1.0 - p, p])
