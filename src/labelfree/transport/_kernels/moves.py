"""The cheapest moves between classes, kept up to date while mass moves.

A *piece* is a part of one row that sits in one class; at first every active row is one piece. Moving piece
i from class a to class b loses p_ia - p_ib. For every ordered pair the cheapest loss D[a, b] and the piece
that offers it, arg[a, b], are kept. They do not depend on prices.

Pieces that enter a class can only lower D, and that is done at once. Pieces that leave can only raise it, and
that is put off: D[a, b] is *stale*, a lower bound, when arg[a, b] no longer sits in a. `refresh` makes it
exact again; only moves that a search wants to use are ever refreshed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelfree.transport._kernels.base import Array, kernel, score


class Moves(NamedTuple):
    """Pieces, the classes they sit in, and the cheapest moves.

    Shapes: P (n, K) scores; row, cls, mass, after, before (capacity,) the pieces, linked class by class;
    first (K,) the first piece of each class, -1 if none; D, arg (K, K); size (1,) the number of pieces.
    """

    P: Array
    row: Array
    cls: Array
    mass: Array
    after: Array
    before: Array
    first: Array
    D: Array
    arg: Array
    size: Array


@kernel
def link(s: Moves, i: int, a: int) -> None:
    """Put piece i into class a and lower the costs of a's moves to what i offers."""
    s.cls[i] = a
    s.before[i] = -1
    s.after[i] = s.first[a]
    if s.first[a] >= 0:
        s.before[s.first[a]] = i
    s.first[a] = i
    D, arg, r = s.D[a], s.arg[a], s.row[i]
    p = s.P[r]
    pa = score(p[a])
    for b in range(D.size):
        d = pa - score(p[b])
        if d < D[b] or (d == D[b] and r < s.row[arg[b]]):
            D[b], arg[b] = d, i
    D[a] = np.inf


@kernel
def unlink(s: Moves, i: int) -> None:
    """Take piece i out of its class; the moves it offered become stale."""
    before, after = s.before[i], s.after[i]
    if before >= 0:
        s.after[before] = after
    else:
        s.first[s.cls[i]] = after
    if after >= 0:
        s.before[after] = before


@kernel
def stale(s: Moves, a: int, b: int) -> bool:
    """Say whether D[a, b] is only a lower bound."""
    return s.D[a, b] < np.inf and s.cls[s.arg[a, b]] != a


@kernel
def refresh(s: Moves, a: int, b: int) -> None:
    """Find the cheapest move from a to b again; among equals the lowest row."""
    best, piece = np.inf, 0
    i = s.first[a]
    while i >= 0:
        r = s.row[i]
        d = score(s.P[r, a]) - score(s.P[r, b])
        if d < best or (d == best and r < s.row[piece]):
            best, piece = d, i
        i = s.after[i]
    s.D[a, b], s.arg[a, b] = best, piece


@kernel
def start(s: Moves, pieces: int) -> None:
    """Link the first `pieces` pieces into the classes that cls names."""
    s.first[:] = -1
    s.D[:] = np.inf
    s.arg[:] = 0
    for i in range(pieces - 1, -1, -1):
        link(s, i, s.cls[i])
    s.size[0] = pieces


@kernel
def shift(s: Moves, a: int, b: int, d: int) -> None:
    """Move d units by the cheapest move from a to b, whose piece has at least that mass."""
    i = s.arg[a, b]
    if s.mass[i] == d:
        unlink(s, i)
        link(s, i, b)
        return
    s.mass[i] -= d
    new = s.size[0]
    s.size[0] += 1
    s.row[new] = s.row[i]
    s.mass[new] = d
    link(s, new, b)
