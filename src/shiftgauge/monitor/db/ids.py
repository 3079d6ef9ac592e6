"""The id index: what is known of every id of a model, in memory, 64 bits of keyed hash per id.

Ids are hashed to 64 bits with the installation's secret key. Two of 10 million different ids share a hash with
probability 3e-6, and then the second row is refused as a contradiction, never lost silently. The table holds at most
60% of its places: 10 million ids take 336 MB. It is rebuilt from the batches when a process starts, and follows those
that other processes commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, bindparam, select

from shiftgauge.monitor.db import _kernels
from shiftgauge.monitor.db.rows import WITHOUT_PAYLOAD, read_keys
from shiftgauge.monitor.db.schema import batches, erasures
from shiftgauge.monitor.periods import HOUR
from shiftgauge.times import rows_per_window

Keys = npt.NDArray[np.uint64]
_Places = tuple[Keys, dict[str, npt.NDArray[Any]]]
FULL = 0.6
#: Marks the place of a key that was dropped: it is not used again until the table is made anew.
DROPPED = np.uint64(1)
#: From so full on the next, larger table is made ready by a thread: to get its pages takes longer than to fill it.
READY, LARGE = 0.45, 1 << 18


class IdIndex:
    """A hash table from 64-bit keys to a few columns of numbers.

    >>> import numpy as np
    >>> index = IdIndex({"batch": np.int32})
    >>> index.put(np.array([5, 9], np.uint64), batch=np.array([1, 2]))
    >>> index.find(np.array([9, 7], np.uint64)) >= 0
    array([ True, False])
    """

    def __init__(self, columns: dict[str, Any], capacity: int = 1024) -> None:
        self.types = columns
        self.count = 0
        self._ahead: Future[_Places] | None = None
        self.table, self.columns = self._places(1 << max(10, (capacity - 1).bit_length()))

    def _places(self, count: int) -> _Places:
        """An empty table of so many places, in memory that is there already."""
        table = np.zeros(count, dtype=np.uint64)
        columns = {name: np.zeros(count, dtype=kind) for name, kind in self.types.items()}
        for array in (table, *columns.values()):
            array.fill(0)
        return table, columns

    def find(self, keys: Keys) -> npt.NDArray[np.int64]:
        """(n,) the place of each key, or -1."""
        out = np.empty(len(keys), dtype=np.int64)
        _kernels.find(self.table, keys, out)
        return out

    def put(self, keys: Keys, **values: Any) -> None:
        """Add keys, or give known ones other values; of a key that stands twice the last value stays."""
        self._grow(len(keys))
        places = np.empty(len(keys), dtype=np.int64)
        self.count += _kernels.place(self.table, keys, places)
        for name, value in values.items():
            self.columns[name][places] = value

    def update(self, other: IdIndex) -> None:
        """Add the keys of another index with the same columns, or give known ones its values."""
        places = np.flatnonzero(other.table > DROPPED)
        if len(places):
            self.put(other.table[places], **{name: value[places] for name, value in other.columns.items()})

    def drop(self, keys: Keys) -> None:
        """Remove keys and their values."""
        places = self.find(keys)
        places = places[places >= 0]
        self.table[places] = DROPPED
        for values in self.columns.values():
            values[places] = 0

    def _grow(self, more: int) -> None:
        places = len(self.table)
        if self.count + more <= FULL * places:
            if self._ahead is None and places >= LARGE and self.count + more > READY * places:
                self._ahead = Future()
                threading.Thread(target=self._get_ready, args=(self._ahead, 2 * places), daemon=True).start()
            return
        old, columns = self.table, self.columns
        occupied = np.flatnonzero(old > DROPPED)
        self.count = len(occupied)
        while self.count + more > FULL * places:
            places *= 2
        ready = None if self._ahead is None else self._ahead.result()
        self.table, self.columns = (
            ready if ready is not None and len(ready[0]) == places else self._places(places)
        )
        self._ahead = None
        spots = np.empty(len(occupied), dtype=np.int64)
        _kernels.place(self.table, old[occupied], spots)
        for name, values in columns.items():
            self.columns[name][spots] = values[occupied]

    def _get_ready(self, ahead: Future[_Places], places: int) -> None:
        try:
            ahead.set_result(self._places(places))
        except BaseException as problem:  # whoever waits for it must hear of it
            ahead.set_exception(problem)


def keys_of(ids: Any, secret: bytes) -> Keys:
    """(n,) keyed hashes of an Arrow array of texts (type `string`); the secret has 16 bytes."""
    out = np.empty(len(ids), dtype=np.uint64)
    if len(ids) == 0:
        return out
    _, offsets, data = ids.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    k0, k1 = np.frombuffer(secret, dtype="<u8")
    _kernels.hash_texts(starts, content, k0, k1, out)
    return out


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


class _Followed:
    """An index of what is committed to one kind of batches of a model: `seen` is the last commit in it."""

    kind: str
    columns: dict[str, Any]

    def __init__(self) -> None:
        self.index = IdIndex(self.columns)
        self.seen = 0

    def _follow(self, connection: Connection, model_id: int, add: Callable[[Any, Any], None]) -> None:
        """Take in what was committed since the last look, by `add(batch, table)`, and drop what was erased."""
        gone = _erased(connection, model_id, self.seen)
        if gone is None:
            self.index, self.seen = IdIndex(self.columns), 0
            gone = _erased(connection, model_id, 0) or []
        for batch, table in _new(connection, model_id, self.kind, self.seen, gone):
            if table is not None:
                add(batch, table)
            else:
                self.index.drop(batch.keys)
                if self.kind == "labels":
                    self.index.drop(batch.label_keys)
            self.seen = max(self.seen, batch.seq)  # only now: a batch that cannot be read is read again


class SeenIds(_Followed):
    """The ids of a model's rows: content, version, and in which hour (or window, where rows make windows) each lies."""

    kind, columns = "rows", {"content": np.uint32, "version": np.int32, "slot": np.int32}

    def follow(self, connection: Connection, model_id: int, spec: str) -> None:
        """Take in what was committed since the last look, and drop what was erased."""

        def add(batch: Any, table: Any) -> None:
            slots = position_slots(spec, table.column("time").to_numpy(), table.column("number").to_numpy())
            contents = table.column("content").to_numpy()
            keys = table.column("key").to_numpy()
            self.index.put(keys, content=contents, version=batch.version_id, slot=slots)

        self._follow(connection, model_id, add)


