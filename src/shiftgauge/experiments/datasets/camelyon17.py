"""Camelyon17-WILDS: tumour or not in patches of tissue from five hospitals."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shiftgauge.experiments.datasets._wilds import natural_shifts, read_columns, rows_where
from shiftgauge.experiments.datasets.base import Dataset
from shiftgauge.experiments.examples import FileImages

FOLDER = "camelyon17_v1.0"
FILES = (f"{FOLDER}/metadata.csv", f"{FOLDER}/patches")
# Hospitals of the official out-of-distribution splits; the others are split by the metadata.
VAL_CENTRE, TEST_CENTRE = 1, 2


def read(root: Path, split: str) -> FileImages:
    """Read ``train``, ``id_val``, ``val`` (hospital 1) or ``test`` (hospital 2)."""
    path = root / FOLDER / "metadata.csv"
    kinds = {"patient": "text", "node": "int", "x_coord": "int", "y_coord": "int", "tumor": "int"}
    table = read_columns(path, kinds | {"center": "int", "split": "int"})
    centre, outside = table["center"], np.isin(table["center"], (VAL_CENTRE, TEST_CENTRE))
    masks = {
        "train": ~outside & (table["split"] == 0),
        "id_val": ~outside & (table["split"] == 1),
        "val": centre == VAL_CENTRE,
        "test": centre == TEST_CENTRE,
    }
    rows = rows_where(masks[split], split, path)
    return FileImages(
        [_patch(root, table, row) for row in rows], table["tumor"][rows], 96, ready=True, augment="none"
    )


def _patch(root: Path, table: dict[str, np.ndarray], row: int) -> Path:
    slide = f"patient_{table['patient'][row]}_node_{table['node'][row]}"
    return (
        root
        / FOLDER
        / "patches"
        / slide
        / f"patch_{slide}_x_{table['x_coord'][row]}_y_{table['y_coord'][row]}.png"
    )


DATASET = Dataset(
    name="camelyon17",
    title="Camelyon17-WILDS",
    classes=2,
    expects=FILES,
    origin="https://wilds.stanford.edu/datasets",
    licence="CC0",
    size="10 GB",
    splits="source: id_val; natural: val (hospital 1) and test (hospital 2)",
    network="resnet50",
    recipe="camelyon17",
    training=lambda root: read(root, "train"),
    validation=lambda root: read(root, "id_val"),
    shifts=lambda root: natural_shifts(root, read, FILES),
)
