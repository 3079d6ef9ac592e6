"""The compiled kernels: the exact search among candidate rows, and passes over a block of rows.

A *piece* is a part of one row that sits in one class; at first every candidate row is one piece. Moving piece i from
class a to class b loses p_ia - p_ib. For every ordered pair the cheapest loss D[a, b] and the piece that offers it,
arg[a, b], are kept. They do not depend on prices. Pieces that enter a class can only lower D, which is done at once
(`link`). Pieces that leave can only raise it: the moves that they offered are found again among the pieces that stay
(`unlink`). With few classes each pair also keeps a short list of its next cheapest pieces, so that this seldom means
to look at all pieces of a class. What is neither on the list of (a, b) nor its arg loses at least bound[a, b]. When a
list is empty the move is *unknown*: arg[a, b] is -1 and D[a, b] = bound[a, b] is a lower bound, until a search wants
to use it and has the list refilled. (Without the lists the search takes 4 times as long at 26,000 x 10, and 40 times
where most rows tie.)

Invariant of the search: at prices u every piece sits in a class that is best for its row, so each move a -> b has the
reduced cost R[a, b] = D[a, b] - u_a + u_b >= 0 (dual feasibility with complementary slackness). Only the class masses
may be wrong. One phase

1. finds distances from overfull classes to the nearest underfull ones under R (`shortest_paths`);
2. raises prices by (farthest - distance), which keeps R >= 0 and makes R = 0 on all shortest paths (`reprice`);
3. moves mass along shortest paths while they last (`augment`). A move with R = 0 keeps its row in a best class.

When no class is overfull the plan is feasible and satisfies complementary slackness with u: it is optimal. Masses,
losses and prices are integers, so each augmentation moves at least one unit, and nothing is ever almost zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftgauge.jit import kernel_part, lean_kernel

Array = npt.NDArray[Any]

# Scores, prices and losses are integers: multiples of 2**-48. Sums and differences are then exact, ties are
# ties, nothing depends on the order of operations, and the compiler may vectorise minima. Doubles in [16, 32)
# are 2**-48 apart, so the bits of 24 + x, minus those of 24, are x in this measure, rounded to nearest.
ONE = 1 << 48
GRID = 24.0
GRID_BITS = int(np.float64(GRID).view(np.int64))
#: Larger than any distance, and small enough to be added up.
FAR = 1 << 60
#: Nothing is that far away: a move that no piece offers costs FAR, give or take two prices.
NEVER = FAR >> 1
DONE, MORE, FULL, STUCK = 0, 1, 2, 3
#: Classes that are looked at together; many classes are searched tile by tile.
TILE = 64
#: exp(-REACH) is negligible beside 1: classes further than REACH * eps behind the best take no part of a row.
REACH = 14.0
#: Rows that are summed up before their sum is added, so that rounding errors stay small.
PARTIAL = 128


class Moves(NamedTuple):
    """Pieces, the classes they sit in, and the cheapest moves.

    Shapes: P (n, K) scores; row, cls, mass, after, before, twin (capacity,) the pieces: those of a class are a linked
    list (after, before), those of a row a ring (twin), and a piece without mass has class -1; first (K,) the first
    piece of each class, -1 if none; D, arg (K, K); next_piece, next_loss (K, K, depth) the next cheapest pieces and
    their losses, dearest first; filled (K, K) how many; bound (K, K); these four are empty if depth is 0; lost (K,)
    scratch; size (1,) the number of pieces.
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
    next_piece: Array
    next_loss: Array
    filled: Array
    bound: Array
    lost: Array
    size: Array


class Paths(NamedTuple):
    """Scratch of one search, (K,) each: distances, parents, classes in settled order, two for Dijkstra."""

    dist: Array
    parent: Array
    order: Array
    wall: Array
    key: Array


@kernel_part
def fixed(x: Any) -> int:
    """Read one score in multiples of 2**-48."""
    bits: int = np.float64(np.float64(x) + GRID).view(np.int64) - GRID_BITS
    return bits


