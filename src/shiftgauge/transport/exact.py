"""Exact transport of rows into classes, in a few passes over their blocks.

1. Prices of a subsample, which is solved exactly. With so many classes that it has few rows of each, passes count
   instead, for every class, how far its price has to move.
2. A pass at these prices: rows that prefer their class a to any b by more than T[a, b] are counted where they are, the
   others are candidates. While prices move apart by no more than T, no other row changes class (`candidates`). If
   there would be too many candidates, passes that only count refine the prices first.
3. The exact search among the candidates, for what the others leave of the class masses. If prices moved further than
   T, pass again with the new ones.
4. A pass that audits the plan over all rows: primal, dual and class masses from the plan and the prices alone.

Few rows are all candidates. All that is counted is counted in integers and the subsample depends on row numbers alone,
so the plan does not depend on how rows are cut into blocks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import Block, RowBuffer, Rows, Totals, subsampled_rows
from shiftgauge.transport.candidates import (
    LEAST,
    CandidateRows,
    apart,
    noise_range,
    on_grid,
    price_forecast,
    search,
    spread_range,
    thinned_prices,
    whole_row,
)
from shiftgauge.transport.kernels import kernel_scores, kernel_weights, kernels_for
from shiftgauge.transport.plan import Certificate, Transport
from shiftgauge.transport.problem import check_masses
from shiftgauge.transport.smoothing import SmoothedTransport, smoothed_transport
from shiftgauge.transport.spanning_tree import Part
from shiftgauge.transport.units import ONE, Units, class_units, row_unit

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Up to this many entries all rows are candidates, as they are with fewer rows per class than that.
SMALL_ENTRIES, FEW_PER_CLASS = 1 << 18, 500
#: From this many classes on, prices of few rows come from histograms: a subsample says little of each class.
MANY_CLASSES = 64
#: The first prices come from so many times the square root of n rows: about as long is spent on them as on candidates.
SAMPLED = 30
#: A sample with fewer rows of a class than this says too little of its price.
SAMPLED_PER_CLASS = 100
#: Entries of all candidates; if there would be more, prices are refined first, in so many passes at most. In memory,
#: where passes are cheap, they are refined too if candidates are more rows, and a larger share of all, than these.
CANDIDATE_ENTRIES, REFINING_PASSES = 1 << 23, 3
CANDIDATE_ROWS, CANDIDATE_SHARE = 1 << 16, 0.1
#: Unless a pass leaves at most this share of the candidates, no other one follows; with histograms, this share.
WORTH, WORTH_HISTOGRAM = 0.7, 0.9
#: Bins of a class's histogram; their width at first is 2**FIRST_BIN, then they reach, to both sides, this many times as
#: far as the price moved last.
BINS, FIRST_BIN, BIN_RANGE = 256, 40, 0.5
#: The share of the way that all classes then go at once: each looks for itself, and what one gives another takes.
DAMPING = 0.85
#: Passes of histograms at most; before a search among all rows so many, and none with fewer rows per class than that.
HISTOGRAMS, HISTOGRAMS_BEFORE_ALL, HISTOGRAM_ROWS = 6, 3, 8
#: Before a search among all rows, prices by histograms are used if they leave at most this share of the misplaced mass:
#: where most rows tie, as one-hot rows do, they break the ties, and the search takes far longer than from zero prices.
MISPLACED = 0.5
#: Entries that a price forecast reads.
FORECAST_ENTRIES = 1 << 16
#: Parts of a row of so many units (2e-15 of the whole) are rounding errors of class masses: the row is not split.
ROUNDING = 1 << 12
#: Passes before the search gives up; each has more candidates, in the end all rows.
ROUNDS = 40


async def exact_transport(rows: Rows, class_mass: npt.ArrayLike) -> Transport | SmoothedTransport:
    """Find the cheapest plan of all rows, exactly, with prices that prove it.

        minimise  sum_ij x_ij (1 - p_ij)   subject to   sum_j x_ij = mass_i,  sum_i x_ij = q_j,  x >= 0

    Args:
        rows: with calibrated probabilities p; their weights are the masses.
        class_mass: (K,) q, non-negative; normalised to sum to 1.

    Rows with a warm start (a bootstrap replicate) get a smoothed plan, which is not exact.

    >>> from shiftgauge.rows import run
    >>> rows = Rows.of_block(Block(np.array([[0.9, 0.1], [0.6, 0.4]])))
    >>> run(exact_transport(rows, [1, 1])).value
    0.35
    """
    q = check_masses(class_mass, rows.k, "class_mass", "classes")
    return await rows.once(("exact transport", q.tobytes()), _transport, rows, q)


async def _transport(rows: Rows, q: Floats) -> Transport | SmoothedTransport:
    if rows.warm_start is None:
        return await plan_of(rows, q)
    return await smoothed_transport(rows, q, await rows.warm_start.prices(rows, q))


async def plan_of(rows: Rows, q: Floats, prices: Floats | None = None) -> Transport:
    """The exact plan, whatever the rows' warm start, from (K,) given prices; not remembered."""
    before = rows.passes
    if not rows.in_memory:
        drawn = await rows.subsample()
        if drawn.n == rows.n:  # all rows
            plan = await plan_of(drawn, q, prices)
            return replace(plan, passes=rows.passes - before)
    few = rows.n * rows.k <= SMALL_ENTRIES or rows.n < FEW_PER_CLASS * rows.k
    u = None if prices is None else on_grid(prices)
    found = await (_search_all if few and rows.in_memory else _search_candidates)(rows, q, u)
    return await _audited(rows, q, found, before)


