"""Candidate rows in memory: the exact search among them, and prices to start it from.

At prices u every row has its best class, and some classes are overfull. Let the optimal prices be u + d. A row of
class a that prefers it to every b by more than T[a, b] >= d_a - d_b prefers it at the optimal prices too and never
moves. So T is forecast on a sample, only rows within T are candidates, and the forecast is checked against what the
prices did (`shiftgauge.transport.exact`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import check_stopped, subsampled_rows
from shiftgauge.transport.kernels import kernel_scores, kernel_weights, kernels_for
from shiftgauge.transport.spanning_tree import Part, cancel_cycles
from shiftgauge.transport.units import ONE, Units, class_units

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Steps of the search between two looks at the keyboard: some milliseconds.
WORK = 1 << 24
#: Phases of the search that Python makes before it looks whether compiled kernels would be quicker.
PYTHON_PHASES = 16
#: The most pieces on a list of next cheapest pieces: longer lists cost more to keep sorted than they save.
DEPTH = 24
#: Scores lie within 1 and prices within 2, so at this distance every row may move.
FURTHEST = 4.0
#: How much further than forecast prices may move apart; and by how much they always may.
SAFETY, LEAST = 4.0, 2.0**-40
#: Each level of thinning has this many times fewer rows; none has fewer rows, or rows per class, than these.
RATIO, LEAST_ROWS, LEAST_PER_CLASS = 16, 100, 4


@dataclass(frozen=True)
class CandidateRows:
    """Rows in memory, as kernels read them.

    Attributes:
        P: (m, K) scores; float32 or float64, C order, read-only (which is a type of its own to the compiler).
        weights: (m,) row masses; (0,) if all are equal.
        unit: units per weight (`units`).
    """

    P: Array
    weights: Floats
    unit: float

    @classmethod
    def of(cls, probs: Array, mass: Floats | None, unit: float) -> CandidateRows:
        """Rows of probabilities with masses on any scale; None if all are equal."""
        return cls(kernel_scores(probs), kernel_weights(mass), unit)

    def __len__(self) -> int:
        return len(self.P)

    @property
    def k(self) -> int:
        """The number of classes."""
        return int(self.P.shape[1])

    @property
    def units(self) -> Units:
        """(m,) the units of each row."""
        if self.weights.size == 0:
            return np.full(len(self), int(self.unit), np.int64)
        return np.rint(self.weights * self.unit).astype(np.int64)

    def thinned(self, step: int) -> CandidateRows:
        """One irregularly placed row out of every `step`."""
        if step <= 1:
            return self
        rows = subsampled_rows(0, len(self), len(self), step)
        weights = self.weights[rows] if self.weights.size else None
        return CandidateRows.of(self.P[rows], weights, self.unit)

    def best_classes(self, u: Units, share: Floats) -> tuple[Indices, npt.NDArray[np.float32], Units]:
        """(m,) best classes at prices u, ties shared out by `share`, (m,) margins, and (K,) units per class."""
        cls, margin = np.empty(len(self), np.intp), np.empty(len(self), np.float32)
        held = np.zeros(self.k, np.int64)
        kernels_for(self.P).best_classes(self.P, self.weights, self.unit, u, share, cls, margin, held)
        return cls, margin, held

    def wanted(self, q: Floats) -> Units:
        """(K,) the units that the classes receive of these rows if they share them by q."""
        return class_units(q, int(self.units.sum()), whole_row(self.unit))


def whole_row(unit: float) -> int:
    """The units of a row of weight 1."""
    return max(1, int(unit))


def on_grid(prices: Floats) -> Units:
    """Prices on the grid of the kernels; optimal ones need not differ by more than 2."""
    return np.asarray(np.rint(np.minimum(prices - prices.min(), 2.0) * ONE), np.int64)


# -- prices --------------------------------------------------------------------------------------------------


def thinned_prices(rows: CandidateRows, q: Floats) -> Units:
    """(K,) prices to start from: those of ever larger subsamples, each started from the one before."""
    u = np.zeros(rows.k, np.int64)
    step = 1
    while len(rows) // (step * RATIO) >= max(LEAST_ROWS, LEAST_PER_CLASS * rows.k):
        step *= RATIO
    while step > 1:
        sample = rows.thinned(step)
        if sample.units.any():  # rows that all weigh nothing have no prices
            search(sample, u, sample.wanted(q), plan=False)
        step //= RATIO
    return u


def price_forecast(rows: CandidateRows, u: Units, excess: Units, total: int) -> Units:
    """(K,) the prices at which these rows have lost the same share of excess from their classes as all rows have to."""
    _, _, held = rows.best_classes(u, np.ones(rows.k))
    share = int(held.sum()) / total
    # These rows may have fewer in a class than have to leave.
    wanted = np.maximum(held - np.rint(excess * share).astype(np.int64), 0)
    # That and rounding made the targets differ from their mass; the largest classes notice it least.
    over = int(wanted.sum() - held.sum())
    for j in np.argsort(-wanted, kind="stable"):
        change = min(over, int(wanted[j]))
        wanted[j] -= change
        over -= change
    after = u.copy()
    search(rows, after, wanted, plan=False)
    return np.asarray(after)


def noise_range(rows: CandidateRows, u: Units, noise: Floats, entries: int) -> Units:
    """(K, K) by how much more the price of a may have to rise than that of b, with a margin of safety.

    Args:
        rows: a sample.
        u: (K,) prices.
        noise: (K,) the standard deviations of the classes' shares.
        entries: about how many the forecast reads.
    """
    cls, margin, held = rows.best_classes(u, np.ones(rows.k))
    total = int(held.sum())
    # One draw shows how far prices move ...
    drawn = noise * np.random.default_rng(0).normal(size=rows.k)
    excess = np.rint((drawn - held / total * drawn.sum()) * total).astype(np.int64)
    excess[np.argmax(held)] -= excess.sum()
    d = (price_forecast(rows.thinned(rows.P.size // entries), u, excess, total) - u).astype(np.float64)
    # ... and the next could differ by the margins of about as many rows as have to leave either class.
    own = np.zeros(rows.k)
    for j in range(rows.k):
        mine = margin[cls == j]
        if len(mine):
            place = min(len(mine) - 1, int(noise[j] * len(rows)) + 1)
            own[j] = min(np.partition(mine, place)[place], 2.0) * ONE
    return apart(SAFETY * (np.maximum(d[:, None] - d, LEAST * ONE) + own[:, None] + own))


def spread_range(d: Floats) -> Units:
    """(K, K) how far prices may still have to move apart that last changed by d (K,)."""
    spread = np.abs(d - np.median(d))
    spread += spread.mean()
    return apart(2.0 * (spread[:, None] + spread))


def apart(far: Floats) -> Units:
    """(K, K) how far prices may move apart, at most so far that every row is a candidate."""
    return np.asarray(np.rint(np.minimum(far, FURTHEST * ONE)), np.int64)


# -- the search ----------------------------------------------------------------------------------------------


def search(
    rows: CandidateRows, u: Units, wanted: Units, plan: bool = True
) -> tuple[Indices, dict[Part, int]]:
    """Bring u to prices at which the classes receive the units `wanted` of these rows, in place.

    Where several plans are optimal the choice is fixed: rows that tie between classes are shared among them along a
    fixed sequence, moves that tie go to the class of lowest index.

    Returns:
        (m,) the class of each row, and the units by (row, class) of the rows that are split, at most K - 1.
    """
    from shiftgauge.transport import _kernels

    cls, _, held = rows.best_classes(u, np.maximum(wanted, 0).astype(np.float64))
    excess = held - wanted
    if not excess.any():
        return cls, {}
    units = rows.units
    live = np.flatnonzero(units > 0)  # a piece without mass would block its class
    moves = _moves(rows, live, cls[live], units[live])
    kernels_for(rows.P).start(moves, len(live), 0, rows.k)
    paths = _kernels.Paths(
        *(np.empty(rows.k, kind) for kind in (np.int64, np.int32, np.int32, np.int64, np.int64))
    )
    # Whether whole rows are left to move, or only parts, decides how to search (`next_source`).
    typical = int(rows.unit * (rows.weights.mean() if rows.weights.size else 1.0))
    status = _kernels.MORE
    while status != _kernels.DONE:
        kernels = kernels_for(rows.P)
        phases = max(1, min(1024, WORK // rows.k**2)) if kernels is _kernels else PYTHON_PHASES
        status = kernels.drive(moves, u, excess, paths, phases, typical)
        check_stopped()
        if status == _kernels.STUCK:
            raise AssertionError("a class lacks rows, and no row can move there")
        if status == _kernels.FULL:
            moves = _grown(moves)
    if not plan:
        return cls, {}
    size = int(moves.size[0])
    there = np.flatnonzero(moves.cls[:size] >= 0)
    cls[moves.row[there]] = moves.cls[there]
    split = there[moves.twin[there] != there]
    split = split[np.bincount(moves.row[split], minlength=1)[moves.row[split]] > 1]  # others are whole again
    keys = zip(moves.row[split].tolist(), moves.cls[split].tolist(), strict=True)
    return cls, cancel_cycles(dict(zip(keys, moves.mass[split].tolist(), strict=True)))


def _moves(rows: CandidateRows, row: Indices, cls: Indices, mass: Units) -> Any:
    """The pieces of whole rows, before their moves are found."""
    from shiftgauge.transport import _kernels

    k, count = rows.k, len(row)
    depth = min(DEPTH, (12 * count + (1 << 20)) // (12 * k * k))  # within 12 bytes per row
    depth = depth if depth >= 4 else 0
    pairs = (k, k) if depth else (0, 0)
    # A split makes a new piece, and at most K - 1 rows stay split; rows split in passing may need more (`_grown`).
    room = count + 2 * k + 64

    def padded(x: Array, dtype: Any) -> Array:
        out = np.empty(room, dtype)
        out[:count] = x
        return out

    return _kernels.Moves(
        P=rows.P,
        row=padded(row, np.int64),
        cls=padded(cls, np.int32),
        mass=padded(mass, np.int64),
        after=np.empty(room, np.int32),
        before=np.empty(room, np.int32),
        twin=np.arange(room, dtype=np.int32),
        first=np.empty(k, np.int32),
        D=np.empty((k, k), np.int64),
        arg=np.empty((k, k), np.int32),
        next_piece=np.empty((k, k, depth), np.int32),
        next_loss=np.empty((k, k, depth), np.int64),
        filled=np.empty(pairs, np.int32),
        bound=np.empty(pairs, np.int64),
        lost=np.empty(k, np.int32),
        size=np.array([count]),
    )


def _grown(moves: Any) -> Any:
    """The same with room for more pieces."""
    more = len(moves.row) // 2 + len(moves.first)
    longer = {
        name: np.concatenate([getattr(moves, name), np.empty(more, getattr(moves, name).dtype)])
        for name in ("row", "cls", "mass", "after", "before", "twin")
    }
    return moves._replace(**longer)
