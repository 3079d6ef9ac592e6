"""RxRx1-WILDS: which of 1,139 genetic treatments, from microscopy of cells in many experiments."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shiftgauge.experiments.datasets._wilds import natural_shifts, read_columns, rows_where
from shiftgauge.experiments.datasets.base import Dataset
from shiftgauge.experiments.examples import FileImages

FOLDER = "rxrx1_v1.0"
FILES = (f"{FOLDER}/metadata.csv", f"{FOLDER}/images")


def read(root: Path, split: str) -> FileImages:
    """Read ``train``, ``id_test`` (the training experiments' second site), ``val`` or ``test``."""
    path = root / FOLDER / "metadata.csv"
    kinds = {"experiment": "text", "plate": "int", "well": "text", "site": "int", "sirna_id": "int"}
    table = read_columns(path, kinds | {"dataset": "text"})
    # The official splits train on site 1 and keep site 2 of the same wells for in-distribution tests.
    if split in ("train", "id_test"):
        mask = (table["dataset"] == "train") & ((table["site"] == 2) == (split == "id_test"))
    else:
        mask = table["dataset"] == split
    rows = rows_where(np.asarray(mask, bool), split, path)
    paths = [
        root
        / FOLDER
        / "images"
        / str(table["experiment"][row])
        / f"Plate{table['plate'][row]}"
        / f"{table['well'][row]}_s{table['site'][row]}.png"
        for row in rows
    ]
    return FileImages(paths, table["sirna_id"][rows], 256, ready=True, augment="turn")


DATASET = Dataset(
    name="rxrx1",
    title="RxRx1-WILDS",
    classes=1139,
    expects=FILES,
    origin="https://wilds.stanford.edu/datasets",
    licence="CC BY-NC-SA 4.0",
    size="7 GB",
    splits="source: id_test (the paper prints id_text); natural: val and test",
    network="resnet50",
    recipe="rxrx1",
    training=lambda root: read(root, "train"),
    validation=lambda root: read(root, "id_test"),
    shifts=lambda root: natural_shifts(root, read, FILES),
    statistics="image",
)
