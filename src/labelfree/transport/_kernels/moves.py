"""The cheapest moves between classes, kept up to date while mass moves.

A *piece* is a part of one row that sits in one class; at first every active row is one piece. Moving piece
i from class a to class b loses p_ia - p_ib. For every ordered pair the cheapest loss D[a, b] and the piece
that offers it, arg[a, b], are kept. They do not depend on prices.

Pieces that enter a class can only lower D, and that is done at once. Pieces that leave can only raise it, and
that is put off: D[a, b] is *stale*, a lower bound, when arg[a, b] no longer sits in a. `refresh` makes it
exact again; only moves that a search wants to use are ever refreshed.

With few classes each pair also keeps a shelf of its next cheapest pieces, so that a refresh seldom has to look
at all pieces of a class. What is neither on the shelf of (a, b) nor its arg loses at least bound[a, b].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelfree.transport._kernels.base import Array, kernel, score


class Moves(NamedTuple):
    """Pieces, the classes they sit in, and the cheapest moves.

    Shapes: P (n, K) scores; row, cls, mass, after, before (capacity,) the pieces, linked class by class;
    first (K,) the first piece of each class, -1 if none; D, arg (K, K); shelf, loss (K, K, depth) pieces and
    their losses, dearest first; filled (K, K) how many; bound (K, K); these four are empty if depth is 0;
    size (1,) the number of pieces.
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
    shelf: Array
    loss: Array
    filled: Array
    bound: Array
    size: Array


@kernel
def shelve(s: Moves, i: int, a: int, b: int, d: float) -> None:
    """Put piece i on the shelf of (a, b) at its place; if the shelf is full the dearest piece falls off."""
    shelf, loss, filled = s.shelf[a, b], s.loss[a, b], s.filled[a, b]
    if filled == shelf.size:
        s.bound[a, b] = loss[0]
        if d >= loss[0]:
            s.bound[a, b] = d
            return
        k = 0
        while k + 1 < filled and loss[k + 1] > d:
            shelf[k], loss[k] = shelf[k + 1], loss[k + 1]
            k += 1
        shelf[k], loss[k] = i, d
        return
    k = filled
    while k > 0 and loss[k - 1] < d:
        shelf[k], loss[k] = shelf[k - 1], loss[k - 1]
        k -= 1
    shelf[k], loss[k] = i, d
    s.filled[a, b] = filled + 1


@kernel
def offer_shelves(s: Moves, i: int, a: int) -> None:
    """Offer piece i to the shelves of a's moves."""
    p = s.P[s.row[i]]
    pa = score(p[a])
    for b in range(s.first.size):
        d = pa - score(p[b])
        if b == a or d >= s.bound[a, b]:
            continue
        if d <= s.D[a, b]:
            if s.D[a, b] < np.inf:
                shelve(s, s.arg[a, b], a, b, s.D[a, b])
            s.D[a, b], s.arg[a, b] = d, i
        else:
            shelve(s, i, a, b, d)


@kernel
def offer(s: Moves, i: int, a: int) -> None:
    """Lower the costs of a's moves to what piece i offers; among equals the newcomer is taken."""
    D, arg, p = s.D[a], s.arg[a], s.P[s.row[i]]
    pa = score(p[a])
    for b in range(D.size):  # selections, not branches: the loop is vectorised
        d = pa - score(p[b])
        better = d <= D[b]
        D[b] = d if better else D[b]
        arg[b] = i if better else arg[b]
    D[a] = np.inf


@kernel
def link(s: Moves, i: int, a: int) -> None:
    """Put piece i into class a."""
    s.cls[i] = a
    s.before[i] = -1
    s.after[i] = s.first[a]
    if s.first[a] >= 0:
        s.before[s.first[a]] = i
    s.first[a] = i
    if s.filled.size:
        offer_shelves(s, i, a)
    else:
        offer(s, i, a)


@kernel
def take_down(s: Moves, a: int, b: int) -> bool:
    """Let the cheapest piece on the shelf of (a, b) that still sits in a offer the move; say whether one did."""
    k = s.filled[a, b] - 1
    while k >= 0 and s.cls[s.shelf[a, b, k]] != a:
        k -= 1
    s.filled[a, b] = max(k, 0)
    if k < 0:
        return False
    s.D[a, b], s.arg[a, b] = s.loss[a, b, k], s.shelf[a, b, k]
    return True


@kernel
def refresh(s: Moves, a: int, b: int) -> None:
    """Find the cheapest move from a to b again."""
    shelves = s.filled.size > 0
    if shelves:
        if take_down(s, a, b):
            return
        s.bound[a, b] = np.inf
    best, piece = np.inf, 0
    i = s.first[a]
    while i >= 0:
        p = s.P[s.row[i]]
        d = score(p[a]) - score(p[b])
        if shelves:
            if d < s.bound[a, b]:
                shelve(s, i, a, b, d)
        elif d < best:
            best, piece = d, i
        i = s.after[i]
    s.D[a, b], s.arg[a, b] = best, piece
    if shelves:
        take_down(s, a, b)


@kernel
def unlink(s: Moves, i: int) -> None:
    """Take piece i out of its class and find other pieces for the moves that it offered."""
    a, before, after = s.cls[i], s.before[i], s.after[i]
    if before >= 0:
        s.after[before] = after
    else:
        s.first[a] = after
    if after >= 0:
        s.before[after] = before
    s.cls[i] = -1
    for b in range(s.first.size):
        if s.arg[a, b] == i and b != a:
            refresh(s, a, b)


@kernel
def start(s: Moves, pieces: int, lo: int, hi: int) -> None:
    """Link those of the first `pieces` pieces whose classes lie in lo..hi."""
    s.first[lo:hi] = -1
    s.D[lo:hi] = np.inf
    s.arg[lo:hi] = 0
    if s.filled.size:
        s.filled[lo:hi] = 0
        s.bound[lo:hi] = np.inf
    for i in range(pieces - 1, -1, -1):
        if lo <= s.cls[i] < hi:
            link(s, i, s.cls[i])


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
