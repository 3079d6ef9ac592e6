"""Soft transport of rows to labels: the projection behind SCOT.

Rows go to labels at cost -log p_ij with entropic regularisation 1 and prescribed label masses q. The optimal plan
re-weights each row's probabilities by one weight per class,

    r_ij = p_ij w_j / sum_k p_ik w_k,    with w such that  sum_i mass_i r_ij = q_j,

found in v = log w by `newton`. A pass at given weights returns K sums and the K x K second moments of r
(`posterior_sums`), enough for a Newton step; a subsample gives weights to start from, so a few passes are left. The
same projection adjusts a classifier to a known class distribution (Heiser, Allikivi and Kull, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import Block, RowBuffer, Rows, Totals
from shiftgauge.rows.rows import subsampled_rows
from shiftgauge.transport.kernels import kernel_scores, kernel_weights
from shiftgauge.transport.newton import DualValue, newton
from shiftgauge.transport.problem import check_masses

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Up to this many classes, and in passes over files, the Newton system is solved directly; else by conjugate gradients.
DIRECT_CLASSES = 256
#: Rows of more entries than this are thinned to about so many, which give weights to start from; not with fewer rows
#: per class than that.
THIN_ENTRIES, FEW_PER_CLASS = 1 << 19, 500
#: Blocks of more entries than this, with so many classes at most, are summed by a kernel of our own.
KERNEL_ENTRIES, KERNEL_CLASSES = 1 << 17, 32
#: Entries that are worked on at a time, few enough for the cache; many classes take more, to pay for K x K sums.
TILE_ENTRIES, WIDE_TILE_ENTRIES, WIDE_CLASSES = 1 << 16, 1 << 19, 128
#: Products of matrices below this many multiplications are not split among threads by the linear algebra
#: library, which on busy cores would wait for its threads far longer than it works.
SINGLE_THREADED = 1 << 18
#: Weights with a larger |log w| are used in the log domain; so are rows whose weighted sum is below FAINT.
LARGEST_LOG, FAINT = 200.0, 1e-200


@dataclass(frozen=True)
class SoftTransport:
    """The soft plan and how well it meets the label masses.

    Attributes:
        log_weights: (K,) v; minus infinity for labels of zero mass.
        marginal_error: the largest |sum_i mass_i r_ij - q_j|.
        kept: the mass that the plan leaves on the predictions; SCOT is 1 - kept.
        passes: how often all rows were read.
    """

    log_weights: Floats
    marginal_error: float
    kept: float
    passes: int

    def posterior(self, block: Block) -> Floats:
        """(b, K) r, each row's distribution over labels."""
        live = np.isfinite(self.log_weights)
        E, _ = reweighted_rows(block.without_zeros, self.log_weights, live)
        if live.all():
            return E
        out = np.zeros(block.probs.shape)
        out[:, live] = E
        return out


async def soft_transport(rows: Rows, class_mass: npt.ArrayLike) -> SoftTransport:
    """Find the soft plan of all rows by a damped Newton method, to a marginal error of 1e-10.

    Args:
        rows: with calibrated probabilities; their weights are the masses.
        class_mass: (K,) label masses q, normalised to sum to 1.

    >>> from shiftgauge.rows import run
    >>> rows = Rows.of_block(Block(np.array([[.8, .2], [.6, .4]])))
    >>> plan = run(soft_transport(rows, [.5, .5]))
    >>> round(plan.kept, 6), plan.marginal_error < 1e-10
    (0.5, True)
    """
    q = check_masses(class_mass, rows.k, "class_mass", "classes")
    return await rows.once(("soft transport", q.tobytes()), _soft_transport, rows, q)


async def _soft_transport(rows: Rows, q: Floats) -> SoftTransport:
    if rows.warm_start is not None:
        start = await rows.warm_start.log_weights(rows, q)
        return await weights_of(rows, q, start=start, tol=1e-8)
    return await weights_of(rows, q)


