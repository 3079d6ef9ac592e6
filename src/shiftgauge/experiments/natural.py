"""The benchmark of natural shifts: about 900 targets of 81 families of real tables, for any method.

    <runs>/scores/<data set>/<table or task>.json             what made its models and scores, and their names
    <runs>/scores/<data set>/<task>/<model>/seed0/...         as those of networks (see ``scores``), probabilities
    <out>/natural/estimates.csv, tables/families.md ...

Models are trained once. Estimates are stored per target and computed again only if the scores or the code change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from shiftgauge.errors import FileError
from shiftgauge.experiments.datasets import TableDataset, table_datasets
from shiftgauge.experiments.datasets.tables import ScoredTask, TableWork
from shiftgauge.experiments.digests import check_made_by, code_digest, digest
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.protocol import ESTIMATES, estimates_sweep
from shiftgauge.experiments.scores import SOURCE, ScoredSet, ScoreFolder
from shiftgauge.experiments.storage import check_folder, read_mapping, read_table, write_json, write_table
from shiftgauge.experiments.summaries import with_absolute_error
from shiftgauge.experiments.tables import ResultTable, in_order, title_of
from shiftgauge.methods import Estimator

FOLDER = "natural"
"""The folder below the results."""
NOTE = "Targets of one task share a model and a source: they are not independent."


def collect(
    names: Sequence[str] = (), runs: Path = Path("runs"), progress: Progress = silent
) -> dict[str, int]:
    """Train and score what is not scored yet; data set -> number of targets."""
    check_folder(runs)
    counts = {}
    for dataset in table_datasets(names):
        dataset.require()
        made_by = _made_by(dataset)
        todo, folder = list(dataset.work()), runs / "scores" / dataset.name
        records = [folder / f"{work.name}.json" for work in todo]
        advice = f"delete {folder} to train again, or choose another directory with --runs"
        for path in records:
            if path.exists():
                check_made_by(path, read_mapping(path).get("made_by", {}), made_by, advice)
        done = sum(path.exists() for path in records)
        for path, work in zip(records, todo, strict=True):
            if not path.exists():
                models = [_write(runs, dataset, work, scored, made_by) for scored in work.score()]
                write_json(path, {"made_by": made_by, "models": models})
                done += 1
                progress(f"{dataset.name}: tables scored", done, len(todo), work.name)
        counts[dataset.name] = sum(m["targets"] for path in records for m in read_mapping(path)["models"])
    return counts


def _made_by(dataset: TableDataset) -> dict[str, str]:
    packages = (dataset.package, "scikit-learn", "pandas", "numpy")
    return {name: version(name) for name in packages} | {"code": code_digest(dataset.module)}


def _write(
    runs: Path, dataset: TableDataset, work: TableWork, scored: ScoredTask, made_by: dict[str, str]
) -> dict[str, Any]:
    """Write the scores of one model; what the record of its table says of it."""
    folder = ScoreFolder.of(runs, f"{dataset.name}/{scored.task}", scored.model, 0)
    targets = {group.replace("/", "-"): target for group, target in scored.targets.items()}
    folder.write_manifest(shifts=list(targets), made_by=dict.fromkeys((SOURCE, *targets), made_by))
    for name, (probs, labels) in {SOURCE: scored.source, **targets}.items():
        kind = SOURCE if name == SOURCE else work.family
        inputs = digest(probs.shape, labels.tolist())
        folder.write(name, probs, labels, kind, made_by, inputs, form="probs")
    return {"task": scored.task, "model": scored.model, "targets": len(targets)}


def score_folders(
    names: Sequence[str] = (), runs: Path = Path("runs")
) -> Iterator[tuple[str, str, ScoreFolder]]:
    """(data set, task, scores) of every trained model."""
    for dataset in table_datasets(names):
        folder = runs / "scores" / dataset.name
        records = sorted(folder.glob("*.json"), key=lambda path: path.stem)
        if not records:
            raise FileError(
                f"{folder} holds no scores; run `shiftgauge bench natural --only {dataset.name}` first"
            )
        for path in records:
            for entry in read_mapping(path)["models"]:
                place = f"{dataset.name}/{entry['task']}"
                yield dataset.name, entry["task"], ScoreFolder.of(runs, place, entry["model"], 0)


def targets(folder: ScoreFolder) -> Iterator[tuple[str, ScoredSet]]:
    """The targets of a trained model by group."""
    for group in folder.shifts():
        yield group, folder.read(group)


def estimates(
    names: Sequence[str] = (),
    runs: Path = Path("runs"),
    methods: Sequence[type[Estimator]] = (),
    progress: Progress = silent,
) -> pd.DataFrame:
    """Every registered method, and these, on every target: a table of estimates with the family as ``kind``."""
    folders = list(score_folders(names, runs))
    parts = []
    for sweep in (estimates_sweep(), *(estimates_sweep(method=method) for method in methods)):
        for number, (dataset, task, folder) in enumerate(folders):
            model = folder.folder.parent.name
            table = sweep.run(runs, f"{dataset}/{task}", model)
            parts.append(table.assign(dataset=dataset, shift=task + "/" + table["shift"]))
            progress(sweep.name, number + 1, len(folders), f"{dataset}, {task}, {model}")
    return pd.concat(parts, ignore_index=True)


def run(
    names: Sequence[str] = (),
    runs: Path = Path("runs"),
    out: Path = Path("results"),
    methods: Sequence[type[Estimator]] = (),
    progress: Progress = silent,
) -> list[Path]:
    """Collect what is missing, estimate, and write the estimates and the tables; returns the written files."""
    check_folder(out)
    collect(names, runs, progress)
    path = out / FOLDER / "estimates.csv"
    write_table(path, estimates(names, runs, methods, progress))
    return [path, *remake(out)]


def remake(out: Path) -> list[Path]:
    """Write the tables anew from the estimates that ``run`` wrote; returns the written files."""
    return family_table(read_estimates(out)).write(out / FOLDER / "tables")


def read_estimates(out: Path) -> pd.DataFrame:
    """The estimates that ``run`` wrote: one row per target and method."""
    return read_table(out / FOLDER / "estimates.csv", ESTIMATES)


def family_table(table: pd.DataFrame) -> ResultTable:
    """Mean absolute errors over all targets, by data set, and by family."""
    errors = with_absolute_error(table[~table.is_score])
    methods = in_order(errors.method.unique())
    lines, data = [], []
    for label, statistic, some in _groups(errors):
        values = some.groupby("method").absolute_error.agg(statistic)
        count = int((some.method == methods[0]).sum())
        lines.append([label, f"{statistic}, {count:,} targets", *(f"{100 * values[m]:.1f}" for m in methods)])
        record = {"group": label, "statistic": statistic, "targets": count}
        data.append(record | {m: round(float(values[m]), 6) for m in methods})
    header = ["targets", "absolute error", *map(title_of, methods)]
    notes = ("Absolute error in percentage points.", NOTE)
    return ResultTable("families", "Natural shifts by family", header, lines, notes, data)


def _groups(errors: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(label, statistic, targets): all, then data sets, each with mean, median and worst; then the mean by family."""
    datasets = list(errors.groupby("dataset", sort=False))
    every = [("all", errors), *datasets] if len(datasets) > 1 else datasets
    for label, some in every:
        yield from ((str(label), statistic, some) for statistic in ("mean", "median", "max"))
    for (dataset, family), some in errors.groupby(["dataset", "kind"]):
        yield f"{dataset}: {family}", "mean", some
