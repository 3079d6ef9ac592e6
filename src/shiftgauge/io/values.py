"""What stands in the columns of a table: numbers without gaps, texts to the letter, labels as classes are spelt."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import FileError, nearest
from shiftgauge.io.batches import Table, TableBatch

Array = npt.NDArray[Any]


def known(name: str, names: Sequence[str], where: object) -> str:
    """The name itself, if there is such a column."""
    if name not in names:
        raise FileError(f"{where}: no column {name!r}{nearest(name, names)} (found {shown(names)})")
    return name


def shown(names: Sequence[str]) -> str:
    """The names in a message: the first of them, if there are many."""
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"


def collect_columns(
    table: Table, scores: Sequence[str], texts: Sequence[str], weight: str | None = None
) -> tuple[Array, Array | None, dict[str, Array]]:
    """(n, len(scores)) the scores in one matrix, (n,) the weights, and the other columns as objects, in one pass.

    Memory is reserved once where the number of rows is known; beyond it only one batch is held. Scores and weights
    are kept apart, so that neither changes the other's precision.
    """
    groups = [list(scores), [] if weight is None else [weight]]
    held = [_Matrix(table.rows, len(names)) for names in groups]
    others = _Others(texts)
    numbers = [name for names in groups for name in names]
    rest = [name for name in texts if name not in numbers]
    for batch in table.read(numbers, rest):
        for matrix, names in zip(held, groups, strict=True):
            matrix.add([numbers_of(batch, name) for name in names], batch.batch.num_rows)
        others.add(batch)
    return held[0].finish(), None if weight is None else held[1].finish()[:, 0], others.finish()


def numbers_of(batch: TableBatch, name: str) -> Array:
    """(m,) a batch's column of numbers without gaps; a row that is wrong is named with its file."""
    import pyarrow as pa

    column = batch.batch.column(name)
    if pa.types.is_null(column.type) or column.null_count:
        row = batch.first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise FileError(
            f"{batch.where}: column {name!r}, row {row} is empty or NaN; wanted a number in every row"
        )
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        bad = next(
            (v for v in column.to_pylist() if isinstance(v, bool) or not isinstance(v, int | float)), None
        )
        raise FileError(f"{batch.where}: column {name!r} holds {column.type} such as {bad!r}; wanted numbers")
    return np.asarray(column.to_numpy())


class _Matrix:
    """Rows that grow: into memory reserved once where their number is known, doubled where it is not."""

    def __init__(self, rows: int | None, k: int) -> None:
        self._rows, self._k = rows, k
        self._held: Array | None = None
        self._count = 0

    def add(self, columns: list[Array], m: int) -> None:
        """Append a batch of rows, given by columns."""
        end = self._count + m
        if not columns:
            self._count = end
            return
        floats = all(v.dtype.kind == "f" for v in columns)
        kind = np.result_type(*columns) if floats else np.dtype(np.float64)
        held = self._held
        if held is None:
            held = np.empty((self._rows or m, self._k), kind)
        elif np.promote_types(held.dtype, kind) != held.dtype:  # a later file of higher precision
            held = held.astype(kind)
        if end > len(held):
            grown = np.empty((max(end, 2 * len(held)), self._k), held.dtype)
            grown[: self._count] = held[: self._count]
            held = grown
        for j, column in enumerate(columns):
            held[self._count : end, j] = column
        self._held, self._count = held, end

    def finish(self) -> Array:
        """All rows."""
        if self._held is None:
            return np.empty((self._count, self._k))
        return self._held if len(self._held) == self._count else self._held[: self._count].copy()


class _Others:
    """Columns of anything, each distinct value held once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number: dict[str, dict[Any, int]] = {name: {} for name in names}
        self._codes: dict[str, list[Array]] = {name: [] for name in names}

    def add(self, batch: TableBatch) -> None:
        """Append a batch."""
        for name, number in self._number.items():
            values, codes = coded(batch.batch.column(name))
            place = np.array([number.setdefault(_key(v), len(number)) for v in values], dtype=np.intp)
            self._codes[name].append(place[codes])

    def finish(self) -> dict[str, Array]:
        """(n,) objects by name, None where a cell is empty."""
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


def coded(column: Any) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """A batch's distinct values, with None at the end, and (m,) which of them each row holds."""
    import pyarrow as pa

    try:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowException:  # nested types have no dictionary
        values = column.to_pylist()
        return [*values, None], np.arange(len(values))
    values = coded.dictionary.to_pylist()
    return [*values, None], np.asarray(coded.indices.fill_null(len(values)), dtype=np.intp)


def labels_in(values: Array, classes: Collection[Hashable] | None) -> Array:
    """A column of labels: whole numbers written as text are numbers where no class is called like one."""
    names = [c for c in classes or () if not isinstance(c, str) or _whole(c) is not None]
    if names or not len(values):
        return values
    read = {v: _whole(v) if isinstance(v, str) and v else v for v in set(values.tolist())}
    if any(number is None and v is not None and v != "" for v, number in read.items()):
        return values
    return np.array([read[v] for v in values.tolist()], dtype=object)


def _whole(text: str) -> int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
