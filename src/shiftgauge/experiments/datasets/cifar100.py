"""CIFAR-100 (Krizhevsky, 2009) with CIFAR-100-C (Hendrycks and Dietterich, 2019)."""

from __future__ import annotations

from pathlib import Path

from shiftgauge.experiments.datasets._cifar_files import corruption_shifts, read_batches
from shiftgauge.experiments.datasets.base import Dataset, hold_out
from shiftgauge.experiments.examples import ArrayImages

FOLDER, CORRUPTED = "cifar-100-python", "CIFAR-100-C"


def read(root: Path, part: str) -> ArrayImages:
    """Read ``train`` or ``test`` with the 100 fine labels."""
    return read_batches([root / FOLDER / part], b"fine_labels")


DATASET = Dataset(
    name="cifar100",
    title="CIFAR-100",
    classes=100,
    expects=(f"{FOLDER}/train", f"{FOLDER}/test"),
    extras=(CORRUPTED,),
    origin="https://www.cs.toronto.edu/~kriz/cifar.html; CIFAR-100-C: https://zenodo.org/record/3555552",
    licence="none stated (CIFAR-100); CC BY 4.0 (CIFAR-100-C)",
    size="170 MB; CIFAR-100-C 2.9 GB",
    splits="source: 10,000 of the 50,000 training images; synthetic: 95 corrupted test sets",
    network="resnet18-224",
    recipe="cifar100",
    training=lambda root: hold_out(read(root, "train"))[0],
    validation=lambda root: hold_out(read(root, "train"))[1],
    shifts=lambda root: corruption_shifts(
        root / CORRUPTED, lambda: read(root, "test"), (root / FOLDER / "test",)
    ),
    marginal="uniform",
    statistics="cifar",
)
