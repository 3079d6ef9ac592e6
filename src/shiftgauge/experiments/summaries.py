"""Summaries of a table of estimates: mean absolute errors, correlations, thresholding."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

CORRUPTED = ("synthetic", "same")
GROUP = ["dataset", "network", "kind", "method"]


def with_absolute_error(estimates: pd.DataFrame) -> pd.DataFrame:
    """The table with the column ``absolute_error``."""
    return estimates.assign(absolute_error=(estimates.estimate - estimates.true_error).abs())


def mae_table(estimates: pd.DataFrame) -> pd.DataFrame:
    """Mean absolute error per (data set, network, kind of shift, method), without clean sets and scores.

    ``mae`` is the mean over shifts per seed, then over seeds; ``std`` its standard deviation over seeds (divided by
    their number); ``median`` the median over shifts, averaged over seeds; ``worst`` the largest single error.
    ``shifts`` and ``fewest_shifts`` are the numbers of sets of the seeds with most and fewest; ``rows_least`` and
    ``rows_most`` the smallest and largest numbers of rows.
    """
    errors = with_absolute_error(estimates[~estimates.is_score & (estimates.kind != "clean")])
    by_seed = errors.groupby([*GROUP, "seed"], sort=False).agg(
        mae=("absolute_error", "mean"),
        median=("absolute_error", "median"),
        worst=("absolute_error", "max"),
        shifts=("absolute_error", "size"),
        rows_least=("n", "min"),
        rows_most=("n", "max"),
    )
    table = by_seed.groupby(GROUP, sort=False).agg(
        mean=("mae", "mean"),
        std=("mae", lambda means: float(np.std(means))),
        median=("median", "mean"),
        worst=("worst", "max"),
        shifts=("shifts", "max"),
        fewest_shifts=("shifts", "min"),
        seeds=("mae", "size"),
        rows_least=("rows_least", "min"),
        rows_most=("rows_most", "max"),
    )
    return table.rename(columns={"mean": "mae"}).reset_index()


def correlation_table(estimates: pd.DataFrame) -> pd.DataFrame:
    """R^2 (squared Pearson) and Spearman's rho per (data set, network, method), over the corrupted sets.

    A data set without corrupted sets uses all its shifted sets. Both are computed per seed and averaged.
    """
    corrupted = estimates.kind.isin(CORRUPTED)
    with_corrupted = estimates.dataset.isin(estimates.dataset[corrupted].unique())
    used = estimates[corrupted | (~with_corrupted & (estimates.kind != "clean"))]
    group = ["dataset", "network", "method"]
    records = []
    for key, some in used.groupby([*group, "seed"], sort=False):
        if len(some) > 2:
            r2, rho = correlations(some.estimate.to_numpy(), some.true_error.to_numpy())
            records.append([*key[:3], r2, rho, len(some)])
    by_seed = pd.DataFrame(records, columns=[*group, "r2", "rho", "n"])
    return (
        by_seed.groupby(group, sort=False)
        .agg(
            r2=("r2", "mean"),
            rho=("rho", "mean"),
            shifts=("n", "max"),
            seeds=("n", "size"),
            fewest=("n", "min"),
        )
        .reset_index()
    )


def correlations(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """(squared Pearson, Spearman); 0 if one of the two is constant.

    >>> correlations(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0]))
    (1.0, 1.0)
    """
    both = pd.DataFrame({"x": x, "y": y})
    if both.nunique().min() == 1:
        return 0.0, 0.0
    pearson, ranks = both.corr().x.y, both.rank().corr().x.y
    return round(float(pearson) ** 2, 12), round(float(ranks), 12)


def points(estimates: pd.DataFrame, method: str, x: str, y: str) -> tuple[list[float], list[float]]:
    """Two columns of the shifted sets, as the points of a figure."""
    some = estimates[(estimates.method == method) & (estimates.kind != "clean")]
    return some[x].tolist(), some[y].tolist()


def thresholding_table(estimates: pd.DataFrame) -> pd.DataFrame:
    """Per shift, over seeds: mean absolute errors of AC against ATC-MC and of COT against COTT, by true error."""
    methods = {"ac": "ac", "atc-mc": "atc", "cot": "cot", "cott": "cott"}
    key = ["dataset", "network", "shift"]
    groups = estimates.groupby(key, sort=False)
    errors = with_absolute_error(estimates[estimates.method.isin(list(methods))])
    wide = errors.pivot_table("absolute_error", key, "method", aggfunc="mean", sort=False)
    table = groups.agg(true_error=("true_error", "mean"), seeds=("seed", "nunique")).join(wide, how="inner")
    table = table.reindex(columns=["true_error", *methods, "seeds"]).dropna().rename(columns=methods)
    return table.reset_index().sort_values("true_error", kind="stable", ignore_index=True)
