"""Payloads: a batch of rows or labels as bytes, an Arrow stream as it came or a Parquet file when settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.monitor.store.objects import Objects, Removed

SEGMENT = "segment_"


@dataclass(frozen=True)
class Rows:
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

    def take(self, which: npt.NDArray[Any]) -> Rows:
        """Some of the rows: a mask, or their places in order."""
        import pyarrow as pa

        places = np.flatnonzero(which) if which.dtype == bool else which
        arrow = pa.array(places)
        return Rows(
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


def table_of(rows: Rows, contents: npt.NDArray[np.uint32] | None = None) -> Any:
    """The rows as an Arrow table."""
    import pyarrow as pa

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


def rows_of(table: Any, seq: int, first: int) -> Rows:
    """The rows of a table; those of an unsettled batch all came with commit `seq`, numbered from `first`."""
    import pyarrow as pa

    def column(name: str) -> npt.NDArray[Any]:
        return np.asarray(table.column(name).to_numpy())

    n = table.num_rows
    scores = table.column("scores").combine_chunks()
    if isinstance(scores, pa.ChunkedArray):
        scores = pa.concat_arrays(scores.chunks)
    names = table.column_names
    return Rows(
        ids=_one(table.column("id")),
        keys=column("key"),
        times=column("time"),
        scores=scores.flatten().to_numpy(False).reshape(n, -1),
        predictions=column("prediction"),
        # A settled file holds rows that came with weights and rows that came without: those count once.
        weights=np.asarray(table.column("weight").fill_null(1.0).to_numpy()) if "weight" in names else None,
        segments={
            name.removeprefix(SEGMENT): _one(table.column(name)) for name in names if name.startswith(SEGMENT)
        },
        seqs=column("seq") if "seq" in names else np.full(n, seq, dtype=np.int64),
        numbers=column("number") if "number" in names else np.arange(first, first + n, dtype=np.int64),
    )


def _one(column: Any) -> Any:
    import pyarrow as pa

    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def joined(parts: list[Rows]) -> Rows:
    """Several batches of one version as one; weights and segments that some lack are filled in."""
    import pyarrow as pa

    def filled(name: str, part: Rows) -> Any:
        return part.segments.get(name, pa.nulls(len(part.keys), pa.string()))

    if len(parts) == 1:
        return parts[0]
    weighted = any(p.weights is not None for p in parts)
    names = dict.fromkeys(name for p in parts for name in p.segments)
    return Rows(
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


def stream(table: Any) -> bytes:
    """A table as an Arrow stream."""
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def parquet(table: Any) -> bytes:
    """A table as a Parquet file, in groups of 100,000 rows so that a time can be found without reading all."""
    import pyarrow as pa
    from pyarrow import parquet as pq

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
    import pyarrow as pa
    from pyarrow import parquet as pq

    if payload is not None:
        table = pa.ipc.open_stream(pa.py_buffer(payload)).read_all()
        return table if columns is None else table.select([c for c in columns if c in table.column_names])
    assert name is not None
    filters = None if between is None else [("time", ">=", between[0]), ("time", "<", between[1])]
    file = objects.path(name)
    try:
        if columns is not None:
            held = set(pq.read_schema(file).names)
            columns = [c for c in columns if c in held]
        return pq.read_table(file, columns=columns, filters=filters)
    except FileNotFoundError:
        raise Removed(name) from None
