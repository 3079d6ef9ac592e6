"""Prices by auction, for problems with many classes and few rows in each.

Samples say little there: a class that has fifty rows has six in a sample of one in eight. An auction on all
rows, with ever smaller steps, comes within a few hundred moves of the optimum in a handful of passes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shiftgauge.transport._rows import CHUNK, Rows
from shiftgauge.transport._units import ONE, Units, class_units

#: The least increment of a bid, from coarse to fine (by measurement; smaller steps do not pay).
STEPS = (0.03, 1e-3, 3e-5)
#: Bids per row after which one step ends: rows that tie with each other could go on for long.
PATIENCE = 8


def auction_prices(rows: Rows, watch: Callable[[float], None], tol: float) -> Units:
    """(K,) prices after auctions with decreasing increments, none much finer than the tolerance."""
    u = np.zeros(len(rows.class_mass), np.int64)
    for place, eps in enumerate(STEPS):
        _auction(rows, u, int(eps * ONE))
        u -= u.min()
        watch((place + 1) / len(STEPS))
        if eps < tol / 8:
            break
    return np.minimum(u, 2 * ONE)


def _auction(rows: Rows, u: Units, eps: int) -> None:
    k, m = len(u), rows.items
    mass = rows.units(rows.rows(np.arange(m)))
    room = _room(rows, int(mass.sum()))
    bidders = np.flatnonzero(mass).astype(np.int32)
    held, first = np.zeros(k, np.int64), np.full(k, -1, np.int32)
    after, bid = np.empty(m, np.int32), np.empty(m, np.int64)
    ends = np.array([0, len(bidders)])
    some = max(1, CHUNK // k)
    for _ in range(0, PATIENCE * m, some):
        done = rows.kernels.auction(
            rows.P, rows.step, mass, u, room, held, first, after, bid, bidders, ends, eps, some
        )
        if done < some:
            return


def _room(rows: Rows, total: int) -> Units:
    """(K,) the mass that each class takes; whole rows where all rows are alike, since rows bid as a whole."""
    if rows.weights.size:
        return class_units(rows.class_mass, total, 1)
    return class_units(rows.class_mass, rows.items, 1) * int(rows.unit)
