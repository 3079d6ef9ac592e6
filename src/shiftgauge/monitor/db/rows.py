"""Stored rows: batches as bytes (an Arrow stream, or a Parquet file once compacted), and the rows of a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute
from pyarrow import parquet as pq
from sqlalchemy import Connection, select

from shiftgauge.monitor.db.schema import batches
from shiftgauge.monitor.db.store import FileReplaced, Objects, Store
from shiftgauge.monitor.periods import rows_per_window

SEGMENT = "segment_"


@dataclass(frozen=True)
class StoredRows:
    """Rows of one version.

    Attributes:
        ids: Arrow array of n texts.
        keys: (n,) their hashes.
        times: (n,) microseconds since 1970.
        scores: (n, K).
        predictions: (n,) class indices, -1 where the argmax stands.
        weights: (n,), or None for equal ones.
        segments: by name, an Arrow array of n texts or nulls.
        seqs: (n,) the commit that brought each row.
        numbers: (n,) each row's number within its version.
    """

    ids: Any
    keys: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]
    scores: npt.NDArray[Any]
    predictions: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float64] | None
    segments: dict[str, Any] = field(default_factory=dict)
    seqs: npt.NDArray[np.int64] | None = None
    numbers: npt.NDArray[np.int64] | None = None

    def take(self, which: npt.NDArray[Any]) -> StoredRows:
        """Some of the rows: a mask, or their places in order."""
        places = np.flatnonzero(which) if which.dtype == bool else which
        arrow = pa.array(places)
        return StoredRows(
            self.ids.take(arrow),
            self.keys[places],
            self.times[places],
            self.scores[places],
            self.predictions[places],
            None if self.weights is None else self.weights[places],
            {name: values.take(arrow) for name, values in self.segments.items()},
            None if self.seqs is None else self.seqs[places],
            None if self.numbers is None else self.numbers[places],
        )


def to_table(rows: StoredRows, contents: npt.NDArray[np.uint32] | None = None) -> Any:
    """The rows as an Arrow table."""
    scores = rows.scores if rows.scores.dtype.itemsize >= 4 else rows.scores.astype(np.float32)
    columns: dict[str, Any] = {
        "id": rows.ids,
        "key": rows.keys,
        "time": rows.times,
        "scores": pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), scores.shape[1]),
        "prediction": rows.predictions,
    }
    if contents is not None:
        columns["content"] = contents
    if rows.weights is not None:
        columns["weight"] = rows.weights
    if rows.seqs is not None:
        columns["seq"] = rows.seqs
    if rows.numbers is not None:
        columns["number"] = rows.numbers
    columns |= {SEGMENT + name: values for name, values in rows.segments.items()}
    return pa.table(columns)


def from_table(table: Any, seq: int, first: int) -> StoredRows:
    """The rows of a table; those of a batch that is not compacted all came with commit `seq`, numbered from `first`."""

    def column(name: str) -> npt.NDArray[Any]:
        return np.asarray(table.column(name).to_numpy())

    n = table.num_rows
    scores = table.column("scores").combine_chunks()
    if isinstance(scores, pa.ChunkedArray):
        scores = pa.concat_arrays(scores.chunks)
    names = table.column_names
    return StoredRows(
        ids=_one_chunk(table.column("id")),
        keys=column("key"),
        times=column("time"),
        scores=scores.flatten().to_numpy(False).reshape(n, -1),
        predictions=column("prediction"),
        # A compacted file holds rows that came with weights and rows that came without: those count once.
        weights=np.asarray(table.column("weight").fill_null(1.0).to_numpy()) if "weight" in names else None,
        segments={
            name.removeprefix(SEGMENT): _one_chunk(table.column(name))
            for name in names
            if name.startswith(SEGMENT)
        },
        seqs=column("seq") if "seq" in names else np.full(n, seq, dtype=np.int64),
        numbers=column("number") if "number" in names else np.arange(first, first + n, dtype=np.int64),
    )


def _one_chunk(column: Any) -> Any:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def concat_rows(parts: list[StoredRows]) -> StoredRows:
    """Several batches of one version as one; weights and segments that some lack are filled in."""

    def filled(name: str, part: StoredRows) -> Any:
        return part.segments.get(name, pa.nulls(len(part.keys), pa.string()))

    if len(parts) == 1:
        return parts[0]
    weighted = any(p.weights is not None for p in parts)
    names = dict.fromkeys(name for p in parts for name in p.segments)
    return StoredRows(
        ids=pa.concat_arrays([p.ids for p in parts]),
        keys=np.concatenate([p.keys for p in parts]),
        times=np.concatenate([p.times for p in parts]),
        scores=np.concatenate([p.scores for p in parts]),
        predictions=np.concatenate([p.predictions for p in parts]),
        weights=np.concatenate([np.ones(len(p.keys)) if p.weights is None else p.weights for p in parts])
        if weighted
        else None,
        segments={name: pa.concat_arrays([filled(name, p) for p in parts]) for name in names},
        seqs=np.concatenate([p.seqs for p in parts if p.seqs is not None]),
        numbers=np.concatenate([p.numbers for p in parts if p.numbers is not None]),
    )


def to_arrow_stream(table: Any) -> bytes:
    """A table as an Arrow stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def to_parquet(table: Any) -> bytes:
    """A table as a Parquet file, in groups of 100,000 rows so that a time can be found without reading all."""
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

    Raises `Removed` where the file is gone: whoever reads begins again, with the batches that are there now.
    """
    if payload is not None:
        table = pa.ipc.open_stream(pa.py_buffer(payload)).read_all()
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


def window_rows(
    store: Store, connection: Connection, window: Any, seq: int | None = None
) -> StoredRows | None:
    """All rows of a window (a row of the table `windows`), by time and then by id; None where there are none."""
    parts = list(window_parts(store, connection, window, seq))
    if not parts:
        return None
    whole = concat_rows(parts)
    # By the ids themselves: their hashes differ between installations, and the numbers must not.
    table = pa.table({"time": whole.times, "id": whole.ids})
    order = compute.sort_indices(table, [("time", "ascending"), ("id", "ascending")])
    return whole.take(np.asarray(order).astype(np.intp))


def window_parts(
    store: Store, connection: Connection, window: Any, seq: int | None = None
) -> Iterator[StoredRows]:
    """The rows of a window part by part, in the order they were kept: a large one need not be in memory as a whole.

    Args:
        store: where.
        connection: the transaction whose moment is seen.
        window: the window.
        seq: only what came with commits up to this one.
    """
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
        rows = from_table(table, batch.seq, batch.first)
        place = rows.numbers if by_rows else rows.times
        assert place is not None
        assert rows.seqs is not None
        mine = (place >= window.start) & (place < window.end)
        if seq is not None:
            mine &= rows.seqs <= seq
        if mine.any():
            yield rows if mine.all() else rows.take(mine)