# -- moves ---------------------------------------------------------------------------------------------------


@kernel_part
def insert(s: Moves, i: int, a: int, b: int, d: int) -> None:
    """Put piece i on the list of (a, b) at its place; if the list is full the dearest piece falls off."""
    pieces, loss, filled = s.next_piece[a, b], s.next_loss[a, b], s.filled[a, b]
    if filled == pieces.size:
        s.bound[a, b] = loss[0]
        if d >= loss[0]:
            s.bound[a, b] = d
            return
        k = 0
        while k + 1 < filled and loss[k + 1] > d:
            pieces[k], loss[k] = pieces[k + 1], loss[k + 1]
            k += 1
        pieces[k], loss[k] = i, d
        return
    k = filled
    while k > 0 and loss[k - 1] < d:
        pieces[k], loss[k] = pieces[k - 1], loss[k - 1]
        k -= 1
    pieces[k], loss[k] = i, d
    s.filled[a, b] = filled + 1


@kernel_part
def offer_lists(s: Moves, i: int, a: int) -> None:
    """Offer piece i to the moves of a and to the lists of their next cheapest pieces."""
    p = s.P[s.row[i]]
    pa = fixed(p[a])
    for b in range(s.first.size):
        d = pa - fixed(p[b])
        if b == a or d >= s.bound[a, b]:
            continue
        if d <= s.D[a, b]:
            if s.arg[a, b] >= 0:
                insert(s, np.int64(s.arg[a, b]), a, b, s.D[a, b])
            s.D[a, b], s.arg[a, b] = d, i
        else:
            insert(s, i, a, b, d)


@kernel_part
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


@kernel_part
def enter(s: Moves, i: int, a: int) -> None:
    """Put piece i at the head of the list of class a."""
    s.cls[i] = a
    s.before[i] = -1
    s.after[i] = s.first[a]
    if s.first[a] >= 0:
        s.before[s.first[a]] = i
    s.first[a] = i


@kernel_part
def link(s: Moves, i: int, a: int) -> None:
    """Put piece i into class a and let it offer its moves."""
    enter(s, i, a)
    if s.filled.size:
        offer_lists(s, i, a)
    else:
        offer(s, i, a)


@kernel_part
def take_next(s: Moves, a: int, b: int) -> None:
    """Let the cheapest piece on the list of (a, b) that still sits in a offer the move."""
    k = s.filled[a, b] - 1
    while k >= 0 and s.cls[s.next_piece[a, b, k]] != a:
        k -= 1
    s.filled[a, b] = max(k, 0)
    if k >= 0:
        s.D[a, b], s.arg[a, b] = s.next_loss[a, b, k], s.next_piece[a, b, k]
    else:
        s.D[a, b], s.arg[a, b] = s.bound[a, b], -1


@kernel_part
def refill(s: Moves, a: int, b: int) -> None:
    """Fill the empty list of (a, b) with the cheapest of all pieces of a, and take the first."""
    s.bound[a, b] = FAR
    i = np.int64(s.first[a])
    while i >= 0:
        p = s.P[s.row[i]]
        d = fixed(p[a]) - fixed(p[b])
        if d < s.bound[a, b]:
            insert(s, i, a, b, d)
        i = np.int64(s.after[i])
    take_next(s, a, b)


@kernel_part
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


@kernel_part
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
                take_next(s, a, b)
            else:
                s.D[a, b] = FAR
                s.lost[lost] = b
                lost += 1
    if lost:
        replace(s, a, s.lost[:lost])


@lean_kernel
def start(s: Moves, pieces: int, lo: int, hi: int) -> None:
    """Link those of the first `pieces` pieces whose classes lie in lo..hi. Lists are left empty."""
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


@kernel_part
def twin_in(s: Moves, i: int, b: int) -> int:
    """Return the piece of the same row as i that sits in class b, or -1."""
    j: int = np.int64(s.twin[i])
    while j != i:
        if s.cls[j] == b:
            return j
        j = np.int64(s.twin[j])
    return -1


