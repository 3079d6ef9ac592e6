"""BREEDS (Santurkar, Tsipras and Madry, 2021): Living-17, Nonliving-26, Entity-13, Entity-30.

Superclasses of ImageNet; the source sees half of each one's classes. "Same" targets show the same
classes corrupted, "novel" targets the other half, clean and corrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labelfree.experiments.datasets import imagenet
from labelfree.experiments.datasets._folders import images_of, list_images
from labelfree.experiments.datasets._hierarchy import FILES, Split, read_hierarchy
from labelfree.experiments.datasets.base import Dataset, Shift
from labelfree.experiments.examples import FileImages

FOLDER = "breeds"


@dataclass(frozen=True)
class _Task:
    """One of the four data sets: where in the hierarchy, how many classes each superclass gives."""

    level: int
    subclasses: int
    ancestor: str | None = None

    def split(self, root: Path) -> Split:
        """The published random split (seed 2)."""
        return read_hierarchy(root / FOLDER).split(self.level, self.subclasses, self.ancestor)

    def training(self, root: Path) -> FileImages:
        """ImageNet training images of the source classes, without the reserved ones."""
        return imagenet.relabel(imagenet.training(root), _labels(self.split(root).source))

    def validation(self, root: Path) -> FileImages:
        """The reserved ImageNet images that belong to the source classes."""
        return imagenet.relabel(imagenet.validation(root), _labels(self.split(root).source))

    def shifts(self, root: Path) -> list[Shift]:
        """Clean source classes; the corrupted ones; the other half, clean and corrupted."""
        split, numbers = self.split(root), imagenet.class_numbers(root)
        old, new = (_folders(numbers, _labels(half)) for half in (split.source, split.target))

        def clean(class_of: dict[str, int]) -> FileImages:
            return images_of(list_images(root / imagenet.VAL), class_of)

        return [
            Shift("clean", "clean", lambda: clean(old)),
            *imagenet.corrupted_folders(root, old, "same", "same_"),
            Shift("novel_clean", "novel", lambda: clean(new)),
            *imagenet.corrupted_folders(root, new, "novel", "novel_"),
        ]


def _labels(half: list[list[int]]) -> dict[int, int]:
    return {number: label for label, group in enumerate(half) for number in group}


def _folders(numbers: dict[str, int], labels: dict[int, int]) -> dict[str, int]:
    return {name: labels[number] for name, number in numbers.items() if number in labels}


TASKS = {
    "living17": _Task(5, 4, "n00004258"),
    "nonliving26": _Task(5, 4, "n00021939"),
    "entity13": _Task(3, 20),
    "entity30": _Task(4, 8),
}


def _dataset(name: str, title: str, classes: int) -> Dataset:
    task = TASKS[name]
    return Dataset(
        name=name,
        title=title,
        classes=classes,
        expects=(imagenet.TRAIN, imagenet.VAL, *(f"{FOLDER}/{file}" for file in FILES)),
        extras=(imagenet.CORRUPTED,),
        origin="ImageNet and ImageNet-C; hierarchy files: https://github.com/MadryLab/BREEDS-Benchmarks",
        licence="research only (ImageNet); MIT (hierarchy)",
        size="as ImageNet and ImageNet-C",
        splits="source: reserved ImageNet images of the source classes; same: corrupted; novel: clean and corrupted",
        network="resnet50",
        recipe=name,
        training=task.training,
        validation=task.validation,
        shifts=task.shifts,
    )


DATASETS = (
    _dataset("living17", "BREEDS Living-17", 17),
    _dataset("nonliving26", "BREEDS Nonliving-26", 26),
    _dataset("entity13", "BREEDS Entity-13", 13),
    _dataset("entity30", "BREEDS Entity-30", 30),
)
