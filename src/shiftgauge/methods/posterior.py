"""The posterior per row behind a method's answer: what metrics, slices and row tables are read off.

A method says how much of the target is wrong; to say where, it needs a probability of every class for every row. Each
method has one (`row_posterior`); the error probabilities are then recalibrated to the method's own answer
(`recalibrate_to`), so that the error of a slice, of a class and of the whole fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import mlls, reweighted
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.label_shift import LabelShift
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.rows import Block, Rows, gather
from shiftgauge.transport import soft_transport

Array = npt.NDArray[np.float64]

#: (b, K) a distribution over labels for each row of a block.
Posterior = Callable[[Block], Array]

#: Newton steps over all rows; from the root of a subsample two or three are enough.
MAX_STEPS = 20
#: Log-odds move by at most this: beyond it every row is certainly right, or certainly wrong.
MAX_SHIFT = 60.0


async def row_posterior(method: Estimator, target: Rows) -> Posterior:
    """What a fitted method takes the rows' labels to be.

    Methods that transport to label shares: the soft plan to the same shares (the exact plan moves as little mass as
    it can, and must not be read row by row). label-shift: the re-weighted posteriors. All others: the calibrated
    probabilities.
    """
    if isinstance(method, MarginalEstimator):
        chosen = await method.choose_marginal(target)
        return (await soft_transport(target, chosen.masses)).posterior
    if isinstance(method, LabelShift):
        weights = (await mlls(target, method.prior_)).weights
        return lambda rows: reweighted(rows.probs, weights)
    return lambda rows: rows.probs


async def mean_posterior(parts: Sequence[tuple[float, Estimator]], target: Rows) -> Posterior:
    """The mean of the posteriors of several fitted methods, with weights that sum to 1."""
    posteriors = await gather(*(row_posterior(method, target) for _, method in parts))
    weighted = [(weight, one) for (weight, _), one in zip(parts, posteriors, strict=True)]
    return lambda rows: np.asarray(sum(weight * one(rows) for weight, one in weighted))


async def recalibrate_to(error: float, posterior: Posterior, target: Rows) -> Posterior:
    """The posterior with its mean error probability brought to `error`.

    The odds that a prediction is wrong are multiplied by one factor for all rows, and the labels other than the
    prediction keep their proportions. Rows that are certain stay so; an error that no factor reaches leaves every
    other row as wrong (or right) as can be.

    >>> from shiftgauge import Target
    >>> from shiftgauge.rows import run
    >>> rows = Rows.of(Target(probs=[[.9, .1], [.6, .4]]))
    >>> moved = run(recalibrate_to(0.4, lambda block: block.probs, rows))
    >>> float(run(rows.mean(lambda block: block.error_probability(moved(block)))).round(6))
    0.4
    """
    shift = await _log_odds_shift(target, posterior, error)
    return posterior if shift is None else lambda rows: shifted(posterior(rows), rows, shift)


def shifted(posterior: Array, rows: Block, shift: float) -> Array:
    """(b, K) posteriors whose error probabilities have their log-odds moved by `shift`."""
    from scipy.special import expit, logit

    before = rows.error_probability(posterior)
    after = expit(logit(before) + shift)  # certain rows have infinite log-odds, and stay
    scale = np.divide(after, before, out=np.ones_like(after), where=before > 0.0)
    out = posterior * scale[:, None]
    out[np.arange(len(rows)), rows.predictions] = 1.0 - after
    return np.asarray(out)


async def _log_odds_shift(target: Rows, posterior: Posterior, error: float) -> float | None:
    """By how much all log-odds move; None if they need not.

    The root on the subsample is the start of Newton's method over all rows, a pass a step: the mean error probability
    rises with the shift, and its slope is the mean of e (1 - e).
    """
    from scipy.special import expit, logit

    rows = await (await target.subsample()).collect()
    start = _root(rows, rows.error_probability(posterior(rows)), error)
    if len(rows) == target.n:
        return start
    shift = 0.0 if start is None else start
    for _ in range(MAX_STEPS):

        def terms(rows: Block, shift: float = shift) -> Array:
            after = expit(logit(rows.error_probability(posterior(rows))) + shift)
            return np.column_stack([after, after * (1.0 - after)])

        mean, slope = await target.mean(terms)
        if abs(mean - error) <= 1e-12:
            return shift if shift else None
        if slope <= 0.0 or abs(shift) >= MAX_SHIFT:
            return shift
        step = (error - mean) / slope
        shift = float(np.clip(shift + step, -MAX_SHIFT, MAX_SHIFT))
        if abs(step) <= 1e-13:
            return shift
    return shift


def _root(rows: Block, error_probability: Array, error: float) -> float | None:
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    if abs(float(rows.row_share @ error_probability) - error) <= 1e-12:
        return None
    odds = logit(error_probability)

    def excess(shift: float) -> float:
        return float(rows.row_share @ expit(odds + shift)) - error

    if excess(-MAX_SHIFT) >= 0.0 or excess(MAX_SHIFT) <= 0.0:
        return -MAX_SHIFT if excess(-MAX_SHIFT) >= 0.0 else MAX_SHIFT
    return float(brentq(excess, -MAX_SHIFT, MAX_SHIFT, xtol=1e-13))
