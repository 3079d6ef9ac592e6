"""The cheapest moves between classes, kept up to date while mass moves.

A *piece* is a part of one row that sits in one class; at first every active row is one piece. Moving piece
i from class a to class b loses p_ia - p_ib. For every ordered pair the cheapest loss D[a, b] and the piece
that offers it, arg[a, b], are kept. They do not depend on prices.

Pieces that enter a class can only lower D, and that is done at once (`link`). Pieces that leave can only raise
it: the moves that they offered are found again among the pieces that stay (`unlink`).

With few classes each pair also keeps a shelf of its next cheapest pieces, so that this seldom means to look at
all pieces of a class. What is neither on the shelf of (a, b) nor its arg loses at least bound[a, b]. When a
shelf is empty the move is *unknown*: arg[a, b] is -1 and D[a, b] = bound[a, b] a lower bound, until a search
wants to use it and has the shelf refilled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftgauge.transport._kernels.base import FAR, Array, fixed, inner, kernel


class Moves(NamedTuple):
    """Pieces, the classes they sit in, and the cheapest moves.

    Shapes: P (n, K) scores; row, cls, mass, after, before, twin (capacity,) the pieces: those of a class are a
    list (after, before), those of a row a ring (twin), and a piece without mass has class -1; first (K,) the
    first piece of each class, -1 if none; D, arg (K, K); shelf, loss (K, K, depth) pieces and their losses,
    dearest first; filled (K, K) how many; bound (K, K); these four are empty if depth is 0; lost (K,) scratch;
    size (1,) the number of pieces.
    """

    P: Array
    row: Array
    cls: Array
    mass: Array
    after: Array
    before: Array
    twin: Array
    first: Array
    D: Array
    arg: Array
    shelf: Array
    loss: Array
    filled: Array
    bound: Array
    lost: Array
    size: Array


@inner
def shelve(s: Moves, i: int, a: int, b: int, d: int) -> None:
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


@inner
def offer_shelves(s: Moves, i: int, a: int) -> None:
    """Offer piece i to the shelves of a's moves."""
    p = s.P[s.row[i]]
    pa = fixed(p[a])
    for b in range(s.first.size):
        d = pa - fixed(p[b])
        if b == a or d >= s.bound[a, b]:
            continue
        if d <= s.D[a, b]:
            if s.arg[a, b] >= 0:
                shelve(s, np.int64(s.arg[a, b]), a, b, s.D[a, b])
            s.D[a, b], s.arg[a, b] = d, i
        else:
            shelve(s, i, a, b, d)


@inner
def offer(s: Moves, i: int, a: int) -> None:
    """Lower the costs of a's moves to what piece i offers; among equals the newcomer is taken."""
    D, arg, p = s.D[a], s.arg[a], s.P[s.row[i]]
    pa = fixed(p[a])
    for b in range(D.size):  # selections, not branches: the loop is vectorised
        d = pa - fixed(p[b])
        better = d <= D[b]
        D[b] = d if better else D[b]
        arg[b] = i if better else arg[b]
    D[a] = FAR


@inner
def enter(s: Moves, i: int, a: int) -> None:
    """Put piece i at the head of the list of class a."""
    s.cls[i] = a
    s.before[i] = -1
    s.after[i] = s.first[a]
    if s.first[a] >= 0:
        s.before[s.first[a]] = i
    s.first[a] = i


@inner
def link(s: Moves, i: int, a: int) -> None:
    """Put piece i into class a and let it offer its moves."""
    enter(s, i, a)
    if s.filled.size:
        offer_shelves(s, i, a)
    else:
        offer(s, i, a)


@inner
def take_down(s: Moves, a: int, b: int) -> None:
    """Let the cheapest piece on the shelf of (a, b) that still sits in a offer the move."""
    k = s.filled[a, b] - 1
    while k >= 0 and s.cls[s.shelf[a, b, k]] != a:
        k -= 1
    s.filled[a, b] = max(k, 0)
    if k >= 0:
        s.D[a, b], s.arg[a, b] = s.loss[a, b, k], s.shelf[a, b, k]
    else:
        s.D[a, b], s.arg[a, b] = s.bound[a, b], -1


@inner
def refill(s: Moves, a: int, b: int) -> None:
    """Fill the empty shelf of (a, b) with the cheapest of all pieces of a, and take one down."""
    s.bound[a, b] = FAR
    i = np.int64(s.first[a])
    while i >= 0:
        p = s.P[s.row[i]]
        d = fixed(p[a]) - fixed(p[b])
        if d < s.bound[a, b]:
            shelve(s, i, a, b, d)
        i = np.int64(s.after[i])
    take_down(s, a, b)


@inner
def replace(s: Moves, a: int, lost: Array) -> None:
    """Find the cheapest moves from a to each of the classes `lost`, among all pieces of a."""
    i = s.first[a]
    while i >= 0:
        p = s.P[s.row[i]]
        pa = fixed(p[a])
        for b in lost:
            d = pa - fixed(p[b])
            if d < s.D[a, b]:
                s.D[a, b], s.arg[a, b] = d, i
        i = s.after[i]


@inner
def unlink(s: Moves, i: int) -> None:
    """Take piece i out of its class and find other pieces for the moves that it offered."""
    a, before, after = np.int64(s.cls[i]), s.before[i], s.after[i]
    if before >= 0:
        s.after[before] = after
    else:
        s.first[a] = after
    if after >= 0:
        s.before[after] = before
    s.cls[i] = -1
    lost = 0
    for b in range(s.first.size):
        if s.arg[a, b] == i and b != a:
            if s.filled.size:
                take_down(s, a, b)
            else:
                s.D[a, b] = FAR
                s.lost[lost] = b
                lost += 1
    if lost:
        replace(s, a, s.lost[:lost])


@kernel
def start(s: Moves, pieces: int, lo: int, hi: int) -> None:
    """Link those of the first `pieces` pieces whose classes lie in lo..hi. Shelves are left empty."""
    s.first[lo:hi] = -1
    s.D[lo:hi] = FAR
    s.arg[lo:hi] = -1
    for i in range(pieces - 1, -1, -1):
        a = np.int64(s.cls[i])
        if lo <= a < hi:
            enter(s, i, a)
            offer(s, i, a)
    if s.filled.size:
        s.filled[lo:hi] = 0
        for a in range(lo, hi):
            for b in range(s.first.size):
                s.bound[a, b] = s.D[a, b]


@inner
def twin_in(s: Moves, i: int, b: int) -> int:
    """Return the piece of the same row as i that sits in class b, or -1."""
    j: int = np.int64(s.twin[i])
    while j != i:
        if s.cls[j] == b:
            return j
        j = np.int64(s.twin[j])
    return -1


@inner
def shift(s: Moves, a: int, b: int, d: int) -> None:
    """Move d units by the cheapest move from a to b, whose piece has at least that mass.

    Parts of a row that meet in a class become one piece: crumbs would have to be moved one by one.
    """
    i = np.int64(s.arg[a, b])
    j = twin_in(s, i, b)
    s.mass[i] -= d
    if s.mass[i] == 0:
        unlink(s, i)
        if j < 0:
            s.mass[i] = d
            link(s, i, b)
            return
    if j < 0:
        j = twin_in(s, i, np.int64(-1))
        if j < 0:
            j = s.size[0]
            s.size[0] += 1
            s.row[j], s.mass[j] = s.row[i], 0
            s.twin[j] = s.twin[i]
            s.twin[i] = j
        link(s, j, b)
    s.mass[j] += d
