"""Read the python version of CIFAR-10 and CIFAR-100, and the ``.npy`` files of their corrupted versions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.corruptions import NAMES
from shiftgauge.experiments.datasets._generated import corrupted
from shiftgauge.experiments.datasets._pickle import read_pickle
from shiftgauge.experiments.datasets.base import ShiftedSet
from shiftgauge.experiments.examples import ArrayImages


def read_batches(paths: list[Path], label_key: bytes) -> ArrayImages:
    """Read pickled batches: rows of 3,072 bytes, red plane first."""
    pixels, labels = [], []
    for path in paths:
        batch = read_pickle(path)
        if not isinstance(batch, dict) or b"data" not in batch or label_key not in batch:
            raise FileError(
                f"{path} has no {label_key.decode()!r} and 'data'; is it the python version of CIFAR?"
            )
        pixels.append(np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.append(np.asarray(batch[label_key], np.int64))
    return ArrayImages(np.ascontiguousarray(np.concatenate(pixels)), np.concatenate(labels))


def read_npy(path: Path) -> NDArray[np.generic]:
    """Read one ``.npy`` lazily, without pickle."""
    try:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except Exception as error:
        raise FileError(f"{path} is not a readable .npy file ({error}); download it again") from None


def corruption_shifts(
    folder: Path, test: Callable[[], ArrayImages], files: tuple[Path, ...]
) -> list[ShiftedSet]:
    """The published corrupted test sets if their folder exists, else the same corruptions made here.

    Sets whose files are missing from the folder say so.
    """
    if not folder.exists():
        return corrupted(test, "cifar", files)
    return [
        ShiftedSet("clean", "clean", cache(test), files, shuffled=True),
        *(_published(folder, name, severity) for name in NAMES for severity in range(1, 6)),
    ]


def _published(folder: Path, name: str, severity: int) -> ShiftedSet:
    path = folder / f"{name}.npy"
    return ShiftedSet(
        f"{name}_{severity}", "synthetic", partial(_slice, folder, name, severity), (path, folder / "labels.npy"),
        absent="" if path.exists() else f"{path} is missing", shuffled=True,
    )  # fmt: skip


def _slice(folder: Path, name: str, severity: int) -> ArrayImages:
    # One file per corruption: severity s is the s-th fifth of it.
    images, labels = read_npy(folder / f"{name}.npy"), read_npy(folder / "labels.npy")
    if len(images) != len(labels) or len(images) % 5:
        raise FileError(f"{folder / name}.npy holds {len(images)} images for {len(labels)} labels")
    part = slice((severity - 1) * len(images) // 5, severity * len(images) // 5)
    return ArrayImages(np.array(images[part], np.uint8), np.array(labels[part], np.int64))