@dataclass(frozen=True)
class _Found:
    """What the search ends with: prices, the numbers of the candidates, their classes, the parts of split rows."""

    u: Units
    numbers: Indices
    probs: Array
    cls: Indices
    split_rows: Indices
    split_classes: Indices
    split_shares: Floats

    @classmethod
    def of(
        cls, u: Units, numbers: Indices, probs: Array, assigned: Indices, parts: dict[Part, int]
    ) -> _Found:
        """The parts as shares of their rows; a split row is assigned to the class of its largest part."""
        by_row: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (row, j), units in sorted(parts.items()):
            by_row[row].append((j, units))
        for row, shares in by_row.items():
            assigned[row] = max(shares, key=lambda share: (share[1], -share[0]))[0]
            by_row[row] = [(j, units) for j, units in shares if units > ROUNDING or j == assigned[row]]
        split = [(row, j, units) for row, shares in by_row.items() if len(shares) > 1 for j, units in shares]
        at, classes = (np.array([s[place] for s in split], dtype=np.intp) for place in (0, 1))
        mass = np.array([s[2] for s in split], dtype=np.float64)
        part = mass / np.bincount(at, mass, len(assigned))[at]
        return cls(u, numbers, probs, assigned, numbers[at], classes, part)


# -- all rows are candidates ---------------------------------------------------------------------------------


def _columns(block: Block) -> RowBuffer:
    return RowBuffer.of(block.probs, block.mass)


async def _all_rows(rows: Rows) -> CandidateRows:
    """All rows; probabilities that need no calibration are not copied."""
    if rows.calibration is None:
        block = await rows.collect()
        return CandidateRows.of(block.probs, block.weights, row_unit(rows.mass))
    probs, mass = (await rows.fold(_columns)).joined()
    return CandidateRows.of(probs, mass if rows.weighted else None, row_unit(rows.mass))


async def _search_all(rows: Rows, q: Floats, u: Units | None) -> _Found:
    everything = await _all_rows(rows)
    search = _solved_turned if rows.k > rows.n else _solved
    u, cls, parts = await search(rows, everything, q, u)
    return _Found.of(u, np.arange(rows.n), everything.P, cls, parts)


async def _solved(
    rows: Rows, everything: CandidateRows, q: Floats, u: Units | None
) -> tuple[Units, Indices, dict[Part, int]]:
    """Prices, classes and parts of split rows."""
    if u is None and rows.k >= MANY_CLASSES and rows.n >= HISTOGRAM_ROWS * rows.k:
        by_histograms, _, left = await _histogram_prices(rows, q)
        if left <= MISPLACED:
            u = by_histograms
    if u is None:
        u = thinned_prices(everything, q)
    return u, *search(everything, u, everything.wanted(q))


