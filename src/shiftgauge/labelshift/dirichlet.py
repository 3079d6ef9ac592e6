"""Mild label shift, simulated: the paper's last appendix."""

from __future__ import annotations

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.labelshift.confusion import Array, Indices

#: Concentrations of the target's label shares: the paper's text, and what its authors' code does.
ALPHAS = ("text", "code")


def dirichlet_shares(
    marginal: Array, alpha: float = 50.0, *, scale: str = "text", seed: int | np.random.Generator = 0
) -> Array:
    """(K,) label shares drawn from Dirichlet(alpha q) (the text) or Dirichlet(alpha K q) (the authors' code).

    Each component then has standard deviation sqrt(q_j (1 - q_j) / (alpha + 1)), with alpha K in place of
    alpha for the code: with 1,000 classes only that one is mild.

    Args:
        marginal: (K,) q; classes of no mass get none.
        alpha: the concentration.
        scale: `"text"` or `"code"`.
        seed: a seed or a generator.

    >>> round(float(dirichlet_shares(np.full(4, .25), seed=1).sum()), 12)
    1.0
    """
    if scale not in ALPHAS:
        raise InputError(
            f"dirichlet scale {scale!r} is not known; wanted 'text' (alpha q) or 'code' (alpha K q)"
        )
    if not alpha > 0.0:
        raise InputError(f"dirichlet alpha is {alpha}; wanted a positive number such as 50")
    live = marginal > 0.0
    concentration = alpha * (len(marginal) if scale == "code" else 1.0) * marginal[live]
    shares = np.zeros(len(marginal))
    shares[live] = np.random.default_rng(seed).dirichlet(concentration)
    return shares


def resample_to(labels: Indices, shares: Array, *, seed: int | np.random.Generator = 0) -> Indices:
    """Rows, without replacement, whose labels have the given shares as nearly as counts allow.

    n' = floor(min_j n_j / pi_j) rows are afforded by the scarcest class; floor(n' pi_j) rows of class j are
    drawn. A class of positive share without any row would leave nothing and is refused.

    Args:
        labels: (n,) class indices.
        shares: (K,) pi.
        seed: a seed or a generator.

    Returns:
        Sorted row numbers.

    >>> rows = resample_to(np.array([0, 0, 0, 0, 1, 1]), np.array([.5, .5]))
    >>> np.bincount(np.array([0, 0, 0, 0, 1, 1])[rows]).tolist()
    [2, 2]
    """
    counts = np.bincount(labels, minlength=len(shares))
    wanted = shares > 0.0
    if (counts[wanted] == 0).any():
        j = int(np.flatnonzero(wanted & (counts == 0))[0])
        raise InputError(
            f"resampling: class {j} has share {shares[j]:.3g} but no rows; wanted some of each class"
        )
    afford = np.floor(np.min(counts[wanted] / shares[wanted]) + 1e-9)  # 1e-9: n_j / pi_j rounds below a whole
    take = np.floor(afford * shares + 1e-9).astype(int)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    place = np.empty(len(labels), dtype=np.intp)
    by_class = np.argsort(labels[order], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=len(shares)))[:-1]])
    place[by_class] = np.arange(len(labels)) - starts[labels[order][by_class]]
    return np.sort(order[place < take[labels[order]]])
