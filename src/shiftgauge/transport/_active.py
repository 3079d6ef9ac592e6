"""The rows that may have to move, and moving them.

At prices u every row has its best class, and some classes are overfull. Let the optimal prices be u + d. A row
of class a that prefers it to every b by more than T[a, b] >= d_a - d_b prefers it at the optimal prices too
and never moves. So T is guessed, by a rehearsal on a sample; only rows that come within T are kept; and the
guess is checked against what the prices did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.transport._forest import Part
from shiftgauge.transport._rows import CHUNK, Floats, Indices, Rows, spans
from shiftgauge.transport._units import ONE, Units

Rowids = npt.NDArray[np.int64]
Classes = npt.NDArray[np.int32]

#: Steps of the search between two looks at the keyboard and the progress callback: some milliseconds.
WORK = 1 << 24
#: Entries of the matrix that are read to guess how far prices will move.
SAMPLE = 1 << 17
#: The most pieces on a shelf: deeper ones cost more to keep sorted than they save.
DEPTH = 24
#: Scores lie within 1 and prices within 2, so at this distance every row may move.
FURTHEST = 4.0
#: Prices may always move by this much; times the safety, so that enough rounds activate every row.
LEAST = 2.0**-40


def rehearsed(rows: Rows, u: Units, excess: Units, total: int, safety: float, entries: int = SAMPLE) -> Units:
    """Guess how the prices u will change: remove the same share of excess from the classes of a sample.

    The more entries of the matrix the sample has, the longer it takes and the better is the guess.

    Returns:
        (K, K) by how much more the price of a will rise than that of b, with a margin of safety.
    """
    after, own = rehearsal(rows, u, excess, total, entries)
    d = (after - u).astype(np.float64)
    # The sample's own move is one draw: the next could differ by the margins of about as many rows as have to
    # leave either class, which is what `own` measures. Without it a class that happens not to move in the
    # sample would have no active row at all.
    T = safety * (np.maximum(d[:, None] - d, LEAST * ONE) + own[:, None] + own)
    return np.asarray(np.rint(np.minimum(T, FURTHEST * ONE)), np.int64)


def rehearsal(rows: Rows, u: Units, excess: Units, total: int, entries: int) -> tuple[Units, Floats]:
    """(K,) the prices at which a sample has lost the same share of excess; (K,) the margins of its rows that went."""
    sample = rows.sample(max(1, rows.P.size // entries))
    assigned = np.full(sample.items, -1, dtype=np.intp)
    margin = np.empty(sample.items, np.float32)
    held = sample.best_classes(u, assigned, margin)
    share = int(held.sum()) / total
    # The sample may have fewer rows in a class than have to go.
    wanted = np.maximum(held - np.rint(excess * share).astype(np.int64), 0)
    # Rounding made the sample's wishes differ from its mass; the largest class notices it least.
    wanted[np.argmax(wanted)] += held.sum() - wanted.sum()
    own = _own_margins(assigned, margin, excess / total * sample.items, len(u))
    after = u.copy()
    active = Active(sample, *whole(sample, assigned, np.arange(sample.items)))
    active.run(after, held - wanted, lambda _: None)
    return after, own


def _own_margins(assigned: Indices, margin: npt.NDArray[np.float32], excess: Floats, k: int) -> Floats:
    """(K,) the margin of the row that is as many places from the first to leave as the class has too many."""
    out = np.zeros(k)
    for j in range(k):
        mine = margin[assigned == j]
        if len(mine):
            place = min(len(mine) - 1, int(abs(excess[j])))
            out[j] = np.partition(mine, place)[place]
    return np.minimum(out, 2.0) * ONE


def active_items(
    rows: Rows, u: Units, assigned: Indices, margin: npt.NDArray[np.float32], T: Units
) -> Indices:
    """The items whose class could change while prices move apart by no more than T."""
    widest = T[~np.eye(len(u), dtype=bool)].max() / ONE
    # Scores lie in [0, 1], so so wide a T lets nearly every row through; looking at pairs would save nothing.
    if widest > 0.5:
        return np.arange(rows.items)
    # Margins were rounded to float32: a little more is let through, and pairs are then looked at exactly.
    items = np.flatnonzero(margin <= np.float32(widest * (1 + 1e-6)))
    keep = np.empty(len(items), np.bool_)

    def task(lo: int, hi: int) -> None:
        part = items[lo:hi]
        rows.kernels.may_move(rows.P, rows.rows(part), assigned[part], u, T, keep[lo:hi])

    for _ in rows.crew.map(task, spans(len(items), max(1, CHUNK // len(u)))):
        pass
    return np.asarray(items[keep])


def whole(rows: Rows, assigned: Indices, items: Indices) -> tuple[Rowids, Classes, Units]:
    """Row, class and mass of items that are not split; a piece without mass would block its class."""
    row = rows.rows(items)
    mass = rows.units(row)
    cls = assigned[items].astype(np.int32)
    live = mass > 0
    return (row, cls, mass) if live.all() else (row[live], cls[live], mass[live])


def _depth(items: int, k: int) -> int:
    """How many pieces a shelf may hold within 12 bytes per row; 0, no shelves, if that is hardly any."""
    depth = min(DEPTH, (12 * items + (1 << 20)) // (12 * k * k))
    return depth if depth >= 4 else 0


class Active:
    """Pieces of the active rows and the search among the classes they sit in."""

    def __init__(self, rows: Rows, row: Rowids, cls: Classes, mass: Units) -> None:
        """Build the cheapest moves of the given pieces: their rows, classes and units."""
        from shiftgauge.transport import _kernels

        self.rows = rows
        k, count = len(rows.class_mass), len(row)
        depth = _depth(rows.items, k)
        # A split makes a new piece, and at most K - 1 rows stay split; rows split in passing may need more (`_grow`).
        room = count + 2 * k + 64

        def padded(x: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
            out = np.empty(room, dtype)
            out[:count] = x
            return out

        self.moves = _kernels.Moves(
            rows.P,
            padded(row, np.int64),
            padded(cls, np.int32),
            padded(mass, np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            padded(_rings(row), np.int32),
            np.empty(k, np.int32),
            np.empty((k, k), np.int64),
            np.empty((k, k), np.int32),
            np.empty((k, k, depth), np.int32),
            np.empty((k, k, depth), np.int64),
            np.empty((k, k) if depth else (0, 0), np.int32),
            np.empty((k, k) if depth else (0, 0), np.int64),
            np.empty(k, np.int32),
            np.array([count]),
        )
        self.search = _kernels.Search(
            np.empty(k, np.int64),
            np.empty(k, np.int32),
            np.empty(k, np.int32),
            np.empty(k, np.int64),
            np.empty(k, np.int64),
        )

        # Threads share the classes, not the pieces: each class's list and moves are then written by one of
        # them in the order of the pieces, so nothing depends on their number.
        def task(lo: int, hi: int) -> None:
            rows.kernels.start(self.moves, count, lo, hi)

        for _ in rows.crew.map(task, spans(k, -(-k // rows.crew.threads))):
            pass

    def run(self, u: Units, excess: Units, watch: Callable[[float], None], enough: int = 0) -> bool:
        """Move mass until at most `enough` is too much and return True, or until only inactive rows could help.

        u and excess change in place; watch is told now and then which share of the excess is gone.
        """
        from shiftgauge.transport import _kernels

        # Whether whole rows are left to move, or only parts, decides how to search (`_kernels.search.plan`).
        typical = int(self.rows.unit * (self.rows.weights.mean() if self.rows.weights.size else 1.0))
        phases = max(1, min(1024, WORK // len(u) ** 2))
        at_first = float(np.abs(excess).sum())
        if at_first == 0.0:
            return True
        while True:
            status = self.rows.kernels.drive(self.moves, u, excess, self.search, phases, typical, enough)
            watch(1.0 - float(np.abs(excess).sum()) / at_first)
            if status == _kernels.DONE or status == _kernels.STUCK:
                return bool(status == _kernels.DONE)
            if status == _kernels.FULL:
                self._grow()

    def patch(self, u: Units, excess: Units) -> None:
        """Fill the classes at prices u by direct moves, whatever they lose."""
        from shiftgauge.transport import _kernels

        while self.rows.kernels.patch(self.moves, u, excess) == _kernels.FULL:
            self._grow()

    def _grow(self) -> None:
        more = len(self.moves.row) // 2 + len(self.moves.first)
        longer = {
            name: np.concatenate([getattr(self.moves, name), np.empty(more, getattr(self.moves, name).dtype)])
            for name in ("row", "cls", "mass", "after", "before", "twin")
        }
        self.moves = self.moves._replace(**longer)

    def parts(self) -> dict[Part, int]:
        """Units by row and class of the rows that are, or once were, split."""
        size = int(self.moves.size[0])
        split = np.flatnonzero((self.moves.twin[:size] != np.arange(size)) & (self.moves.cls[:size] >= 0))
        row, cls, mass = self.moves.row[split], self.moves.cls[split], self.moves.mass[split]
        return dict(zip(zip(row.tolist(), cls.tolist(), strict=True), mass.tolist(), strict=True))

    def joined(self, assigned: Indices, items: Indices) -> Active:
        """The same pieces and those of other rows that become active.

        The pieces stay where they are: they sit in best classes at the current prices, so nothing is lost, and
        the search goes on from there instead of from the beginning.
        """
        row, cls, mass = self.pieces()
        known = np.zeros(len(assigned), np.bool_)
        known[row] = True
        others = whole(self.rows, assigned, items[~known[items]])
        return Active(
            self.rows,
            np.concatenate([row, others[0]]),
            np.concatenate([cls, others[1]]),
            np.concatenate([mass, others[2]]),
        )

    def correction(self, assigned: Indices) -> Units:
        """(K,) what to add to the masses of `assigned` to count the active rows where their pieces are."""
        row, cls, mass = self.pieces()
        change = np.zeros(len(self.rows.class_mass), np.int64)
        np.add.at(change, cls, mass)
        np.subtract.at(change, assigned[row], mass)
        return change

    def pieces(self) -> tuple[Rowids, Classes, Units]:
        """Row, class and mass of every piece that has mass."""
        size = int(self.moves.size[0])
        live = self.moves.cls[:size] >= 0
        return self.moves.row[:size][live], self.moves.cls[:size][live], self.moves.mass[:size][live]


def _rings(row: Rowids) -> npt.NDArray[np.intp]:
    """For every piece the next piece of the same row, the last one pointing to the first."""
    if (row[1:] > row[:-1]).all():
        return np.arange(len(row))
    order = np.argsort(row, kind="stable")
    sorted_rows = row[order]
    last = np.append(sorted_rows[1:] != sorted_rows[:-1], True)
    begin = np.flatnonzero(np.append(True, last[:-1]))
    follower = np.append(order[1:], 0)
    follower[last] = order[begin]
    ring = np.empty(len(row), np.intp)
    ring[order] = follower
    return ring
