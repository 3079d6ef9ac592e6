"""MLLS: the target's label shares by maximum likelihood, with EM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labelfree.labelshift.confusion import Array

#: Mixture likelihoods are floored here, so that a row which no admitted class explains cannot give NaN.
TINY = 1e-300


@dataclass(frozen=True)
class LabelShares:
    """The maximum-likelihood label shares with the proof of how good they are.

    Attributes:
        shares: (K,) pi, the target's label shares.
        weights: (K,) w_c = pi_c / prior_c; 0 where the prior is 0.
        gap: a certified bound on how far the mean log-likelihood lies below its maximum.
        passes: how often the probabilities were read.
    """

    shares: Array
    weights: Array
    gap: float
    passes: int


def mlls(
    probs: Array,
    prior: Array,
    mass: Array | None = None,
    *,
    tol: float = 1e-9,
    max_passes: int = 5000,
) -> LabelShares:
    """Maximise sum_i mass_i log sum_c p_ic pi_c / prior_c over label shares pi, by EM to convergence.

    The E-step is the posterior r_ic = p_ic w_c / sum_k p_ik w_k with w = pi / prior, the M-step
    pi_c = sum_i mass_i r_ic. At the maximum the target's mean re-weighted posterior is pi itself, so SCOT
    at this marginal has the same plan. With D_c = sum_i mass_i (p_ic / prior_c) / sum_k p_ik w_k the
    log-likelihood lies at most max_c D_c - 1 below its maximum (concavity): that is the stopping rule and the
    certificate. Two EM steps are extrapolated at a time (SQUAREM), and the plain step is kept where the
    extrapolation does not raise the likelihood.

    Args:
        probs: (n, K) the target's calibrated probabilities.
        prior: (K,) what the probabilities average to on the source: its mean posterior (or, with a
            bias-corrected calibration, equally its label shares).
        mass: (n,) row masses that sum to 1; equal by default.
        tol: the certified gap to reach.
        max_passes: give up after so many passes and return the best found.

    References: Saerens, Latinne and Decaestecker, Adjusting the Outputs of a Classifier to New a Priori
    Probabilities, 2002; Alexandari, Kundaje and Shrikumar, Maximum Likelihood with Bias-Corrected
    Calibration is Hard-to-Beat at Label Shift Adaptation, 2020.

    >>> p = np.array([[.9, .1]] * 3 + [[.1, .9]])
    >>> mlls(p, np.array([.5, .5])).shares.round(4).tolist()
    [0.8125, 0.1875]
    """
    n = len(probs)
    mass = np.full(n, 1.0 / n) if mass is None else mass
    live = prior > 0.0
    ratio = np.ascontiguousarray(probs[:, live] / prior[live])
    pi, gap, passes = _ascend(ratio, mass, prior[live] / prior[live].sum(), tol, max_passes)
    shares, weights = np.zeros(len(prior)), np.zeros(len(prior))
    shares[live] = pi
    weights[live] = pi / prior[live]
    return LabelShares(shares, weights, gap, passes)


def reweighted(probs: Array, weights: Array) -> Array:
    """(n, K) posteriors p_ic w_c / sum_k p_ik w_k."""
    r = probs * weights
    total = r.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(r, total, out=probs.copy(), where=total > 0.0))


def _ascend(ratio: Array, mass: Array, pi: Array, tol: float, max_passes: int) -> tuple[Array, float, int]:
    value, D = _read(ratio, mass, pi)
    passes = 1
    while D.max() - 1.0 > tol and passes < max_passes:
        first = pi * D
        _, D1 = _read(ratio, mass, first)
        second = first * D1
        leap = _extrapolate(pi, first, second)
        trial = _inside(leap)
        trial_value, trial_D = _read(ratio, mass, trial)
        passes += 2
        if trial_value >= value:
            pi, value, D = trial, trial_value, trial_D
        else:
            pi = second / second.sum()
            value, D = _read(ratio, mass, pi)
            passes += 1
    return pi, float(max(D.max() - 1.0, 0.0)), passes


def _read(ratio: Array, mass: Array, pi: Array) -> tuple[float, Array]:
    """The mean log-likelihood and its gradient D at pi."""
    total = np.maximum(ratio @ pi, TINY)
    return float(mass @ np.log(total)), np.asarray((mass / total) @ ratio)


def _extrapolate(x0: Array, x1: Array, x2: Array) -> Array:
    r, v = x1 - x0, (x2 - x1) - (x1 - x0)
    size = float(np.linalg.norm(v))
    if size == 0.0:
        return x2
    alpha = min(-float(np.linalg.norm(r)) / size, -1.0)
    return np.asarray(x0 - 2.0 * alpha * r + alpha**2 * v)


def _inside(pi: Array) -> npt.NDArray[np.float64]:
    """Shares that are positive, so that no class is locked at zero, and sum to 1."""
    kept = np.maximum(pi, 1e-12)
    return np.asarray(kept / kept.sum())
