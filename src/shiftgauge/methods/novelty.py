"""Novelty: the mass of the target that sits where the source hardly has any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift.cells import TIE
from shiftgauge.methods.view import View

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
    cells = QuartileCells.of(source)
    return cells.novel(source, cells.counted(target, target.mass), target.n_effective)


class Counts(dict[int, float]):
    """Mass by the number of a cell; counts add up."""

    def __add__(self, other: Counts) -> Counts:
        for cell, mass in other.items():
            self[cell] = self.get(cell, 0.0) + mass
        return self


@dataclass(frozen=True)
class QuartileCells:
    """The cells of (predicted class, confidence quartile of the source, runner-up).

    Attributes:
        edges: (K, BINS - 1) each predicted class's confidence quartiles on the source.
        k: the number of classes.
        known: (m,) the cells that hold a source row, rising: of 4 K^2 cells few do.
    """

    edges: Array
    k: int
    known: Indices

    @staticmethod
    def of(source: Rows) -> QuartileCells:
        """Cut at the quartiles of the source."""
        edges = _quartiles(source)
        bare = QuartileCells(edges, source.k, np.empty(0, np.intp))
        return QuartileCells(edges, source.k, np.unique(bare.cell(source)))

    def cell(self, rows: Rows | View) -> Indices:
        """(n,) the cell of each row."""
        quartile = np.zeros(len(rows.predictions), dtype=np.intp)
        for edge in self.edges.T:
            quartile += rows.confidence > edge[rows.predictions] + TIE
        return np.asarray((rows.predictions * BINS + quartile) * self.k + rows.runner_up)

    def counted(self, rows: Rows | View, mass: Array) -> tuple[Array, Counts]:
        """(m,) the mass of rows in each cell that the source knows, and in the others, cell by cell."""
        cell = self.cell(rows)
        place = np.minimum(np.searchsorted(self.known, cell), len(self.known) - 1)
        inside = self.known[place] == cell
        held = np.bincount(place[inside], mass[inside], len(self.known))
        others, number = np.unique(cell[~inside], return_inverse=True)
        beyond = np.bincount(number.reshape(-1), mass[~inside], len(others))
        return np.asarray(held, np.float64), Counts(zip(others.tolist(), beyond.tolist(), strict=True))

    def novel(self, source: Rows, counts: tuple[Array, Counts], n_target: float) -> float:
        """`novelty` from what was counted of a target, as shares, and its effective rows."""
        held, beyond = counts
        h = np.append(held, list(beyond.values()))
        s = np.zeros(len(h))
        s[: len(held)] = self.counted(source, source.mass)[0]
        chance = _by_chance(s, h, source.n_effective, n_target)
        return max(0.0, float(np.maximum(h - TIMES * s, 0.0).sum()) - chance)


def _by_chance(s: Array, h: Array, n_source: float, n_target: float) -> float:
    """The expectation of the sum above where nothing changed, cell by cell E max(0, N(-p, sd^2))."""
    from scipy.special import ndtr

    p = (s * n_source + h * n_target) / (n_source + n_target)
    p = p[p > 0.0]
    sd = np.sqrt(p / n_target + TIMES**2 * p / n_source)
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
