"""Cells where two samples are compared: (predicted class, confidence quartile), (predicted class, runner-up)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A predicted class is cut into at most so many confidence bins.
MOST_BINS = 4
#: It is cut into as many as leave this many rows of either sample in each.
LEAST_ROWS = 12
#: Confidences closer than this are equal up to rounding.
TIE = 1e-12
#: Many classes get fewer bins, down to two, so that there are not many more cells than this.
MOST_CELLS = 1000


@dataclass(frozen=True)
class Cells:
    """Cells of (predicted class x confidence bin), the same for every sample.

    Attributes:
        offset: (K,) the number of each predicted class's first cell.
        edges: (K, bins - 1) where its confidences are cut, infinity where there is no cut.
        count: how many cells there are.
    """

    offset: Indices
    edges: Array
    count: int

    def of(self, predictions: Indices, confidence: Array) -> Indices:
        """(n,) the cell of each row."""
        out = self.offset[predictions]
        for edge in self.edges.T:
            out += confidence > edge[predictions] + TIE
        return out


def confidence_bins(
    predictions: tuple[Indices, Indices],
    confidence: tuple[Array, Array],
    k: int,
    least: int = LEAST_ROWS,
) -> Cells:
    """Cut each predicted class at the quantiles of two samples' confidences together.

    So cells are about equally full under no shift; a class with few rows in either sample gets fewer bins, and the
    classes with next to none share one cell. With more than 250 classes there are three bins or two.

    Args:
        predictions, confidence: (n,) each, of the source and of the target, or of a sample of its rows.
        k: the number of classes.
        least: rows of the scarcer sample that a bin should hold.
    """
    bins = min(MOST_BINS, max(2, MOST_CELLS // k))
    edges = np.full((k, bins - 1), np.inf)
    offset = np.full(k, -1, dtype=np.intp)
    rows = [_by_class(p, k) for p in predictions]
    cells = 0
    for j in range(k):
        here = (rows[0][j], rows[1][j])
        parts = min(bins, min(len(here[0]), len(here[1])) // least)
        if parts == 0:
            continue
        both = np.concatenate([confidence[0][here[0]], confidence[1][here[1]]])
        edges[j, : parts - 1] = np.quantile(both, np.arange(1, parts) / parts)
        offset[j] = cells
        cells += parts
    rest = bool((offset == -1).any())
    offset[offset == -1] = cells
    return Cells(offset, edges, cells + int(rest))


def confidence_cells(
    predictions: tuple[Indices, Indices],
    confidence: tuple[Array, Array],
    k: int,
    least: int = LEAST_ROWS,
) -> tuple[Indices, Indices, int]:
    """Number the cells of (predicted class x confidence quantile) for two samples; see `confidence_bins`.

    Returns:
        (n_source,) and (n_target,) cell numbers, and how many cells there are.

    >>> s, t, c = confidence_cells((np.zeros(4, int), np.zeros(4, int)), (np.arange(4.), np.arange(4.)), 1, least=1)
    >>> s.tolist(), c
    ([0, 1, 2, 3], 4)
    """
    cells = confidence_bins(predictions, confidence, k, least)
    left, right = (cells.of(p, c) for p, c in zip(predictions, confidence, strict=True))
    number, used = compacted(
        np.bincount(left, minlength=cells.count) + np.bincount(right, minlength=cells.count)
    )
    return number[left], number[right], used


def compacted(rows: npt.NDArray[Any]) -> tuple[Indices, int]:
    """(cells,) new numbers without the cells that ties between quantiles left empty, and how many are left."""
    used = rows > 0
    return np.cumsum(used) - 1, int(used.sum())


@dataclass(frozen=True)
class RunnerUps:
    """Cells of (predicted class x second most probable class).

    Attributes:
        kept: (m,) the pairs that are cells of their own, rising; a pair is class * K + runner-up.
        k: the number of classes. The other runner-ups of a predicted class share one cell.
    """

    kept: Indices
    k: int

    @staticmethod
    def of(predictions: Indices, runners_up: Indices, k: int, least: int = LEAST_ROWS) -> RunnerUps:
        """A cell for every pair that has at least so many rows in the source.

        >>> cells = RunnerUps.of(np.zeros(3, int), np.array([1, 1, 2]), 4, 2)
        >>> cells.cell(np.zeros(2, int), np.array([1, 3])).tolist(), cells.count
        ([0, 1], 5)
        """
        pairs, rows = np.unique(predictions * k + runners_up, return_counts=True)
        return RunnerUps(pairs[rows >= least], k)

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.kept) + self.k

    def cell(self, predictions: Indices, runners_up: Indices) -> Indices:
        """(n,) the cell of each row."""
        pair = predictions * self.k + runners_up
        if not len(self.kept):
            return predictions
        place = np.minimum(np.searchsorted(self.kept, pair), len(self.kept) - 1)
        return np.where(self.kept[place] == pair, place, len(self.kept) + predictions)


def _by_class(predictions: Indices, k: int) -> list[Indices]:
    order = np.argsort(predictions, kind="stable")
    ends = np.cumsum(np.bincount(predictions, minlength=k))
    return list(np.split(order, ends[:-1]))
