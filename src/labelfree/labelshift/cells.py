"""Cells of (predicted class, confidence quartile): where two samples are compared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A predicted class is cut into as many confidence bins as leave this many rows of either sample in each.
LEAST_ROWS = 12


def confidence_cells(
    predictions: tuple[Indices, Indices],
    confidence: tuple[Array, Array],
    k: int,
    bins: int = 4,
    least: int = LEAST_ROWS,
) -> tuple[Indices, Indices, int]:
    """Number the cells of (predicted class x confidence quantile) for two samples.

    Quantiles are those of both samples' rows of that predicted class together, so that cells are about
    equally full under no shift; a class with few rows in either sample gets fewer bins, and the classes
    with next to none share one cell.

    Args:
        predictions, confidence: (n,) each, of the source and of the target.
        k: the number of classes.
        bins: the most bins a predicted class is cut into.
        least: rows of the scarcer sample that a bin should hold.

    Returns:
        (n_source,) and (n_target,) cell numbers, and how many cells there are.

    >>> s, t, c = confidence_cells((np.zeros(4, int), np.zeros(4, int)), (np.arange(4.), np.arange(4.)), 1, least=1)
    >>> s.tolist(), c
    ([0, 1, 2, 3], 4)
    """
    out = [np.full(len(p), -1, dtype=np.intp) for p in predictions]
    cells = 0
    rows = [_by_class(p, k) for p in predictions]
    for j in range(k):
        here = (rows[0][j], rows[1][j])
        parts = min(bins, min(len(here[0]), len(here[1])) // least)
        if parts == 0:
            continue
        both = np.concatenate([confidence[0][here[0]], confidence[1][here[1]]])
        edges = np.quantile(both, np.arange(1, parts) / parts)
        for side in (0, 1):
            out[side][here[side]] = cells + np.searchsorted(edges, confidence[side][here[side]], side="left")
        cells += parts
    rest = any((o == -1).any() for o in out)
    for o in out:
        o[o == -1] = cells
    return _compact(out[0], out[1], cells + int(rest))


def _by_class(predictions: Indices, k: int) -> list[Indices]:
    order = np.argsort(predictions, kind="stable")
    ends = np.cumsum(np.bincount(predictions, minlength=k))
    return list(np.split(order, ends[:-1]))


def _compact(source: Indices, target: Indices, cells: int) -> tuple[Indices, Indices, int]:
    """Drop the cells that ties between quantiles left empty."""
    used = np.bincount(source, minlength=cells) + np.bincount(target, minlength=cells) > 0
    number = np.cumsum(used) - 1
    return number[source], number[target], int(used.sum())
