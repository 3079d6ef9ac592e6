"""Which columns hold what, and how rows of a table become a `Chunk`: the same for every origin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge._labels import are_indices, is_missing
from shiftgauge._times import bin_times, split_bin
from shiftgauge.errors import InputError
from shiftgauge.io.blocks import Block
from shiftgauge.io.form import Form
from shiftgauge.io.tables import both_columns, scores_in
from shiftgauge.io.values import coded, known, labels_in, numbers_of
from shiftgauge.scans import LABELS, Chunk, rows_of
from shiftgauge.scans.visits import renumbered

Array = npt.NDArray[Any]
#: About how many scores are decoded in one go, and how many rows at least: a short batch of many columns costs more
#: than its numbers.
BATCH_SCORES, BATCH_ROWS = 1 << 19, 1 << 11


@dataclass(frozen=True)
class Layout:
    """What the columns of a table hold; it travels with the parts.

    Attributes:
        kind: `"logits"` or `"probs"`.
        scores: the columns of scores, in the order of the classes.
        classes: the names of the classes; one more than `scores` where one column stands for two.
        dtype: what the scores are stored as, at the highest precision of all files.
        names: all columns, of which some may be asked for.
        prediction, weight, second, id, label: the columns that hold these, or None.
        drop: whether rows may be without a label.
        threshold: as in `Form`.
        zone: the time zone that binned times are counted in.
        batch_rows: how many rows are read in one go: decided once, so that every worker sums the same chunks.
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

    def reads(self, columns: Sequence[str] = ()) -> list[str]:
        """The columns of the table that a chunk is made of."""
        own = (self.prediction, self.weight, self.second, self.id)
        asked = [self._column(name) for name in columns]
        return list(dict.fromkeys([*self.scores, *(n for n in own if n is not None), *asked]))

    def _column(self, asked: str) -> str:
        """The column that is read for one that is asked for."""
        if asked == LABELS:
            assert self.label is not None  # `Scan.source` has looked
            return self.label
        return known(split_bin(asked, self.names)[0], self.names, "target")

    def chunk(self, block: Block, columns: Sequence[str] = ()) -> Chunk:
        """The rows of a block; what is wrong with one is said with its file and number there."""
        scores = self._matrix(block)
        if len(self.scores) < self.k:
            scores = both_columns(scores, block.where, block.first)
        with rows_of(block.where, block.first):
            weights = None if self.weight is None else numbers_of(block, self.weight).astype(np.float64)
            return Chunk(
                scores,
                block.where,
                block.first,
                predictions=self._decisions(block, scores),
                weights=weights,
                second=None if self.second is None else self._decided(block, self.second, "second model's "),
                ids=None if self.id is None else _plain(block.batch.column(self.id)),
                labels=self._truth(block) if LABELS in columns else None,
                columns={name: self._other(block, name) for name in columns if name != LABELS},
            )

    def chunks(self, blocks: Iterable[Block], columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """The chunks of several blocks."""
        return (self.chunk(block, columns) for block in blocks)

    def _matrix(self, block: Block) -> Array:
        """(b, K) the scores in C order, copied once, at the precision they are stored in."""
        columns = [numbers_of(block, name) for name in self.scores]
        dtype = np.result_type(self.dtype, *{_floating(column.dtype) for column in columns})
        matrix = np.empty((block.batch.num_rows, len(columns)), dtype)
        for j, column in enumerate(columns):
            matrix[:, j] = column
        return matrix

    def _decisions(self, block: Block, scores: Array) -> npt.NDArray[np.intp] | None:
        if self.prediction is not None:
            return self._decided(block, self.prediction)
        return self.decided(scores)

    def decided(self, scores: Array) -> npt.NDArray[np.intp] | None:
        """(b,) what the threshold decides, if there is one."""
        if self.threshold is None:
            return None
        return validation.above_threshold(scores, self.kind, self.classes, self.threshold, "target")

    def _decided(self, block: Block, name: str, whose: str = "") -> npt.NDArray[np.intp]:
        """(b,) class numbers of a column of decisions."""
        try:
            return self._looked_up(*_distinct(block, name), f"{whose}predictions")
        except InputError as problem:
            raise InputError(f"{problem}; --prediction-column '' leaves them out") from None

    def _truth(self, block: Block) -> npt.NDArray[np.intp]:
        """(b,) the labels, as `Chunk` has them."""
        assert self.label is not None
        values, place = _distinct(block, self.label)
        there = np.array([not (self.drop and is_missing(v)) for v in values], np.bool_)
        out = np.full(len(place), -1, np.intp)
        rows = np.flatnonzero(there[place])
        if len(rows):
            values, place = values[there], (np.cumsum(there) - 1)[place[rows]]
            try:
                out[rows] = self._looked_up(values, place, "source labels")
            except InputError as problem:
                raise InputError(renumbered(str(problem), lambda row: int(rows[row]))) from None
            if self.classes is not None and are_indices(
                labels_in(values, self.classes).tolist(), self.classes
            ):
                out[rows] += self.k
        return out

    def _looked_up(
        self, values: npt.NDArray[np.object_], place: npt.NDArray[np.intp], what: str
    ) -> npt.NDArray[np.intp]:
        """(b,) class numbers; each distinct value is looked up once, all rows only to name a wrong one."""
        try:
            found = validation.check_labels(
                labels_in(values, self.classes), len(values), self.k, self.classes, what
            )
        except InputError:
            rows = labels_in(values[place], self.classes)
            return validation.check_labels(rows, len(rows), self.k, self.classes, what)
        return np.asarray(found[place], dtype=np.intp)

    def _other(self, block: Block, name: str) -> Array:
        """(b,) a column to the letter, or the bins of its times."""
        column, width = split_bin(name, self.names)
        values, codes = coded(block.batch.column(column))
        if width is None:
            return np.asarray(_objects(values)[codes])
        return bin_times(_objects(values)[codes], width, f"{column!r}", self.zone)


def _distinct(block: Block, name: str) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.intp]]:
    """The distinct values of a column, and (b,) which of them each row holds."""
    values, codes = coded(block.batch.column(name))
    used, place = np.unique(codes, return_inverse=True)
    return _objects([values[u] for u in used]), place


def _plain(column: Any) -> Array:
    """(b,) what rows are known by: whole numbers and texts as numpy has them, anything else to the letter."""
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
    """What numbers of this sort are held as: floats as they are, anything else as float64."""
    dtype = np.dtype(dtype)
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def stored_dtype(schemas: Iterable[Any], columns: Sequence[str]) -> str:
    """The floating dtype that holds the columns of all these Arrow schemas exactly."""
    import pyarrow as pa

    types = {schema.field(name).type for schema in schemas for name in columns}
    found = [
        np.dtype(t.to_pandas_dtype()) if pa.types.is_floating(t) else np.dtype(np.float64) for t in types
    ]
    return str(np.result_type(*found))


def table_layout(
    schemas: Sequence[Any], form: Form, where: object, second: str | None = None, zone: str | None = None
) -> Layout:
    """The layout of a table, by the names of its columns; `schemas` are the Arrow schemas of all its files."""
    names = tuple(schemas[0].names)
    kind, chosen, classes = scores_in(names, form, where)
    decision = form.wanted_prediction(names, where)
    for name in (form.weight, decision, form.id, second):
        if name is not None:
            known(name, names, where)
    if decision is not None and form.threshold is not None:
        raise InputError("target: predictions= and threshold= both arrived; wanted one of the two")
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
