"""Cells where two samples are compared: (predicted class, confidence quartile), (predicted class, runner-up)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A predicted class is cut into as many confidence bins as leave this many rows of either sample in each.
LEAST_ROWS = 12
#: Many classes get fewer bins, down to two, so that there are not many more cells than this.
MOST_CELLS = 1000


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
    with next to none share one cell. With more than 250 classes there are three bins or two.

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
    bins = min(bins, max(2, MOST_CELLS // k))
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


def runner_up_cells(
    predictions: tuple[Indices, Indices],
    runners_up: tuple[Indices, Indices],
    k: int,
    least: int = LEAST_ROWS,
) -> tuple[Indices, Indices, int]:
    """Number the cells of (predicted class x second most probable class) for two samples.

    The runner-ups of a predicted class that have few rows in the source share one cell.

    >>> s, t, c = runner_up_cells((np.zeros(3, int), np.zeros(2, int)), (np.array([1, 1, 2]), np.array([1, 3])), 4, 2)
    >>> s.tolist(), t.tolist(), c
    ([1, 1, 0], [1, 0], 2)
    """
    source, target = (p * k + r for p, r in zip(predictions, runners_up, strict=True))
    pairs, rows = np.unique(source, return_counts=True)
    kept = pairs[rows >= least]
    # No class is its own runner-up: the pair (j, j) is free for what is rare.
    source, target = (
        np.where(np.isin(pair, kept), pair, p * (k + 1))
        for pair, p in zip((source, target), predictions, strict=True)
    )
    _, number = np.unique(np.concatenate([source, target]), return_inverse=True)
    return number[: len(source)], number[len(source) :], int(number.max()) + 1


def _by_class(predictions: Indices, k: int) -> list[Indices]:
    order = np.argsort(predictions, kind="stable")
    ends = np.cumsum(np.bincount(predictions, minlength=k))
    return list(np.split(order, ends[:-1]))


def _compact(source: Indices, target: Indices, cells: int) -> tuple[Indices, Indices, int]:
    """Drop the cells that ties between quantiles left empty."""
    used = np.bincount(source, minlength=cells) + np.bincount(target, minlength=cells) > 0
    number = np.cumsum(used) - 1
    return number[source], number[target], int(used.sum())
