"""Real shifts for benchmarks: sources, targets and the targets' labels, with the family of data each belongs to."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import shiftgauge as sg


@dataclass(frozen=True)
class Task:
    """A model: its labelled source, and its targets by name with their labels.

    Attributes:
        family: the table, corpus or network that the data come from; targets of one family are not independent.
        kind: `"natural"`, or `"corrupted"` for images with synthetic corruptions.
    """

    family: str
    name: str
    kind: str
    source: sg.Source
    targets: dict[str, tuple[sg.Target, np.ndarray]]


def from_tables(path: Path) -> Iterator[Task]:
    """Tasks of an .npz of TASK__MODEL__val_probs, ..._val_labels, and TASK__MODEL__GROUP_probs, ..._labels."""
    arrays = dict(np.load(path, allow_pickle=False))
    for key in [name[: -len("__val_probs")] for name in arrays if name.endswith("__val_probs")]:
        groups = [
            name[: -len("_probs")]
            for name in arrays
            if name.startswith(f"{key}__") and name.endswith("_probs") and not name.endswith("__val_probs")
        ]
        labels = arrays[f"{key}__val_labels"].astype(int)
        targets = {
            group: (sg.Target(probs=arrays[f"{group}_probs"]), arrays[f"{group}_labels"].astype(int))
            for group in groups
        }
        source = sg.Source(probs=arrays[f"{key}__val_probs"], labels=labels)
        yield Task(f"{path.stem}/{key.split('_')[0]}", key, "natural", source, targets)


def from_runs(runs: Path) -> Iterator[Task]:
    """Tasks of the natural shifts that `shiftgauge bench natural` collected."""
    from shiftgauge.experiments import natural

    for dataset, task, folder in natural.score_folders(runs=runs):
        source = folder.read()
        targets = {}
        family = task.split("_")[0]
        for group, scored in natural.targets(folder):
            targets[group] = (sg.Target(probs=scored.scores), scored.labels)
        yield Task(
            f"{dataset}/{family}",
            task,
            "natural",
            sg.Source(probs=source.scores, labels=source.labels),
            targets,
        )


def from_logits(path: Path) -> Iterator[Task]:
    """The task of an .npz of val_logits, val_labels, labels and any number of <shift>_logits of the same rows."""
    arrays = np.load(path, allow_pickle=False)
    labels = arrays["labels"].astype(int)
    names = [
        name[: -len("_logits")] for name in arrays.files if name.endswith("_logits") and name != "val_logits"
    ]
    targets = {
        name: (sg.Target(logits=arrays[f"{name}_logits"].astype(np.float32)), labels) for name in names
    }
    source = sg.Source(
        logits=arrays["val_logits"].astype(np.float32), labels=arrays["val_labels"].astype(int)
    )
    yield Task(path.stem, path.stem, "corrupted", source, targets)


def from_results(results: Path) -> Iterator[Task]:
    """Tasks of the images whose scores the results keep, one per network and seed."""
    from shiftgauge.experiments.kept_scores import FOLDER

    for path in sorted(results.glob(f"*/*/{FOLDER}/seed*.npz")):
        dataset, network = path.parts[-4:-2]
        arrays = np.load(path, allow_pickle=False)
        sets = [name.partition("/")[0] for name in arrays.files if name.endswith("/logits")]
        scored = {
            name: (arrays[f"{name}/logits"].astype(np.float32), arrays[f"{name}/labels"]) for name in sets
        }
        logits, labels = scored.pop("source")
        targets = {name: (sg.Target(logits=z), y) for name, (z, y) in scored.items()}
        source = sg.Source(logits=logits, labels=labels)
        yield Task(f"{dataset}/{network}", f"{dataset}/{network}/{path.stem}", "corrupted", source, targets)


def from_package() -> Iterator[Task]:
    """The recorded predictions that ship with the package."""
    demo = sg.demo_data()
    number = {name: j for j, name in enumerate(demo.source.classes)}
    labels = np.array([number[name] for name in demo.labels])
    yield Task("demo", "demo", "corrupted", demo.source, {n: (t, labels) for n, t in demo.targets.items()})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose the shifts."""
    parser.add_argument("--tables", type=Path, nargs="+", default=[], help="natural shifts, .npz")
    parser.add_argument("--runs", type=Path, help="natural shifts that `shiftgauge bench natural` collected")
    parser.add_argument("--logits", type=Path, nargs="+", default=[], help="corrupted images, .npz")
    parser.add_argument("--results", type=Path, help="corrupted images whose scores these results keep")


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """All tasks that the options name; the shipped predictions if they name none."""
    if options.quick or not (options.tables or options.runs or options.logits or options.results):
        yield from from_package()
        return
    for path in options.tables:
        yield from from_tables(path)
    if options.runs:
        yield from from_runs(options.runs)
    for path in options.logits:
        yield from from_logits(path)
    if options.results:
        yield from from_results(options.results)
