"""Amazon-WILDS: stars of a review, for reviewers not seen in training."""

from __future__ import annotations

from pathlib import Path

from shiftgauge.errors import FileError
from shiftgauge.experiments.datasets._wilds import natural_shifts, read_columns, rows_where
from shiftgauge.experiments.datasets.base import Dataset
from shiftgauge.experiments.examples import Texts

FOLDER = "amazon_v2.1"
FILES = (f"{FOLDER}/reviews.csv", f"{FOLDER}/splits/user.csv")
# Numbers of the official (user) split; -1 is not in the data set.
SPLITS = {"train": 0, "val": 1, "id_val": 2, "test": 3, "id_test": 4}


def read(root: Path, split: str) -> Texts:
    """Read one official split; class k is k + 1 stars."""
    path = root / FOLDER / "splits" / "user.csv"
    numbers = read_columns(path, {"split": "int"})["split"]
    reviews = read_columns(root / FOLDER / "reviews.csv", {"reviewText": "text", "overall": "float"})
    if len(numbers) != len(reviews["overall"]):
        raise FileError(f"{path} has {len(numbers)} rows for {len(reviews['overall'])} reviews")
    rows = rows_where(numbers == SPLITS[split], split, path)
    return Texts(reviews["reviewText"][rows].tolist(), (reviews["overall"][rows] - 1).astype("int64"))


DATASET = Dataset(
    name="amazon",
    title="Amazon-WILDS",
    classes=5,
    expects=FILES,
    origin="https://wilds.stanford.edu/datasets",
    licence="research only",
    size="2 GB",
    splits="source: id_val; natural: val and test (new reviewers)",
    network="distilbert",
    recipe="amazon",
    training=lambda root: read(root, "train"),
    validation=lambda root: read(root, "id_val"),
    shifts=lambda root: natural_shifts(root, read, FILES),
    text=True,
)
