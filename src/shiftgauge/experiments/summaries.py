"""Numbers of the paper's tables from the flat table of estimates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.protocol import Row

CORRUPTED = ("synthetic", "same")


@dataclass(frozen=True)
class Mae:
    """Mean absolute error over the shifts of one kind, in fractions; mean and deviation over seeds.

    ``median`` is that of the shifts, averaged over seeds. ``shifts`` counts the sets of the seed that has most
    of them and ``fewest`` of the one that has fewest; ``least`` and ``most`` are the smallest and largest
    numbers of rows of a set.
    """

    dataset: str
    network: str
    kind: str
    method: str
    mean: float
    deviation: float
    median: float
    worst: float
    shifts: int
    fewest: int
    seeds: int
    least: int
    most: int


def mae_table(rows: Iterable[Row]) -> list[Mae]:
    """MAE per (data set, network, kind of shift, method); clean sets and scores are left out.

    The mean over shifts is taken per seed; ``mean`` and ``deviation`` (dividing by the number of seeds,
    as numpy does) are over seeds; ``worst`` is the largest single miss.
    """
    groups: dict[tuple[str, str, str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if not row.is_score and row.kind != "clean":
            groups[row.dataset, row.network, row.kind, row.method][row.seed].append(row)
    return [_mae(key, list(by_seed.values())) for key, by_seed in groups.items()]


def _mae(key: tuple[str, str, str, str], by_seed: list[list[Row]]) -> Mae:
    means = [float(np.mean([row.miss for row in rows])) for rows in by_seed]
    counts, sizes = [len(rows) for rows in by_seed], [row.n for rows in by_seed for row in rows]
    median = float(np.mean([np.median([row.miss for row in rows]) for rows in by_seed]))
    worst = max(row.miss for rows in by_seed for row in rows)
    return Mae(
        *key, float(np.mean(means)), float(np.std(means)), median, worst, max(counts), min(counts), len(means),
        min(sizes), max(sizes),
    )  # fmt: skip


@dataclass(frozen=True)
class Correlation:
    """How a method's output follows the true error over many shifts; ``fewest`` of the seed that has fewest."""

    dataset: str
    network: str
    method: str
    r2: float
    rho: float
    shifts: int
    seeds: int
    fewest: int


def correlation_table(rows: Iterable[Row]) -> list[Correlation]:
    """R^2 (squared Pearson) and Spearman's rho per (data set, network, method), over the corrupted sets.

    A data set without any takes all its shifted sets. Both are taken per seed and averaged. The paper does
    not say which ATC it means; both are here.
    """
    rows = list(rows)
    corrupted = {row.dataset for row in rows if row.kind in CORRUPTED}
    pairs: dict[tuple[str, str, str], dict[int, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        if row.kind in CORRUPTED or (row.kind != "clean" and row.dataset not in corrupted):
            pairs[row.dataset, row.network, row.method][row.seed].append((row.estimate, row.true_error))
    table = []
    for key, by_seed in pairs.items():
        both = [correlations(*np.array(values).T) for values in by_seed.values() if len(values) > 2]
        if both:
            r2, rho = np.mean(both, axis=0)
            counts = [len(values) for values in by_seed.values() if len(values) > 2]
            table.append(Correlation(*key, float(r2), float(rho), max(counts), len(both), min(counts)))
    return table


def correlations(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """(squared Pearson, Spearman); 0 where one side is constant.

    >>> correlations(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0]))
    (1.0, 1.0)
    """
    from scipy.stats import rankdata

    return round(_pearson(x, y) ** 2, 12), round(_pearson(rankdata(x), rankdata(y)), 12)


def _pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    a, b = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


@dataclass(frozen=True)
class Thresholding:
    """Does a threshold help? Miss of the mean (AC, COT) and of the threshold (ATC-MC, COTT) on one shift."""

    dataset: str
    network: str
    shift: str
    true_error: float
    ac: float
    atc: float
    cot: float
    cott: float
    seeds: int


def thresholding_table(rows: Sequence[Row]) -> list[Thresholding]:
    """Per shift, averaged over seeds: misses of AC against ATC-MC and of COT against COTT."""
    grouped: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seeds: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for row in rows:
        here = grouped[row.dataset, row.network, row.shift]
        seeds[row.dataset, row.network, row.shift].add(row.seed)
        here["truth"].append(row.true_error)
        here[row.method].append(row.miss)
    table = []
    for key, found in grouped.items():
        if {"ac", "atc-mc", "cot", "cott"} <= found.keys():
            mean = {name: float(np.mean(values)) for name, values in found.items()}
            misses = mean["ac"], mean["atc-mc"], mean["cot"], mean["cott"]
            table.append(Thresholding(*key, mean["truth"], *misses, len(seeds[key])))
    return table
