"""What the verbs of ``labelfree bench`` do, without printing: each returns plain data."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from labelfree.experiments import ablation, collect, pipeline, protocol, resampling
from labelfree.experiments._store import Progress, write_text
from labelfree.experiments.datasets import DATASETS, Dataset, dataset
from labelfree.experiments.recipes import Recipe, recipe
from labelfree.experiments.scores import Scores, seeds_of

ESTIMATES = "estimates.csv"


def listing(root: Path) -> list[dict[str, Any]]:
    """Every known data set: found or missing, where expected, origin, licence, size, splits."""
    return [
        {
            "name": known.name,
            "title": known.title,
            "found": not known.missing(root),
            "missing": known.missing(root),
            "expected": [str(root / path) for path in known.expects],
            "extras": {path: (root / path).exists() for path in known.extras},
            "origin": known.origin,
            "licence": known.licence,
            "size": known.size,
            "classes": known.classes,
            "splits": known.splits,
            "network": known.network,
            "recipe": known.recipe,
        }
        for known in DATASETS.values()
    ]


def choose(name: str, network: str | None, recipe_name: str | None) -> tuple[Dataset, str, Recipe]:
    """The data set with its own network and recipe, or the ones asked for."""
    known = dataset(name)
    return known, network or known.network, recipe(recipe_name or known.recipe)


def train(
    name: str, seeds: Sequence[int], root: Path, runs: Path, network: str | None = None,
    recipe_name: str | None = None, device: str | None = None, progress: Progress | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train one network per seed."""
    known, network, how = choose(name, network, recipe_name)
    made = []
    for seed in seeds:
        pipeline.train_network(known, network, how, seed, root, runs, device, progress)
        made.append({"seed": seed, "checkpoint": str(pipeline.checkpoint_path(runs, name, network, seed))})
    return made


def collect_scores(
    name: str,
    seeds: Sequence[int],
    root: Path,
    runs: Path,
    network: str | None = None,
    recipe_name: str | None = None,
    projnorm_steps: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
    rows: int | None = None,
) -> list[dict[str, Any]]:
    """Score source and shifts with each seed's network (trained on the way where it was not), ProjNorm if asked."""
    known, network, how = choose(name, network, recipe_name)
    models = {s: pipeline.train_network(known, network, how, s, root, runs, device, progress) for s in seeds}
    made = collect.collect(known, network, models, how, root, runs, device, progress, rows)
    if projnorm_steps:
        fresh = {s: pipeline.make_network(known, network, how, s, root) for s in seeds}
        collect.collect_projnorm(known, network, fresh, root, runs, projnorm_steps, device, progress)
    return [{"seed": s, "folder": str(at.folder), "shifts": len(at.shifts())} for s, at in made.items()]


def run(
    name: str, runs: Path, out: Path, network: str | None = None, progress: Progress | None = None
) -> Path:
    """Estimates of every method on every shift, the two mild label shifts and the batch ablation, as CSV."""
    network = network or dataset(name).network
    folder = results_folder(out, name, network)
    protocol.write_rows(folder / ESTIMATES, protocol.run(runs, name, network, progress=progress))
    for scale in resampling.SCALES:
        rows = resampling.run_mild(runs, name, network, scale, progress)
        protocol.write_rows(folder / f"mild_label_shift_{scale}.csv", rows)
    write_batched(
        folder / "batches_estimates.csv", ablation.run_batches(runs, name, network, progress=progress)
    )
    return folder


def results_folder(out: Path, name: str, network: str) -> Path:
    """``<out>/<data set>/<network>``."""
    return out / name / network


def table(name: str, out: Path, network: str | None = None) -> list[Path]:
    """Tables of what ``run`` wrote, as Markdown, LaTeX and CSV."""
    from labelfree.experiments import tables

    folder = results_folder(out, name, network or dataset(name).network)
    rows = protocol.read_rows(folder / ESTIMATES)
    made = [
        *tables.main_table(rows, extra=[_distinct(rows)]).write(folder / "tables"),
        *tables.correlations(rows).write(folder / "tables"),
        *tables.thresholding(rows).write(folder / "tables"),
        *tables.batches(read_batched(folder / "batches_estimates.csv")).write(folder / "tables"),
    ]
    for scale, beta in zip(resampling.SCALES, ("alpha q", "alpha K q"), strict=True):
        shifted = protocol.read_rows(folder / f"mild_label_shift_{scale}.csv")
        title = f"Mean absolute error under mild label shift, Dirichlet({beta}), alpha = 50"
        made += tables.main_table(shifted, f"mild_label_shift_{scale}", title).write(folder / "tables")
    return made


def _distinct(rows: Sequence[protocol.Row]) -> str:
    errors: dict[str, dict[int, tuple[float, float]]] = {}
    for row in rows:
        errors.setdefault(row.shift, {})[row.seed] = (row.true_error, row.pseudo_shift)
    clean = errors.get("clean")
    same = sorted(name for name, found in errors.items() if name != "clean" and found == clean)
    total = len(errors) - (clean is not None)
    said = f"{total - len(same)} of {total} shifted sets differ from the clean one"
    return said + (f"; {', '.join(same)} do nothing to these images." if same else ".")


def figures(name: str, runs: Path, out: Path, network: str | None = None) -> list[Path]:
    """Figures of what ``run`` wrote and of the first seed's scores, as PNG and SVG."""
    from labelfree.experiments import figures as drawing

    network = network or dataset(name).network
    folder = results_folder(out, name, network)
    rows = protocol.read_rows(folder / ESTIMATES)
    scores = Scores.of(runs, name, network, seeds_of(runs, name, network)[0])
    return drawing.make_all(rows, scores, folder / "figures", f"{dataset(name).title}, {network}")


def summary(name: str, out: Path, network: str | None = None) -> list[dict[str, Any]]:
    """The main table as records: method, MAE, deviation, worst, the paper's MAE."""
    from labelfree.experiments import tables

    folder = results_folder(out, name, network or dataset(name).network)
    return tables.main_table(protocol.read_rows(folder / ESTIMATES)).data


def write_batched(path: Path, found: Sequence[ablation.Batched]) -> None:
    """Write the batch ablation as CSV."""
    names = [field.name for field in fields(ablation.Batched)]
    lines = [",".join(names)]
    for entry in found:
        lines.append(",".join(f"{v:.6f}" if isinstance(v, float) else str(v) for v in asdict(entry).values()))
    write_text(path, "\n".join(lines) + "\n")


def read_batched(path: Path) -> list[ablation.Batched]:
    """Read the batch ablation."""
    from labelfree.errors import FileError

    try:
        with path.open(newline="") as file:
            lines = list(csv.DictReader(file))
        return [
            ablation.Batched(
                line["dataset"],
                line["network"],
                int(line["seed"]),
                line["shift"],
                line["kind"],
                line["method"],
                float(line["true_error"]),
                float(line["whole"]),
                float(line["batched"]),
            )
            for line in lines
        ]
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `labelfree bench run` first") from None
    except (KeyError, ValueError) as error:
        raise FileError(f"{path} is not the table of batches ({error})") from None


def seeds_or(default: Sequence[int] | None) -> list[int]:
    """The seeds asked for, or the paper's."""
    from labelfree.experiments.recipes import SEEDS

    return [int(seed) for seed in np.unique(default)] if default else list(SEEDS)
