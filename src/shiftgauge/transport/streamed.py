"""Exact transport in a few passes over blocks of rows.

1. A sample that fits memory (`take_sample`), one row out of every so many; its exact prices.
   Where too many rows would come home at these prices, passes that only count make them better first: what each
   class has too much over all rows is taken from the sample, which moves its prices; that error is far smaller. With
   so many classes that the sample has few rows of each, every class counts in bins how far its price has to move.
2. A pass at these prices: rows that prefer their class a to any b by more than T[a, b] are counted where they are,
   the others come home. While prices move apart by no more than T, nobody else changes class (`_active`).
3. The exact search among the rows at home, for what the others leave of the class masses. If prices moved
   further, pass again with the new ones.
4. A pass that audits the plan over all rows: primal, dual and class masses from the plan and the prices alone.

All that is counted is counted in integers and the sample depends on row numbers alone, so the plan does not depend
on how rows are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.transport import _steps
from shiftgauge.transport._active import FURTHEST, LEAST, rehearsal, rehearsed
from shiftgauge.transport._audit import split_parts
from shiftgauge.transport._rows import Crew, Floats, Indices, Rows
from shiftgauge.transport._steps import Choice, Pieces
from shiftgauge.transport._units import ONE, Units, class_units, row_unit
from shiftgauge.transport.blocks import Block, Blocks
from shiftgauge.transport.problem import Problem, masses
from shiftgauge.transport.solution import Certificate, cost_range
from shiftgauge.transport.solver import AUCTION_ROWS, on_grid, solve, solve_rows

#: Entries of a sample, about; of a problem that is taken home as a whole; and of one with many classes.
SAMPLE, KEPT, WHOLE = 1 << 23, 1 << 22, 1 << 26
#: Entries that may come home; where more would, prices are made better first, in so many passes at most.
HOME, BETTER = 1 << 23, 6
#: A sample with fewer rows of a class than this says too little of its price.
#: Unless a pass leaves at most this share of the rows that would come home, no other follows.
PER_CLASS, WORTH = 100, 0.7
#: How far a class first looks for its price, in bins of 2**FIRST; how much of the way all classes then go at once:
#: each looks for itself, and what one gives another takes.
FIRST, AT_ONCE = 40, 0.7
#: Such passes go on while each leaves at most this share of the rows that would come home.
SLOW = 0.9
#: Entries that a rehearsal reads: the better the guess, the fewer rows come home.
REHEARSAL = 1 << 20
#: How much further than in a rehearsal prices may move, and how many rehearsals make a guess.
SAFETY, GUESSES = 2.0, 1
#: Passes before the search gives up; each lets more rows come home, in the end all.
ROUNDS = 30


@dataclass(frozen=True)
class Sample:
    """Some rows at home, drawn by their numbers alone.

    Attributes:
        rows, probs, mass: (m,), (m, K), (m,) their numbers, probabilities and masses.
        n: the number of all rows.
        total: the mass of all rows.
        weighted: whether masses were given.
    """

    rows: Indices
    probs: npt.NDArray[Any]
    mass: Floats
    n: int
    total: float
    weighted: bool


def sample_step(n: int, k: int) -> int:
    """One row out of how many is drawn: all of a problem that fits memory easily."""
    if n * k <= KEPT or (n < AUCTION_ROWS * k and n * k <= WHOLE):
        return 1
    return min(n, max(2, -(-n * k // SAMPLE)))


def take_sample(blocks: Blocks) -> Sample:
    """Draw a sample in one pass: all rows of a problem that fits memory easily, one of every so many else."""
    n = blocks.n
    step = sample_step(n, blocks.k)
    pile, found, total, weighted = blocks.reduce(_steps.sampled, n, step)
    if found != n:
        raise InputError(f"the blocks hold {found} rows; wanted the {n} that were announced")
    rows, probs, mass = pile.joined()
    return Sample(rows, probs, mass, n, total, weighted > 0)


@dataclass(frozen=True)
class Streamed:
    """An optimal plan of rows that were never all in memory.

    Attributes:
        choice: the plan, small enough to travel: `assigned(block)` and `pieces(block)` read it.
        prices: (K,) the dual solution u.
        certificate: primal and dual over all rows, recomputed in a pass of its own.
        reading: the sum over blocks of what `read` returned in that pass.
        home: how many rows the exact search held in memory.
        passes: how often all rows were read.
    """

    choice: Choice
    prices: Floats
    certificate: Certificate
    reading: Any
    home: int
    passes: int

    @property
    def value(self) -> float:
        """The optimal cost, COT."""
        return self.certificate.primal

    def pieces(self, block: Block) -> Pieces:
        """The plan of one block: place in the block, class, mass and cost of each part of a row."""
        assigned = self.choice.assigned(block)
        cost = 1.0 - block.probs[np.arange(len(block)), assigned].astype(np.float64)
        return self.choice.pieces(block, assigned, cost)

    def rows(self, block: Block) -> tuple[Indices, Floats]:
        """(b,) each: the class of every row of a block (of a split row its largest part's), and its cost."""
        pieces = self.pieces(block)
        paid = np.bincount(pieces.row, pieces.mass * pieces.cost, len(block))
        held = np.bincount(pieces.row, pieces.mass, len(block))
        assigned = self.choice.assigned(block)
        alone = 1.0 - block.probs[np.arange(len(block)), assigned].astype(np.float64)
        split = np.isin(np.arange(block.start, block.start + len(block)), self.choice.split_rows)
        return assigned, np.where(split & (held > 0), paid / np.where(held > 0, held, 1.0), alone)

    def cost_range(self, block: Block, class_mass: Floats) -> tuple[Floats, Floats]:
        """(b,) each: the least and the largest cost that any optimal plan could give the rows of a block."""
        assigned = self.choice.assigned(block)
        cost = 1.0 - block.probs[np.arange(len(block)), assigned].astype(np.float64)
        near = _steps.near(block, np.where(class_mass > 0.0, self.choice.u, _steps.NEVER))
        least, most = cost.copy(), cost
        least[near], most[near] = cost_range(block.probs[near], self.prices, class_mass)
        return least, most


def solve_blocks(
    blocks: Blocks,
    class_mass: npt.ArrayLike,
    *,
    prices: npt.ArrayLike | None = None,
    sample: Sample | None = None,
    read: Callable[[Block, Pieces], Any] | None = None,
    threads: int | None = None,
) -> Streamed:
    """Find the cheapest plan of all rows, exactly, in a few passes over their blocks.

    Args:
        blocks: the rows; see `shiftgauge.transport.blocks`.
        class_mass: (K,) q, normalised to sum to 1.
        prices: (K,) prices to start from, instead of the sample's.
        sample: one that was taken already; else it takes a pass.
        read: a step that rides along with the auditing pass: `read(block, pieces)`; its results add up.
        threads: of the search at home.

    >>> from shiftgauge.transport.blocks import cut
    >>> solve_blocks(cut(np.array([[0.9, 0.1], [0.6, 0.4]]), [1]), [1, 1]).value
    0.35
    """
    before = blocks.passes
    q = masses(class_mass, blocks.k, "class_mass", "classes")
    sample = take_sample(blocks) if sample is None else sample
    with Crew(threads) as crew:
        found = _from_sample(sample, q) if len(sample.rows) == blocks.n else None
        if found is None:
            u = _sample_prices(sample, q) if prices is None else on_grid(np.asarray(prices, np.float64))
            found = _search(blocks, sample, q, u, crew)
    return _audited(blocks, sample, q, found, read, before)


@dataclass(frozen=True)
class _Found:
    """What the search ends with: prices on the grid, the rows at home, their classes, parts of split ones."""

    u: Units
    rows: Indices
    probs: npt.NDArray[Any]
    assigned: Indices
    split: tuple[Indices, Indices, Floats]


def _from_sample(sample: Sample, q: Floats) -> _Found:
    """All rows are at home already."""
    plan = solve(Problem(sample.probs, q, sample.mass if sample.weighted else None))
    mass = np.full(sample.n, 1.0 / sample.n) if plan.row_mass is None else plan.row_mass
    split = plan.split_rows, plan.split_classes, plan.split_mass / mass[plan.split_rows]
    return _Found(on_grid(plan.prices), sample.rows, sample.probs, plan.assigned, split)


def _sample_prices(sample: Sample, q: Floats) -> Units:
    return on_grid(solve(Problem(sample.probs, q, sample.mass if sample.weighted else None)).prices)


def _search(blocks: Blocks, sample: Sample, q: Floats, u: Units, crew: Crew) -> _Found:
    """Pass and search until prices move apart by no more than the pass allowed for.

    How far that is can be rehearsed on the sample, but only once it is known how much each class has too much,
    which takes a pass. So the first pass is made with a guess from the noise of the sample, and another one only
    where the rehearsal says that it was too small.
    """
    unit = row_unit(sample.total)
    here = _home(sample.probs, sample.mass if sample.weighted else None, unit, q, crew)
    few = here.items < PER_CLASS * blocks.k
    (u, T), safety = (_counted if few else _better)(blocks, here, u, unit, q), SAFETY
    for _ in range(ROUNDS):
        held, pile = blocks.reduce(_steps.visited, u, T, unit)
        rows, probs, mass = pile.joined()
        del pile  # it holds the same rows
        home = _home(probs, mass if sample.weighted else None, unit, q, crew)
        inside = home.best_classes(u, np.full(len(rows), -1, dtype=np.intp), np.empty(len(rows), np.float32))
        total = int(held.sum() + inside.sum())
        wanted = class_units(q, total, int(unit)) - held
        excess = held + inside - class_units(q, total, int(unit))
        need = T if few else rehearsed(here, u, excess, total, safety, REHEARSAL)
        enough, moved = bool((need <= SAFETY * T).all()), T
        if enough and (wanted >= 0).all():
            after = u.copy()
            assigned, parts, _ = solve_rows(home, after, wanted)
            moved = (after - u)[:, None] - (after - u)
            if len(rows) == blocks.n or (moved <= T).all():
                split = split_parts(assigned, parts)
                shares = split.mass / home.units(split.rows)
                return _Found(after, rows, probs, assigned, (rows[split.rows], split.classes, shares))
        if enough:  # the guess was wrong
            safety *= 8
            need = (
                _apart(2 * SAFETY * np.maximum(T, moved) + safety * LEAST * ONE)
                if few
                else rehearsed(here, u, excess, total, safety, REHEARSAL)
            )
        T = np.maximum(need, T)
        del rows, probs, mass, home
    raise AssertionError("a search with every row at home must end")


def _better(blocks: Blocks, here: Rows, u: Units, unit: float, q: Floats) -> tuple[Units, Units]:
    """Prices at which not too many rows come home, and how far they may still have to move apart.

    A sample of S rows misses a class of share h by sqrt(h (1 - h) / S). Once a pass has counted what the classes
    have too much, only that is left to the sample: it then misses by the root of what has to move, over S.
    """
    nobody = np.full((blocks.k, blocks.k), -1, np.int64)
    T = _guessed(here, u)
    coming = _coming(here, u, T)
    for _ in range(BETTER):
        if coming * blocks.n * blocks.k <= HOME:
            break
        held, _ = blocks.reduce(_steps.visited, u, nobody, unit)
        total = int(held.sum())
        excess = held - class_units(q, total, int(unit))
        trial = rehearsal(here, u, excess, total, here.P.size)[0]
        there = _guessed(here, trial, np.abs(excess) / total)
        left = _coming(here, trial, there)
        worth = left <= WORTH * coming
        if left < coming:
            u, T, coming = trial, there, left
        if not worth:
            break
    return u, T


def _counted(blocks: Blocks, here: Rows, u: Units, unit: float, q: Floats) -> tuple[Units, Units]:
    """The same where the sample has few rows of a class: every class looks for its own price among all rows.

    A pass counts, for each class alone, how many rows it would have at every price (in bins), if the others stayed as
    they are. All then go there at once, after the first time most of the way: a Jacobi iteration, whose errors shrink
    the faster the more neighbours a class has. What it did last bounds what is left to do.
    """
    live, shift = q > 0.0, np.full(blocks.k, FIRST, np.int64)
    T, coming, before, way = _apart(np.full((blocks.k, blocks.k), np.inf)), 1.0, np.inf, 1.0
    for _ in range(BETTER):
        if coming * blocks.n * blocks.k <= HOME or coming > SLOW * before:
            break
        table = blocks.reduce(_steps.leeways, u, shift, unit)
        d = np.where(live, _own_moves(table, shift, q, int(unit)), 0.0)
        u = np.where(live, u + np.rint(way * d).astype(np.int64), 0)
        u = np.where(live, u - u[live].min(), 2 * ONE)  # nobody goes where there is no mass
        spread = np.abs(d) + np.abs(d).mean()
        T = _apart(SAFETY * (spread[:, None] + spread))
        before = coming if way < 1.0 else np.inf  # the first time prices move far
        coming, way = _coming(here, u, T), AT_ONCE
        shift = np.ceil(np.log2(4.0 * spread / (_steps.BINS // 2) + 1.0)).astype(np.int64)
    return u, T


def _apart(far: Floats) -> Units:
    """(K, K) how far prices may move apart, at most so far that every row comes home."""
    return np.asarray(np.minimum(far, FURTHEST * ONE), np.int64)


def _own_moves(table: Units, shift: Units, q: Floats, unit: int) -> Floats:
    """(K,) by how much each class's price has to rise, alone, so that it keeps its mass."""
    k, bins = table.shape
    wanted = class_units(q, int(table[:, bins // 2 :].sum()), unit)
    above = np.cumsum(table[:, ::-1], axis=1)
    at = (above < wanted[:, None]).sum(axis=1)
    last = np.minimum(at, bins - 1)
    before = np.where(last > 0, above[np.arange(k), last - 1], 0)
    part = (wanted - before) / np.maximum(above[np.arange(k), last] - before, 1)
    return np.asarray((bins // 2 - last - np.clip(part, 0.0, 1.0)) * np.exp2(shift))


def _coming(here: Rows, u: Units, T: Units) -> float:
    """The share of the sample that would come home."""
    return float(_steps.movable(here.P, here.weights, here.unit, u, T)[1].mean())


def _guessed(rows: Rows, u: Units, moved: Floats | None = None) -> Units:
    """(K, K) how far prices may have to move apart: the most of a few rehearsals with the noise of a sample.

    Of S sampled rows a class with the share h has sqrt(S h (1 - h)) too many or too few, give or take; where only
    the shares `moved` (K,) were left to the sample, sqrt(S moved) and one more.
    """
    rng = np.random.default_rng(0)
    held = rows.best_classes(u, np.full(rows.items, -1, dtype=np.intp), np.empty(rows.items, np.float32))
    total = int(held.sum())
    h = held / total
    noise = np.sqrt((h * (1.0 - h) if moved is None else moved) / rows.items)
    noise = noise if moved is None else noise + 1.0 / rows.items
    guesses = []
    for _ in range(GUESSES):
        drawn = noise * rng.normal(size=len(u))
        excess = np.rint((drawn - h * drawn.sum()) * total).astype(
            np.int64
        )  # all classes share what is left over
        excess[np.argmax(held)] -= excess.sum()
        guesses.append(rehearsed(rows, u, excess, total, SAFETY, REHEARSAL))
    return np.asarray(np.max(guesses, axis=0), np.int64)


def _home(probs: npt.NDArray[Any], mass: Floats | None, unit: float, q: Floats, crew: Crew) -> Rows:
    block = Block(probs, 0, mass)
    return Rows(_steps.scores(block), _steps.kernel_weights(block), unit, q, crew)


def _audited(
    blocks: Blocks,
    sample: Sample,
    q: Floats,
    found: _Found,
    read: Callable[[Block, Pieces], Any] | None,
    before: int,
) -> Streamed:
    """The auditing pass: the plan as it travels, and its certificate."""
    from shiftgauge.transport import _kernels

    first = np.empty(len(found.rows), np.intp)
    _kernels.first_best(_steps.scores(Block(found.probs, 0)), found.u, first)
    other = np.flatnonzero(first != found.assigned)
    choice = Choice(found.u, found.rows[other], found.assigned[other], *found.split)
    u = found.u / ONE
    n, best, primal, held, reading = blocks.reduce(_steps.certified, choice, u, read)
    if n != blocks.n:
        raise InputError(f"the blocks hold {n} rows, {blocks.n} before: they changed between two passes")
    dual = 1.0 - (best / sample.total + float(q @ u))
    missed = np.bincount(np.unique(found.split[0], return_inverse=True)[1], found.split[2]) - 1.0
    violation = max(
        float(np.abs(held / sample.total - q).max()), float(np.abs(missed).max(initial=0.0)) / blocks.n
    )
    certificate = Certificate(primal / sample.total, dual, primal / sample.total - dual, violation)
    return Streamed(choice, u, certificate, reading, len(found.rows), blocks.passes - before)
