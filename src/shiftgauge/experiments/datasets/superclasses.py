"""Superclasses of CIFAR-10 and Fashion-MNIST: BREEDS in small, for novel subpopulations on a machine without a GPU.

The source has half of the classes of each superclass. "Same" targets are the same classes, corrupted, "novel" targets
the other half, clean and corrupted, as in BREEDS. Both halves have the same shares of superclasses; classes that have
no counterpart are left out. Corruptions are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shiftgauge.experiments.datasets import cifar10, fashion_mnist
from shiftgauge.experiments.datasets._generated import corrupted
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet
from shiftgauge.experiments.examples import ArrayImages, Examples

Half = Sequence[Sequence[int]]
"""For every superclass, the numbers of its classes in this half."""


@dataclass(frozen=True)
class _Task:
    """A data set whose classes are grouped: the superclasses and their classes in source and novel targets."""

    base: Dataset
    superclasses: tuple[str, ...]
    source: Half
    novel: Half

    def training(self, root: Path) -> ArrayImages:
        """Training images of the source classes, without the reserved ones."""
        return _half(self.base.training(root), self.source)

    def validation(self, root: Path) -> ArrayImages:
        """The reserved images of the source classes."""
        return _half(self.base.validation(root), self.source)

    def shifts(self, root: Path) -> list[ShiftedSet]:
        """Clean source classes; the corrupted ones; the other half, clean and corrupted."""
        test = next(shift for shift in self.base.shifts(root) if shift.kind == "clean")

        def images(half: Half) -> list[ShiftedSet]:
            return corrupted(lambda: _half(test.load(), half), "cifar", test.files)

        clean, *same = images(self.source)
        return [
            clean,
            *(replace(shift, name=f"same_{shift.name}", kind="same") for shift in same),
            *(replace(shift, name=f"novel_{shift.name}", kind="novel") for shift in images(self.novel)),
        ]


def _half(images: Examples, half: Half) -> ArrayImages:
    """The images of these classes, labelled by superclass, in their order."""
    assert isinstance(images, ArrayImages)
    label_of = {number: label for label, numbers in enumerate(half) for number in numbers}
    some = images.take(np.flatnonzero(np.isin(images.labels, list(label_of))))
    return replace(some, labels=np.array([label_of[int(number)] for number in some.labels], np.int64))


def _dataset(task: _Task, splits: str, recipe: str) -> Dataset:
    return replace(
        task.base,
        name=f"{task.base.name}-superclasses",
        title=f"{task.base.title}, superclasses",
        classes=len(task.superclasses),
        extras=(),
        splits=f"{splits}; same: corrupted; novel: clean and corrupted",
        network="small",
        recipe=recipe,
        training=task.training,
        validation=task.validation,
        shifts=task.shifts,
        marginal="source",
    )


DATASETS = (
    _dataset(
        _Task(cifar10.DATASET, ("animal", "vehicle"), ((2, 3, 4), (0, 1)), ((6, 5, 7), (8, 9))),
        "source: bird, cat, deer; airplane, automobile; novel: frog, dog, horse; ship, truck",
        "cifar10-short",
    ),
    _dataset(
        _Task(fashion_mnist.DATASET, ("top", "shoe", "long"), ((0, 2), (7,), (3,)), ((6, 4), (9,), (1,))),
        "source: T-shirt, pullover; sneaker; dress; novel: shirt, coat; ankle boot; trouser",
        "fashion-mnist",
    ),
)