async def _solved_turned(
    rows: Rows, everything: CandidateRows, q: Floats, u: Units | None
) -> tuple[Units, Indices, dict[Part, int]]:
    """The same with more classes than rows: classes are moved into rows.

    The search works on a graph of the side that is moved *into*, in time and memory of its size squared, so the
    smaller side is the one to take. Its prices v prove the same: u_j = max_i (p_ij - v_i) are prices of the classes
    with the same dual value, since p_ij - u_j <= v_i for every row.
    """
    P = np.rint(everything.P.astype(np.float64) * ONE).astype(np.int64)
    turned = Block(np.ascontiguousarray(everything.P.T), weights=q)
    mass = everything.units / everything.units.sum()
    v = None if u is None else (P - u).max(axis=1)
    classes = CandidateRows.of(turned.scores, q, row_unit(1.0))
    v, place, parts = await _solved(Rows.of_block(turned), classes, mass, None if v is None else v - v.min())
    u = (P - v[:, None]).max(axis=0)
    u -= u.min()
    split, units = {j for j, _ in parts}, classes.units
    back = {(row, j): part for (j, row), part in parts.items()}
    for j in np.flatnonzero(units).tolist():
        if j not in split:
            back[int(place[j]), j] = int(units[j])
    return u, (P - u).argmax(axis=1), back


# -- candidates of a pass ------------------------------------------------------------------------------------


def _sampled(block: Block, n: int, step: int) -> RowBuffer:
    rows = subsampled_rows(block.start, len(block), n, step)
    return RowBuffer.of(block.probs[rows], block.mass[rows])


async def _sample(rows: Rows) -> CandidateRows:
    """Some rows in memory, drawn by their numbers alone."""
    step = max(1, int(np.sqrt(rows.n) / SAMPLED))
    probs, mass = (await rows.fold(_sampled, rows.n, step)).joined()
    return CandidateRows.of(probs, mass if rows.weighted else None, row_unit(rows.mass))


def _candidates(block: Block, u: Units, T: Units, unit: float) -> Totals:
    """(K,) units of the rows that stay where they are while prices move apart by no more than T; the others."""
    held, keep = np.zeros(len(u), np.int64), np.empty(len(block), np.bool_)
    P, weights = kernel_scores(block.probs), kernel_weights(block.weights)
    kernels_for(P).may_move(P, weights, unit, u, T, T.max(axis=1), held, keep)
    rows = np.flatnonzero(keep)
    return Totals((held, RowBuffer.of(rows + block.start, block.probs[rows], block.mass[rows])))


async def _search_candidates(rows: Rows, q: Floats, u: Units | None) -> _Found:
    """Pass and search until prices move apart by no more than the pass allowed for."""
    u, T = await _first_prices(rows, q, u)
    unit = row_unit(rows.mass)
    for attempt in range(ROUNDS):
        held, buffer = await rows.fold(_candidates, u, T, unit)
        numbers, probs, mass = buffer.joined()
        del buffer  # it holds the same rows
        candidates = CandidateRows.of(probs, mass if rows.weighted else None, unit)
        total = int(held.sum() + candidates.units.sum())
        wanted = class_units(q, total, whole_row(unit)) - held
        more = 4.0 * np.maximum(T, LEAST * ONE)
        if (wanted >= 0).all():
            after = u.copy()
            cls, parts = search(candidates, after, wanted)
            moved = (after - u)[:, None] - (after - u)
            if len(numbers) == rows.n or (moved <= T).all():
                return _Found.of(after, numbers, candidates.P, cls, parts)
            more, u = np.maximum(spread_range(after - u), LEAST * ONE * 8.0**attempt), after
        T = apart(more)
    raise AssertionError("a search with every row must end")


