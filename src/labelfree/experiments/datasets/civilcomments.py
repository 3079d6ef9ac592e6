"""CivilComments-WILDS: toxic or not, for comments that mention different groups of people."""

from __future__ import annotations

from pathlib import Path

from labelfree.experiments.datasets._wilds import read_columns, rows_where
from labelfree.experiments.datasets.base import Dataset, Shift
from labelfree.experiments.examples import Texts

FOLDER = "civilcomments_v1.0"


def read(root: Path, split: str) -> Texts:
    """Read ``train``, ``val`` or ``test``; class 1 is toxicity of at least one half."""
    path = root / FOLDER / "all_data_with_identities.csv"
    table = read_columns(path, {"comment_text": "text", "split": "text", "toxicity": "float"})
    rows = rows_where(table["split"] == split, split, path)
    return Texts(table["comment_text"][rows].tolist(), (table["toxicity"][rows] >= 0.5).astype("int64"))


DATASET = Dataset(
    name="civilcomments",
    title="CivilComments-WILDS",
    classes=2,
    expects=(f"{FOLDER}/all_data_with_identities.csv",),
    origin="https://wilds.stanford.edu/datasets",
    licence="CC0",
    size="90 MB",
    splits="source: val; natural: test",
    network="distilbert",
    recipe="civilcomments",
    training=lambda root: read(root, "train"),
    validation=lambda root: read(root, "val"),
    shifts=lambda root: [Shift("test", "natural", lambda: read(root, "test"))],
    text=True,
)
