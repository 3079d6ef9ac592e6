"""Label shares by maximum likelihood (MLLS), certified."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift.confusion import Array
from shiftgauge.labelshift.simplex import bounded_minimum
from shiftgauge.rows import Rows
from shiftgauge.transport import posterior_sums, thinned

Mask = npt.NDArray[np.bool_]

#: Curvatures are floored here, so that none divides by zero.
TINY = 1e-300
#: Shares are kept above this, so that none is locked at zero.
LEAST = 1e-12
#: The share of classes left out, small enough that thousands of them together do not widen the certified gap.
SHARE_LEFT_OUT = 1e-20
#: EM steps before Newton's method.
EM_STEPS = 5
#: The search ends where the gap is small and the next step changes no share by more than this.
STEP = 1e-10
#: Added to the curvature, whose diagonal is 1, so that it can be inverted where the likelihood is flat.
RIDGE = 1e-10
#: By this much the log-likelihood may fall through rounding.
ROUNDING = 1e-14


@dataclass(frozen=True)
class LabelShares:
    """The maximum-likelihood label shares with the proof of how good they are.

    Attributes:
        shares: (K,) pi, the target's label shares.
        weights: (K,) w_c = pi_c / prior_c; 0 where the prior is 0.
        gap: a certified bound on how far the mean log-likelihood lies below its maximum.
        passes: how often all rows were read.
    """

    shares: Array
    weights: Array
    gap: float
    passes: int


async def mlls(rows: Rows, prior: Array, *, tol: float = 1e-9, max_passes: int = 500) -> LabelShares:
    """Maximise sum_i mass_i log sum_c p_ic pi_c / prior_c over label shares pi, to convergence.

    Thinned rows give shares to start from; of few rows a few EM steps begin: the E-step is the posterior
    r_ic = p_ic w_c / sum_k p_ik w_k with w = pi / prior, the M-step pi_c = sum_i mass_i r_ic. Newton steps follow
    (`most_likely`). At the maximum the target's mean re-weighted posterior is pi itself, so SCOT at this marginal has
    the same plan.

    Args:
        rows: the target's rows with calibrated probabilities.
        prior: (K,) what the probabilities average to on the source: its mean posterior (or, with a
            bias-corrected calibration, equally its label shares).
        tol: the certified gap to reach.
        max_passes: give up after so many passes and return the best found.

    References: Saerens, Latinne and Decaestecker, Adjusting the Outputs of a Classifier to New a Priori
    Probabilities, 2002; Alexandari, Kundaje and Shrikumar, Maximum Likelihood with Bias-Corrected
    Calibration is Hard-to-Beat at Label Shift Adaptation, 2020.

    >>> from shiftgauge.rows import Block, run
    >>> rows = Rows.of_block(Block(np.array([[.9, .1]] * 3 + [[.1, .9]])))
    >>> run(mlls(rows, np.array([.5, .5]))).shares.round(4).tolist()
    [0.8125, 0.1875]
    """
    key = ("mlls", prior.tobytes(), tol, max_passes)
    return await rows.once(key, _mlls, rows, prior, tol, max_passes)


async def _mlls(rows: Rows, prior: Array, tol: float, max_passes: int) -> LabelShares:
    live, passes = prior > 0.0, 0

    async def read(pi: Array, moments: bool = True, among: Mask | None = None) -> LikelihoodMoments:
        nonlocal passes
        passes += 1
        v, classes = np.full(rows.k, -np.inf), live.copy()
        if among is not None:
            classes[live] = among
        v[classes] = np.log(pi / prior[classes])
        value, held, square, mass, _ = await rows.fold(posterior_sums, v, classes, moments)
        return LikelihoodMoments(value / mass, held / mass, square / mass)

    def more() -> bool:
        return passes < max_passes

    thin = await thinned(rows)
    if thin is not rows:
        start = (await mlls(thin, prior, tol=tol, max_passes=max_passes)).shares[live]
        pi, gap = await most_likely(read, start, tol, more)
    else:
        start = prior[live] / prior[live].sum()
        while passes < min(EM_STEPS, max_passes - 1):
            start = _inside((await read(start, False)).held)
        few = 4 * rows.n < len(start)  # a Newton step among all classes costs K^3
        pi, gap = await (
            _most_likely_of_few(read, start, rows.n, tol, more)
            if few
            else most_likely(read, start, tol, more)
        )
    shares, weights = np.zeros(rows.k), np.zeros(rows.k)
    shares[live] = pi
    weights[live] = pi / prior[live]
    return LabelShares(shares, weights, gap, passes)


@dataclass(frozen=True)
class LikelihoodMoments:
    """What a pass over the rows finds at given shares, with the posteriors r at these shares.

    Attributes:
        value: the mean log-likelihood.
        held: (K,) the mean of r.
        square: (K, K) the mean of r r', if it was asked for.
    """

    value: float
    held: Array
    square: Array


Read = Callable[..., Awaitable[LikelihoodMoments]]


async def most_likely(read: Read, pi: Array, tol: float, more: Callable[[], bool]) -> tuple[Array, float]:
    """(K,) the shares of maximum likelihood, and a certified bound on how far the log-likelihood is below its maximum.

    With D_c = held_c / pi_c the log-likelihood lies at most max_c D_c - 1 below its maximum (concavity). Where it is
    flat, shares may still be far off at a small gap. So each step maximises the quadratic model over pi >= 0
    (sequential quadratic programming), and the search ends where the gap is small and that step is too. Steps are taken
    in the shares, each scaled by its curvature, so that no share is locked near zero. Where the model's maximum does
    not raise the likelihood the step is shortened, and at last it is EM's, which always raises it.

    Args:
        read: makes a pass at shares that are positive and sum to 1.
        pi: (K,) where to begin.
        tol: the certified gap to reach.
        more: whether another pass may be made.

    Reference: Kim, Carbonetto, Stephens and Anitescu, A Fast Algorithm for Maximum Likelihood Estimation of Mixture
    Proportions Using Sequential Quadratic Programming, 2020.
    """
    pi = _inside(pi)
    here, before = await read(pi), np.inf
    while more():
        D = here.held / pi
        scale = 1.0 / np.sqrt(np.maximum(np.diag(here.square), TINY))
        N = here.square * scale * scale[:, None] + RIDGE * np.eye(len(pi))
        move = pi * scale * bounded_minimum(N, pi * scale * (D - 1.0), -1.0 / scale)
        step = float(np.abs(move).max())
        if D.max() - 1.0 <= tol and (step <= STEP or step > before / 2.0):
            break  # done; or what is left is rounding
        for shorter in (1.0, 0.5, 0.25, 0.1, 0.01):
            trial = _inside(pi + shorter * move)
            there = await read(trial)
            if there.value > here.value - ROUNDING * max(1.0, abs(here.value)):
                break
        else:
            trial = _inside(here.held)
            there = await read(trial)
        pi, here, before = trial, there, step
    return pi, float(max((here.held / pi).max() - 1.0, 0.0))


async def _most_likely_of_few(
    read: Read, pi: Array, n: int, tol: float, more: Callable[[], bool]
) -> tuple[Array, float]:
    """`most_likely` of n rows and far more classes, of which no more than n need a share at the maximum.

    Newton steps among the n largest shares; then the classes that would raise the likelihood most join them, at most n
    at a time, until none would.
    """
    among = np.zeros(len(pi), np.bool_)
    among[np.argsort(-pi, kind="stable")[:n]] = True
    while True:
        shares, _ = await most_likely(partial(read, among=among), pi[among] / pi[among].sum(), tol, more)
        pi = np.full(len(pi), SHARE_LEFT_OUT)
        pi[among] = shares
        D = (await read(pi, False)).held / pi
        gap = float(max(D.max() - 1.0, 0.0))
        steepest = np.argsort(np.where(among, 0.0, -D), kind="stable")[:n]
        joining = steepest[D[steepest] > 1.0 + tol]
        if gap <= tol or not len(joining) or not more():
            return pi, gap
        among[joining] = True


def reweighted(probs: Array, weights: Array) -> Array:
    """(n, K) posteriors p_ic w_c / sum_k p_ik w_k."""
    r = probs * weights
    total = r.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(r, total, out=probs.copy(), where=total > 0.0))


def _inside(pi: Array) -> npt.NDArray[np.float64]:
    """Shares that are positive, so that no class is locked at zero, and sum to 1."""
    kept = np.maximum(pi, LEAST)
    return np.asarray(kept / kept.sum())
