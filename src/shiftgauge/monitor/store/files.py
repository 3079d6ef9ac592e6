"""Parquet files come and go with their batches: a crash in between leaves a record, and the next job finishes.

A file is named in the table `files` before it is written, and no longer once a batch names it. A file whose batch was
replaced is named there from the same transaction on, until it is removed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select, update

from shiftgauge.monitor.clock import now_us
from shiftgauge.monitor.spans import HOUR
from shiftgauge.monitor.store.database import NO_SPACE, Store, full
from shiftgauge.monitor.store.schema import files

#: A file that was begun so long ago and that no batch names was left behind by a crash.
ABANDONED = HOUR


def write_file(store: Store, model_id: int, content: bytes) -> str:
    """Write a Parquet file that no batch names yet."""
    name = store.objects.new_name("batches", model_id, "parquet")
    with store.write() as connection:
        values = {"name": name, "model_id": model_id, "created": now_us(), "removed": False}
        connection.execute(insert(files).values(**values))
    try:
        store.objects.write(name, content)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full(NO_SPACE) from None
        raise
    return name


def name_file(connection: Connection, name: str) -> bool:
    """A batch names the file from this transaction on; False if it was cancelled meanwhile."""
    written = delete(files).where(files.c.name == name, files.c.removed.is_(False))
    return connection.execute(written).rowcount == 1


def cancel_file(connection: Connection, name: str) -> None:
    """No batch will name this file."""
    connection.execute(update(files).where(files.c.name == name).values(removed=True))


def cancel_files(connection: Connection, model_id: int) -> None:
    """Files that others are writing for this model come too late: they hold what is erased in this transaction."""
    connection.execute(update(files).where(files.c.model_id == model_id).values(removed=True))


def give_up_files(connection: Connection, model_id: int, names: Iterable[str | None]) -> None:
    """Files that no batch names from this transaction on."""
    rows = [
        {"name": name, "model_id": model_id, "created": now_us(), "removed": True} for name in names if name
    ]
    if rows:
        connection.execute(insert(files), rows)


def remove_files(store: Store) -> None:
    """Remove the files that were given up, or left behind by a crash."""
    old = files.c.created < now_us() - ABANDONED
    with store.read() as connection:
        if connection.execute(select(files.c.name).where(files.c.removed | old)).first() is None:
            return
    with store.write() as connection:  # whoever is still writing one cannot name it any more
        connection.execute(update(files).where(old).values(removed=True))
        names = connection.execute(select(files.c.name).where(files.c.removed)).scalars().all()
    for name in names:
        store.objects.drop(name)
    with store.write() as connection:
        connection.execute(delete(files).where(files.c.name.in_(names)))