@kernel_part
def shift(s: Moves, a: int, b: int, d: int) -> None:
    """Move d units by the cheapest move from a to b, whose piece has at least that mass.

    Parts of a row that meet in a class become one piece: small parts would have to be moved one by one.
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


# -- the search ----------------------------------------------------------------------------------------------


@kernel_part
def least_of(x: Array) -> int:
    """Return the least number in x, which is not empty."""
    least: int = x[0]
    for b in range(x.size):
        least = min(least, x[b])
    return least


@kernel_part
def settle(s: Moves, u: Array, dist: Array, parent: Array, wall: Array, key: Array, a: int) -> int:
    """Relax all moves out of a, just settled; return the least distance of the classes not yet settled.

    wall is 0 for those and NEVER for settled ones, which no move can bring nearer: R >= 0.
    """
    base, D, least = dist[a] - u[a], s.D[a], NEVER
    for b in range(u.size):  # selections, not branches: the loop is vectorised
        d = base + (D[b] + u[b])
        nearer = d < dist[b]
        best = d if nearer else dist[b]
        dist[b] = best
        parent[b] = a if nearer else parent[b]
        best = max(best, wall[b])
        key[b] = best
        least = min(least, best)
    return least


@kernel_part
def resolve(s: Moves, u: Array, g: Paths, settled: int, b: int) -> int:
    """Resolve the unknown move that would settle b, find b's distance again, and return the least distance."""
    refill(s, np.int64(g.parent[b]), b)
    best = NEVER
    for k in range(settled):
        a = g.order[k]
        d = g.dist[a] + (s.D[a, b] - u[a] + u[b])
        if d < best:
            best, g.parent[b] = d, a
    g.dist[b] = g.key[b] = best
    return least_of(g.key)


@kernel_part
def shortest_paths(s: Moves, u: Array, excess: Array, g: Paths, source: int, wanted: int) -> int:
    """Settle classes by their distance from the source (Dijkstra) until `wanted` underfull ones are.

    A source of -1 means all overfull classes. Returns how many classes were settled; fewer than wanted are
    underfull only if no more can be reached. Unknown moves enter with their lower bounds and are resolved
    before they settle a class.
    """
    dist, parent, order, wall, key = g.dist, g.parent, g.order, g.wall, g.key
    for b in range(u.size):
        start = b == source or (source < 0 and excess[b] > 0)
        dist[b] = key[b] = 0 if start else NEVER
        parent[b], wall[b] = -1, 0
    settled: int = np.int64(0)
    nearest = 0
    while nearest < NEVER:
        b = 0
        while key[b] != nearest:
            b += 1
        if parent[b] >= 0 and s.arg[parent[b], b] < 0:
            nearest = resolve(s, u, g, settled, b)
            continue
        wall[b] = NEVER
        order[settled] = b
        settled += 1
        if excess[b] < 0:
            wanted -= 1
            if wanted == 0:
                break
        nearest = settle(s, u, dist, parent, wall, key, b)
    return settled


@kernel_part
def reprice(u: Array, dist: Array, order: Array, settled: int) -> None:
    """Raise the settled classes' prices by what they are nearer than the farthest; then let the least be 0."""
    far = dist[order[settled - 1]]
    for k in range(settled):
        u[order[k]] += far - dist[order[k]]
    least = least_of(u)
    for b in range(u.size):
        u[b] -= least


@kernel_part
def augment(s: Moves, u: Array, excess: Array, parent: Array, t: int) -> bool:
    """Move as much as one path to t can carry; return whether it could, i.e. all its moves are still free."""
    d = -excess[t]
    b = t
    while parent[b] >= 0:
        a = np.int64(parent[b])
        if s.arg[a, b] < 0:
            refill(s, a, b)
        if s.D[a, b] - u[a] + u[b] != 0:
            return False
        d = min(d, s.mass[s.arg[a, b]])
        b = a
    d = min(d, excess[b])
    if d <= 0:
        return False
    excess[b] -= d
    excess[t] += d
    b = t
    while parent[b] >= 0:
        a = np.int64(parent[b])
        shift(s, a, b, d)
        b = a
    return True


