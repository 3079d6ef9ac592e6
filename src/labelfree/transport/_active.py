"""The rows that may have to move, and moving them.

At prices u every row is given its best class; r units then sit in overfull classes. If the optimal prices
are u + d with max d - min d <= delta, a row that prefers its class by a margin of more than delta prefers it
at the optimal prices too and never moves. So delta is guessed, only rows with smaller margins are kept, and
the guess is checked by what the prices did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.transport._rows import Floats, Indices, Rows, spans
from labelfree.transport._units import Units

#: Phases of the search between two looks at the keyboard and the progress callback.
PHASES = 64
WANTED = 1
#: Entries of the matrix that are read to guess delta.
SAMPLE = 1 << 18
#: The most pieces on a shelf: deeper ones cost more to keep sorted than they save.
DEPTH = 256
#: How much wider than the guess: prices move along chains of classes, so several guesses may add up.
SAFETY = 2.0


def guess_delta(rows: Rows, u: Floats, assigned: Indices, excess: Units, total: int) -> float:
    """Guess how far prices will move apart.

    An overfull class must lose the rows with the least margins up to its excess; an underfull one must win
    the rows that come nearest to it up to its lack. The largest margin met in this way, on a sample.
    """
    k = len(u)
    count = min(rows.items, max(64, SAMPLE // k))
    items = np.linspace(0, rows.items - 1, count).astype(np.intp)
    found = rows.rows(items)
    p = rows.P[found]
    net = (p.view(np.float16) if p.dtype == np.uint16 else p).astype(np.float64) - u
    own = net[np.arange(count), assigned[items]]
    short = own[:, None] - net
    short[np.arange(count), assigned[items]] = np.inf
    delta = 0.0
    for j in np.flatnonzero(excess):
        margins = short[assigned[items] == j].min(axis=1) if excess[j] > 0 else short[:, j]
        margins = margins[np.isfinite(margins)]
        place = int(abs(int(excess[j])) / total * count) + 1
        if place >= len(margins):
            return np.inf
        delta = max(delta, float(np.partition(margins, place)[place]))
    return SAFETY * delta


def _depth(items: int, k: int) -> int:
    """How many pieces a shelf may hold within 12 bytes per row; 0, no shelves, if that is hardly any."""
    depth = min(DEPTH, (12 * items + (1 << 20)) // (12 * k * k))
    return depth if depth >= 4 else 0


class Active:
    """Pieces of the active rows and the search among the classes they sit in."""

    def __init__(self, rows: Rows, assigned: Indices, items: Indices) -> None:
        """Build the cheapest moves of the given items of the sample."""
        from labelfree.transport import _kernels

        k = len(rows.class_mass)
        found = rows.rows(items)
        mass = rows.units(found)
        if mass.min(initial=1) == 0:  # a piece without mass would block its class
            items, found, mass = items[mass > 0], found[mass > 0], mass[mass > 0]
        self.items, self.rows = items, rows
        depth = _depth(rows.items, k)
        room = len(items) + 2 * k + 64

        def padded(x: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
            out = np.empty(room, dtype)
            out[: len(x)] = x
            return out

        self.moves = _kernels.Moves(
            rows.P,
            padded(found, np.int64),
            padded(assigned[items], np.int32),
            padded(mass, np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(k, np.int32),
            np.empty((k, k)),
            np.empty((k, k), np.int32),
            np.empty((k, k, depth), np.int32),
            np.empty((k, k, depth)),
            np.empty((k, k) if depth else (0, 0), np.int32),
            np.empty((k, k) if depth else (0, 0)),
            np.full(1, len(items), np.int64),
        )
        self.search = _kernels.Search(
            np.empty(k),
            np.empty(k, np.int32),
            np.empty(k, np.int32),
            np.empty(k),
            np.empty(k),
            np.zeros(4, np.int64),
        )

        def task(lo: int, hi: int) -> None:
            _kernels.start(self.moves, len(items), lo, hi)

        for _ in rows.crew.map(task, spans(k, -(-k // rows.crew.threads))):
            pass

    def run(self, u: Floats, excess: Units, delta: float, watch: Callable[[Units], None]) -> bool:
        """Move mass until no class is overfull; u and excess change in place.

        Returns:
            Whether it is done, with prices that moved apart by no more than delta.
        """
        from labelfree.transport import _kernels

        before = u.copy()
        while True:
            status = _kernels.drive(self.moves, u, excess, self.search, PHASES, WANTED)
            drift = u - before; self.drift=drift.max()-drift.min()
            near = bool(drift.max() - drift.min() <= delta * (1 - 1e-6))  # margins are float32
            if status == _kernels.DONE:
                return near
            if status == _kernels.STUCK or not near:
                return False
            if status == _kernels.FULL:
                self._grow()
            watch(excess)

    def _grow(self) -> None:
        more = len(self.moves.row) // 2 + len(self.moves.first)
        longer = {
            name: np.concatenate([getattr(self.moves, name), np.empty(more, getattr(self.moves, name).dtype)])
            for name in ("row", "cls", "mass", "after", "before")
        }
        self.moves = self.moves._replace(**longer)

    def pieces(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Units]:
        """Row, class and mass of every piece."""
        size = int(self.moves.size[0])
        return self.moves.row[:size], self.moves.cls[:size], self.moves.mass[:size]
