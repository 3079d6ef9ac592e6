"""Which windows the rows of a transaction fall into, and when those windows are to be estimated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import postgresql, sqlite

from shiftgauge.monitor.spans import LENGTHS, SECOND, Span, grouped, rows_in, span_at
from shiftgauge.monitor.store import queue
from shiftgauge.monitor.store.schema import windows

#: A window that was closed already is estimated again this long after a late row: others may follow it.
PAUSE = 2 * SECOND
#: At most so many windows in one request: each is a row to write, and a job, while others wait.
MOST_WINDOWS = 10_000


@dataclass
class _Share:
    version_id: int
    spec: str
    span: Span
    rows: int
    low: int
    high: int
    seq: int


@lru_cache
def _merging(dialect: str) -> Any:
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


class Spread:
    """Rows counted by window."""

    def __init__(self, specs: list[tuple[int, str]], settings: dict[str, Any], now: int) -> None:
        self.specs, self.now = specs, now
        self.lateness = int(settings["lateness_minutes"] * 60 * SECOND)
        self.shares: dict[str, _Share] = {}
        self.wanted: dict[int, set[str]] = {}

    def add(
        self,
        version: str,
        version_id: int,
        times: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64],
        seq: int,
    ) -> None:
        """Count rows of one version."""
        for spec, span, mine in spans_of(self.specs, times, numbers):
            name, low, high = f"{span.name}.{version}", int(times[mine].min()), int(times[mine].max())
            held = self.shares.setdefault(name, _Share(version_id, spec, span, 0, low, high, seq))
            held.rows += len(mine)
            held.low, held.high, held.seq = min(held.low, low), max(held.high, high), seq

    def write(self, connection: Connection, model_id: int) -> None:
        """Create or update the windows, and ask for their estimates when they are due."""
        if not self.shares:
            return
        by_due: dict[int, list[int]] = {}
        rows = [
            {
                "model_id": model_id,
                "version_id": share.version_id,
                "name": name,
                "spec": share.spec,
                "start": share.span.start,
                "end": share.span.end,
                "low": share.low,
                "high": share.high,
                "rows": share.rows,
                "seq": share.seq,
            }
            for name, share in self.shares.items()
        ]
        for row in connection.execute(_merging(connection.dialect.name), rows).all():
            due = self._due(self.shares[row.name], row.rows)
            if due is not None:
                by_due.setdefault(due, []).append(row.id)
        for due, ids in by_due.items():
            queue.ask(connection, "estimate", ids, due, "rows")

    def _due(self, share: _Share, rows: int) -> int | None:
        if (count := rows_in(share.spec)) is not None:
            return self.now if rows >= count else None
        return max(self.now + PAUSE, share.span.end + self.lateness)


def spans_of(
    specs: list[tuple[int, str]], times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> Iterator[tuple[str, Span, npt.NDArray[np.intp]]]:
    """Each window that holds some of the rows: its length, its span, and the places of its rows."""
    for spec, here, number in _numbered(specs, times, numbers):
        step = rows_in(spec) or LENGTHS[spec]
        for each, mine in grouped(number):
            yield spec, span_at(spec, each * step + _offset(spec)), here[mine]


def count_windows(
    specs: list[tuple[int, str]], times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> int:
    """How many windows hold some of the rows."""
    return sum(len(np.unique(number)) for _, _, number in _numbered(specs, times, numbers))


def _numbered(
    specs: list[tuple[int, str]], times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> Iterator[tuple[str, npt.NDArray[np.intp], npt.NDArray[np.int64]]]:
    """For each window length: the places of the rows that it holds for, and the number of each one's window."""
    for i, (since, spec) in enumerate(specs):
        until = specs[i + 1][0] if i + 1 < len(specs) else np.iinfo(np.int64).max
        here = np.flatnonzero((times >= since) & (times < until)) if len(specs) > 1 else np.arange(len(times))
        if len(here):
            places = times if rows_in(spec) is None else numbers
            yield spec, here, (places[here] - _offset(spec)) // (rows_in(spec) or LENGTHS[spec])


def _offset(spec: str) -> int:
    return span_at(spec, 0).start  # weeks begin on Mondays


def windows_named(connection: Connection, model_id: int, names: list[str]) -> list[int]:
    """The ids of the windows with these names, as far as they are there."""
    out: list[int] = []
    for start in range(0, len(names), 500):
        held = select(windows.c.id).where(
            windows.c.model_id == model_id, windows.c.name.in_(names[start : start + 500])
        )
        out += connection.execute(held).scalars()
    return out
