"""Shortest augmenting paths between overfull and underfull classes.

Invariant: with prices u, every piece sits in a class that is best for its row, i.e. each move a -> b has the
reduced cost R[a, b] = D[a, b] - u_a + u_b >= 0 (*dual feasibility with complementary slackness*). Only the
class masses may be wrong. One phase

1. finds the distance of every class from the overfull ones under R (`search`);
2. raises prices by (farthest - distance), which keeps R >= 0 and makes R = 0 on all shortest paths (`reprice`);
3. moves mass along shortest paths while they last (`augment`). A move with R = 0 keeps its row in a best
   class, so the invariant stays.

When no class is overfull the plan is feasible and satisfies complementary slackness with u: it is optimal.
Masses are integers, so each augmentation moves at least one unit and exhausts a class or a piece; costs are on
a grid where float arithmetic is exact (see `base`), so R = 0 can be tested with ==.
"""

from __future__ import annotations

import numpy as np

from labelfree.transport._kernels.base import Array, kernel
from labelfree.transport._kernels.moves import Moves, refresh, shift, stale

DONE, MORE, FULL, STUCK = 0, 1, 2, 3


@kernel
def shorten(s: Moves, u: Array, dist: Array, parent: Array, order: Array, settled: int, b: int) -> None:
    """Find b's distance through the settled classes again."""
    dist[b] = np.inf
    for k in range(settled):
        a = order[k]
        d = dist[a] + (s.D[a, b] - u[a] + u[b])
        if d < dist[b]:
            dist[b], parent[b] = d, a


@kernel
def search(
    s: Moves, u: Array, excess: Array, dist: Array, parent: Array, order: Array, done: Array, wanted: int
) -> int:
    """Settle classes in order of distance (Dijkstra) until `wanted` underfull ones are; return how many in all.

    A stale move is a lower bound, so the search is run on lower bounds; the move that would settle a class is
    refreshed first, and if it turns out dearer the class waits with its new distance.
    """
    K = u.size
    done[:] = False
    for b in range(K):
        dist[b] = 0.0 if excess[b] > 0 else np.inf
        parent[b] = -1
    settled = 0
    while settled < K:
        nearest, b = np.inf, -1
        for j in range(K):
            if not done[j] and dist[j] < nearest:
                nearest, b = dist[j], j
        if b < 0:
            break
        a = parent[b]
        if a >= 0 and stale(s, a, b):
            refresh(s, a, b)
            shorten(s, u, dist, parent, order, settled, b)
            continue
        done[b] = True
        order[settled] = b
        settled += 1
        if excess[b] < 0:
            wanted -= 1
            if wanted == 0:
                break
        base = nearest - u[b]
        D = s.D[b]
        for j in range(K):
            d = base + (D[j] + u[j])
            if not done[j] and d < dist[j]:
                dist[j], parent[j] = d, b
    return settled


@kernel
def reprice(u: Array, dist: Array, order: Array, settled: int) -> None:
    """Raise the settled classes' prices by what they are nearer than the farthest; then let the least be 0."""
    far = dist[order[settled - 1]]
    for k in range(settled):
        u[order[k]] += far - dist[order[k]]
    u -= u.min()


@kernel
def augment(s: Moves, u: Array, excess: Array, parent: Array, t: int) -> int:
    """Move as much as one path to t can carry, and return how much: 0 if some move on it is no longer free."""
    d = -excess[t]
    b = t
    while parent[b] >= 0:
        a = parent[b]
        if stale(s, a, b):
            refresh(s, a, b)
        if s.D[a, b] - u[a] + u[b] != 0.0:
            return 0
        d = min(d, s.mass[s.arg[a, b]])
        b = a
    d = min(d, excess[b])
    if d <= 0:
        return 0
    excess[b] -= d
    excess[t] += d
    b = t
    while parent[b] >= 0:
        shift(s, parent[b], b, d)
        b = parent[b]
    return d


@kernel
def drive(
    s: Moves, u: Array, excess: Array, dist: Array, parent: Array, order: Array, done: Array, phases: int
) -> int:
    """Run up to `phases` phases. Return DONE, MORE (call again), FULL (room for pieces) or STUCK (no path)."""
    K = u.size
    for _ in range(phases):
        under = 0
        for b in range(K):
            under += excess[b] < 0
        if under == 0:
            return DONE
        settled = search(s, u, excess, dist, parent, order, done, under)
        reprice(u, dist, order, settled)
        reached = False
        for k in range(settled):
            t = order[k]
            reached |= excess[t] < 0
            while excess[t] < 0:
                if s.size[0] + K > s.row.size:
                    return FULL
                if augment(s, u, excess, parent, t) == 0:
                    break
        if not reached:
            return STUCK
    return MORE
