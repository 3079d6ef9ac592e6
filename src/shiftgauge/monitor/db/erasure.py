"""Erasing rows: by age (retention) or by id (a person's request); estimates that were made stay as numbers.

An id stands in plain text in its row alone; labels, label plans, the id index and the record of erasures hold its
keyed hash. An erasure removes both from every batch and plan, and scrubs the database's own files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlalchemy import Connection, delete, func, insert, select, update

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.audit import LOCAL, record_change
from shiftgauge.monitor.db.ids import Keys, keys_of
from shiftgauge.monitor.db.models import model_row
from shiftgauge.monitor.db.queue import Job
from shiftgauge.monitor.db.rows import (
    WITHOUT_PAYLOAD,
    from_arrow_stream,
    lock_model,
    merged_values,
    numbers,
    read_batch,
    read_keys,
    replace_batches,
)
from shiftgauge.monitor.db.schema import batches, erasures, models, plans, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import SECOND, iso, now_us
from shiftgauge.monitor.problems import invalid
from shiftgauge.monitor.settings import Settings, stored_settings
from shiftgauge.monitor.tables import to_arrow_stream

#: After an erasure a job scrubs the database's files again: SQLite's when readers have let go of its log,
#: PostgreSQL's tables when transactions that began before have ended.
AGAIN, AGAIN_POSTGRESQL = 2 * SECOND, 30 * SECOND
NONE: Keys = np.zeros(0, dtype=np.uint64)


@dataclass
class Erasure:
    """What is to be erased.

    Attributes:
        keys: hashes of the ids of rows, whose labels go too.
        label_keys: hashes of the ids of labels that have no row.
        before: only rows before this time, where it is given.
    """

    keys: Keys
    label_keys: Keys
    before: int | None = None

    def mask(self, kind: str, table: Any) -> npt.NDArray[np.bool_]:
        """(n,) which rows or labels of a table to erase."""
        if kind == "rows" and self.before is not None:
            return np.asarray(table.column("time").to_numpy() < self.before)
        keys = table.column("key").to_numpy()
        mine: npt.NDArray[np.bool_] = np.isin(keys, self.keys)
        return mine if kind == "rows" else mine | np.isin(keys, self.label_keys)


def erase_rows(
    store: Store, model: str, *, before: int | None = None, id: str | None = None, who: str = LOCAL
) -> int:
    """Erase the rows before a time, which are refused from then on, or all of one id, which may be sent again."""
    if (before is None) == (id is None):
        raise invalid("rows: wanted either before=TIME or id=ID, exactly one of them")

    def record(connection: Connection) -> None:
        record_change(connection, who, "erase", model, before=iso(before), by_id=id is not None)

    with store.read() as connection:
        row = model_row(connection, model)
    if before is not None:
        return erase_before(store, row.id, before, record)
    what = Erasure(keys_of(pa.array([id]), store.secret), NONE)
    rows, labels = _erase(store, row.id, what, record)
    return rows + labels


def erase_before(
    store: Store, model_id: int, before: int, record: Callable[[Connection], None] | None = None
) -> int:
    """Erase the rows before a time, their labels, and older labels without a row; how many rows there were.

    `record` writes to the audit log, in the transaction from which on such rows are refused.
    """
    with store.write() as connection:  # first accept no more of them, then erase
        if record is not None:
            record(connection)
        row = lock_model(connection, model_id)
        if row.erased_before is None or row.erased_before < before:
            connection.execute(update(models).where(models.c.id == model_id).values(erased_before=before))
    mine, old = batches.c.model_id == model_id, batches.c.low < before
    with store.read() as connection:
        keys = _keys(connection, [mine, old, batches.c.kind == "rows"], before)
        labels = np.setdiff1d(_keys(connection, [mine, old, batches.c.kind == "labels"], before), keys)
        if len(labels):  # a label may be older than its row, or have been corrected since
            recent = _keys(connection, [mine, batches.c.high >= before], before, later=True)
            labels = np.setdiff1d(labels, recent)
    if not len(keys) and not len(labels):
        return 0
    return _erase(store, model_id, Erasure(keys, labels, before))[0]


def erase_by_age(store: Store, job: Job) -> None:
    """Erase what the settings of a model no longer keep."""
    with store.read() as connection:
        settings = connection.execute(
            select(models.c.settings).where(models.c.id == job.subject)
        ).scalar_one()
    before = retention_cutoff(stored_settings(settings), now_us())
    if before is not None:
        erase_before(store, job.subject, before)
    queue.end(store, job)


def finish_erasure(store: Store, job: Job) -> None:
    """Scrub the database's own files, also after an erasure whose process died."""
    queue.end(store, job, again=None if store.scrub() else now_us() + AGAIN)


def _keys(connection: Connection, which: list[Any], before: int, *, later: bool = False) -> Keys:
    """Hashes of the ids of rows before a time, and of labels received before it, in these batches; or later ones."""
    parts = [NONE]
    for row in connection.execute(select(*WITHOUT_PAYLOAD).where(*which)).yield_per(100):
        table = read_keys(row)
        times = numbers(table, "time" if row.kind == "rows" else "received")
        parts.append(numbers(table, "key")[times >= before if later else times < before])
    return np.unique(np.concatenate(parts))


