"""Data sets of natural shifts of tables: what they have in common."""

from __future__ import annotations

import io
import tarfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftgauge.errors import MissingDependencyError, how_to_install

Rows = NDArray[np.int64]
Reader = Callable[[str], pd.DataFrame]


@dataclass(frozen=True)
class ScoredTask:
    """A model of a table task: probabilities (n, K) and labels (n,) of the source and of every other group."""

    task: str
    model: str
    source: tuple[NDArray[np.float32], NDArray[np.int64]]
    targets: Mapping[str, tuple[NDArray[np.float32], NDArray[np.int64]]]


@dataclass(frozen=True)
class TableWork:
    """A part of a data set of tables that is trained and scored at once, with the family it belongs to."""

    name: str
    family: str
    score: Callable[[], Iterator[ScoredTask]]


@dataclass(frozen=True)
class TableDataset:
    """Natural shifts of tables that come with a Python package: models are trained on one group, used on others."""

    name: str
    title: str
    package: str
    extra: str
    origin: str
    licence: str
    size: str
    splits: str
    work: Callable[[], Iterator[TableWork]]

    @property
    def module(self) -> str:
        """The module that reads it, for the digest of its code."""
        return str(self.work.__module__)

    def missing(self) -> list[str]:
        """The package, if it is not installed."""
        return [] if package_folder(self.package) else [f"the package {self.package}"]

    def require(self) -> None:
        """Refuse a data set whose package is not installed."""
        if self.missing():
            raise MissingDependencyError(
                f"{self.name} needs {self.package}, pandas and scikit-learn; {how_to_install(self.extra)}"
            )


def package_folder(package: str) -> Path | None:
    """Folder of an installed package, which is not imported; None if it is not installed."""
    try:
        located: Any = distribution(package).locate_file(package)
    except PackageNotFoundError:
        return None
    return Path(str(located))


@cache
def pydataset_reader() -> Reader:
    """A reader of pydataset's tables by name (``ggplot2/diamonds``).

    The package is not imported, since it would write into the home folder.
    """
    folder = package_folder("pydataset")
    if folder is None:
        raise MissingDependencyError(f"natural shifts need pydataset; {how_to_install('experiments')}")
    archive = tarfile.open(folder / "resources.tar.gz")  # noqa: SIM115 (open as long as tables are read)
    members = {member.name: member for member in archive.getmembers()}

    @cache
    def read(name: str) -> pd.DataFrame:
        ending = f"rdata/csv/{name}.csv"
        member = next(m for path, m in members.items() if path.endswith(ending) and "/._" not in path)
        file = archive.extractfile(member)
        assert file is not None
        return pd.read_csv(io.BytesIO(file.read()), index_col=0)

    return read


def scaled(model: Any) -> Any:
    """A model behind imputation of missing values and standardisation."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(SimpleImputer(), StandardScaler(), model)


@dataclass(frozen=True)
class TableSplit:
    """Features (n, d) or texts (n,), labels (n,), and the rows for training, of the source and of every target."""

    features: NDArray[Any]
    labels: Rows
    classes: int
    train: Rows
    source: Rows
    targets: Mapping[str, Rows]

    @classmethod
    def draw(
        cls,
        features: NDArray[Any],
        label: pd.Categorical,
        group: Any,
        source: Sequence[str],
        rng: np.random.Generator,
        most_source: int,
        most_target: int,
        least_target: int,
    ) -> TableSplit:
        """Half of the source groups' rows to train on, the other half as the source; the other groups as targets.

        At most ``most_source`` rows of the source groups are drawn, and of each other group of ``least_target`` rows
        at most ``most_target``. Rows without a label are left out.
        """
        codes, groups = np.asarray(label.codes, np.int64), np.asarray(group).astype(str)
        known = codes >= 0
        rows = rng.permutation(np.flatnonzero(np.isin(groups, source) & known))[:most_source]
        train, rest = np.array_split(rows, 2)
        targets = {}
        for name in sorted(set(groups) - set(source)):
            rows = np.flatnonzero((groups == name) & known)
            if len(rows) >= least_target:
                targets[str(name)] = rng.permutation(rows)[:most_target]
        return cls(features, codes, len(label.categories), train, rest, targets)

    def fit(self, model: Any) -> Any:
        """Fit a model on the training rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # convergence: the models are as they are
            return model.fit(self.features[self.train], self.labels[self.train])

    def probabilities(self, model: Any, rows: Rows) -> tuple[NDArray[np.float32], Rows]:
        """Probabilities (n, K) and labels (n,) of rows; a class without training rows has probability zero."""
        result = np.zeros((len(rows), self.classes), np.float32)
        result[:, model.classes_] = model.predict_proba(self.features[rows])
        return result, self.labels[rows]

    def score(self, task: str, models: Mapping[str, Any]) -> Iterator[ScoredTask]:
        """Fit every model, then score the source and the targets."""
        for name, untrained in models.items():
            model = self.fit(untrained)
            targets = {group: self.probabilities(model, rows) for group, rows in self.targets.items()}
            yield ScoredTask(task, name, self.probabilities(model, self.source), targets)
