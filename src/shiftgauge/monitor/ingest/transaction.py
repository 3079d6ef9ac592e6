"""The state of one model within a transaction: its versions, its known ids, and the windows that new rows fall into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.ids import IdIndex, LatestLabels, SeenIds
from shiftgauge.monitor.db.models import ScoreFormat, format_of
from shiftgauge.monitor.db.schema import models, specs, versions, windows
from shiftgauge.monitor.periods import SECOND, Period, now_us, period_at, period_start
from shiftgauge.times import group_indices, rows_per_window

#: A window that was closed already is estimated again this long after a late row: others may follow it.
PAUSE = 2 * SECOND
RowsOfPeriod = tuple[str, Period, npt.NDArray[np.intp]]


@lru_cache
def _upsert_windows(dialect: str) -> Any:
    """The statement that creates windows or adds to them, built once: it is part of every commit of rows."""
    lite = dialect == "sqlite"
    new = (sqlite if lite else postgresql).insert(windows)
    merged = {
        "rows": windows.c.rows + new.excluded.rows,
        "low": (func.min if lite else func.least)(windows.c.low, new.excluded.low),
        "high": (func.max if lite else func.greatest)(windows.c.high, new.excluded.high),
        "seq": new.excluded.seq,
    }
    upsert = new.on_conflict_do_update(index_elements=["model_id", "name"], set_=merged)
    return upsert.returning(windows.c.id, windows.c.name, windows.c.rows)


class WindowAssignment:
    """Rows counted by window: rows of the table `windows`, by name."""

    def __init__(self, settings: dict[str, Any], now: int) -> None:
        self.now = now
        self.lateness = int(settings["lateness_minutes"] * 60 * SECOND)
        self.counts: dict[str, dict[str, Any]] = {}

    def add(
        self,
        version: str,
        version_id: int,
        times: npt.NDArray[np.int64],
        periods: list[RowsOfPeriod],
        seq: int,
    ) -> None:
        """Count rows of one version."""
        for spec, span, mine in periods:
            name, low, high = f"{span.name}.{version}", int(times[mine].min()), int(times[mine].max())
            new = {"version_id": version_id, "name": name, "spec": spec, "start": span.start, "end": span.end}
            window = self.counts.setdefault(name, {**new, "low": low, "high": high, "rows": 0})
            window["rows"] += len(mine)
            window |= {"low": min(window["low"], low), "high": max(window["high"], high), "seq": seq}

    def write(self, connection: Connection, model_id: int) -> None:
        """Create or update the windows, and ask for their estimates when they are due."""
        if not self.counts:
            return
        by_due: dict[int, list[int]] = {}
        rows = [{"model_id": model_id, **window} for window in self.counts.values()]
        for row in connection.execute(_upsert_windows(connection.dialect.name), rows).all():
            window = self.counts[row.name]
            if (full := rows_per_window(window["spec"])) is None:
                due = max(self.now + PAUSE, window["end"] + self.lateness)
            elif row.rows >= full:
                due = self.now
            else:
                continue
            by_due.setdefault(due, []).append(row.id)
        for due, ids in by_due.items():
            queue.enqueue(connection, "estimate", ids, due, "rows")


def assign_periods(
    specs: list[tuple[int, str]], times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> Iterator[RowsOfPeriod]:
    """Each window that holds some of the rows: its length, its period, and the places of its rows."""
    for i, (since, spec) in enumerate(specs):
        until = specs[i + 1][0] if i + 1 < len(specs) else np.iinfo(np.int64).max
        here = np.flatnonzero((times >= since) & (times < until)) if len(specs) > 1 else np.arange(len(times))
        places = times if rows_per_window(spec) is None else numbers
        for start, mine in group_indices(period_start(spec, places[here])):
            yield spec, period_at(spec, start), here[mine]


# Statements of every commit, built once: to build them takes longer than to run them.
_MODEL = select(models).where(models.c.name == bindparam("called")).with_for_update()
_VERSIONS = select(versions).where(versions.c.model_id == bindparam("model"))
_SPECS = select(specs).where(specs.c.model_id == bindparam("model")).order_by(specs.c.since)


class ModelTransaction:
    """One model within the transaction: its row (locked), versions, window lengths, and indexes of ids."""

    def __init__(self, connection: Connection, name: str, id_caches: tuple[SeenIds, LatestLabels]) -> None:
        self.row = connection.execute(_MODEL, {"called": name}).one()
        self.connection = connection
        self.id: int = self.row.id
        self.seq: int = self.row.seq
        rows = connection.execute(_VERSIONS, {"model": self.id}).all()
        self.versions: dict[str, int] = {row.name: row.id for row in rows}
        self.version_formats: dict[str, ScoreFormat] = {row.name: format_of(row) for row in rows}
        self.counts: dict[str, int] = {row.name: row.rows for row in rows}
        self.specs = [(row.since, row.spec) for row in connection.execute(_SPECS, {"model": self.id})]
        # The indexes hold only what is committed. What this transaction brings is kept beside them until it is durable,
        # so that they are still right if it is rolled back.
        self.seen_ids, self.labels = id_caches
        if min(self.seen_ids.seen, self.labels.seen) < self.seq:
            self.seen_ids.follow(connection, self.id, self.specs[-1][1])
            self.labels.follow(connection, self.id)
        self.new_ids = IdIndex(self.seen_ids.index.types)
        self.new_labels = IdIndex(self.labels.index.types)
        self.assignment = WindowAssignment(json.loads(self.row.settings), now_us())
        self.touched: set[str] = set()

    def next_seq(self) -> int:
        """The number of the next commit."""
        self.seq += 1
        return self.seq
