"""Shifts that are made here: a clean image set under the 19 common corruptions at 5 severities."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from labelfree.experiments.corruptions import NAMES, corrupt, frost_origin
from labelfree.experiments.datasets.base import Shift
from labelfree.experiments.examples import ArrayImages


def corrupted(
    read: Callable[[], ArrayImages], constants: str, files: tuple[Path, ...], kind: str = "synthetic"
) -> list[Shift]:
    """``clean`` and 95 corruptions of an image set in memory; the set is read once from ``files``."""
    clean = cache(read)

    def shifted(name: str, severity: int) -> ArrayImages:
        images = clean()
        return ArrayImages(corrupt(images.pixels, name, severity, constants=constants), images.labels)

    made = [
        Shift(
            f"{name}_{severity}",
            kind,
            partial(shifted, name, severity),
            files,
            describe(name, severity, constants),
        )
        for name in NAMES
        for severity in range(1, 6)
    ]
    return [Shift("clean", "clean", clean, files), *made]


def describe(name: str, severity: int, constants: str) -> str:
    """How a corrupted set is made, in words that belong to its digest.

    >>> describe("fog", 3, "cifar")
    'fog 3, constants cifar, seed 0'
    """
    textures = f", frost {frost_origin()}" if name == "frost" else ""
    return f"{name} {severity}, constants {constants}, seed 0{textures}"
