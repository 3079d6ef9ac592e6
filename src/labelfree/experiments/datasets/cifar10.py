"""CIFAR-10 (Krizhevsky, 2009) with CIFAR-10-C (Hendrycks and Dietterich, 2019) and CIFAR-10.1 (Recht et al.)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from labelfree.experiments.datasets._cifar_files import corruption_shifts, read_batches, read_npy
from labelfree.experiments.datasets.base import Dataset, Shift, reserve
from labelfree.experiments.examples import ArrayImages

FOLDER, CORRUPTED, NATURAL = "cifar-10-batches-py", "CIFAR-10-C", "CIFAR-10.1"
RESERVED = 10_000


def read_training(root: Path) -> ArrayImages:
    """The 50,000 official training images."""
    return read_batches([root / FOLDER / f"data_batch_{i}" for i in range(1, 6)], b"labels")


def read_test(root: Path) -> ArrayImages:
    """The 10,000 official test images."""
    return read_batches([root / FOLDER / "test_batch"], b"labels")


def training(root: Path) -> ArrayImages:
    """All but the reserved training images."""
    images = read_training(root)
    return images.take(reserve(len(images), min(RESERVED, len(images) // 5))[0])


def validation(root: Path) -> ArrayImages:
    """The reserved training images."""
    images = read_training(root)
    return images.take(reserve(len(images), min(RESERVED, len(images) // 5))[1])


def shifts(root: Path) -> list[Shift]:
    """Clean, 95 corruptions (published files, else made here), and CIFAR-10.1 v4 and v6 where present."""
    found = corruption_shifts(root / CORRUPTED, lambda: read_test(root))
    for version in ("v4", "v6"):
        if (root / NATURAL / f"cifar10.1_{version}_data.npy").exists():
            found.append(Shift(f"cifar10.1_{version}", "natural", partial(_natural, root, version)))
    return found


def _natural(root: Path, version: str) -> ArrayImages:
    images = read_npy(root / NATURAL / f"cifar10.1_{version}_data.npy")
    labels = read_npy(root / NATURAL / f"cifar10.1_{version}_labels.npy")
    return ArrayImages(np.array(images, np.uint8), np.array(labels, np.int64))


DATASET = Dataset(
    name="cifar10",
    title="CIFAR-10",
    classes=10,
    expects=tuple(f"{FOLDER}/{name}" for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]),
    extras=(CORRUPTED, NATURAL),
    origin="https://www.cs.toronto.edu/~kriz/cifar.html; CIFAR-10-C: https://zenodo.org/record/2535967; "
    "CIFAR-10.1: https://github.com/modestyachts/CIFAR-10.1",
    licence="none stated (CIFAR-10); CC BY 4.0 (CIFAR-10-C); MIT (CIFAR-10.1)",
    size="170 MB; CIFAR-10-C 2.9 GB; CIFAR-10.1 20 MB",
    splits="source: 10,000 of the 50,000 training images; synthetic: 95 corrupted test sets; natural: CIFAR-10.1",
    network="resnet18-cifar",
    recipe="cifar10",
    training=training,
    validation=validation,
    shifts=shifts,
)
