"""Forgetting rows: by age (retention) or by id (a person's request); estimates that were made stay as numbers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select, update

from labelfree.monitor.problems import invalid
from labelfree.monitor.service.models import model_row
from labelfree.monitor.spans import SECOND
from labelfree.monitor.store import Store
from labelfree.monitor.store.index import Keys, keys_of
from labelfree.monitor.store.payloads import read_payload, stream
from labelfree.monitor.store.schema import batches, erasures, models, plans, sources, windows

#: Files that no table names are deleted after so long: somebody may still be reading, or about to name them.
GRACE = 3600.0


def forget(store: Store, model: str, *, before: int | None = None, id: str | None = None) -> dict[str, Any]:
    """Forget the rows before a time, which are not taken any more, or all of one id, which may come again."""
    if (before is None) == (id is None):
        raise invalid("rows: wanted either before=TIME or id=ID, exactly one of them")
    with store.read() as connection:
        held = model_row(connection, model)
    gone = (
        forget_before(store, held.id, before) if before is not None else _forget_id(store, held.id, str(id))
    )
    return {"model": model, "forgotten": gone}


def forget_before(store: Store, model_id: int, before: int) -> int:
    """Forget the rows before a time, and their labels; how many rows there were."""
    with store.write() as connection:  # first close the door, then sweep
        held = connection.execute(select(models).where(models.c.id == model_id).with_for_update()).one()
        if held.forgotten is None or held.forgotten < before:
            connection.execute(update(models).where(models.c.id == model_id).values(forgotten=before))
    which = [batches.c.model_id == model_id, batches.c.kind == "rows", batches.c.low < before]
    keys = _keys_before(store, which, before)
    if len(
        keys
    ):  # labels first: who is stopped between the two finds the rows again, and with them their labels
        labels = [batches.c.model_id == model_id, batches.c.kind == "labels"]
        _rewrite(store, labels, lambda table: ~np.isin(table.column("key").to_numpy(), keys))
    return _rewrite(store, which, lambda table: table.column("time").to_numpy() >= before)


def _keys_before(store: Store, which: list[Any], before: int) -> Keys:
    """Hashes of the ids of the rows before a time."""
    found = [np.zeros(0, dtype=np.uint64)]
    with store.read() as connection:
        for row in connection.execute(select(batches).where(*which)).yield_per(100):
            table = read_payload(store.objects, row.payload, row.object, ["key", "time"])
            found.append(table.column("key").to_numpy()[table.column("time").to_numpy() < before])
    return np.unique(np.concatenate(found))


def _forget_id(store: Store, model_id: int, text: str) -> int:
    import pyarrow as pa

    key = keys_of(pa.array([text]))[0]
    which = [batches.c.model_id == model_id]
    gone = _rewrite(store, which, lambda table: _others(table, key, text))
    with store.write() as connection:
        held = connection.execute(select(models).where(models.c.id == model_id).with_for_update()).one()
        connection.execute(update(models).where(models.c.id == model_id).values(seq=held.seq + 1))
        connection.execute(
            insert(erasures).values(model_id=model_id, key=int(key.astype(np.int64)), seq=held.seq + 1)
        )
        _blank_plans(connection, model_id, text)
    return gone


def _others(table: Any, key: np.uint64, text: str) -> Any:
    same = table.column("key").to_numpy() == key
    if not same.any():
        return ~same
    ids = table.column("id").to_pylist()
    return ~(same & np.array([value == text for value in ids]))


def _rewrite(store: Store, which: list[Any], keep: Any) -> int:
    """Put batches with fewer rows in the place of those that hold rows to forget."""
    from labelfree.monitor.jobs.settling import replace, with_origin

    gone = 0
    with store.read() as connection:
        ids = connection.execute(select(batches.c.id).where(*which)).scalars().all()
    for number in ids:
        while True:
            with store.read() as connection:
                row = connection.execute(select(batches).where(batches.c.id == number)).first()
                if row is None:  # settled meanwhile, into a batch that is looked at too
                    gone += _rewrite(store, [*which, batches.c.id > max(ids)], keep)
                    break
                table = with_origin(read_payload(store.objects, row.payload, row.object), row.seq, row.first)
            mask = keep(table)
            if mask.all() or replace(store, [row], table.filter(mask)):
                gone += int((~mask).sum())
                break
    return gone


def _blank_plans(connection: Connection, model_id: int, text: str) -> None:
    """Take an id out of the label requests that name it."""
    import pyarrow as pa

    held = (
        select(plans).join(windows, windows.c.id == plans.c.window_id).where(windows.c.model_id == model_id)
    )
    for row in connection.execute(held).all():
        table = pa.ipc.open_stream(pa.py_buffer(row.payload)).read_all()
        ids = table.column("id").to_pylist()
        if text in ids:
            at = table.schema.get_field_index("id")
            blank = pa.array([None if value == text else value for value in ids], pa.string())
            body = stream(table.set_column(at, "id", blank))
            connection.execute(update(plans).where(plans.c.id == row.id).values(payload=body))


def sweep(store: Store) -> int:
    """Delete files that nothing names any more, once nobody can be reading them; how many."""
    with store.read() as connection:
        named = set(
            connection.execute(select(batches.c.object).where(batches.c.object.is_not(None))).scalars()
        )
        named |= set(connection.execute(select(sources.c.object)).scalars())
    swept = 0
    for name, written in store.objects.names():
        if name not in named and time.time() - written > GRACE:
            (store.objects.folder / name).unlink(missing_ok=True)
            swept += 1
    return swept


def retention_cut(settings: Any, now: int) -> int | None:
    """Rows before this are to be forgotten; None where they are kept."""
    return None if settings.retention_days is None else now - int(settings.retention_days * 86_400 * SECOND)