async def weights_of(
    rows: Rows, q: Floats, *, start: Floats | None = None, tol: float = 1e-10, max_passes: int = 500
) -> SoftTransport:
    """`soft_transport` from (K,) given log-weights, to a tolerance, not remembered.

    Without a start, the weights of thinned rows begin it; at last one step of iterative scaling, which puts every
    label within reach, even one that all rows find next to impossible.
    """
    before, live = rows.passes, q > 0.0
    if start is None:
        thin = await thinned(rows)
        start = (
            await _scaled_once(rows, q)
            if thin is rows
            else (await weights_of(thin, q, tol=max(tol, 1e-8))).log_weights
        )
    kept: dict[bytes, float] = {}
    full = np.full(rows.k, -np.inf)

    async def read(v: Floats) -> DualValue:
        full[live] = v
        at, direct = full.copy(), live.sum() <= DIRECT_CLASSES or not rows.in_memory
        value, held, square, mass, on = await rows.fold(_positive_sums, at, live, direct)
        kept[v.tobytes()] = on / mass
        share = held / mass

        async def product(d: Floats) -> Floats:
            return np.asarray(share * d - await rows.fold(_curvature, at, live, d) / mass)

        return DualValue(value / mass, share, np.diag(share) - square / mass if direct else None, product)

    v = np.maximum(start[live], -LARGEST_LOG) if np.isneginf(start[live]).any() else start[live]
    found = await newton(read, v - v.max(), q[live], tol=tol, more=lambda: rows.passes - before < max_passes)
    full[live] = found.v
    return SoftTransport(full, found.error, kept[found.v.tobytes()], rows.passes - before)


