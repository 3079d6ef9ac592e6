"""Few split rows: cancel cycles among the parts of split rows until none is left.

Rows and classes are the nodes of a graph whose edges are the parts of split rows. All parts are tight at the
optimal prices, so mass may be sent round any cycle without changing the cost: two consecutive edges of the
cycle share a row (one gains what the other loses) or a class (likewise). Sending as much as possible empties
an edge. Without cycles s rows and K classes have at most s + K - 1 edges, and each split row has at least two:
2 s <= s + K - 1, so at most K - 1 rows stay split.
"""

from __future__ import annotations

from itertools import pairwise

Part = tuple[int, int]


def cancel_cycles(parts: dict[Part, int]) -> dict[Part, int]:
    """Return parts of the same row and class totals whose graph has no cycle.

    Args:
        parts: mass in units by (row, class), positive.
    """
    kept: dict[Part, int] = {}
    neighbours: dict[int, set[int]] = {}  # classes are 0, 1, ...; rows are -1, -2, ...
    for (row, cls), mass in sorted(parts.items()):
        node = -1 - row
        kept[row, cls] = mass
        path = _path(neighbours, node, cls)
        neighbours.setdefault(node, set()).add(cls)
        neighbours.setdefault(cls, set()).add(node)
        if path:
            _empty_one(kept, neighbours, path)
    return kept


def _path(neighbours: dict[int, set[int]], start: int, goal: int) -> list[int]:
    """Return the nodes from start to goal, or nothing if they are not connected."""
    if start not in neighbours or goal not in neighbours:
        return []
    before = {start: start}
    queue = [start]
    for node in queue:
        if node == goal:
            path = [goal]
            while path[-1] != start:
                path.append(before[path[-1]])
            return path[::-1]
        for other in neighbours[node]:  # in any order: without cycles there is one path at most
            if other not in before:
                before[other] = node
                queue.append(other)
    return []


def _empty_one(kept: dict[Part, int], neighbours: dict[int, set[int]], path: list[int]) -> None:
    """Send mass round the cycle (path, then back from its end to its start) until a part is empty."""
    ends = [*path, path[0]]
    edges = [(-1 - min(a, b), max(a, b)) for a, b in pairwise(ends)]
    least = min(kept[e] for e in edges[::2])
    for place, edge in enumerate(edges):
        kept[edge] += least if place % 2 else -least
        if kept[edge] == 0:
            del kept[edge]
            neighbours[-1 - edge[0]].discard(edge[1])
            neighbours[edge[1]].discard(-1 - edge[0])
