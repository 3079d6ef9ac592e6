"""Which columns of a table hold what, and how its rows become a `Block`: the same for every form."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError
from shiftgauge.io.batches import TableBatch
from shiftgauge.io.form import Form, refuse_misspelt
from shiftgauge.io.values import coded, known, labels_in, numbers_of, shown
from shiftgauge.rows import LABELS, Block, renumbered, row_location
from shiftgauge.times import bin_times, split_bin
from shiftgauge.validation.labels import are_indices, is_missing

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]
#: About how many scores are decoded at a time, and how many rows at least: decoding few rows of many columns is slow.
BATCH_SCORES, BATCH_ROWS = 1 << 19, 1 << 11


@dataclass(frozen=True)
class Layout:
    """What the columns of a table hold; every part carries it.

    Attributes:
        kind: `"logits"` or `"probs"`.
        scores: the columns of scores, in the order of the classes.
        classes: the names of the classes; one more than `scores` if one column stands for two.
        dtype: what the scores are stored as, at the highest precision of all files.
        names: all columns; any of them may be asked for.
        prediction, weight, second, id, label: the columns that hold these, or None.
        drop: whether rows may be without a label.
        threshold: as in `Form`.
        zone: the time zone that binned times are counted in.
        batch_rows: how many rows a block has: decided once, so that every worker sums the same blocks.
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
        """The columns of the table that a block with these further columns is made of."""
        own = (self.prediction, self.weight, self.second, self.id)
        asked = [self._column(name) for name in columns]
        return list(dict.fromkeys([*self.scores, *(n for n in own if n is not None), *asked]))

    def _column(self, asked: str) -> str:
        """The column that is read for one that is asked for."""
        if asked == LABELS:
            assert self.label is not None  # whoever reads a source has looked
            return self.label
        return known(split_bin(asked, self.names)[0], self.names, "target")

    def blocks(self, batches: Iterable[TableBatch], columns: Sequence[str] = ()) -> Iterator[Block]:
        """The blocks of several batches."""
        return (self.block(batch, columns) for batch in batches)

    def block(self, batch: TableBatch, columns: Sequence[str] = ()) -> Block:
        """The rows of a batch; an error names the file and the row's number in it."""
        scores = self._matrix(batch)
        if len(self.scores) < self.k:
            scores = both_columns(scores, batch.where, batch.first)
        with row_location(batch.where, batch.first):
            decisions = (
                self.decide(scores) if self.prediction is None else self._predictions(batch, self.prediction)
            )
            return Block(
                scores,
                batch.where,
                batch.first,
                decisions=decisions,
                weights=None if self.weight is None else numbers_of(batch, self.weight).astype(np.float64),
                second=None
                if self.second is None
                else self._predictions(batch, self.second, "second model's "),
                ids=None if self.id is None else _ids(batch.batch.column(self.id)),
                labels=self._labels(batch) if LABELS in columns else None,
                columns={name: self._other(batch, name) for name in columns if name != LABELS},
            )

    def _matrix(self, batch: TableBatch) -> Array:
        """(b, K) the scores in C order, copied once, at the precision they are stored in."""
        columns = [numbers_of(batch, name) for name in self.scores]
        dtype = np.result_type(self.dtype, *{_floating(column.dtype) for column in columns})
        matrix = np.empty((batch.batch.num_rows, len(columns)), dtype)
        for j, column in enumerate(columns):
            matrix[:, j] = column
        return matrix

    def decide(self, scores: Array) -> Indices | None:
        """(b,) what the threshold decides, if there is one."""
        if self.threshold is None:
            return None
        return validation.above_threshold(scores, self.kind, self.classes, self.threshold, "target")

    def _predictions(self, batch: TableBatch, name: str, whose: str = "") -> Indices:
        """(b,) class numbers of a column of predictions."""
        try:
            return self._class_numbers(*_distinct(batch, name), f"{whose}predictions")
        except InputError as problem:
            raise InputError(f"{problem}; --prediction-column '' leaves them out") from None

    def _labels(self, batch: TableBatch) -> Indices:
        """(b,) the labels, as a `Block` has them while a source is read."""
        assert self.label is not None
        values, place = _distinct(batch, self.label)
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
                labels_in(values, self.classes).tolist(), self.classes
            ):
                out[rows] += self.k
        return out

    def _class_numbers(self, values: npt.NDArray[np.object_], place: Indices, what: str) -> Indices:
        """(b,) class numbers; each distinct value is looked up once, all rows only to name a wrong one."""
        try:
            found = validation.check_labels(
                labels_in(values, self.classes), len(values), self.k, self.classes, what
            )
        except InputError:
            rows = labels_in(values[place], self.classes)
            return validation.check_labels(rows, len(rows), self.k, self.classes, what)
        return np.asarray(found[place], dtype=np.intp)

    def _other(self, batch: TableBatch, name: str) -> Array:
        """(b,) a column to the letter, or the bins of its times."""
        column, width = split_bin(name, self.names)
        values, codes = coded(batch.batch.column(column))
        if width is None:
            return np.asarray(_objects(values)[codes])
        return bin_times(_objects(values)[codes], width, f"{column!r}", self.zone)


