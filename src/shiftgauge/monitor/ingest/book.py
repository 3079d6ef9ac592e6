"""Books: what a process knows of a model's ids and labels, following what every process commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, bindparam, select

from shiftgauge.monitor.spans import HOUR, rows_in
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.store.index import Index, Keys
from shiftgauge.monitor.store.payloads import read_payload
from shiftgauge.monitor.store.schema import batches, erasures

#: Batches are followed in portions, so that a process that starts does not hold every payload at once.
PORTION = 200
# Statements of every commit, built once.
_NEW = (
    select(batches.c.id, batches.c.seq)
    .where(
        batches.c.model_id == bindparam("model"),
        batches.c.kind == bindparam("sort"),
        batches.c.seq > bindparam("seen"),
    )
    .order_by(batches.c.seq, batches.c.id)
)
_GONE = (
    select(erasures)
    .where(erasures.c.model_id == bindparam("model"), erasures.c.seq > bindparam("seen"))
    .order_by(erasures.c.seq)
)


class Book:
    """The ids of a model's rows: content, version, and in which hour (or window, where rows make windows) each lies."""

    def __init__(self) -> None:
        self.index = Index({"content": np.uint32, "version": np.int32, "slot": np.int32})
        self.seen = 0

    def follow(self, store: Store, connection: Connection, model_id: int, spec: str) -> None:
        """Take in what was committed since the last look, and drop what was erased."""
        columns = ["key", "content", "time", "number"]
        gone = _erased(connection, model_id, self.seen)
        if gone is None:
            self.index, self.seen = Index(self.index.types), 0
            gone = _erased(connection, model_id, 0) or []
        for batch, table in _new(store, connection, model_id, "rows", self.seen, columns, gone):
            if table is None:
                self.index.drop(batch.keys)
                self.seen = max(self.seen, batch.seq)
                continue
            keys = table.column("key").to_numpy()
            numbers = table.column("number").to_numpy() if "number" in table.column_names else None
            if numbers is None:
                numbers = np.arange(batch.first, batch.first + batch.rows)
            times = table.column("time").to_numpy()
            self.put(keys, table.column("content").to_numpy(), batch.version_id, slots(spec, times, numbers))
            self.seen = max(self.seen, batch.seq)  # only now: a batch that cannot be read is read again

    def put(self, keys: Keys, contents: Any, version_id: int, slot: Any) -> None:
        """Add rows."""
        self.index.put(keys, content=contents, version=version_id, slot=slot)


class LabelBook:
    """The newest label of every id of a model, as a number into a list of texts."""

    def __init__(self) -> None:
        self.index = Index({"label": np.int32})
        self.texts: list[str] = []
        self._number: dict[str, int] = {}
        self.seen = 0

    def follow(self, store: Store, connection: Connection, model_id: int) -> None:
        """Take in what was committed since the last look, and drop what was erased."""
        columns = ["key", "label"]
        gone = _erased(connection, model_id, self.seen)
        if gone is None:
            self.index, self.seen = Index(self.index.types), 0
            gone = _erased(connection, model_id, 0) or []
        for batch, table in _new(store, connection, model_id, "labels", self.seen, columns, gone):
            if table is None:
                self.index.drop(batch.keys)
                self.index.drop(batch.label_keys)
            else:
                self.put(table.column("key").to_numpy(), table.column("label").to_pylist())
            self.seen = max(self.seen, batch.seq)

    def numbers(self, labels: list[str]) -> npt.NDArray[np.int32]:
        """(n,) the number of each text; new ones get the next."""
        for text in labels:
            if text not in self._number:
                self._number[text] = len(self.texts)
                self.texts.append(text)
        return np.array([self._number[text] for text in labels], dtype=np.int32)

    def put(self, keys: Keys, labels: list[str]) -> None:
        """Add labels, or replace them."""
        self.index.put(keys, label=self.numbers(labels))

    def find(self, keys: Keys) -> npt.NDArray[np.int32]:
        """(n,) the number of each id's label; -1 where there is none."""
        places = self.index.find(keys)
        return np.where(places >= 0, self.index.columns["label"][places], np.int32(-1))


def slots(spec: str, times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """(n,) where in time, or in the count of rows, each row lies, as finely as windows can ask."""
    count = rows_in(spec)
    return ((times // HOUR) if count is None else (numbers // count)).astype(np.int32)


@dataclass(frozen=True)
class Erased:
    """Ids that were erased with commit `seq`: of rows and their labels, and of labels without a row."""

    seq: int
    keys: Keys
    label_keys: Keys


def _new(
    store: Store,
    connection: Connection,
    model_id: int,
    kind: str,
    seen: int,
    columns: list[str],
    gone: list[Erased],
) -> Iterator[tuple[Any, Any]]:
    """Batches with their tables, and erasures with None, in the order in which they were committed."""
    held = connection.execute(_NEW, {"model": model_id, "sort": kind, "seen": seen}).all()
    for start in range(0, len(held), PORTION):
        ids = [row.id for row in held[start : start + PORTION]]
        portion = select(batches).where(batches.c.id.in_(ids)).order_by(batches.c.seq, batches.c.id)
        for row in connection.execute(portion).all():
            while gone and gone[0].seq < row.seq:
                yield gone.pop(0), None
            yield row, read_payload(store.objects, row.payload, row.object, columns)
    for erased in gone:
        yield erased, None


def _erased(connection: Connection, model_id: int, seen: int) -> list[Erased] | None:
    """What was erased since `seen`; None where that is not known any more, so that a book must be built anew."""
    rows = connection.execute(_GONE, {"model": model_id, "seen": seen}).all()
    if seen and any(row.row_keys is None for row in rows):
        return None
    return [
        Erased(
            row.seq, *(np.frombuffer(part or b"", dtype=np.uint64) for part in (row.row_keys, row.label_keys))
        )
        for row in rows
    ]
