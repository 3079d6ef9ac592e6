"""Data sets by name. A new data set needs its file and one line here."""

from __future__ import annotations

from collections.abc import Sequence

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
    natural_90,
    natural_302,
    natural_527,
    rxrx1,
    superclasses,
)
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet
from shiftgauge.experiments.datasets.tables import TableDataset
from shiftgauge.experiments.imports import import_object

__all__ = ["DATASETS", "TABLE_DATASETS", "Dataset", "ShiftedSet", "TableDataset", "dataset", "table_datasets"]

DATASETS: dict[str, Dataset] = {
    known.name: known
    for known in (
        fashion_mnist.DATASET,
        cifar10.DATASET,
        cifar100.DATASET,
        imagenet.DATASET,
        *breeds.DATASETS,
        *superclasses.DATASETS,
        camelyon17.DATASET,
        rxrx1.DATASET,
        amazon.DATASET,
        civilcomments.DATASET,
    )
}


TABLE_DATASETS: dict[str, TableDataset] = {
    known.name: known for known in (natural_90.DATASET, natural_302.DATASET, natural_527.DATASET)
}
"""Natural shifts of tables, which `shiftgauge bench natural` trains, scores and estimates."""


def dataset(name: str) -> Dataset:
    """The data set of images or texts called ``name``, or your own as ``my_module:MY_DATASET``."""
    if ":" in name:
        own = import_object(name, "the data set")
        if not isinstance(own, Dataset):
            raise InputError(f"the data set is {name!r}, which is a {type(own).__name__} and not a Dataset")
        if DATASETS.setdefault(own.name, own) is not own:
            raise InputError(f"the data set {name!r} is called {own.name!r}, which is taken; rename it")
        return own
    if name in TABLE_DATASETS:
        raise InputError(f"{name} is a data set of tables; run `shiftgauge bench natural --only {name}`")
    if name not in DATASETS:
        raise InputError(
            f"no data set is called {name!r}{nearest(name, DATASETS)}; known: {', '.join(DATASETS)}; "
            "your own is given as my_module:MY_DATASET"
        )
    return DATASETS[name]


def table_datasets(names: Sequence[str] = ()) -> list[TableDataset]:
    """The data sets of tables with these names; all, if there are none."""
    for name in names:
        if name not in TABLE_DATASETS:
            raise InputError(
                f"no data set of tables is called {name!r}{nearest(name, TABLE_DATASETS)}; "
                f"known: {', '.join(TABLE_DATASETS)}"
            )
    return [TABLE_DATASETS[name] for name in names or TABLE_DATASETS]
