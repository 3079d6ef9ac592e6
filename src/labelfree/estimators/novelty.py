"""Novelty: the mass of the target that sits where the source hardly has any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labelfree.estimators.view import View

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A cell is novel in so far as the target has more than so many times the source's share in it.
TIMES = 2.0
#: Confidence is cut at the source's quartiles, class by class.
BINS = 4


@dataclass(frozen=True)
class Rows:
    """What the tests of shift read off a sample.

    Attributes:
        predictions, runner_up: (n,) the predicted and the second most probable class.
        confidence, mass: (n,) the probability of the prediction; row masses that sum to 1.
        k: the number of classes.
        n_effective: effective rows.
    """

    predictions: Indices
    runner_up: Indices
    confidence: Array
    mass: Array
    k: int
    n_effective: float

    @staticmethod
    def of(view: View) -> Rows:
        """Read a calibrated sample."""
        return Rows(view.predictions, view.runner_up, view.confidence, view.mass, view.k, view.n_effective)


def novelty(source: Rows, target: Rows) -> float:
    """The target's mass beyond twice the source's share of each cell, less what sampling alone would give.

    Cells are (predicted class, runner-up, confidence quartile of the source). With s and h the shares of
    source and target in a cell,

        sum over cells of max(0, h - 2 s)

    is 0 where the target is the source, and 1 where they have no cell in common. Sampling noise alone makes
    it positive: with h - 2 s normal, of mean -p and variance p / n_target + 4 p / n_source (p the share in
    both samples together), that expectation has a closed form, which is taken off.

    >>> left = Rows(np.array([0] * 50 + [1] * 50), np.array([1] * 50 + [0] * 50), np.full(100, .9),
    ...             np.full(100, .01), 2, 100.)
    >>> novelty(left, left) < 1e-9
    True
    """
    edges = _quartiles(source)
    where = np.concatenate([_cell(source, edges), _cell(target, edges)])
    cells, where = np.unique(where, return_inverse=True)  # of 4 K^2 cells, those that hold a row
    n = len(source.mass)
    s, h = (
        np.asarray(np.bincount(cell, weights=mass, minlength=len(cells)), dtype=np.float64)
        for cell, mass in ((where[:n], source.mass), (where[n:], target.mass))
    )
    return max(0.0, float(np.maximum(h - TIMES * s, 0.0).sum()) - _by_chance(s, h, source, target))


def _by_chance(s: Array, h: Array, source: Rows, target: Rows) -> float:
    """The expectation of the sum above where nothing changed, cell by cell E max(0, N(-p, sd^2))."""
    from scipy.special import ndtr

    total = source.n_effective + target.n_effective
    p = (s * source.n_effective + h * target.n_effective) / total
    p = p[p > 0.0]
    sd = np.sqrt(p / target.n_effective + TIMES**2 * p / source.n_effective)
    z = (TIMES - 1.0) * p / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float((sd * (density - z * ndtr(-z))).sum())


def _quartiles(source: Rows) -> Array:
    """(K, BINS - 1) each predicted class's confidence quartiles on the source; quarters of [0, 1] where it has none."""
    edges = np.tile(np.linspace(0.0, 1.0, BINS + 1)[1:-1], (source.k, 1))
    order = np.lexsort((source.confidence, source.predictions))
    ends = np.cumsum(np.bincount(source.predictions, minlength=source.k))
    for j, here in enumerate(np.split(order, ends[:-1])):
        share = np.cumsum(source.mass[here])
        if len(here) and share[-1] > 0.0:
            cut = np.searchsorted(share, share[-1] * np.arange(1, BINS) / BINS - 1e-12)
            edges[j] = source.confidence[here[np.minimum(cut, len(here) - 1)]]
    return edges


def _cell(rows: Rows, edges: Array) -> Indices:
    quartile = np.zeros(len(rows.predictions), dtype=np.intp)
    for edge in edges.T:
        quartile += rows.confidence > edge[rows.predictions]
    return np.asarray((rows.predictions * BINS + quartile) * rows.k + rows.runner_up)
