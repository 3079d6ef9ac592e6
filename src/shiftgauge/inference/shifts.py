"""Shifts made from labelled rows: what the backtest puts the methods through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import log_scores, softmax
from shiftgauge.inference.columns import Groups
from shiftgauge.labelshift import dirichlet_shares, resample_to
from shiftgauge.samples import Source

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Targets of fewer rows are not tried: their true error is too uncertain.
LEAST_ROWS = 60
#: The kinds of shift that were not made; if there are any, they alone recommend.
GROUP, NEW_GROUP, TIME = "group", "new group", "time"
NATURAL = (GROUP, NEW_GROUP, TIME)
#: Of a column with more groups, the largest ones become targets.
MOST_GROUPS = 20
#: Time is cut into so many parts, each a target for all that came before it.
PARTS = 4
#: Sub-populations in score space, and rounds of k-means.
CLUSTERS, ROUNDS = 4, 15


@dataclass(frozen=True)
class Shift:
    """One made target.

    Attributes:
        kind: the family, such as `"class proportions"`.
        strength: the setting within the family.
        rows: (m,) which rows of the pool.
        logits: (m, K) their log-scores, changed or not.
        labels: (m,) their true classes.
        predictions: (m,) the decisions that would have been taken.
    """

    kind: str
    strength: str
    rows: Indices
    logits: Array
    labels: Indices
    predictions: Indices


@dataclass(frozen=True)
class NotTried:
    """A target that could not be made, why, and in how many of the splits."""

    kind: str
    strength: str
    why: str
    splits: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The target as plain values."""
        return dict(vars(self))