def _distinct(batch: TableBatch, name: str) -> tuple[npt.NDArray[np.object_], Indices]:
    """The distinct values of a column, and (b,) which of them each row holds."""
    values, codes = coded(batch.batch.column(name))
    used, place = np.unique(codes, return_inverse=True)
    return _objects([values[u] for u in used]), place


def _ids(column: Any) -> Array:
    """(b,) the rows' ids: whole numbers and texts as numpy has them, anything else to the letter."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values, codes = coded(column)
    return np.asarray(_objects(values)[codes])


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def _floating(dtype: Any) -> np.dtype[Any]:
    """The dtype that numbers are held in: floats as they are, anything else as float64."""
    dtype = np.dtype(dtype)
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def stored_dtype(schemas: Iterable[Any], columns: Sequence[str]) -> str:
    """The floating dtype that holds the columns of all these Arrow schemas exactly."""
    import pyarrow as pa

    types = {schema.field(name).type for schema in schemas for name in columns}
    dtypes = {t.to_pandas_dtype() if pa.types.is_floating(t) else np.float64 for t in types}
    return str(np.result_type(*(dtypes or {np.float64})))


def table_layout(
    names: tuple[str, ...],
    schemas: Sequence[Any],
    form: Form,
    where: object,
    second: str | None = None,
    zone: str | None = None,
    more: Mapping[str, str] | None = None,
) -> Layout:
    """The layout of a table, by the names of its columns.

    Args:
        names: the columns.
        schemas: the Arrow schemas of its files; none if numbers are read as float64.
        form: what the columns do not say by themselves.
        where: the table's name in messages.
        second: the column of a second model's predictions.
        zone: the time zone that binned times are counted in.
        more: columns that only later files have, with the first file that has each.
    """
    kind, chosen, classes = scores_in(names, form, where)
    refuse_more_classes(more or {}, form)
    decision = form.wanted_prediction(names, where)
    for name in (form.weight, decision, form.id, second):
        if name is not None:
            known(name, names, where)
    if form.label not in names and form.label == Form.label:  # a name that was asked for is not misspelt
        refuse_misspelt(names, [form.label], where, "column", "--label-column")
    return Layout(
        kind,
        tuple(chosen),
        classes,
        stored_dtype(schemas, chosen),
        names,
        prediction=decision,
        weight=form.weight,
        second=second,
        id=form.id,
        label=form.label if form.label in names else None,
        drop=form.drop_unlabelled,
        threshold=form.threshold,
        zone=zone,
    )


def scores_in(names: Sequence[str], form: Form, path: object) -> tuple[str, list[str], tuple[str, ...]]:
    """What the scores are, their columns and their classes: of two classes one column may stand for both."""
    two = form.positive is not None or form.negative is not None
    return _two_classes(form, path, names) if two else score_columns(names, form, path)


def score_columns(names: Sequence[str], form: Form, path: object) -> tuple[str, list[str], tuple[str, ...]]:
    """Which columns hold the scores: logits or probabilities, the columns, and their classes."""
    prefixes = {"logits": form.logit_prefix, "probs": form.prob_prefix}
    special = {form.label, form.weight, form.prediction, form.id}
    columns = {
        kind: [name for name in names if name.startswith(prefix) and name not in special]
        for kind, prefix in prefixes.items()
    }
    held = [kind for kind, found in columns.items() if found]
    if not held:
        hint = (
            "; for two classes with one column of probabilities pass --positive NAME --negative NAME"
            if "prob" in names
            else "; name the prefix with --logit-prefix or --prob-prefix"
        )
        raise FileError(
            f"{path}: no columns begin with {form.logit_prefix!r} or {form.prob_prefix!r} "
            f"(found {shown(names)}){hint}"
        )
    kind = form.choose(held, path)
    chosen = columns[kind]
    return kind, chosen, tuple(name[len(prefixes[kind]) :] for name in chosen)


def refuse_more_classes(more: Mapping[str, str], form: Form) -> None:
    """A column that only a later part has may come and go, unless it is one class more."""
    for name, file in more.items():
        if name.startswith((form.logit_prefix, form.prob_prefix)):
            raise FileError(
                f"{file}: has a column {name!r}, which the first part has not; wanted the same classes"
            )


def _two_classes(form: Form, path: object, names: Sequence[str]) -> tuple[str, list[str], tuple[str, ...]]:
    if form.positive is None or form.negative is None:
        raise FileError(f"{path}: with one column of probabilities both --positive and --negative are needed")
    if form.kind == "logits":
        raise FileError(
            f"{path}: --positive and --negative go with one column 'prob' of probabilities, not --logits"
        )
    return "probs", [known("prob", names, path)], (form.negative, form.positive)


def both_columns(matrix: npt.NDArray[Any], path: object, first: int = 0) -> npt.NDArray[Any]:
    """(n, 2) probabilities of two classes, from (n, 1) of the second; `first` is the first row's number."""
    p = matrix[:, 0]
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise FileError(
            f"{path}: column 'prob', row {first + row} is {p[row]:g}; wanted probabilities from 0 to 1"
        )
    return np.column_stack([1.0 - p, p])