@kernel_part
def next_source(excess: Array, last: int, typical: int) -> tuple[int, int]:
    """Choose the next source and how many underfull classes to look for; (-2, 0) if no class is overfull.

    While classes have whole rows too many, each in turn looks for the nearest underfull class: a move carries
    one row, so a path serves but once. When only parts of rows are left paths can serve many classes, and one
    search from all serves half of those that wait.
    """
    K, over, under, total, source = excess.size, 0, 0, 0, -2
    for k in range(K):
        b = (last + k) % K
        under += excess[b] < 0
        if excess[b] > 0:
            source = b if source < 0 else source
            over += 1
            total += excess[b]
    if total == 0:
        return -2, 0
    if over > 1 and total < over * typical:
        return -1, max(1, under // 2)
    return source, 1


@lean_kernel
def drive(s: Moves, u: Array, excess: Array, g: Paths, phases: int, typical: int) -> int:
    """Run up to `phases` phases. Return DONE, MORE (call again), FULL (pieces need room) or STUCK (no path).

    typical is the mass of a typical row in units.
    """
    source = 0
    for _ in range(phases):
        source, wanted = next_source(excess, max(source, 0), typical)
        if wanted == 0:
            return DONE
        settled = shortest_paths(s, u, excess, g, source, wanted)
        reprice(u, g.dist, g.order, settled)
        reached = False
        for k in range(settled):
            t = np.int64(g.order[k])
            reached |= excess[t] < 0
            while excess[t] < 0:
                if s.size[0] + u.size > s.row.size:
                    return FULL
                if not augment(s, u, excess, g.parent, t):
                    break
        if not reached:
            return STUCK
    return MORE


# -- passes of exact transport -----------------------------------------------------------------------------------------


@kernel_part
def top_two_of(p: Array, u: Array, lo: int, hi: int) -> tuple[int, int, int]:
    """Return the first class in lo..hi with the largest p_j - u_j, that value, and the largest of the others."""
    a, best, second = lo, -FAR, -FAR
    for j in range(lo, hi):  # selections, not branches
        x = fixed(p[j]) - u[j]
        second = max(second, min(best, x))
        a = j if x > best else a
        best = max(best, x)
    return a, best, second


@kernel_part
def top_two(p: Array, u: Array) -> tuple[int, int, int]:
    """Return the first class with the largest p_j - u_j, that value, and the largest of the others.

    Of many classes only the largest value of each tile is found, by a loop that is vectorised; then the best tile is
    searched.
    """
    if u.size <= TILE:
        return top_two_of(p, u, np.int64(0), u.size)
    tile, best, second = 0, -FAR, -FAR
    for lo in range(0, u.size, TILE):
        top = -FAR
        for j in range(lo, min(lo + TILE, u.size)):
            top = max(top, fixed(p[j]) - u[j])
        second = max(second, min(best, top))
        tile = lo if top > best else tile
        best = max(best, top)
    a, best, inner = top_two_of(p, u, tile, min(tile + TILE, u.size))
    return a, best, max(second, inner)


@kernel_part
def share_tie(p: Array, u: Array, q: Array, best: int, i: int, a: int) -> int:
    """Choose among the classes of value `best` in proportion to their masses q, a if these have none.

    Many rows tie where a network is saturated. Shared in this way few of them have to move later. The golden ratio
    spreads the choices evenly over rows, and makes them the same every time.
    """
    tied = 0.0
    for j in range(u.size):
        if fixed(p[j]) - u[j] == best:
            tied += q[j]
    place = (i + 1) * 0.6180339887498949
    left = (place - np.floor(place)) * tied
    for j in range(u.size):
        if fixed(p[j]) - u[j] == best and q[j] > 0.0:
            a = j
            left -= q[j]
            if left < 0.0:
                break
    return a


@kernel_part
def row_units(w: Array, unit: float, i: int) -> int:
    """The units of row i; w is (0,) for equal rows."""
    units: int = np.int64(np.rint(w[i] * unit)) if w.size else np.int64(unit)
    return units


@lean_kernel
def best_classes(P: Array, w: Array, unit: float, u: Array, q: Array, c: Array, m: Array, t: Array) -> None:
    """Give each row the class with the largest p_ij - u_j, ties by their masses q, and record by how much it wins.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u, q (K,) prices and class masses, c (n,) out, the
    class, m (n,) out, the margin to the runner-up, t (K,) in and out, units per class.
    """
    for i in range(P.shape[0]):
        a, best, second = top_two(P[i], u)
        if second == best:
            a = share_tie(P[i], u, q, best, i, a)
        c[i] = a
        m[i] = (best - second) / ONE
        t[a] += row_units(w, unit, i)


@lean_kernel
def may_move(
    P: Array, w: Array, unit: float, u: Array, T: Array, widest: Array, held: Array, keep: Array
) -> None:
    """Mark the rows whose best class could change under price changes d with d_a - d_b <= T[a, b]; count the others.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, T (K, K), widest (K,) the largest
    T of each row, held (K,) in and out: units of the rows that stay, keep (n,) out: booleans.
    """
    for i in range(P.shape[0]):
        p = P[i]
        a, best, second = top_two(p, u)
        keep[i] = best - second <= widest[a]
        if keep[i]:
            least = FAR
            for b in range(u.size):
                least = min(least, best - (fixed(p[b]) - u[b]) - T[a, b] if b != a else FAR)
            keep[i] = least <= 0
        if not keep[i]:
            held[a] += row_units(w, unit, i)


@lean_kernel
def price_histograms(
    P: Array, w: Array, unit: float, u: Array, shift: Array, reach: Array, table: Array
) -> None:
    """Count, for each class alone, by how much its price may rise until a row leaves, or must fall until one enters.

    Shapes: P (n, K) scores, w (n,) row weights or (0,) for ones, u (K,) prices, shift (K,) a bin is 2**shift wide,
    reach (tiles of classes,) B/2 of the widest bins of each, table (K, B) in and out: units per bin. Bin B/2 begins at
    0; the last one is open, and what is below the first is left out.
    """
    B = table.shape[1]
    for i in range(P.shape[0]):
        p = P[i]
        a, best, second = top_two(p, u)
        units = row_units(w, unit, i)
        for lo in range(0, u.size, TILE):
            hi, top = min(lo + TILE, u.size), -FAR
            for j in range(lo, hi):  # vectorised
                top = max(top, fixed(p[j]) - u[j])
            if top < best - reach[lo // TILE]:
                continue  # as in most tiles: no class is near the best one
            for j in range(lo, hi):
                x = fixed(p[j]) - u[j] - (best if j != a else second)
                place = (x >> shift[j]) + B // 2
                if place >= 0:
                    table[j, min(place, B - 1)] += units


@lean_kernel
def first_best(P: Array, u: Array, c: Array) -> None:
    """Give each row the first class with the largest p_ij - u_j. Shapes: P (n, K), u (K,), c (n,) out."""
    for i in range(P.shape[0]):
        a, _, _ = top_two(P[i], u)
        c[i] = a


@lean_kernel
def audit_sums(P: Array, w: Array, u: Array, prices: Array, held: Array) -> tuple[float, float]:
    """Return sum_i w_i max_j (p_ij - prices_j) and the cost sum_i w_i (1 - p_ia), a the first best class at prices u.

    Shapes: P (n, K), w (n,) or (0,) for ones, u (K,) prices on the grid, prices (K,) the same as numbers, held (K,) in
    and out: the mass w that each class receives.
    """
    n, K = P.shape
    best, cost = 0.0, 0.0
    for lo in range(0, n, PARTIAL):
        part, paid = 0.0, 0.0
        for i in range(lo, min(lo + PARTIAL, n)):
            a, first, second = top_two(P[i], u)
            top = np.float64(P[i, a]) - prices[a]
            if first - second <= 1:  # as the scores came, before they were rounded, another may be better
                for j in range(K):
                    top = max(top, np.float64(P[i, j]) - prices[j])
            weight = w[i] if w.size else 1.0
            held[a] += weight
            part += weight * top
            paid += weight * (1.0 - np.float64(P[i, a]))
        best += part
        cost += paid
    return best, cost


# -- transport smoothed by eps: x_i = softmax((p_i - u) / eps) -------------------------------------------------


@kernel_part
def first_two(p: Array, u: Array) -> tuple[int, float, float]:
    """Return the first class with the largest p_j - u_j, that value, and the largest of the others."""
    best, second, a = -np.inf, -np.inf, 0
    for j in range(u.size):
        x = np.float64(p[j]) - u[j]
        if x > best:
            second, best, a = best, x, j
        elif x > second:
            second = x
    return a, best, second


@lean_kernel
def smoothed_dual(
    P: Array, m: Array, u: Array, eps: float, held: Array, H: Array, x: Array, near: Array
) -> float:
    """One pass of the smoothed dual at prices u; return sum_i m_i eps log sum_j exp((p_ij - u_j) / eps).

    Shapes: P (n, K), m (n,), u (K,); out: held (K,) the mass each class receives, H (K, K) the Hessian in
    -u / eps, sum_i m_i (diag(x_i) - x_i x_i'); scratch: x (K,), near (K,) integers.
    """
    n, k = P.shape
    held[:] = 0.0
    H[:] = 0.0
    value = 0.0
    for i in range(n):
        if m[i] == 0.0:
            continue
        a, best, second = first_two(P[i], u)
        if second < best - REACH * eps:
            held[a] += m[i]
            value += m[i] * best
            continue
        total, count = 0.0, 0
        for j in range(k):
            v = np.float64(P[i, j]) - u[j]
            if v >= best - REACH * eps:
                x[count] = np.exp((v - best) / eps)
                total += x[count]
                near[count] = j
                count += 1
        value += m[i] * (best + eps * np.log(total))
        for s in range(count):
            share = m[i] * x[s] / total
            held[near[s]] += share
            H[near[s], near[s]] += share
            for t in range(count):
                H[near[s], near[t]] -= share * x[t] / total
    return value


@lean_kernel
def smoothed_plan(
    P: Array, m: Array, u: Array, eps: float, row: Array, cls: Array, mass: Array, cost: Array, x: Array
) -> tuple[int, float, float]:
    """Write the smoothed plan as parts; return their number, their cost, and sum_i m_i max_j (p_ij - u_j).

    Parts under a millionth of a row are left to its largest part. The number is -1 where the room ran out.
    Shapes: P (n, K), m (n,), u (K,); out: row, cls, mass, cost (room,); scratch: x (K,).
    """
    n, k = P.shape
    at, value, primal = 0, 0.0, 0.0
    for i in range(n):
        if at + k > row.size:
            return -1, 0.0, 0.0
        a, best, second = first_two(P[i], u)
        value += m[i] * best
        kept = 1.0
        if second >= best - REACH * eps:
            total = 0.0
            for j in range(k):
                x[j] = np.exp((np.float64(P[i, j]) - u[j] - best) / eps)
                total += x[j]
            for j in range(k):
                share = x[j] / total
                if j != a and share > 1e-6:
                    row[at], cls[at], mass[at], cost[at] = i, j, share * m[i], 1.0 - np.float64(P[i, j])
                    primal += mass[at] * cost[at]
                    kept -= share
                    at += 1
        row[at], cls[at], mass[at], cost[at] = i, a, kept * m[i], 1.0 - np.float64(P[i, a])
        primal += mass[at] * cost[at]
        at += 1
    return at, primal, value
