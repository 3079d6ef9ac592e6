"""Data sets by name. The registry is a dictionary: a new data set touches its file and one line here."""

from __future__ import annotations

from shiftgauge.errors import InputError, nearest
from shiftgauge.experiments.datasets import (
    amazon,
    breeds,
    camelyon17,
    cifar10,
    cifar100,
    civilcomments,
    fashion_mnist,
    imagenet,
    natural_tables,
    rxrx1,
)
from shiftgauge.experiments.datasets.base import Dataset, Shift

__all__ = ["DATASETS", "Dataset", "Shift", "dataset"]

DATASETS: dict[str, Dataset] = {
    known.name: known
    for known in (
        fashion_mnist.DATASET,
        cifar10.DATASET,
        cifar100.DATASET,
        imagenet.DATASET,
        *breeds.DATASETS,
        camelyon17.DATASET,
        rxrx1.DATASET,
        amazon.DATASET,
        civilcomments.DATASET,
        natural_tables.DATASET,
    )
}


def dataset(name: str) -> Dataset:
    """The data set called ``name``."""
    if name not in DATASETS:
        raise InputError(
            f"no data set is called {name!r}{nearest(name, DATASETS)}; known: {', '.join(DATASETS)}"
        )
    return DATASETS[name]
