"""CivilComments-WILDS: toxic or not, for comments that mention different groups of people."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shiftgauge.experiments.datasets._wilds import read_columns, rows_where
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet
from shiftgauge.experiments.examples import Texts

FOLDER = "civilcomments_v1.0"
FILE = "all_data_with_identities.csv"
# The eight groups of WILDS, in its order. The authors' script uses the first seven; the last one has a row of its own.
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black")
EXTRA_GROUP = "white"


def read(root: Path, split: str, identity: str | None = None) -> Texts:
    """Read ``train``, ``val`` or ``test``, or of it only the comments that mention a group of people.

    Class 1 is toxicity of at least one half; a group is mentioned if at least half of the raters say so.
    """
    path = root / FOLDER / FILE
    kinds = {"comment_text": "text", "split": "text", "toxicity": "float"}
    table = read_columns(path, kinds | ({identity: "float"} if identity else {}))
    mask = table["split"] == split
    if identity:
        mask = mask & (table[identity] >= 0.5)
    rows = rows_where(mask, f"{split}, {identity}" if identity else split, path)
    return Texts(table["comment_text"][rows].tolist(), (table["toxicity"][rows] >= 0.5).astype("int64"))


def shifts(root: Path) -> list[ShiftedSet]:
    """The identity groups of the test set (the paper's row), one more group, and the whole set."""
    files = (root / FOLDER / FILE,)
    groups = [ShiftedSet(name, "natural", partial(read, root, "test", name), files) for name in IDENTITIES]
    return [
        *groups,
        ShiftedSet(EXTRA_GROUP, EXTRA_GROUP, partial(read, root, "test", EXTRA_GROUP), files),
        ShiftedSet("test", "whole", partial(read, root, "test"), files),
    ]


DATASET = Dataset(
    name="civilcomments",
    title="CivilComments-WILDS",
    classes=2,
    expects=(f"{FOLDER}/{FILE}",),
    origin="https://wilds.stanford.edu/datasets",
    licence="CC0",
    size="90 MB",
    splits="source: val; natural: seven identity groups of test; beside it the group white and the whole of test",
    network="distilbert",
    recipe="civilcomments",
    training=lambda root: read(root, "train"),
    validation=lambda root: read(root, "val"),
    shifts=shifts,
    text=True,
)
