"""The rows of a window, in an order that does not depend on how they arrived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from shiftgauge.monitor.spans import rows_in
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.store.payloads import Rows, joined, read_payload, rows_of
from shiftgauge.monitor.store.schema import batches


def window_rows(store: Store, connection: Connection, window: Any, seq: int | None = None) -> Rows | None:
    """All rows of a window (a row of the table `windows`), by time and then by id; None where there are none."""
    import pyarrow as pa
    from pyarrow import compute

    parts = list(window_parts(store, connection, window, seq))
    if not parts:
        return None
    whole = joined(parts)
    # By the ids themselves: their hashes differ between installations, and the numbers must not.
    table = pa.table({"time": whole.times, "id": whole.ids})
    order = compute.sort_indices(table, [("time", "ascending"), ("id", "ascending")])
    return whole.take(np.asarray(order).astype(np.intp))


def window_parts(store: Store, connection: Connection, window: Any, seq: int | None = None) -> Iterator[Rows]:
    """The rows of a window part by part, in the order they were kept: a large one need not be held whole.

    Args:
        store: where.
        connection: the transaction whose moment is seen.
        window: the window.
        seq: only what came with commits up to this one.
    """
    by_rows = rows_in(window.spec) is not None
    low, high = (batches.c.first, batches.c.last) if by_rows else (batches.c.low, batches.c.high)
    held = (
        select(batches)
        .where(batches.c.version_id == window.version_id, low < window.end, high >= window.start)
        .order_by(batches.c.seq, batches.c.id)
    )
    between = None if by_rows else (window.start, window.end)
    for batch in connection.execute(held).yield_per(100):
        table = read_payload(store.objects, batch.payload, batch.object, between=between)
        rows = rows_of(table, batch.seq, batch.first)
        place = rows.numbers if by_rows else rows.times
        assert place is not None
        assert rows.seqs is not None
        mine = (place >= window.start) & (place < window.end)
        if seq is not None:
            mine &= rows.seqs <= seq
        if mine.any():
            yield rows if mine.all() else rows.take(mine)
