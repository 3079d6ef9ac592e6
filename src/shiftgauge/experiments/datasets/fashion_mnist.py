"""Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017), padded to 32 x 32 and repeated to three channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError
from shiftgauge.experiments.datasets._generated import corrupted
from shiftgauge.experiments.datasets._idx import plain_or_gzipped, read_idx
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet, hold_out
from shiftgauge.experiments.examples import ArrayImages

FOLDER = "fashion-mnist"


def read(root: Path, part: str) -> ArrayImages:
    """Read ``train`` or ``t10k`` as 32 x 32 colour images."""
    grey = read_idx(root / FOLDER / f"{part}-images-idx3-ubyte")
    labels = read_idx(root / FOLDER / f"{part}-labels-idx1-ubyte")
    if grey.shape[1:] != (28, 28) or len(grey) != len(labels):
        raise FileError(
            f"{root / FOLDER}: {part} holds images of shape {grey.shape} and {len(labels)} labels"
        )
    padded = np.pad(grey, ((0, 0), (2, 2), (2, 2)))
    return ArrayImages(np.repeat(padded[..., None], 3, axis=3), labels.astype(np.int64), pad=2)


def shifts(root: Path) -> list[ShiftedSet]:
    """The test set, clean and under the 95 corruptions with the CIFAR constants."""
    names = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    files = tuple(plain_or_gzipped(root / FOLDER / name) for name in names)
    return corrupted(lambda: read(root, "t10k"), "cifar", files)


DATASET = Dataset(
    name="fashion-mnist",
    title="Fashion-MNIST",
    classes=10,
    expects=tuple(
        f"{FOLDER}/{part}-{what}"
        for part in ("train", "t10k")
        for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ),
    origin="https://github.com/zalandoresearch/fashion-mnist (Debian: dataset-fashion-mnist)",
    licence="MIT",
    size="30 MB",
    splits="source: 10,000 of the 60,000 training images; target: 10,000 test images, clean and corrupted",
    network="small",
    recipe="fashion-mnist",
    training=lambda root: hold_out(read(root, "train"), one_in=6)[0],
    validation=lambda root: hold_out(read(root, "train"), one_in=6)[1],
    shifts=shifts,
)
