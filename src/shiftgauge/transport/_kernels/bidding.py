"""An auction among rows, to start the search from good prices when there are many classes.

Every row without a class bids for its best one: the price that would make it as good as the runner-up, and
eps more. A class keeps the highest bids up to its mass; the lowest one that it keeps is its price, and rows
that are outbid bid again (Bertsekas and Castanon, 1989). When no row is left without a class, each sits within
eps of its best. Nothing relies on that here: the auction may be stopped at any time, and its prices are only
a start. Exactness comes from the search that follows.
"""

from __future__ import annotations

from shiftgauge.transport._kernels.base import Array, inner, kernel, row_of
from shiftgauge.transport._kernels.passes import top_two


@inner
def outbid(
    a: int, u: Array, mass: Array, room: int, held: Array, first: Array, after: Array, bid: Array
) -> int:
    """Take the lowest bidder out of class a if the class is full without it; set the price; return it or -1."""
    low = before = last = -1
    i = first[a]
    while i >= 0:
        if low < 0 or bid[i] < bid[low]:
            low, before = i, last
        last, i = i, after[i]
    if low < 0 or held[a] < room:
        return -1
    u[a] = max(u[a], bid[low])
    if held[a] - mass[low] < room:
        return -1
    held[a] -= mass[low]
    if before >= 0:
        after[before] = after[low]
    else:
        first[a] = after[low]
    return low


@kernel
def auction(
    P: Array,
    step: int,
    mass: Array,
    u: Array,
    room: Array,
    held: Array,
    first: Array,
    after: Array,
    bid: Array,
    queue: Array,
    ends: Array,
    eps: int,
    bids: int,
) -> int:
    """Let up to `bids` rows bid; return how many did. u rises in place.

    Shapes: P (n, K); mass, after, bid (items,): units, next in the same class, last bid; u, room, held, first
    (K,): prices, mass wanted, mass held, first row of the class or -1; queue (items,) those without a class,
    a ring from ends[0] to ends[1].
    """
    for count in range(bids):
        if ends[0] == ends[1]:
            return count
        i = queue[ends[0] % queue.size]
        ends[0] += 1
        a, best, second = top_two(P[row_of(i, step)], u)
        bid[i] = u[a] + (best - second) + eps
        after[i] = first[a]
        first[a] = i
        held[a] += mass[i]
        out = outbid(a, u, mass, room[a], held, first, after, bid)
        while out >= 0:
            queue[ends[1] % queue.size] = out
            ends[1] += 1
            out = outbid(a, u, mass, room[a], held, first, after, bid)
    return bids
