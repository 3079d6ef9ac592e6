"""Data sets by name. The registry is a dictionary: a new data set touches its file and one line here."""

from __future__ import annotations

from labelfree.errors import InputError, nearest
from labelfree.experiments.datasets import cifar10, fashion_mnist
from labelfree.experiments.datasets.base import Dataset, Shift

__all__ = ["DATASETS", "Dataset", "Shift", "dataset"]

DATASETS: dict[str, Dataset] = {module.name: module for module in (fashion_mnist.DATASET, cifar10.DATASET)}


def dataset(name: str) -> Dataset:
    """The data set called ``name``."""
    if name not in DATASETS:
        raise InputError(
            f"no data set is called {name!r}{nearest(name, DATASETS)}; known: {', '.join(DATASETS)}"
        )
    return DATASETS[name]
