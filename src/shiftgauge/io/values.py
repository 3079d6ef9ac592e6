"""Values of the columns of a table: numbers, texts, and labels."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import FileError, format_names, nearest
from shiftgauge.io.batches import OpenTable, TableBatch
from shiftgauge.validation.labels import plain

Array = npt.NDArray[Any]


def check_column(name: str, names: Sequence[str], where: object) -> str:
    """Check that there is a column of this name, and return the name."""
    if name not in names:
        raise FileError(f"{where}: no column {name!r}{nearest(name, names)} (found {format_names(names)})")
    return name


def collect_columns(
    table: OpenTable, scores: Sequence[str], texts: Sequence[str], weight: str | None = None
) -> tuple[Array, Array | None, dict[str, Array]]:
    """(n, len(scores)) the scores in one matrix, (n,) the weights, and the other columns as objects, in one pass.

    Memory for the matrix is allocated once if the number of rows is known; otherwise only one batch is in memory.
    Scores and weights are separate, so that neither changes the precision of the other.
    """
    groups = [list(scores), [] if weight is None else [weight]]
    matrices = [_MatrixBuilder(table.rows, len(names)) for names in groups]
    others = _ColumnsBuilder(texts)
    numbers = [name for names in groups for name in names]
    rest = [name for name in texts if name not in numbers]
    for batch in table.read(numbers, rest):
        for matrix, names in zip(matrices, groups, strict=True):
            matrix.add([numeric_column(batch, name) for name in names], batch.batch.num_rows)
        others.add(batch)
    return matrices[0].finish(), None if weight is None else matrices[1].finish()[:, 0], others.finish()


def numeric_column(batch: TableBatch, name: str) -> Array:
    """(m,) a column of numbers of a batch; the error for a wrong value names its file and row."""
    import pyarrow as pa

    column = batch.batch.column(name)
    if pa.types.is_null(column.type) or column.null_count:
        row = batch.first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise FileError(
            f"{batch.where}: column {name!r}, row {row} is empty or NaN; wanted a number in every row"
        )
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        bad = next(
            (v for v in column.to_pylist() if isinstance(v, bool) or not isinstance(v, int | float)), None
        )
        raise FileError(f"{batch.where}: column {name!r} holds {column.type} such as {bad!r}; wanted numbers")
    return np.asarray(column.to_numpy())


class _MatrixBuilder:
    """A matrix that grows by rows: allocated once if their number is known, else doubled when full."""

    def __init__(self, rows: int | None, k: int) -> None:
        self._rows, self._k = rows, k
        self._matrix: Array | None = None
        self._count = 0

    def add(self, columns: list[Array], m: int) -> None:
        """Append a batch of rows, given by columns."""
        end = self._count + m
        if not columns:
            self._count = end
            return
        floats = all(v.dtype.kind == "f" for v in columns)
        kind = np.result_type(*columns) if floats else np.dtype(np.float64)
        matrix = self._matrix
        if matrix is None:
            matrix = np.empty((self._rows or m, self._k), kind)
        elif np.promote_types(matrix.dtype, kind) != matrix.dtype:  # a later file of higher precision
            matrix = matrix.astype(kind)
        if end > len(matrix):
            grown = np.empty((max(end, 2 * len(matrix)), self._k), matrix.dtype)
            grown[: self._count] = matrix[: self._count]
            matrix = grown
        for j, column in enumerate(columns):
            matrix[self._count : end, j] = column
        self._matrix, self._count = matrix, end

    def finish(self) -> Array:
        """All rows."""
        if self._matrix is None:
            return np.empty((self._count, self._k))
        return self._matrix if len(self._matrix) == self._count else self._matrix[: self._count].copy()


class _ColumnsBuilder:
    """Columns of any type, each distinct value stored once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number: dict[str, dict[Any, int]] = {name: {} for name in names}
        self._codes: dict[str, list[Array]] = {name: [] for name in names}

    def add(self, batch: TableBatch) -> None:
        """Append a batch."""
        for name, number in self._number.items():
            values, codes = encode_column(batch.batch.column(name))
            place = np.array([number.setdefault(_key(v), len(number)) for v in values], dtype=np.intp)
            self._codes[name].append(place[codes])

    def finish(self) -> dict[str, Array]:
        """(n,) objects by name, None for an empty cell."""
        out = {}
        for name, number in self._number.items():
            values = np.empty(len(number), dtype=object)
            for key, place in number.items():
                values[place] = key[1]
            parts = self._codes[name]
            out[name] = values[np.concatenate(parts)] if parts else values
        return out


def _key(value: Any) -> tuple[type, Any]:
    """1, 1.0 and True are different values of a column."""
    return type(value), value if isinstance(value, Hashable) else str(value)


def encode_column(column: Any) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """The distinct values of a column, with None at the end, and (m,) the index of each row's value."""
    import pyarrow as pa

    try:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowException:  # nested types have no dictionary
        values = column.to_pylist()
        return [*values, None], np.arange(len(values))
    values = coded.dictionary.to_pylist()
    if pa.types.is_decimal(coded.dictionary.type) or pa.types.is_binary(coded.dictionary.type):
        values = list(map(plain, values))
    return [*values, None], np.asarray(coded.indices.fill_null(len(values)), dtype=np.intp)


def parse_labels(values: Array, classes: Collection[Hashable] | None) -> Array:
    """A label column: whole numbers in text are numbers, unless a class has such a name."""
    names = [c for c in classes or () if not isinstance(c, str) or _parse_whole_number(c) is not None]
    if names or not len(values):
        return values
    read = {v: _parse_whole_number(v) if isinstance(v, str) and v else v for v in set(values.tolist())}
    if any(number is None and v is not None and v != "" for v, number in read.items()):
        return values
    return np.array([read[v] for v in values.tolist()], dtype=object)


def _parse_whole_number(text: str) -> int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
