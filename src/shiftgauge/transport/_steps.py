"""What is done to one block in a pass: steps for `Blocks.reduce`, with K or K x K numbers as state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.scans import Total
from shiftgauge.transport._rows import Floats, Indices, rows_of, spans
from shiftgauge.transport._units import ONE, Units
from shiftgauge.transport.blocks import Block, Pile
from shiftgauge.transport.entropic import ABSORB, gram, slab
from shiftgauge.transport.solution import TIED

#: Classes up to which moments are summed by a kernel of our own.
FEW = 32
#: Bins that rows are counted in, for each class.
BINS = 256
#: A price that no row pays.
NEVER = 1 << 56
#: Entries that two kernels read one after the other: they should find them in the cache.
NEAR = 1 << 15


def taken(block: Block, chosen: Indices | slice) -> tuple[npt.NDArray[Any], ...]:
    """Row number, probabilities and mass of chosen rows of a block, to take home."""
    rows = np.arange(block.start, block.start + len(block))
    return rows[chosen], block.probs[chosen], block.weights[chosen]


def sampled_rows(start: int, length: int, n: int, step: int) -> Indices:
    """Which of `length` rows from row `start` on belong to the sample of one row out of every `step` of n.

    Always the same rows, however they are cut.
    """
    first, last = start // step, (start + length - 1) // step
    rows = rows_of(np.arange(first, min(last, n // step - 1) + 1), step) - start
    return rows[(rows >= 0) & (rows < length)]


def sampled(block: Block, n: int, step: int) -> Total:
    """The rows of the sample, the number of rows and their total mass."""
    local = sampled_rows(block.start, len(block), n, step)
    weighted = 0 if block.mass is None else 1
    return Total((Pile((taken(block, local),)), len(block), float(block.weights.sum()), weighted))


def scores(block: Block) -> npt.NDArray[Any]:
    """(b, K) the probabilities as kernels read them: read-only, float16 as its bits."""
    probs: npt.NDArray[Any] = np.ascontiguousarray(block.probs).view()
    probs.flags.writeable = False
    return probs.view(np.uint16) if probs.dtype == np.float16 else probs


def kernel_weights(block: Block) -> Floats:
    """(b,) row masses as kernels read them, (0,) for ones."""
    mass = np.empty(0) if block.mass is None else np.ascontiguousarray(block.mass, np.float64).view()
    mass.flags.writeable = False
    return mass


def visited(block: Block, u: Units, T: Units, unit: float) -> Total:
    """(K,) units of the rows that stay where they are while prices move apart by no more than T; the others."""
    held, keep = movable(scores(block), kernel_weights(block), unit, u, T)
    return Total((held, Pile((taken(block, np.flatnonzero(keep)),))))


def movable(
    P: npt.NDArray[Any], weights: Floats, unit: float, u: Units, T: Units
) -> tuple[Units, npt.NDArray[np.bool_]]:
    """(K,) units of the rows that stay where they are while prices move apart by no more than T; (n,) the others."""
    from shiftgauge.transport import _kernels

    held, keep = np.zeros(len(u), np.int64), np.empty(len(P), np.bool_)
    _kernels.visit(P, weights, unit, u, T, T.max(axis=1), held, keep)
    return held, keep


def leeways(block: Block, u: Units, shift: Units, unit: float) -> Units:
    """(K, BINS) units of the rows by how much each class's price may rise until they leave: see the kernel."""
    from shiftgauge.transport import _kernels

    table = np.zeros((len(u), BINS), np.int64)
    _kernels.leeway(scores(block), kernel_weights(block), unit, u, shift, table)
    return table


def near(block: Block, u: Units) -> Indices:
    """The rows of a block that tie at prices u, or nearly so: where another optimal plan could differ."""
    T = np.full((len(u), len(u)), 2 * int(TIED * ONE) + 4)
    ones = kernel_weights(Block(block.probs, 0))
    return np.flatnonzero(movable(scores(block), ones, 1.0, u, T)[1])


@dataclass(frozen=True)
class Choice:
    """A plan as it travels: every row goes to its first best class at prices u, but for the rows listed.

    Attributes:
        u: (K,) prices on the grid.
        rows, classes: (m,) rows that tie at these prices and go elsewhere, rising, and where they go.
        split_rows, split_classes, split_shares: (s,) the parts of rows that are split, by row then class, as
            shares of the row. Such a row counts as one of its largest part where only one class can be said.
    """

    u: Units
    rows: Indices
    classes: Indices
    split_rows: Indices
    split_classes: Indices
    split_shares: Floats

    def assigned(self, block: Block) -> Indices:
        """(b,) the class of each row of a block."""
        from shiftgauge.transport import _kernels

        out = np.empty(len(block), np.intp)
        _kernels.first_best(scores(block), self.u, out)
        lo, hi = np.searchsorted(self.rows, [block.start, block.start + len(block)])
        out[self.rows[lo:hi] - block.start] = self.classes[lo:hi]
        return out

    def pieces(self, block: Block, assigned: Indices, cost: Floats) -> Pieces:
        """The plan of a block, one entry per part of a row."""
        lo, hi = np.searchsorted(self.split_rows, [block.start, block.start + len(block)])
        rows = np.arange(len(block))
        if lo == hi:
            return Pieces(rows, assigned, block.weights, cost)
        split, classes = self.split_rows[lo:hi] - block.start, self.split_classes[lo:hi]
        rows = np.delete(rows, split)
        parts = 1.0 - block.probs[split, classes].astype(np.float64)
        return Pieces(
            np.concatenate([rows, split]),
            np.concatenate([assigned[rows], classes]),
            np.concatenate([block.weights[rows], block.weights[split] * self.split_shares[lo:hi]]),
            np.concatenate([cost[rows], parts]),
        )


