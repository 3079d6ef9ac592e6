"""Shifts made from labelled rows: what the backtest puts the methods through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.calibration import log_scores, softmax, zero_floor
from labelfree.labelshift import dirichlet_shares, resample_to
from labelfree.types import Source

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A made target of fewer rows says nothing.
LEAST_ROWS = 60


@dataclass(frozen=True)
class Shift:
    """One made target.

    Attributes:
        kind: the family, such as `"class proportions"`.
        strength: the setting within the family.
        rows: (m,) which rows of the pool.
        logits: (m, K) their log-scores, changed or not.
        labels: (m,) their true classes.
        kept: whether deployed predictions still hold (scores were not changed).
    """

    kind: str
    strength: str
    rows: Indices
    logits: Array
    labels: Indices
    kept: bool = True


def made_shifts(pool: Source, groups: npt.NDArray[Any] | None, seed: int) -> Iterator[Shift]:
    """Targets of several kinds and strengths, made from labelled rows.

    Class proportions (Dirichlet); sub-populations (each group, and clusters in score space); rows of lower
    confidence; sharper scores; noisier scores; two confusable classes in excess.
    """
    rng = np.random.default_rng(seed)
    z = log_scores(pool, slice(None), zero_floor(pool))
    z = z - z.max(axis=1, keepdims=True)
    n = pool.n

    def take(
        kind: str, strength: str, rows: Indices, change: Callable[[Array], Array] | None = None
    ) -> Iterator[Shift]:
        if len(rows) >= LEAST_ROWS:
            part = z[rows] if change is None else change(z[rows])
            yield Shift(kind, strength, rows, part, pool.labels[rows], change is None)

    half = np.sort(rng.permutation(n)[: max(LEAST_ROWS, n // 2)])
    yield from take("none", "none", half)
    for alpha in (50, 10, 1):
        rows = _proportions(pool, alpha, rng)
        yield from take("class proportions", f"alpha {alpha}", rows)
    if groups is not None:
        for name in np.unique(groups):
            yield from take("sub-population", f"group {name}", np.flatnonzero(groups == name))
    for number, rows in enumerate(_clusters(softmax(z), rng)):
        yield from take("sub-population", f"cluster {number}", rows)
    confidence = softmax(z).max(axis=1)
    for power in (1, 3):
        weight = (1.01 - confidence) ** (power / 2)
        rows = np.sort(rng.choice(n, size=n // 3, replace=False, p=weight / weight.sum()))
        yield from take("lower confidence", f"power {power / 2:g}", rows)
    for factor in (1.5, 2.5):
        yield from take("sharper scores", f"x {factor:g}", half, _scaled(factor))
    spread = float(np.median(z.std(axis=1)))
    for level in (0.25, 0.75):
        noise = rng.normal(size=(len(half), z.shape[1])) * spread * level
        yield from take("noisier scores", f"noise {level:g}", half, _moved(noise))
    for excess in (0.5, 0.8):
        yield from take("class confusion", f"share {excess:g}", _confusable(pool, excess, rng))


def _scaled(factor: float) -> Callable[[Array], Array]:
    return lambda part: part * factor


def _moved(noise: Array) -> Callable[[Array], Array]:
    return lambda part: part + noise


def _proportions(pool: Source, alpha: float, rng: np.random.Generator) -> Indices:
    q = pool.label_marginal
    for _ in range(20):
        shares = np.where(q > 0.0, np.maximum(dirichlet_shares(q, alpha, seed=rng), 0.002), 0.0)
        rows = resample_to(pool.labels, shares / shares.sum(), seed=rng)
        if len(rows) >= LEAST_ROWS:
            return rows
    return rows


def _clusters(p: Array, rng: np.random.Generator, k: int = 4, rounds: int = 15) -> list[Indices]:
    """Rows of each cluster of sqrt(p) (Hellinger geometry), by Lloyd's k-means."""
    x = np.sqrt(p)
    k = min(k, len(x))
    centre = x[rng.choice(len(x), size=k, replace=False)]
    nearest = np.zeros(len(x), dtype=np.intp)
    for _ in range(rounds):
        nearest = np.argmin(np.square(centre).sum(axis=1) - 2.0 * x @ centre.T, axis=1)
        centre = np.array(
            [x[nearest == c].mean(axis=0) if (nearest == c).any() else centre[c] for c in range(k)]
        )
    return [np.flatnonzero(nearest == c) for c in range(k)]


def _confusable(pool: Source, share: float, rng: np.random.Generator) -> Indices:
    """Rows in which the two classes most often taken for each other make up the share."""
    k = pool.k
    mistakes = np.zeros((k, k))
    np.add.at(mistakes, (pool.labels, pool.predictions), pool.mass)
    np.fill_diagonal(mistakes, 0.0)
    a, b = divmod(int(np.argmax(mistakes + mistakes.T)), k)
    inside = np.isin(pool.labels, (a, b))
    shares = np.array([share, 1.0 - share]) if not inside.all() else np.array([1.0, 0.0])
    return (
        resample_to((~inside).astype(np.intp), shares, seed=rng)
        if inside.any()
        else np.array([], dtype=np.intp)
    )