def _erase(
    store: Store, model_id: int, what: Erasure, record: Callable[[Connection], None] | None = None
) -> tuple[int, int]:
    """Erase rows and labels everywhere; how many of each there were.

    Batches are rewritten first, each in a transaction of its own. What came or was compacted meanwhile follows in the
    last transaction, while nobody can add to the model. It also writes the record that other processes read, and asks
    for the job that finishes the work if this process dies. `record` writes to the audit log in the first of these
    transactions: nothing is erased that is not in the log.
    """
    gone = {"rows": 0, "labels": 0}
    clean, dirty = _search(store, model_id, what)
    for number in dirty:
        with store.write() as connection:
            lock_model(connection, model_id)
            if record is not None:
                record(connection)
                record = None
            _erase_from_batch(connection, number, what, gone)
    with store.write() as connection:
        model = lock_model(connection, model_id)
        if record is not None:
            record(connection)
        _erase_rest(connection, model_id, what, clean, gone)
        _erase_from_plans(connection, model_id, what.keys)
        connection.execute(update(models).where(models.c.id == model_id).values(seq=model.seq + 1))
        blobs = {"row_keys": what.keys.tobytes(), "label_keys": what.label_keys.tobytes()}
        entry = insert(erasures).values(model_id=model_id, seq=model.seq + 1, created=now_us(), **blobs)
        connection.execute(entry)
        again = AGAIN if store.is_sqlite else AGAIN_POSTGRESQL
        queue.enqueue(connection, "scrub", [model_id], now_us() + again)
    store.scrub()
    return gone["rows"], gone["labels"]


def _search(store: Store, model_id: int, what: Erasure) -> tuple[set[int], list[int]]:
    """The numbers of the batches with nothing to erase, and of those with something."""
    clean: set[int] = set()
    dirty: list[int] = []
    query = select(*WITHOUT_PAYLOAD).where(batches.c.model_id == model_id).order_by(batches.c.id)
    with store.read() as connection:
        for row in connection.execute(query).yield_per(100):
            if what.mask(row.kind, read_keys(row)).any():
                dirty.append(row.id)
            else:
                clean.add(row.id)
    return clean, dirty


def _erase_from_batch(connection: Connection, number: int, what: Erasure, gone: dict[str, int]) -> None:
    """Replace a batch, if it is still there, by one without what is to be erased; the model is locked."""
    row = connection.execute(select(batches).where(batches.c.id == number)).first()
    if row is None:
        return
    table = read_batch(row)
    mask = what.mask(row.kind, table)
    if mask.any():
        values = merged_values([row], table.filter(pa.array(~mask)), compacted=row.compacted)
        replace_batches(connection, [row], values)
        gone[row.kind] += int(mask.sum())


def _erase_rest(
    connection: Connection, model_id: int, what: Erasure, clean: set[int], gone: dict[str, int]
) -> None:
    """Erase from the batches that are not known to be clean; the model is locked."""
    ids = connection.execute(select(batches.c.id).where(batches.c.model_id == model_id)).scalars().all()
    rest = [number for number in ids if number not in clean]
    if what.before is not None and len(what.label_keys):
        recent = [_keys(connection, [batches.c.id == n], what.before, later=True) for n in rest]
        what.label_keys = np.setdiff1d(what.label_keys, np.concatenate([NONE, *recent]))
    for number in rest:
        _erase_from_batch(connection, number, what, gone)


def _erase_from_plans(connection: Connection, model_id: int, keys: Keys) -> None:
    """Remove rows from the label plans; the plan of the others stays."""
    query = (
        select(plans).join(windows, windows.c.id == plans.c.window_id).where(windows.c.model_id == model_id)
    )
    for row in connection.execute(query).all():
        table = from_arrow_stream(row.payload)
        mine = np.isin(table.column("key").to_numpy(), keys)
        if mine.all():
            connection.execute(delete(plans).where(plans.c.id == row.id))
        elif mine.any():
            body = to_arrow_stream(table.filter(~mine))
            connection.execute(update(plans).where(plans.c.id == row.id).values(payload=body))


def erased_since(connection: Connection, model_id: int, seq: int) -> Keys:
    """Hashes of the ids that were erased after commit `seq`."""
    query = select(erasures.c.row_keys).where(erasures.c.model_id == model_id, erasures.c.seq > seq)
    value = [np.frombuffer(blob or b"", dtype=np.uint64) for blob in connection.execute(query).scalars()]
    return np.concatenate([NONE, *value])


def expire_erasures(connection: Connection, model_id: int, before: int) -> None:
    """Remove the hashes from records of erasures before a time; a process that did not read them reads all anew."""
    mine = erasures.c.model_id == model_id
    old = update(erasures).where(mine, erasures.c.created < before, erasures.c.row_keys.is_not(None))
    if not connection.execute(old.values(row_keys=None, label_keys=None)).rowcount:
        return
    empty = [mine, erasures.c.row_keys.is_(None)]
    newest = select(func.max(erasures.c.seq)).where(*empty).scalar_subquery()
    connection.execute(delete(erasures).where(*empty, erasures.c.seq < newest))


def retention_cutoff(settings: Settings, now: int) -> int | None:
    """Rows before this are to be erased; None where they are kept."""
    return None if settings.retention_days is None else now - int(settings.retention_days * 86_400 * SECOND)
