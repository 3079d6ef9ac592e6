"""Compaction: many small batches become one Parquet file; nothing about any row changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, delete, insert, select

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.queue import Job, LostLease
from shiftgauge.monitor.db.rows import (
    concat_rows,
    read_payload,
    to_arrow_stream,
    to_parquet,
    with_commit_columns,
)
from shiftgauge.monitor.db.schema import batches, models
from shiftgauge.monitor.db.store import (
    Store,
    cancel_file,
    claim_file,
    mark_for_removal,
    remove_files,
    write_file,
)

#: A file holds about so many rows; larger ones take longer to rewrite when a row is erased.
PER_FILE = 1_000_000


def compact(store: Store, job: Job) -> None:
    """Merge the batches of a model that are not compacted yet, version by version, in the order of their commits."""
    while True:
        with store.read() as connection:
            group = _group(connection, job.subject)
            tables = [
                with_commit_columns(read_payload(store.objects, row.payload, None), row.seq, row.first)
                for row in group
            ]
        if len(group) < 2:
            break
        replace(store, group, concat_rows(tables))
        queue.renew(store, job)
    with store.write() as connection:
        if not queue.finish(connection, job):
            raise LostLease


def _group(connection: Connection, model_id: int) -> list[Any]:
    """The oldest batches that are not compacted of one kind and version, up to a file's worth."""
    loose = [batches.c.model_id == model_id, batches.c.object.is_(None)]
    oldest = select(batches.c.kind, batches.c.version_id).where(*loose).distinct()
    for kind, version_id in connection.execute(oldest).all():
        same = batches.c.version_id.is_(None) if version_id is None else batches.c.version_id == version_id
        query = (
            select(batches).where(*loose, batches.c.kind == kind, same).order_by(batches.c.seq, batches.c.id)
        )
        group, rows = [], 0
        for row in connection.execute(query).yield_per(100):
            group.append(row)
            rows += row.rows
            if rows >= PER_FILE:
                break
        if len(group) > 1:
            return group
    return []


def replace(store: Store, group: list[Any], table: Any) -> bool:
    """Put a file in the place of batches, in one transaction; False if somebody else was faster."""
    name = write_file(store, group[0].model_id, to_parquet(table)) if table.num_rows else None
    with store.write() as connection:
        lock_model(connection, group[0].model_id)
        done = (name is None or claim_file(connection, name)) and replace_batches(
            connection, group, table, name
        )
        if not done:
            connection.rollback()
    if name is not None and not done:
        with store.write() as connection:
            cancel_file(connection, name)
    remove_files(store)
    return done


def replace_batches(connection: Connection, group: list[Any], table: Any, name: str | None = None) -> bool:
    """Put one batch in the place of others: a file, or the rows as they came; False if one is not there any more."""
    ids = [row.id for row in group]
    if connection.execute(delete(batches).where(batches.c.id.in_(ids))).rowcount != len(ids):
        return False
    mark_for_removal(connection, group[0].model_id, [row.object for row in group])
    if table.num_rows:
        content = {"payload": to_arrow_stream(table)} if name is None else {"object": name}
        connection.execute(insert(batches).values(**content, **_batch_values(group, table)))
    return True


def lock_model(connection: Connection, model_id: int) -> Any:
    """The model's row; nobody else adds or replaces batches of it until the transaction ends."""
    return connection.execute(select(models).where(models.c.id == model_id).with_for_update()).one()


def _batch_values(group: list[Any], table: Any) -> dict[str, Any]:
    numbers: npt.NDArray[np.int64] = table.column("number").to_numpy()
    times = table.column("time" if "time" in table.column_names else "received").to_numpy()
    return {
        "model_id": group[0].model_id,
        "version_id": group[0].version_id,
        "kind": group[0].kind,
        "seq": max(row.seq for row in group),
        "rows": table.num_rows,
        "first": int(numbers.min()),
        "last": int(numbers.max()),
        "low": int(times.min()),
        "high": int(times.max()),
        "received": max(row.received for row in group),
    }
