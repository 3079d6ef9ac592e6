"""The disagreement discrepancy: how far a critic that agrees on the source can disagree on the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.rows import Block, Rows, run

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Rows of either sample that the critic is fitted on, at most; it has only K (K + 1) weights.
MOST_ROWS = 20_000
#: Steps of L-BFGS. The loss is convex; more steps change the discrepancy by less than a point.
STEPS = 100
#: Log-probabilities are clipped here, so that saturated scores do not dominate the fit.
LEAST_LOG = -12.0


@dataclass(frozen=True)
class Discrepancy:
    """The critic's disagreement with the model.

    Attributes:
        target, source: the share of rows where the critic predicts another class.
        noise: the margin for the sampling error of both shares, at the level asked for.
    """

    target: float
    source: float
    noise: float

    @property
    def value(self) -> float:
        """The disagreement on the target beyond that on the source."""
        return max(0.0, self.target - self.source)


def discrepancy(source: Rows, target: Rows, *, level: float = RANGE_LEVEL) -> Discrepancy:
    """Fit a linear critic on log-probabilities that agrees on the source and disagrees on the target.

    The bound of Rosenfeld and Garg: if no critic of the class disagrees with the model more, in target beyond
    source, than the true labels do, then

        target error  <=  source error + discrepancy + sampling noise.

    The critic's scores are s = W z + b with z the (centred) log-probabilities. With y^ the prediction it
    minimises, over W and b, the mean over source rows of log sum_j exp(s_j) - s_y^ (agree) plus the mean over
    target rows of log(1 + exp(s_y^ - mean of the other s_j)) (disagree): convex, so the start does not matter.

    Reference: Rosenfeld and Garg, (Almost) Provable Error Bounds Under Distribution Shift via Disagreement
    Discrepancy, 2023.
    """
    k = source.k
    if k < 2:
        return Discrepancy(0.0, 0.0, 0.0)
    blocks = [run(source.collect()), run(run(target.subsample()).collect())]
    W = fit_critic(*blocks)
    off_source, off_target = (
        block.share((_features(block) @ W).argmax(axis=1) != block.predictions) for block in blocks
    )
    n_source, n_target = source.n_effective, target.n_effective
    slack = np.log(1.0 / (1.0 - level))
    noise = np.sqrt(slack * (n_source + 4.0 * n_target) / (2.0 * n_source * n_target))
    return Discrepancy(off_target, off_source, float(noise))


def fit_critic(source: Block, target: Block) -> Array:
    """(K + 1, K) the weights of the critic: W, and b as its last row."""
    return _fit(*_thin(source), *_thin(target), source.k)


def _features(block: Block) -> Array:
    """(n, K + 1) centred log-probabilities and a constant."""
    z = np.maximum(np.log(np.maximum(block.probs, 1e-300)), LEAST_LOG)
    z -= z.mean(axis=1, keepdims=True)
    return np.column_stack([z, np.ones(len(block))])


def _thin(block: Block) -> tuple[Array, Indices, Array]:
    """Evenly spaced rows, at most MOST_ROWS: features, predictions, masses."""
    rows = np.unique(np.linspace(0, len(block) - 1, min(len(block), MOST_ROWS)).astype(np.intp))
    mass = block.mass[rows]
    return _features(block)[rows], block.predictions[rows], mass / mass.sum()


def _fit(z_s: Array, y_s: Indices, m_s: Array, z_t: Array, y_t: Indices, m_t: Array, k: int) -> Array:
    """(K + 1, K) the critic's weights, from the model's own scores on."""
    from scipy.optimize import minimize

    own_s, own_t = np.eye(k)[y_s], np.eye(k)[y_t]

    def loss(flat: Array) -> tuple[float, Array]:
        W = flat.reshape(k + 1, k)
        s = z_s @ W
        s -= s.max(axis=1, keepdims=True)
        p = np.exp(s)
        total = p.sum(axis=1, keepdims=True)
        agree = m_s @ (np.log(total[:, 0]) - (s * own_s).sum(axis=1))
        slope = z_s.T @ (m_s[:, None] * (p / total - own_s))
        t = z_t @ W
        mine = (t * own_t).sum(axis=1)
        margin = mine - (t.sum(axis=1) - mine) / (k - 1)
        disagree = m_t @ np.logaddexp(0.0, margin)
        push = m_t / (1.0 + np.exp(-np.clip(margin, -500.0, 500.0)))
        slope += z_t.T @ (push[:, None] * (own_t - (1.0 - own_t) / (k - 1)))
        return float(agree + disagree), slope.ravel()

    start = np.vstack([np.eye(k), np.zeros((1, k))]).ravel()
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(found.x.reshape(k + 1, k))