async def _first_prices(rows: Rows, q: Floats, u: Units | None) -> tuple[Units, Units]:
    """Prices at which there are not too many candidates, and how far they may still have to move apart.

    A sample of S rows misses a class of share h by sqrt(h (1 - h) / S). Once a pass has counted what the classes
    have too much, only that is left to the sample: it then misses by the root of what has to move, over S.
    """
    memory = rows if rows.in_memory else await rows.subsample()
    sample, unit = await _sample(memory), row_unit(rows.mass)

    def share_of_candidates(u: Units, T: Units) -> float:
        block = Block(sample.P, weights=sample.weights if rows.weighted else None)
        return len(_candidates(block, u, T, unit)[1].pieces[0][0]) / len(sample)

    if len(sample) < SAMPLED_PER_CLASS * rows.k:
        return (await _histogram_prices(rows, q, share_of_candidates))[:2]
    size = len(sample)
    if u is None and memory is not rows:
        u, size = on_grid((await exact_transport(memory, q)).prices), memory.n
    elif u is None:
        u = thinned_prices(sample, q)
        search(sample, u, sample.wanted(q), plan=False)
    T, share = apart(np.full((rows.k, rows.k), np.inf)), 1.0
    if not rows.in_memory:
        h = _held_share(sample, u)
        T = noise_range(sample, u, np.sqrt(h * (1.0 - h) / size), FORECAST_ENTRIES)
        share = share_of_candidates(u, T)
    for _ in range(REFINING_PASSES):
        quick = not rows.in_memory or share <= max(CANDIDATE_SHARE, CANDIDATE_ROWS / rows.n)
        if quick and share * rows.n * rows.k <= CANDIDATE_ENTRIES:
            break
        held, _ = await rows.fold(_candidates, u, np.full((rows.k, rows.k), -1, np.int64), unit)
        total = int(held.sum())
        excess = held - class_units(q, total, whole_row(unit))
        trial = price_forecast(sample, u, excess, total)
        there = noise_range(sample, trial, _noise_of_moves(sample, u, trial), FORECAST_ENTRIES)
        left = share_of_candidates(trial, there)
        worth = left <= WORTH * share
        if left < share:
            u, T, share = trial, there, left
        if not worth:
            break
    return u, T


def _noise_of_moves(sample: CandidateRows, u: Units, after: Units) -> Floats:
    """(K,) the noise of the classes' shares if only the moves from prices u to others were left to a sample."""
    old, new = (sample.best_classes(prices, np.ones(sample.k))[0] for prices in (u, after))
    moved = old != new
    ends = np.bincount(np.concatenate([old[moved], new[moved]]), minlength=sample.k)
    return np.asarray((np.sqrt(ends) + 1.0) / len(sample))


def _held_share(sample: CandidateRows, u: Units) -> Floats:
    """(K,) the share of the sample that goes to each class at prices u."""
    _, _, held = sample.best_classes(u, np.ones(sample.k))
    return np.asarray(held / held.sum())


# -- prices by histograms ------------------------------------------------------------------------------------


