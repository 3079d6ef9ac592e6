"""Shifts that the user's own data hold already: a group that was never seen, a time that came later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shiftgauge.inference.backtests.shifts import LEAST_ROWS, Untried
from shiftgauge.inference.columns import Groups

Indices = npt.NDArray[np.intp]

#: The kinds of shift that were not made; where there are any, they alone recommend.
GROUP, NEW_GROUP, TIME = "group", "new group", "time"
NATURAL = (GROUP, NEW_GROUP, TIME)
#: Of a column with more groups, the largest ones become targets.
MOST_GROUPS = 20
#: Time is cut into so many parts, each a target for all that came before it.
PARTS = 4


@dataclass(frozen=True)
class Cut:
    """A natural target: the labelled rows to learn from, and the rows whose labels are kept back.

    Attributes:
        kind: one of `NATURAL`.
        strength: which group, or which part of time.
        known, asked: row numbers, sorted.
    """

    kind: str
    strength: str
    known: Indices
    asked: Indices


def cuts(n: int, groups: Sequence[Groups], ranks: Indices | None) -> Iterator[Cut | Untried]:
    """Each group as the target of all others; each part of time as the target of what came before it."""
    for column in groups:
        yield from _left_out(n, column)
    if ranks is not None:
        yield from _over_time(n, ranks)


def largest(column: Groups) -> list[tuple[str, Indices]]:
    """The groups with their rows, the largest ones only where there are very many."""
    found = sorted(column.rows(), key=lambda group: -len(group[1]))
    kept = {name for name, _ in found[:MOST_GROUPS]}
    return [(name, rows) for name, rows in column.rows() if name in kept]


def _left_out(n: int, column: Groups) -> Iterator[Cut | Untried]:
    if len(column.names) < 2:
        yield Untried(NEW_GROUP, column.names[0], "there is no other group to learn from")
        return
    if len(column.names) > MOST_GROUPS:
        rest = len(column.names) - MOST_GROUPS
        yield Untried(NEW_GROUP, f"{rest} smaller groups", f"only the {MOST_GROUPS} largest of a column are")
    for name, rows in largest(column):
        others = np.setdiff1d(np.arange(n), rows, assume_unique=True)
        yield _cut(NEW_GROUP, name, others, rows)


def _over_time(n: int, ranks: Indices) -> Iterator[Cut | Untried]:
    """The later half for the earlier one, and each later part for all before it; equal times stay together."""
    order = np.argsort(ranks, kind="stable")
    edges = [_edge(ranks[order], round(n * part / PARTS)) for part in range(PARTS + 1)]
    half = edges[PARTS // 2]
    yield _cut(TIME, "later half", order[:half], order[half:])
    for part in range(1, PARTS):
        start, end = edges[part], edges[part + 1]
        name = f"part {part + 1} of {PARTS}, by those before it"
        yield _cut(TIME, name, order[:start], order[start:end])


def _edge(sorted_ranks: Indices, at: int) -> int:
    """The end of the run of equal times nearest to a place in the order."""
    if at in (0, len(sorted_ranks)):
        return at
    left = int(np.searchsorted(sorted_ranks, sorted_ranks[at], side="left"))
    right = int(np.searchsorted(sorted_ranks, sorted_ranks[at], side="right"))
    return left if at - left <= right - at else right


def _cut(kind: str, strength: str, known: Indices, asked: Indices) -> Cut | Untried:
    for rows, side in ((asked, "of its own"), (known, "to learn from")):
        if len(rows) < LEAST_ROWS:
            return Untried(kind, strength, f"fewer than {LEAST_ROWS} rows {side}")
    return Cut(kind, strength, np.sort(known), np.sort(asked))
