"""The id index: what is known of every id of a model, in memory, 64 bits of keyed hash per id.

Ids are hashed to 64 bits with the installation's secret key. Two of 10 million different ids share a hash with
probability 3e-6, and a row so struck is refused as a contradiction, never lost silently. The table holds at most 60%
of its places: 10 million ids take 336 MB. It is rebuilt from the batches when a process starts, and follows those that
other processes commit.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
_Places = tuple[Keys, dict[str, npt.NDArray[Any]]]
FULL = 0.6
#: Marks the place of a key that was dropped: it is not used again until the table is made anew.
DROPPED = np.uint64(1)
#: From so full on the next, larger table is made ready by a thread: to get its pages takes longer than to fill it.
READY, LARGE = 0.45, 1 << 18


class Index:
    """A hash table from 64-bit keys to a few columns of numbers.

    >>> import numpy as np
    >>> index = Index({"batch": np.int32})
    >>> index.put(np.array([5, 9], np.uint64), batch=np.array([1, 2]))
    >>> index.find(np.array([9, 7], np.uint64)) >= 0
    array([ True, False])
    """

    def __init__(self, columns: dict[str, Any], room: int = 1024) -> None:
        self.types = columns
        self.count = 0
        self._ahead: Future[_Places] | None = None
        self.table, self.columns = self._places(1 << max(10, (room - 1).bit_length()))

    def _places(self, count: int) -> _Places:
        """An empty table of so many places, in memory that is there already."""
        table = np.zeros(count, dtype=np.uint64)
        columns = {name: np.zeros(count, dtype=kind) for name, kind in self.types.items()}
        for array in (table, *columns.values()):
            array.fill(0)
        return table, columns

    def find(self, keys: Keys) -> npt.NDArray[np.int64]:
        """(n,) the place of each key, or -1."""
        from shiftgauge.monitor.store import _kernels

        out = np.empty(len(keys), dtype=np.int64)
        _kernels.find(self.table, keys, out)
        return out

    def put(self, keys: Keys, **values: Any) -> None:
        """Add keys, or give known ones other values; of a key that stands twice the last value stays."""
        from shiftgauge.monitor.store import _kernels

        self._make_room(len(keys))
        places = np.empty(len(keys), dtype=np.int64)
        self.count += _kernels.place(self.table, keys, places)
        for name, value in values.items():
            self.columns[name][places] = value

    def drop(self, keys: Keys) -> None:
        """Remove keys and their values."""
        places = self.find(keys)
        places = places[places >= 0]
        self.table[places] = DROPPED
        for values in self.columns.values():
            values[places] = 0

    def _make_room(self, more: int) -> None:
        places = len(self.table)
        if self.count + more <= FULL * places:
            if self._ahead is None and places >= LARGE and self.count + more > READY * places:
                self._ahead = Future()
                threading.Thread(target=self._get_ready, args=(self._ahead, 2 * places), daemon=True).start()
            return
        from shiftgauge.monitor.store import _kernels

        old, columns = self.table, self.columns
        held = np.flatnonzero(old > DROPPED)
        self.count = len(held)
        while self.count + more > FULL * places:
            places *= 2
        ready = None if self._ahead is None else self._ahead.result()
        self.table, self.columns = (
            ready if ready is not None and len(ready[0]) == places else self._places(places)
        )
        self._ahead = None
        spots = np.empty(len(held), dtype=np.int64)
        _kernels.place(self.table, old[held], spots)
        for name, values in columns.items():
            self.columns[name][spots] = values[held]

    def _get_ready(self, ahead: Future[_Places], places: int) -> None:
        try:
            ahead.set_result(self._places(places))
        except BaseException as problem:  # whoever waits for it must hear of it
            ahead.set_exception(problem)


def keys_of(ids: Any, secret: bytes) -> Keys:
    """(n,) keyed hashes of an Arrow array of texts (type `string`); the secret has 16 bytes."""
    from shiftgauge.monitor.store import _kernels

    out = np.empty(len(ids), dtype=np.uint64)
    if len(ids) == 0:
        return out
    _, offsets, data = ids.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    k0, k1 = np.frombuffer(secret, dtype="<u8")
    _kernels.hash_texts(starts, content, k0, k1, out)
    return out
