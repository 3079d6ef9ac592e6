"""BREEDS (Santurkar, Tsipras and Madry, 2021): Living-17, Nonliving-26, Entity-13, Entity-30.

Superclasses of ImageNet; the source has half of the classes of each one. "Same" targets are the same classes,
corrupted, "novel" targets the other half, clean and corrupted. The halves are those of the split ``good``, which the
paper's authors use; ``living17-rand`` and so on are random ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from shiftgauge.errors import FileError
from shiftgauge.experiments.datasets import imagenet
from shiftgauge.experiments.datasets._folders import read_images
from shiftgauge.experiments.datasets._hierarchy import FILES, ORIGIN, SPLITS, BreedsSplit, read_hierarchy
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet
from shiftgauge.experiments.examples import FileImages

FOLDER = "breeds"


@dataclass(frozen=True)
class _Task:
    """One of the four data sets: where in the hierarchy, how many classes each superclass gives."""

    level: int
    subclasses: int
    ancestor: str | None = None
    classes: int | None = None
    title: str = ""
    how: str = "good"

    def split(self, root: Path) -> BreedsSplit:
        """The superclasses and their two halves; the wrong hierarchy files are refused."""
        found = read_hierarchy(root / FOLDER).split(self.level, self.subclasses, self.ancestor, self.how)
        if self.classes not in (None, len(found.superclasses)):
            raise FileError(
                f"{root / FOLDER} gives {len(found.superclasses)} superclasses instead of {self.classes}; "
                f"the files wanted are those of {ORIGIN} (not the original WordNet ones beside it)"
            )
        return found

    def training(self, root: Path) -> FileImages:
        """ImageNet training images of the source classes, without the reserved ones."""
        return imagenet.split_training(root, self._source(root))[0]

    def validation(self, root: Path) -> FileImages:
        """The reserved ImageNet images that belong to the source classes."""
        return imagenet.split_training(root, self._source(root))[1]

    def _source(self, root: Path) -> dict[str, int]:
        return _folders(imagenet.class_numbers(root), _labels(self.split(root).source))

    def shifts(self, root: Path) -> list[ShiftedSet]:
        """Clean source classes; the corrupted ones; the other half, clean and corrupted."""
        split, numbers = self.split(root), imagenet.class_numbers(root)
        class_files = tuple(root / FOLDER / file for file in FILES)
        old, new = (_folders(numbers, _labels(half)) for half in (split.source, split.target))

        def clean(name: str, kind: str, class_of: dict[str, int]) -> ShiftedSet:
            read = partial(read_images, root / imagenet.VAL, class_of)
            return ShiftedSet(name, kind, read, (root / imagenet.VAL, *class_files))

        return [
            clean("clean", "clean", old),
            *imagenet.corrupted_folders(root, old, "same", class_files, "same_"),
            clean("novel_clean", "novel", new),
            *imagenet.corrupted_folders(root, new, "novel", class_files, "novel_"),
        ]


def _labels(half: list[list[int]]) -> dict[int, int]:
    return {number: label for label, group in enumerate(half) for number in group}


def _folders(numbers: dict[str, int], labels: dict[int, int]) -> dict[str, int]:
    return {name: labels[number] for name, number in numbers.items() if number in labels}


TASKS = {
    "living17": _Task(5, 4, "n00004258", 17, "Living-17"),
    "nonliving26": _Task(5, 4, "n00021939", 26, "Nonliving-26"),
    "entity13": _Task(3, 20, None, 13, "Entity-13"),
    "entity30": _Task(4, 8, None, 30, "Entity-30"),
}


def _dataset(name: str, how: str) -> Dataset:
    task = replace(TASKS[name], how=how)
    assert task.classes
    return Dataset(
        name=name if how == "good" else f"{name}-{how}",
        title=f"BREEDS {task.title}" + ("" if how == "good" else f", split {how}"),
        classes=task.classes,
        expects=(imagenet.TRAIN, imagenet.VAL, *(f"{FOLDER}/{file}" for file in FILES)),
        extras=(imagenet.CORRUPTED,),
        origin=f"ImageNet and ImageNet-C; hierarchy files: {ORIGIN}",
        licence="research only (ImageNet); MIT (hierarchy)",
        size="as ImageNet and ImageNet-C",
        splits="source: reserved ImageNet images of the source classes; same: corrupted; novel: clean and corrupted; "
        f"BREEDS split {how}",
        network="resnet50",
        recipe=name,
        training=task.training,
        validation=task.validation,
        shifts=task.shifts,
        marginal="uniform",
        statistics="breeds",
        note=f"BREEDS split: {how}" + (", as the paper's authors take it." if how == "good" else "."),
    )


DATASETS = tuple(_dataset(name, how) for how in SPLITS for name in TASKS)
