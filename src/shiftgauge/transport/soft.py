"""Soft transport of rows to labels: the projection behind SCOT.

Rows go to labels at cost -log p_ij with entropic regularisation 1 and prescribed label masses q. The optimal plan
re-weights each row's probabilities by one weight per class,

    r_ij = p_ij w_j / sum_k p_ik w_k,    with w such that  sum_i mass_i r_ij = q_j,

found in v = log w by `newton`. A pass at given weights returns K sums and the K x K second moments of r
(`posterior_sums`), enough for a Newton step; a subsample gives weights to start from, so a few passes are left. The
same projection adjusts a classifier to a known class distribution (Heiser, Allikivi and Kull, 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import Block, RowBuffer, Rows, Totals, subsampled_rows
from shiftgauge.transport.newton import DualValue, newton
from shiftgauge.transport.problem import check_masses

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Up to this many classes, and in passes over files, the Newton system is solved directly; else by conjugate gradients,
#: for so many passes: what is not solved by then is too badly conditioned for them, as where rows are saturated.
DIRECT_CLASSES, GRADIENT_PASSES = 256, 100
#: Rows of more entries than this are thinned to about so many, which give weights to start from; not with fewer rows
#: per class than that.
THIN_ENTRIES, FEW_PER_CLASS = 1 << 17, 500
#: Entries that are worked on at a time: enough that threads rarely wait for each other's Python.
TILE_ENTRIES = 1 << 19
#: Products of matrices below this many multiplications are not split among threads by the linear algebra
#: library, which on busy cores would wait for its threads far longer than it works.
SINGLE_THREADED = 1 << 17
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
        E = reweighted_rows(block.without_zeros, self.log_weights, live)
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
        at, few = full.copy(), live.sum() <= DIRECT_CLASSES
        direct = few or not rows.in_memory or rows.passes - before > GRADIENT_PASSES
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
    count, place = int(live.sum()), np.where(live, np.cumsum(live) - 1, -1)
    held, value, kept = np.zeros(count), 0.0, 0.0
    square: Any = np.zeros((count, count)) if moments else 0.0
    predictions, mass = place[block.predictions], block.mass
    for rows in _tiles(block):
        p, w, c, log_total = _factors(block, rows, v, live)
        m, y = mass[rows], predictions[rows]
        # not by BLAS, whose sums depend on its threads
        value += float(np.einsum("i,i", m, log_total))
        if moments:
            square += _gram(p, np.sqrt(m) * c) * w * w[:, None]
        else:
            held += np.einsum("i,ij->j", m * c, p) * w
        at = np.flatnonzero(y >= 0)
        kept += float(np.einsum("i,i,i", (m * c)[at], p[at, y[at]], w[y[at]]))
    if moments:
        held = np.asarray(square).sum(axis=1)  # the entries of every r_i sum to 1
    return Totals((value, held, square, float(mass.sum()), kept))


def _positive_sums(block: Block, v: Floats, live: Mask, moments: bool) -> Totals:
    """`posterior_sums` with given probabilities of zero counted as small positive ones."""
    return posterior_sums(block.without_zeros, v, live, moments)


def _tiles(block: Block) -> Iterator[slice]:
    """Rows that are worked on at a time."""
    step = max(1, TILE_ENTRIES // block.k)
    return (slice(lo, lo + step) for lo in range(0, len(block), step))


def _factors(block: Block, rows: slice, v: Floats, live: Mask) -> tuple[Array, Floats, Floats, Floats]:
    """The posteriors r_ij = p_ij w_j c_i of some rows over the live classes, by their factors.

    Returns:
        (b, L) p; (L,) w; (b,) c; and (b,) log sum_j p_ij w_j. By logarithms if w is out of range: then p is r itself.
    """
    if np.abs(v[live]).max() <= LARGEST_LOG:
        p, w = block.probs[rows] if live.all() else block.probs[rows, live], np.exp(v[live])
        total = np.einsum("ij,j->i", p, w)
        if total.min() >= FAINT:
            return p, w, 1.0 / total, np.log(total)
    z = block.take(rows).log_probs[:, live] + v[live]
    top = z.max(axis=1)
    r = np.exp(z - top[:, None])
    total = np.einsum("ij->i", r)
    return r, np.ones(r.shape[1]), 1.0 / total, top + np.log(total)


def reweighted_rows(block: Block, v: Floats, live: Mask) -> Floats:
    """(b, L) posteriors r over the live classes."""
    p, w, c, _ = _factors(block, slice(None), v, live)
    r = p * w
    r *= c[:, None]
    return r


def _gram(p: Array, scale: Floats) -> Floats:
    """(K, K) sum_i scale_i^2 p_i p_i'."""
    n, k = p.shape
    step = min(n, SINGLE_THREADED // k**2) if SINGLE_THREADED // k**2 >= 16 else n
    out = np.zeros((k, k))
    for lo in range(0, n, step):
        part = p[lo : lo + step] * scale[lo : lo + step, None]
        out += part.T @ part
    return out


def _curvature(block: Block, v: Floats, live: Mask, d: Floats) -> Floats:
    """(L,) sum_i m_i r_i (r_i . d)."""
    block, out = block.without_zeros, np.zeros(len(d))
    for rows in _tiles(block):
        p, w, c, _ = _factors(block, rows, v, live)
        along = np.einsum("ij,j->i", p, w * d) * c
        out += np.einsum("i,ij->j", block.mass[rows] * c * along, p) * w
    return out


# -- where to start ------------------------------------------------------------------------------------------


class _LogSum:
    """(K,) numbers by their logarithms, which add up."""

    def __init__(self, logs: Floats) -> None:
        self.logs = logs

    def __add__(self, other: _LogSum) -> _LogSum:
        return _LogSum(np.logaddexp(self.logs, other.logs))


def _column_logs(block: Block, live: Mask) -> _LogSum:
    """(L,) log sum_i m_i p_ij / sum_k p_ik over the live classes, exact even where it underflows."""
    r = reweighted_rows(block, np.where(live, 0.0, -np.inf), live)
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
