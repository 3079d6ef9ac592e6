"""Class weights in a few passes over blocks of rows: SCOT's plan, and label shares by maximum likelihood.

Both re-weight each row's probabilities, r_ij = p_ij w_j / sum_k p_ik w_k, and differ in what the weights are to do.
A pass at given weights returns K sums and the K x K second moments of r (`_steps.weighed`), enough for a Newton step;
a sample that fits memory gives weights to start from, so two or three passes are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import Moments, most_likely
from shiftgauge.transport import _steps
from shiftgauge.transport._newton import Reading, newton
from shiftgauge.transport._rows import Floats
from shiftgauge.transport.blocks import Block, Blocks, cut
from shiftgauge.transport.entropic import soft_transport
from shiftgauge.transport.problem import masses
from shiftgauge.transport.streamed import Sample, take_sample

#: Entries of the sample that the search for weights begins with.
THIN = 1 << 19


@dataclass(frozen=True)
class SoftWeights:
    """SCOT's plan of rows that were never all in memory.

    Attributes:
        log_weights: (K,) v; minus infinity for labels of zero mass.
        marginal_error: the largest |sum_i mass_i r_ij - q_j|.
        kept: the mass that the plan leaves on the predictions; SCOT is 1 - kept. None without predictions.
        passes: how often all rows were read.
    """

    log_weights: Floats
    marginal_error: float
    kept: float | None
    passes: int

    def posterior(self, block: Block) -> Floats:
        """(b, K) r, each row's distribution over labels."""
        live = np.isfinite(self.log_weights)
        out = np.zeros(block.probs.shape)
        E, _ = _steps.raised(block, self.log_weights, live)
        out[:, live] = E / np.einsum("ij->i", E)[:, None]
        return out


def soft_blocks(
    blocks: Blocks,
    class_mass: npt.ArrayLike,
    *,
    start: Floats | None = None,
    sample: Sample | None = None,
    tol: float = 1e-10,
    max_passes: int = 30,
) -> SoftWeights:
    """Solve for SCOT's class weights in a few passes.

    Args:
        blocks: the rows; with predictions, the mass left on them is read along the way.
        class_mass: (K,) label masses q, normalised to sum to 1.
        start: (K,) log-weights to start from, instead of the sample's.
        sample: one that was taken already; else it takes a pass.
        tol: the largest marginal error to leave.
        max_passes: give up after so many and return the best weights found.

    >>> blocks = cut(np.array([[.8, .2], [.6, .4]]), [1], predictions=np.array([0, 0]))
    >>> plan = soft_blocks(blocks, [.5, .5])
    >>> round(plan.kept, 6), plan.marginal_error < 1e-10
    (0.5, True)
    """
    before = blocks.passes
    q = masses(class_mass, blocks.k, "class_mass", "classes")
    live = q > 0.0
    if start is None:
        sample = take_sample(blocks) if sample is None else sample
        start = _sample_weights(sample, q)
    kept: dict[bytes, float] = {}

    def read(v: Floats) -> Reading:
        full = np.full(blocks.k, -np.inf)
        full[live] = v
        value, held, square, mass, on, seen = blocks.reduce(_steps.weighed, full, live)
        kept[v.tobytes()] = on / mass if seen else np.nan
        share = held / mass
        return Reading(value / mass, share, lambda: np.diag(share) - square / mass)

    v = start[live] - start[live].max()
    found = newton(read, v, q[live], tol=tol, more=lambda: blocks.passes - before < max_passes)
    log_weights = np.full(blocks.k, -np.inf)
    log_weights[live] = found.v
    on_prediction = kept[found.v.tobytes()]
    return SoftWeights(
        log_weights, found.error, None if np.isnan(on_prediction) else on_prediction, blocks.passes - before
    )


def _sample_weights(sample: Sample, q: Floats) -> Floats:
    """(K,) log-weights of the sample: found for one row out of so many of it, then for all, which takes few reads."""
    step = max(1, sample.probs.size // THIN)
    mass, probs = sample.mass[::step], sample.probs[::step]
    if step == 1 or not mass.sum() > 0.0:
        return soft_transport(
            None, q, sample.mass / sample.mass.sum(), probs=sample.probs, tol=1e-8
        ).log_weights
    start = soft_transport(None, q, mass / mass.sum(), probs=probs, tol=1e-8).log_weights
    at_home = cut(sample.probs, mass=sample.mass if sample.weighted else None)
    return soft_blocks(at_home, q, start=start, tol=1e-8).log_weights


@dataclass(frozen=True)
class Shares:
    """Label shares of maximum likelihood, with the proof of how good they are.

    Attributes:
        shares: (K,) pi, the label shares.
        weights: (K,) w_c = pi_c / prior_c; 0 where the prior is 0.
        gap: a certified bound on how far the mean log-likelihood lies below its maximum.
        passes: how often all rows were read.
    """

    shares: Floats
    weights: Floats
    gap: float
    passes: int


def likely_shares(
    blocks: Blocks,
    prior: Floats,
    *,
    start: Floats | None = None,
    sample: Sample | None = None,
    tol: float = 1e-9,
    max_passes: int = 100,
) -> Shares:
    """Maximise sum_i mass_i log sum_c p_ic pi_c / prior_c over label shares pi (MLLS) in a few passes.

    The search is `shiftgauge.labelshift.most_likely`; a sample that fits memory gives shares to start from.

    Args:
        blocks: the rows.
        prior: (K,) what the probabilities average to on the source.
        start: (K,) shares to start from, instead of the sample's.
        sample: one that was taken already; else it takes a pass.
        tol: the certified gap to reach.
        max_passes: give up after so many and return the best found.
    """
    before = blocks.passes
    live = prior > 0.0
    if start is None:
        sample = take_sample(blocks) if sample is None else sample
        at_home = cut(sample.probs, [], mass=sample.mass if sample.weighted else None)
        start = likely_shares(at_home, prior, start=prior, tol=tol, max_passes=1000).shares

    def read(pi: Floats) -> Moments:
        v = np.full(blocks.k, -np.inf)
        v[live] = np.log(pi / prior[live])
        value, held, square, mass, _, _ = blocks.reduce(_steps.weighed, v, live)
        return Moments(value / mass, held / mass, lambda: square / mass)

    pi, gap = most_likely(read, start[live], tol, lambda: blocks.passes - before < max_passes)
    shares, weights = np.zeros(blocks.k), np.zeros(blocks.k)
    shares[live] = pi
    weights[live] = pi / prior[live]
    return Shares(shares, weights, gap, blocks.passes - before)