@dataclass(frozen=True)
class Pieces:
    """Parts of the rows of a block: the row's place in the block, the class, the mass that goes there, its cost."""

    row: Indices
    cls: Indices
    mass: Floats
    cost: Floats


def certified(block: Block, choice: Choice, u: Floats, read: Any) -> Total:
    """What a certificate needs of a block.

    Returns:
        its rows, sum_i m_i max_j (p_ij - u_j), the cost of the plan, (K,) the mass that each class receives, and
        `read(block, pieces)`, 0 if there is nothing to read.
    """
    from shiftgauge.transport import _kernels

    held, cost = np.zeros(len(u)), np.empty(len(block))
    assigned = choice.assigned(block)
    P, weights = scores(block), kernel_weights(block)
    best = 0.0
    for lo, hi in spans(len(block), max(1, NEAR // len(u))):
        best += _kernels.audit(P, lo, hi, weights, u, assigned, cost, held)
    primal = float(cost.sum()) if block.mass is None else float(cost @ block.mass)
    lo, hi = np.searchsorted(choice.split_rows, [block.start, block.start + len(block)])
    if read is None and lo == hi:
        return Total((len(block), best, primal, held, 0))
    pieces = choice.pieces(block, assigned, cost)
    held = np.asarray(np.bincount(pieces.cls, pieces.mass, len(u)), np.float64)
    primal = float(pieces.mass @ pieces.cost)
    return Total((len(block), best, primal, held, 0 if read is None else read(block, pieces)))


def weighed(block: Block, v: Floats, live: npt.NDArray[np.bool_]) -> Total:
    """One pass at log-weights v (K,), -inf for classes that are not live, with r_i = p_i w / sum_k p_ik w_k.

    Returns:
        sum_i m_i log sum_j p_ij w_j; (L,) sum_i m_i r_ij over the live classes; (L, L) sum_i m_i r_i r_i';
        sum_i m_i; sum_i m_i r_i of the prediction; and how many rows have one.
    """
    if len(live) <= FEW and np.abs(v[live]).max() <= ABSORB:
        return _weighed_few(block, v, live)
    k = int(live.sum())
    held, square, value, kept, seen = np.zeros(k), np.zeros((k, k)), 0.0, 0.0, 0
    place = np.where(live, np.cumsum(live) - 1, -1)
    for lo, hi in spans(len(block), slab(len(live))):
        part = block.part(lo, hi)
        E, top = raised(part, v, live)
        total = np.einsum("ij->i", E)
        m = part.weights
        value += float(m @ (top + np.log(total)))
        held += (m / total) @ E
        square += gram(E, m / total**2)
        if part.predictions is not None:
            at = place[part.predictions]
            rows = np.flatnonzero(at >= 0)
            kept += float((m / total)[rows] @ E[rows, at[rows]])
            seen += len(part)
    return Total((value, held, square, float(block.weights.sum()), kept, seen))


def _weighed_few(block: Block, v: Floats, live: npt.NDArray[np.bool_]) -> Total:
    """The same for few classes, compiled: their matrix products are too small for a library to be quick about."""
    from shiftgauge.transport import _kernels

    k = len(live)
    y = (
        np.empty(0, np.intp)
        if block.predictions is None
        else np.ascontiguousarray(block.predictions, np.intp)
    )
    held, square = np.zeros(k), np.zeros((k, k))
    y = y.view()
    y.flags.writeable = False
    weights = np.where(live, np.exp(np.where(live, v, 0.0)), 0.0)
    found = _kernels.weighed(scores(block), weights, kernel_weights(block), y, np.empty(k), held, square)
    whole = np.tril(square) + np.tril(square, -1).T
    mass = float(block.weights.sum())
    return Total((found[0], held[live], whole[np.ix_(live, live)], mass, found[1], len(y)))


def raised(block: Block, v: Floats, live: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """p w up to a factor per row, and the logarithm of that factor; by logarithms where w is out of range."""
    if np.abs(v[live]).max() <= ABSORB:
        probs = block.probs if live.all() else block.probs[:, live]
        return probs * np.exp(v[live]), np.zeros(len(block))
    z = block.log_probs[:, live] + v[live]
    top = z.max(axis=1)
    return np.exp(z - top[:, None]), top
