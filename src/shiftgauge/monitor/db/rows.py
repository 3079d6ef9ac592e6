"""Stored rows: Arrow tables in batches of two Arrow streams; compaction merges small batches into a compressed one.

A table of rows of one version has the columns `id` (text), `key` (the keyed hash of the id), `time` (microseconds since
1970), `scores` (a fixed-size list), `prediction` (a class index, -1 where the argmax counts), `content` (a hash of
everything but the id), and where they were sent `weight` and `segment_NAME`. `seq` (the commit that brought the row)
and `number` (its number within the version) are stored in compacted tables; for other batches they follow from the
batch. A table of labels has `key`, `label` and `received`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlalchemy import Connection, delete, func, insert, select

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.queue import Job
from shiftgauge.monitor.db.schema import ARROW_TYPES, KEY_COLUMNS, batches, models
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.tables import SEGMENT, score_column, to_arrow_stream
from shiftgauge.times import rows_per_window

#: A compacted batch holds about so many rows, or was made from about so many bytes: it is read whole, and rewritten
#: when a row of it is erased.
PER_BATCH, BYTES_PER_BATCH = 100_000, 64 << 20
#: At most so many batches are merged at once: databases limit the parameters of a statement.
MOST_MERGED = 10_000
#: All columns of the table `batches` but the large one.
WITHOUT_PAYLOAD = [column for column in batches.c if column.name != "payload"]


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


def from_arrow_stream(body: bytes) -> Any:
    """The table of an Arrow stream of ours."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()


def check_types(table: Any) -> None:
    """Refuse to store columns that the schema does not name: another version could not read them."""
    for column in table.schema:
        kind = column.type.value_type if column.name == "scores" else column.type
        known = ("string",) if column.name.startswith(SEGMENT) else ARROW_TYPES[column.name]
        if str(kind) not in known:
            raise TypeError(f"column {column.name} of type {column.type} is not part of the schema")


def to_stored(table: Any, *, compacted: bool = False) -> dict[str, Any]:
    """A table as values of the table `batches`."""
    check_types(table)
    if compacted:
        table = table.combine_chunks()
    keys = [name for name in table.column_names if name in KEY_COLUMNS]
    rest = [name for name in table.column_names if name not in KEY_COLUMNS]
    compression = "zstd" if compacted else None
    return {
        "compacted": compacted,
        "key_columns": to_arrow_stream(table.select(keys), compression),
        "payload": to_arrow_stream(table.select(rest), compression) if rest else None,
    }


def read_keys(batch: Any) -> Any:
    """The key columns of a batch (a row of the table `batches`, with or without its payload)."""
    return with_commit_columns(from_arrow_stream(batch.key_columns), batch.seq, batch.first)


def read_batch(batch: Any) -> Any:
    """All columns of a batch."""
    table = read_keys(batch)
    if batch.payload is not None:
        rest = from_arrow_stream(batch.payload)
        for name in rest.column_names:
            table = table.append_column(name, rest.column(name))
    return table


def window_rows(connection: Connection, window: Any) -> Any:
    """All rows of a window (a row of the table `windows`), by time and then by id; None where there are none.

    The order does not depend on how the rows arrived, nor on the hashes of ids, which differ between installations.
    """
    parts = list(_window_parts(connection, window))
    return concat_rows(parts).sort_by([("time", "ascending"), ("id", "ascending")]) if parts else None


def _window_parts(connection: Connection, window: Any) -> Iterator[Any]:
    """The rows of a window from each of its batches."""
    by_rows = rows_per_window(window.spec) is not None
    low, high = (batches.c.first, batches.c.last) if by_rows else (batches.c.low, batches.c.high)
    query = (
        select(batches)
        .where(batches.c.version_id == window.version_id, low < window.end, high >= window.start)
        .order_by(batches.c.seq, batches.c.id)
    )
    for batch in connection.execute(query).yield_per(10):
        table = read_batch(batch)
        position = numbers(table, "number" if by_rows else "time")
        mine = (position >= window.start) & (position < window.end)
        if mine.any():
            yield table if mine.all() else table.filter(pa.array(mine))


def compact(store: Store, job: Job) -> None:
    """Merge the batches of a model that are not compacted yet, version by version, in the order of their commits."""
    while True:
        with store.read() as connection:
            group = _group(connection, job.subject)
        if not group:
            break
        # Compressed before the transaction: others wait for it.
        values = merged_values(group, concat_rows([read_batch(row) for row in group]), compacted=True)
        with store.write() as connection:
            lock_model(connection, job.subject)
            replace_batches(connection, group, values)
        queue.renew(store, job)
    queue.end(store, job)


def _group(connection: Connection, model_id: int) -> list[Any]:
    """The oldest batches that are not compacted of one kind and version, up to the size of a compacted one.

    A batch that has this size is a group of its own; one that has not stays as it is until others follow.
    """
    loose = [batches.c.model_id == model_id, batches.c.compacted.is_(False)]
    oldest = select(batches.c.kind, batches.c.version_id).where(*loose).distinct()
    for kind, version_id in connection.execute(oldest).all():
        same = batches.c.version_id.is_(None) if version_id is None else batches.c.version_id == version_id
        size = func.length(batches.c.key_columns) + func.coalesce(func.length(batches.c.payload), 0)
        query = select(batches.c.id, batches.c.rows, size.label("size"))
        query = query.where(*loose, batches.c.kind == kind, same).order_by(batches.c.seq, batches.c.id)
        ids, rows, content, full = [], 0, 0, False
        for row in connection.execute(query).yield_per(1000):
            ids.append(row.id)
            rows, content = rows + row.rows, content + row.size
            full = rows >= PER_BATCH or content >= BYTES_PER_BATCH
            if full or len(ids) == MOST_MERGED:
                break
        if len(ids) > 1 or full:
            chosen = select(batches).where(batches.c.id.in_(ids)).order_by(batches.c.seq, batches.c.id)
            return list(connection.execute(chosen))
    return []


def replace_batches(connection: Connection, group: list[Any], values: dict[str, Any] | None) -> bool:
    """Put one batch, or none, in the place of others; False, and nothing changes, if one is not there any more."""
    ids = [row.id for row in group]
    there = connection.execute(select(func.count()).where(batches.c.id.in_(ids))).scalar_one()
    if there != len(ids):
        return False
    connection.execute(delete(batches).where(batches.c.id.in_(ids)))
    if values is not None:
        connection.execute(insert(batches).values(**values))
    return True


def lock_model(connection: Connection, model_id: int) -> Any:
    """The model's row; nobody else adds or replaces batches of it until the transaction ends."""
    return connection.execute(select(models).where(models.c.id == model_id).with_for_update()).one()


def merged_values(group: list[Any], table: Any, *, compacted: bool) -> dict[str, Any] | None:
    """The batch that replaces a group, with the rows of `table`; None where there are none."""
    if not table.num_rows:
        return None
    position, times = (
        numbers(table, "number"),
        numbers(table, "time" if "time" in table.column_names else "received"),
    )
    return {
        "model_id": group[0].model_id,
        "version_id": group[0].version_id,
        "kind": group[0].kind,
        "seq": max(row.seq for row in group),
        "rows": table.num_rows,
        "first": int(position.min()),
        "last": int(position.max()),
        "low": int(times.min()),
        "high": int(times.max()),
        **to_stored(table, compacted=compacted),
    }