async def thinned(rows: Rows) -> Rows:
    """Some rows in memory to start from, drawn by their numbers alone; the rows themselves if they are few."""
    if not rows.in_memory:
        return await rows.subsample()
    if rows.n * rows.k <= THIN_ENTRIES or rows.n < FEW_PER_CLASS * rows.k:
        return rows
    step = -(-rows.n * rows.k // THIN_ENTRIES)
    probs, predictions, mass = (await rows.fold(_thin, rows.n, step)).joined()
    if not mass.sum() > 0.0:
        return rows
    block = Block(probs, decisions=predictions, weights=mass if rows.weighted else None)
    return Rows.of_block(block)


def _thin(block: Block, n: int, step: int) -> RowBuffer:
    at = subsampled_rows(block.start, len(block), n, step)
    return RowBuffer.of(block.without_zeros.probs[at], block.predictions[at], block.mass[at])


# -- sums over a block ---------------------------------------------------------------------------------------


def posterior_sums(block: Block, v: Floats, live: Mask, moments: bool = True) -> Totals:
    """Sums of the posteriors r_i = p_i w / sum_k p_ik w_k over a block, for a Newton step or one of EM.

    Args:
        block: the rows.
        v: (K,) log-weights log w, -inf for classes that are not live.
        live: (K,) the classes that take part, L of them.
        moments: whether second moments are wanted.

    Returns:
        sum_i m_i log sum_j p_ij w_j; (L,) sum_i m_i r_ij; (L, L) sum_i m_i r_i r_i', 0 if not wanted; sum_i m_i; and
        sum_i m_i r_i of the prediction.
    """
    k = len(live)
    near = np.abs(v[live]).max() <= LARGEST_LOG
    if moments and k <= KERNEL_CLASSES and block.probs.size >= KERNEL_ENTRIES and near:
        totals = _compiled_sums(block, v, live)
        if totals is not None:
            return totals
    count, place = int(live.sum()), np.where(live, np.cumsum(live) - 1, -1)
    held, square, value, kept = np.zeros(count), np.zeros((count, count)) if moments else 0.0, 0.0, 0.0
    tile = max(1, (TILE_ENTRIES if k <= WIDE_CLASSES else WIDE_TILE_ENTRIES) // k)
    for lo in range(0, len(block), tile):
        part = block if len(block) <= tile else block.take(slice(lo, lo + tile))
        r, log_total = reweighted_rows(part, v, live)
        m = part.mass
        # not by BLAS, whose sums depend on its threads
        value += float(np.einsum("i,i", m, log_total))
        held += np.einsum("i,ij->j", m, r)
        if moments:
            square += _gram(r, m)
        at = place[part.predictions]
        rows = np.flatnonzero(at >= 0)
        kept += float(np.einsum("i,i", m[rows], r[rows, at[rows]]))
    return Totals((value, held, square, float(block.mass.sum()), kept))


def _positive_sums(block: Block, v: Floats, live: Mask, moments: bool) -> Totals:
    """`posterior_sums` with given probabilities of zero counted as small positive ones."""
    return posterior_sums(block.without_zeros, v, live, moments)


def _compiled_sums(block: Block, v: Floats, live: Mask) -> Totals | None:
    """The same for few classes: their matrix products are too small for a library to be quick. None if one is faint."""
    from shiftgauge.transport import _kernels

    k = len(live)
    held, square = np.zeros(k), np.zeros((k, k))
    y = np.ascontiguousarray(block.predictions, np.intp).view()
    y.flags.writeable = False
    weights = np.where(live, np.exp(np.where(live, v, 0.0)), 0.0)
    value, kept = _kernels.posterior_sums(
        kernel_scores(block.probs), weights, kernel_weights(block.weights), y, np.empty(k), held, square
    )
    if np.isnan(value):
        return None
    whole = np.tril(square) + np.tril(square, -1).T
    return Totals((value, held[live], whole[np.ix_(live, live)], float(block.mass.sum()), kept))


def reweighted_rows(block: Block, v: Floats, live: Mask) -> tuple[Floats, Floats]:
    """(b, L) posteriors r over the live classes, and (b,) log sum_j p_ij w_j; by logarithms where w is out of range."""
    if np.abs(v[live]).max() <= LARGEST_LOG:
        probs = block.probs if live.all() else block.probs[:, live]
        r = probs * np.exp(v[live])
        total = np.einsum("ij->i", r)
        if total.min() >= FAINT:
            r /= total[:, None]
            return r, np.log(total)
    z = block.log_probs[:, live] + v[live]
    top = z.max(axis=1)
    r = np.exp(z - top[:, None])
    total = np.einsum("ij->i", r)
    return r / total[:, None], top + np.log(total)


def _gram(r: Floats, m: Floats) -> Floats:
    """(K, K) sum_i m_i r_i r_i'."""
    n, k = r.shape
    root = np.sqrt(m)
    step = min(n, SINGLE_THREADED // k**2) if SINGLE_THREADED // k**2 >= 16 else n
    out = np.zeros((k, k))
    for lo in range(0, n, step):
        part = r[lo : lo + step] * root[lo : lo + step, None]
        out += part.T @ part
    return out


def _curvature(block: Block, v: Floats, live: Mask, d: Floats) -> Floats:
    """(L,) sum_i m_i r_i (r_i . d)."""
    r, _ = reweighted_rows(block.without_zeros, v, live)
    return np.asarray(np.einsum("i,ij->j", block.mass * np.einsum("ij,j->i", r, d), r))


# -- where to start ------------------------------------------------------------------------------------------


class _LogSum:
    """(K,) numbers by their logarithms, which add up."""

    def __init__(self, logs: Floats) -> None:
        self.logs = logs

    def __add__(self, other: _LogSum) -> _LogSum:
        return _LogSum(np.logaddexp(self.logs, other.logs))


def _column_logs(block: Block, live: Mask) -> _LogSum:
    """(L,) log sum_i m_i p_ij / sum_k p_ik over the live classes, exact even where it underflows."""
    r, _ = reweighted_rows(block, np.where(live, 0.0, -np.inf), live)
    column = np.einsum("i,ij->j", block.mass, r)
    faint = np.flatnonzero(column < FAINT)
    logs = np.log(np.where(column < FAINT, 1.0, column))
    if len(faint):
        z = block.log_probs[:, live]
        top = z.max(axis=1)
        with np.errstate(divide="ignore"):
            log_row = np.log(block.mass) - top - np.log(np.exp(z - top[:, None]).sum(axis=1))
        logs[faint] = np.logaddexp.reduce(z[:, faint] + log_row[:, None], axis=0)
    return _LogSum(logs)


async def _scaled_once(rows: Rows, q: Floats) -> Floats:
    """(K,) log-weights after one step of iterative scaling, in the log domain."""
    live = q > 0.0
    start = np.full(rows.k, -np.inf)
    start[live] = np.log(q[live]) - (await rows.fold(_column_logs, live)).logs
    return start