def _histograms(block: Block, u: Units, shift: Units, unit: float) -> Units:
    """(K, BINS) units of the rows by how much each class's price may rise until they leave: see the kernel."""
    table = np.zeros((len(u), BINS), np.int64)
    P, weights = kernel_scores(block.probs), kernel_weights(block.weights)
    kernels = kernels_for(P)
    reach = np.maximum.reduceat((BINS // 2) << shift, np.arange(0, len(u), kernels.TILE))
    kernels.price_histograms(P, weights, unit, u, shift, reach, table)
    return table


async def _histogram_prices(
    rows: Rows, q: Floats, share_of_candidates: Any = None
) -> tuple[Units, Units, float]:
    """Prices where a sample has few rows of a class, and how far they may still have to move apart.

    A pass counts, for each class alone, how many rows it would have at every price (in bins), if the others stayed as
    they are. All then go there at once, after the first time most of the way: a Jacobi iteration, whose errors shrink
    the faster the more neighbours a class has. What it did last bounds what is left to do. If all rows are candidates
    anyway, `share_of_candidates` is None. Also returned: the mass beyond what classes should have at the last pass,
    relative to that at the first.
    """
    unit, live = row_unit(rows.mass) * 2.0**-16, q > 0.0  # a row that ties is counted in several classes
    wanted = class_units(q, int(rows.mass * unit), whole_row(unit))
    u, shift = np.zeros(rows.k, np.int64), np.full(rows.k, FIRST_BIN, np.int64)
    T, share, before, first = apart(np.full((rows.k, rows.k), np.inf)), 1.0, np.inf, True
    misplaced: list[int] = []
    for _ in range(HISTOGRAMS if share_of_candidates is not None else HISTOGRAMS_BEFORE_ALL):
        few = share * rows.n * rows.k <= CANDIDATE_ENTRIES
        if share_of_candidates is not None and (few or share > WORTH_HISTOGRAM * before):
            break
        table = await rows.fold(_histograms, u, shift, unit)
        excess = table[:, BINS // 2 :].sum(axis=1) - wanted
        misplaced.append(
            int(np.maximum(excess, 0).sum() - max(excess.sum(), 0))
        )  # rows that tie can be shared
        d = np.where(live, _own_moves(table, shift, wanted), 0.0)
        u = np.where(live, u + np.rint((1.0 if first else DAMPING) * d).astype(np.int64), 0)
        u = np.where(live, u - u[live].min(), 2 * ONE)  # no row goes where there is no mass
        spread = np.abs(d) + np.abs(d).mean()
        before = np.inf if first else share  # the first time prices move far
        first = False
        if share_of_candidates is not None:
            T = apart(2.0 * (spread[:, None] + spread))
            share = share_of_candidates(u, T)
        shift = np.ceil(np.log2(BIN_RANGE * spread / (BINS // 2) + 1.0)).astype(np.int64)
    return u, T, misplaced[-1] / max(misplaced[0], 1)


def _own_moves(table: Units, shift: Units, wanted: Units) -> Floats:
    """(K,) by how much each class's price has to rise, alone, so that it keeps its mass."""
    k, bins = table.shape
    above = np.cumsum(table[:, ::-1], axis=1)
    at = (above < wanted[:, None]).sum(axis=1)
    last = np.minimum(at, bins - 1)
    before = np.where(last > 0, above[np.arange(k), last - 1], 0)
    part = (wanted - before) / np.maximum(above[np.arange(k), last] - before, 1)
    return np.asarray((bins // 2 - last - np.clip(part, 0.0, 1.0)) * np.exp2(shift))


# -- the audit -----------------------------------------------------------------------------------------------


def _audit(block: Block, plan: Transport, prices: Floats) -> Totals:
    """What a certificate needs of a block: sum_i m_i max_j (p_ij - u_j), the plan's cost, (K,) the classes' masses."""
    held, P = np.zeros(len(prices)), kernel_scores(block.probs)
    best, cost = kernels_for(P).audit_sums(P, kernel_weights(block.weights), plan.u, prices, held)
    pieces = plan.listed_pieces(block)
    if len(pieces.row):  # what the kernel counted in first best classes goes where the plan says
        rows, wrong = np.unique(pieces.row), np.zeros(len(prices))
        weights = kernel_weights(None if block.weights is None else block.weights[rows])
        cost -= kernels_for(P).audit_sums(kernel_scores(P[rows]), weights, plan.u, prices, wrong)[1]
        cost += float(np.einsum("i,i->", pieces.mass, pieces.cost))
        held += np.bincount(pieces.cls, pieces.mass, len(prices)) - wrong
    return Totals((best, cost, held))


async def _audited(rows: Rows, q: Floats, found: _Found, before: int) -> Transport:
    """The plan and its certificate, by a pass over all rows."""
    first = np.empty(len(found.numbers), np.intp)
    kernels_for(found.probs).first_best(kernel_scores(found.probs), found.u, first)
    other = np.flatnonzero(first != found.cls)
    nothing = Certificate(np.nan, np.nan, np.nan, np.nan)
    split = (found.split_rows, found.split_classes, found.split_shares)
    plan = Transport(
        found.u, q, found.numbers[other], found.cls[other], *split, nothing, len(found.numbers), 0
    )
    best, cost, held = await rows.fold(_audit, plan, plan.prices)
    missed = np.bincount(np.unique(split[0], return_inverse=True)[1], split[2]) - 1.0
    violation = max(
        float(np.abs(held / rows.mass - q).max()), float(np.abs(missed).max(initial=0.0)) / rows.n
    )
    dual = 1.0 - (best / rows.mass + float(q @ plan.prices))
    certificate = Certificate(cost / rows.mass, dual, cost / rows.mass - dual, violation)
    return replace(plan, certificate=certificate, passes=rows.passes - before)
