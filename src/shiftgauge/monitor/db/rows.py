"""Stored rows: one Arrow table, kept as an Arrow stream in a batch or, once compacted, as a Parquet file.

A table of rows of one version has the columns `id` (text), `key` (the keyed hash of the id), `time` (microseconds since
1970), `scores` (a fixed-size list), `prediction` (a class index, -1 where the argmax counts), `content` (a hash of
everything but the id), and where they were sent `weight` and `segment_NAME`. `seq` (the commit that brought the row)
and `number` (its number within the version) are columns of compacted tables; for other batches they follow from the
batch. A table of labels has `key`, `label` and `received`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import parquet as pq
from sqlalchemy import Connection, select

from shiftgauge.monitor.db.schema import batches
from shiftgauge.monitor.db.store import FileReplaced, Objects, Store
from shiftgauge.monitor.periods import rows_per_window

SEGMENT = "segment_"


def score_column(scores: npt.NDArray[Any]) -> Any:
    """(n, K) scores as an Arrow column, in single or double precision."""
    scores = np.ascontiguousarray(scores)
    scores = scores.astype(np.float32) if scores.dtype.itemsize < 4 else scores
    return pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), scores.shape[1])


def numbers(table: Any, name: str) -> npt.NDArray[Any]:
    """(n,) a column of numbers."""
    return np.asarray(table.column(name).to_numpy())


def scores_of(table: Any) -> npt.NDArray[Any]:
    """(n, K) the scores."""
    column = table.column("scores")
    parts = [chunk.flatten().to_numpy(False) for chunk in column.chunks]
    flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return np.asarray(flat).reshape(table.num_rows, column.type.list_size)


def decisions(table: Any) -> npt.NDArray[np.int64]:
    """(n,) the deployed decisions as class indices; the argmax where none was sent."""
    predictions = numbers(table, "prediction")
    return np.where(predictions >= 0, predictions, scores_of(table).argmax(axis=1))


def weights_of(table: Any) -> npt.NDArray[np.float64] | None:
    """(n,) the weights, 1 for rows that came without; None where no row has one."""
    return (
        np.asarray(table.column("weight").fill_null(1.0).to_numpy())
        if "weight" in table.column_names
        else None
    )


def segment_of(table: Any, name: str) -> list[str | None]:
    """The value of a segment in each row; None where it is missing."""
    if SEGMENT + name not in table.column_names:
        return [None] * int(table.num_rows)
    values: list[str | None] = table.column(SEGMENT + name).to_pylist()
    return values


def concat_rows(tables: list[Any]) -> Any:
    """Several tables as one; weights and segments that some lack are null there."""
    types = {table.schema.field("scores").type for table in tables if "scores" in table.column_names}
    if len(types) > 1:  # some rows came in single, some in double precision: double holds both
        wide = np.float64 if any(kind.value_type == pa.float64() for kind in types) else np.float32
        tables = [
            table.set_column(
                table.schema.get_field_index("scores"), "scores", score_column(scores_of(table).astype(wide))
            )
            for table in tables
        ]
    return pa.concat_tables(tables, promote_options="default")


def with_commit_columns(table: Any, seq: int, first: int) -> Any:
    """The table with the columns `seq` and `number`; `first` is the number of its first row."""
    n = table.num_rows
    if "seq" not in table.column_names:
        table = table.append_column("seq", pa.array(np.full(n, seq, dtype=np.int64)))
    if "number" not in table.column_names:
        table = table.append_column("number", pa.array(np.arange(first, first + n, dtype=np.int64)))
    return table


def to_arrow_stream(table: Any) -> bytes:
    """A table as an Arrow stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def from_arrow_stream(body: bytes) -> Any:
    """The table of an Arrow stream of ours."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()


def to_parquet(table: Any) -> bytes:
    """A table as a Parquet file, in groups of 100,000 rows so that a time is found without reading all."""
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="zstd", row_group_size=100_000)
    return bytes(out.getvalue().to_pybytes())


def read_payload(
    objects: Objects,
    payload: bytes | None,
    name: str | None,
    columns: list[str] | None = None,
    between: tuple[int, int] | None = None,
) -> Any:
    """The table of a batch; of a file, only these columns and roughly (never fewer than) these times.

    Raises `FileReplaced` where the file is gone: the caller begins again, with the batches that are there now.
    """
    if payload is not None:
        table = from_arrow_stream(payload)
        return table if columns is None else table.select([c for c in columns if c in table.column_names])
    assert name is not None
    filters = None if between is None else [("time", ">=", between[0]), ("time", "<", between[1])]
    file = objects.path(name)
    try:
        if columns is not None:
            available = set(pq.read_schema(file).names)
            columns = [c for c in columns if c in available]
        return pq.read_table(file, columns=columns, filters=filters)
    except FileNotFoundError:
        raise FileReplaced(name) from None


def window_rows(store: Store, connection: Connection, window: Any) -> Any:
    """All rows of a window (a row of the table `windows`), by time and then by id; None where there are none.

    The order does not depend on how the rows arrived, nor on the hashes of ids, which differ between installations.
    """
    parts = list(_window_parts(store, connection, window))
    return concat_rows(parts).sort_by([("time", "ascending"), ("id", "ascending")]) if parts else None


def _window_parts(store: Store, connection: Connection, window: Any) -> Iterator[Any]:
    """The rows of a window from each of its batches."""
    by_rows = rows_per_window(window.spec) is not None
    low, high = (batches.c.first, batches.c.last) if by_rows else (batches.c.low, batches.c.high)
    query = (
        select(batches)
        .where(batches.c.version_id == window.version_id, low < window.end, high >= window.start)
        .order_by(batches.c.seq, batches.c.id)
    )
    between = None if by_rows else (window.start, window.end)
    for batch in connection.execute(query).yield_per(100):
        table = read_payload(store.objects, batch.payload, batch.object, between=between)
        table = with_commit_columns(table, batch.seq, batch.first)
        position = numbers(table, "number" if by_rows else "time")
        mine = (position >= window.start) & (position < window.end)
        if mine.any():
            yield table if mine.all() else table.filter(pa.array(mine))
