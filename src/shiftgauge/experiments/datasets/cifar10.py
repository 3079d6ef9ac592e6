"""CIFAR-10 (Krizhevsky, 2009) with CIFAR-10-C (Hendrycks and Dietterich, 2019), CIFAR-10.2 and CIFAR-10.1.

The paper's natural shift, "CIFAR10-V2", is the training part of CIFAR-10.2 (Lu et al., 2020) in its authors'
code. The two versions of CIFAR-10.1 (Recht et al., 2018) share nine tenths of their images: each has a row of
its own, and they are never averaged.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError
from shiftgauge.experiments.datasets._cifar_files import corruption_shifts, read_batches, read_npy
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet, hold_out
from shiftgauge.experiments.examples import ArrayImages

FOLDER, CORRUPTED, NATURAL, NEWER = "cifar-10-batches-py", "CIFAR-10-C", "CIFAR-10.1", "CIFAR-10.2"


def read_training(root: Path) -> ArrayImages:
    """The 50,000 official training images."""
    return read_batches([root / FOLDER / f"data_batch_{i}" for i in range(1, 6)], b"labels")


def read_test(root: Path) -> ArrayImages:
    """The 10,000 official test images."""
    return read_batches([root / FOLDER / "test_batch"], b"labels")


def shifts(root: Path) -> list[ShiftedSet]:
    """Clean, 95 corruptions (published files, else made here), CIFAR-10.2, and CIFAR-10.1 v4 and v6."""
    corrupted = corruption_shifts(root / CORRUPTED, lambda: read_test(root), (root / FOLDER / "test_batch",))
    path = root / NEWER / "cifar102_train.npz"
    absent = "" if path.exists() else f"{path} is missing"
    natural = ShiftedSet("cifar10.2", "natural", partial(_cifar102, path), (path,), absent=absent)
    return [*corrupted, natural, *(_cifar101(root / NATURAL, version) for version in ("v4", "v6"))]


def _cifar101(folder: Path, version: str) -> ShiftedSet:
    # A git clone of the repository has the arrays in datasets/; single files may be in the folder itself.
    names = [f"cifar10.1_{version}_{what}.npy" for what in ("data", "labels")]
    places = (folder, folder / "datasets")
    at = next((place for place in places if all((place / name).exists() for name in names)), None)
    absent = f"{folder / names[0]} (or datasets/{names[0]} of a clone, with its labels) is missing"
    files = tuple((at or folder) / name for name in names)
    kind = f"cifar10.1-{version}"
    return ShiftedSet(
        f"cifar10.1_{version}", kind, partial(_read_arrays, *files), files, absent="" if at else absent
    )


def _read_arrays(data: Path, labels: Path) -> ArrayImages:
    return ArrayImages(np.array(read_npy(data), np.uint8), np.array(read_npy(labels), np.int64))


def _cifar102(path: Path) -> ArrayImages:
    # The file also holds arrays of objects, which are not unpickled.
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return ArrayImages(arrays["images"].astype(np.uint8), arrays["labels"].astype(np.int64))
    except (OSError, ValueError, KeyError) as error:
        raise FileError(
            f"{path} is not cifar102_train.npz of CIFAR-10.2 ({error}); download it again"
        ) from None


DATASET = Dataset(
    name="cifar10",
    title="CIFAR-10",
    classes=10,
    expects=tuple(f"{FOLDER}/{name}" for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]),
    extras=(CORRUPTED, f"{NEWER}/cifar102_train.npz", NATURAL),
    origin="https://www.cs.toronto.edu/~kriz/cifar.html; CIFAR-10-C: https://zenodo.org/record/2535967; "
    "CIFAR-10.2: https://github.com/modestyachts/cifar-10.2; CIFAR-10.1: https://github.com/modestyachts/CIFAR-10.1",
    licence="none stated (CIFAR-10); CC BY 4.0 (CIFAR-10-C); none stated (CIFAR-10.2); MIT (CIFAR-10.1)",
    size="170 MB; CIFAR-10-C 2.9 GB; CIFAR-10.2 30 MB; CIFAR-10.1 20 MB",
    splits="source: 10,000 of the 50,000 training images; synthetic: 95 corrupted test sets; natural: CIFAR-10.2; "
    "beside it CIFAR-10.1 v4 and v6",
    network="resnet18-224",
    recipe="cifar10",
    training=lambda root: hold_out(read_training(root))[0],
    validation=lambda root: hold_out(read_training(root))[1],
    shifts=shifts,
    marginal="uniform",
    statistics="cifar",
)