class LatestLabels(_Followed):
    """The newest label of every id of a model, as a number into a list of texts."""

    kind, columns = "labels", {"label": np.int32}

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._number: dict[str, int] = {}

    def follow(self, connection: Connection, model_id: int) -> None:
        """Take in what was committed since the last look, and drop what was erased."""

        def add(_: Any, table: Any) -> None:
            self.index.put(
                table.column("key").to_numpy(), label=self.numbers(table.column("label").to_pylist())
            )

        self._follow(connection, model_id, add)

    def numbers(self, labels: list[str]) -> npt.NDArray[np.int32]:
        """(n,) the number of each text; new ones get the next."""
        for text in labels:
            if text not in self._number:
                self._number[text] = len(self.texts)
                self.texts.append(text)
        return np.array([self._number[text] for text in labels], dtype=np.int32)

    def find(self, keys: Keys) -> npt.NDArray[np.int32]:
        """(n,) the number of each id's label; -1 where there is none."""
        places = self.index.find(keys)
        return np.where(places >= 0, self.index.columns["label"][places], np.int32(-1))


def position_slots(
    spec: str, times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """(n,) where in time, or in the count of rows, each row lies, as finely as windows can ask."""
    count = rows_per_window(spec)
    return ((times // HOUR) if count is None else (numbers // count)).astype(np.int32)


@dataclass(frozen=True)
class Erased:
    """Ids that were erased with commit `seq`: of rows and their labels, and of labels without a row."""

    seq: int
    keys: Keys
    label_keys: Keys


def _new(
    connection: Connection,
    model_id: int,
    kind: str,
    seen: int,
    gone: list[Erased],
) -> Iterator[tuple[Any, Any]]:
    """Batches with their tables, and erasures with None, in the order in which they were committed."""
    rows = connection.execute(_NEW, {"model": model_id, "sort": kind, "seen": seen}).all()
    for start in range(0, len(rows), PORTION):
        ids = [row.id for row in rows[start : start + PORTION]]
        portion = select(*WITHOUT_PAYLOAD).where(batches.c.id.in_(ids)).order_by(batches.c.seq, batches.c.id)
        for row in connection.execute(portion).all():
            while gone and gone[0].seq < row.seq:
                yield gone.pop(0), None
            yield row, read_keys(row)
    for erased in gone:
        yield erased, None


def _erased(connection: Connection, model_id: int, seen: int) -> list[Erased] | None:
    """What was erased since `seen`; None where that is not known any more, so that the index must be rebuilt."""
    rows = connection.execute(_GONE, {"model": model_id, "seen": seen}).all()
    if seen and any(row.row_keys is None for row in rows):
        return None
    return [
        Erased(
            row.seq, *(np.frombuffer(part or b"", dtype=np.uint64) for part in (row.row_keys, row.label_keys))
        )
        for row in rows
    ]
