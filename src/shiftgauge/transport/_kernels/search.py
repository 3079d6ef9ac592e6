"""Shortest augmenting paths between overfull and underfull classes.

Invariant: with prices u, every piece sits in a class that is best for its row, i.e. each move a -> b has the
reduced cost R[a, b] = D[a, b] - u_a + u_b >= 0 (*dual feasibility with complementary slackness*). Only the
class masses may be wrong. One phase

1. finds distances from overfull classes to the nearest underfull ones under R (`search`);
2. raises prices by (farthest - distance), which keeps R >= 0 and makes R = 0 on all shortest paths (`reprice`);
3. moves mass along shortest paths while they last (`augment`). A move with R = 0 keeps its row in a best
   class, so the invariant stays.

When no class is overfull the plan is feasible and satisfies complementary slackness with u: it is optimal.
Masses are integers, so each augmentation moves at least one unit and exhausts a class or a piece; losses and
prices are integers too (see `base`), so nothing is ever almost zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftgauge.transport._kernels.base import FAR, Array, inner, kernel
from shiftgauge.transport._kernels.moves import Moves, refill, shift

# Nothing is that far away: a move that nobody offers costs FAR, give or take two prices.
NEVER = FAR >> 1
DONE, MORE, FULL, STUCK = 0, 1, 2, 3


class Search(NamedTuple):
    """Room for one search, (K,) each: distances, parents, classes in the order they were settled, and two
    arrays that find the next one quickly.
    """

    dist: Array
    parent: Array
    order: Array
    wall: Array
    key: Array


@inner
def least_of(x: Array) -> int:
    """Return the least number in x, which is not empty."""
    least: int = x[0]
    for b in range(x.size):
        least = min(least, x[b])
    return least


@inner
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


@inner
def learn(s: Moves, u: Array, g: Search, settled: int, b: int) -> int:
    """Get to know the move that would settle b, find b's distance again, and return the least distance."""
    refill(s, np.int64(g.parent[b]), b)
    best = NEVER
    for k in range(settled):
        a = g.order[k]
        d = g.dist[a] + (s.D[a, b] - u[a] + u[b])
        if d < best:
            best, g.parent[b] = d, a
    g.dist[b] = g.key[b] = best
    return least_of(g.key)


@inner
def search(s: Moves, u: Array, excess: Array, g: Search, source: int, wanted: int) -> int:
    """Settle classes by their distance from the source (Dijkstra) until `wanted` underfull ones are.

    A source of -1 means all overfull classes. Returns how many classes were settled; fewer than wanted are
    underfull only if no more can be reached. Unknown moves enter with their lower bounds and are learnt
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
            nearest = learn(s, u, g, settled, b)
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


@inner
def reprice(u: Array, dist: Array, order: Array, settled: int) -> None:
    """Raise the settled classes' prices by what they are nearer than the farthest; then let the least be 0."""
    far = dist[order[settled - 1]]
    for k in range(settled):
        u[order[k]] += far - dist[order[k]]
    least = least_of(u)
    for b in range(u.size):
        u[b] -= least


@inner
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


@inner
def plan(excess: Array, last: int, typical: int, enough: int) -> tuple[int, int]:
    """Choose the next source and how many underfull classes to look for; (-2, 0) if no more than enough is left.

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
    if total <= enough:
        return -2, 0
    if over > 1 and total < over * typical:
        return -1, max(1, under // 2)
    return source, 1


@kernel
def drive(s: Moves, u: Array, excess: Array, g: Search, phases: int, typical: int, enough: int) -> int:
    """Run up to `phases` phases. Return DONE, MORE (call again), FULL (pieces need room) or STUCK (no path).

    typical is the mass of a typical row in units, enough the mass that may stay in overfull classes.
    """
    source = 0
    for _ in range(phases):
        source, wanted = plan(excess, max(source, 0), typical, enough)
        if wanted == 0:
            return DONE
        settled = search(s, u, excess, g, source, wanted)
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


@kernel
def patch(s: Moves, u: Array, excess: Array) -> int:
    """Fill underfull classes by direct moves, each overfull class its cheapest first, whatever R they have.

    Prices stay, so the plan then costs sum d R more than the dual value, summed over the moves made. Returns
    DONE, FULL (pieces need room: call again) or STUCK (an overfull class has no piece).
    """
    for a in range(u.size):
        while excess[a] > 0:
            best, b = NEVER, -1
            for t in range(u.size):
                if excess[t] < 0 and s.D[a, t] + u[t] < best:
                    if s.arg[a, t] < 0:
                        refill(s, a, t)
                    if s.D[a, t] + u[t] < best:
                        best, b = s.D[a, t] + u[t], t
            if b < 0:
                return STUCK
            if s.size[0] + 1 > s.row.size:
                return FULL
            d = min(excess[a], -excess[b], s.mass[s.arg[a, b]])
            shift(s, a, b, d)
            excess[a] -= d
            excess[b] += d
    return DONE