def made_shifts(pool: Source, groups: Sequence[Groups], seed: int) -> Iterator[Shift | NotTried]:
    """Targets of several kinds and strengths, made from labelled rows; those that cannot be made say why.

    Class proportions (Dirichlet); each group given (which is no made shift, but the user's own); clusters in
    score space; rows of lower confidence; sharper scores; noisier scores; two confusable classes in excess.

    Sharper scores leave every decision as it was. Noisier scores move a decision that was the largest score
    to the largest noisy one; a deployed decision that was not the largest score stays: the rule
    behind it is not known.
    """
    rng = np.random.default_rng(seed)
    z = log_scores(pool.scores, pool.kind)
    z = z - z.max(axis=1, keepdims=True)
    n = pool.n

    def take(kind: str, strength: str, rows: Indices, changed: Array | None = None) -> Shift | NotTried:
        if len(rows) < LEAST_ROWS:
            return NotTried(kind, strength, f"fewer than {LEAST_ROWS} rows")
        if pool.weights is not None and not pool.weights[rows].any():
            return NotTried(kind, strength, "all rows weigh nothing")
        scores, decided = z[rows] if changed is None else changed, pool.predictions[rows]
        follows = decided == z[rows].argmax(axis=1)
        predictions = np.where(follows, scores.argmax(axis=1), decided)
        return Shift(kind, strength, rows, scores, pool.labels[rows], predictions)

    half = np.sort(rng.permutation(n)[: max(LEAST_ROWS, n // 2)])
    yield take("none", "none", half)
    for alpha in (50, 10, 1):
        yield take("class proportions", f"alpha {alpha}", _proportions(pool, alpha, rng))
    for column in groups:
        for name, rows in column.rows():
            yield take("group", name, rows)
    for number, rows in enumerate(hellinger_clusters(softmax(z), rng)):
        yield take("sub-population", f"cluster {number}", rows)
    confidence = softmax(z).max(axis=1)
    for power in (1, 3):
        weight = (1.01 - confidence) ** (power / 2)
        rows = np.sort(rng.choice(n, size=n // 3, replace=False, p=weight / weight.sum()))
        yield take("lower confidence", f"power {power / 2:g}", rows)
    for factor in (1.5, 2.5):
        yield take("sharper scores", f"x {factor:g}", half, z[half] * factor)
    spread = float(np.median(z.std(axis=1)))
    for level in (0.25, 0.75):
        noise = rng.normal(size=(len(half), z.shape[1])) * spread * level
        yield take("noisier scores", f"noise {level:g}", half, z[half] + noise)
    pair, why = most_confused(pool)
    for excess in (0.5, 0.8):
        kind, strength = "class confusion", f"share {excess:g}"
        yield (
            take(kind, strength, with_share(pair, excess, rng)) if not why else NotTried(kind, strength, why)
        )


def _proportions(pool: Source, alpha: float, rng: np.random.Generator) -> Indices:
    q = pool.label_marginal
    for _ in range(20):
        shares = np.where(q > 0.0, np.maximum(dirichlet_shares(q, alpha, seed=rng), 0.002), 0.0)
        rows = resample_to(pool.labels, shares / shares.sum(), seed=rng)
        if len(rows) >= LEAST_ROWS:
            return rows
    return rows


def hellinger_clusters(p: Array, rng: np.random.Generator) -> list[Indices]:
    """Rows of each cluster of sqrt(p) (Hellinger geometry), by Lloyd's k-means."""
    x = np.sqrt(p)
    k = min(CLUSTERS, len(x))
    centre = x[rng.choice(len(x), size=k, replace=False)]
    for _ in range(ROUNDS):
        nearest = np.argmin(np.square(centre).sum(axis=1) - 2.0 * x @ centre.T, axis=1)
        centre = np.array(
            [x[nearest == c].mean(axis=0) if (nearest == c).any() else centre[c] for c in range(k)]
        )
    return [np.flatnonzero(nearest == c) for c in range(k)]


def most_confused(pool: Source) -> tuple[npt.NDArray[np.bool_], str]:
    """(n,) the rows of the two classes most often taken for each other, or why there are none to favour."""
    k = pool.k
    mistakes = np.zeros((k, k))
    np.add.at(mistakes, (pool.labels, pool.predictions), pool.mass)
    np.fill_diagonal(mistakes, 0.0)
    inside = np.isin(pool.labels, divmod(int(np.argmax(mistakes + mistakes.T)), k))
    if len(np.unique(pool.labels)) < 3:
        return inside, "only two classes occur, so that no pair of them can be in excess"
    return inside, "" if mistakes.any() else "no class was taken for another"


def with_share(inside: npt.NDArray[np.bool_], share: float, rng: np.random.Generator) -> Indices:
    """Rows of which those inside make up the share."""
    return resample_to((~inside).astype(np.intp), np.array([share, 1.0 - share]), seed=rng)


@dataclass(frozen=True)
class Split:
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


def natural_splits(n: int, groups: Sequence[Groups], ranks: Indices | None) -> Iterator[Split | NotTried]:
    """Each group as the target of all others; each part of time as the target of what came before it."""
    for column in groups:
        yield from _groups_left_out(n, column)
    if ranks is not None:
        yield from _over_time(n, ranks)


def largest(column: Groups) -> list[tuple[str, Indices]]:
    """The groups with their rows, only the largest if there are very many."""
    found = sorted(column.rows(), key=lambda group: -len(group[1]))
    kept = {name for name, _ in found[:MOST_GROUPS]}
    return [(name, rows) for name, rows in column.rows() if name in kept]


def _groups_left_out(n: int, column: Groups) -> Iterator[Split | NotTried]:
    if len(column.names) < 2:
        yield NotTried(NEW_GROUP, column.names[0], "there is no other group to learn from")
        return
    if len(column.names) > MOST_GROUPS:
        rest = len(column.names) - MOST_GROUPS
        yield NotTried(NEW_GROUP, f"{rest} smaller groups", f"only the {MOST_GROUPS} largest of a column are")
    for name, rows in largest(column):
        others = np.setdiff1d(np.arange(n), rows, assume_unique=True)
        yield _split(NEW_GROUP, name, others, rows)


def _over_time(n: int, ranks: Indices) -> Iterator[Split | NotTried]:
    """The later half for the earlier one, and each later part for all before it; equal times stay together."""
    order = np.argsort(ranks, kind="stable")
    edges = [nearest_edge(ranks[order], round(n * part / PARTS)) for part in range(PARTS + 1)]
    half = edges[PARTS // 2]
    yield _split(TIME, "later half", order[:half], order[half:])
    for part in range(1, PARTS):
        start, end = edges[part], edges[part + 1]
        name = f"part {part + 1} of {PARTS}, by those before it"
        yield _split(TIME, name, order[:start], order[start:end])


def nearest_edge(sorted_ranks: Indices, at: int) -> int:
    """The end of the run of equal times nearest to a place in the order."""
    if at in (0, len(sorted_ranks)):
        return at
    left = int(np.searchsorted(sorted_ranks, sorted_ranks[at], side="left"))
    right = int(np.searchsorted(sorted_ranks, sorted_ranks[at], side="right"))
    return left if at - left <= right - at else right


def _split(kind: str, strength: str, known: Indices, asked: Indices) -> Split | NotTried:
    for rows, side in ((asked, "of its own"), (known, "to learn from")):
        if len(rows) < LEAST_ROWS:
            return NotTried(kind, strength, f"fewer than {LEAST_ROWS} rows {side}")
    return Split(kind, strength, np.sort(known), np.sort(asked))
