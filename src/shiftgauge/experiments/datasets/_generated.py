"""Corrupted sets that are made here: a clean image set under the 19 common corruptions at 5 severities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

from shiftgauge.experiments.corruptions import NAMES, chunk_rows, corrupt, frost_origin
from shiftgauge.experiments.datasets.base import ShiftedSet
from shiftgauge.experiments.examples import ArrayImages, Draws, Indices, Pixels


@dataclass(frozen=True)
class CorruptedArray:
    """Images in memory, corrupted on first use; taking the first rows corrupts only them."""

    base: ArrayImages
    corruption: str
    severity: int
    constants: str

    @property
    def labels(self) -> Indices:
        """The clean set's labels."""
        return self.base.labels

    @cached_property
    def pixels(self) -> Pixels:
        """The whole corrupted set."""
        return corrupt(self.base.pixels, self.corruption, self.severity, constants=self.constants)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.base)

    def batch(self, rows: Indices, draws: Draws | None = None) -> Pixels:
        """The corrupted images of ``rows``."""
        return replace(self.base, pixels=self.pixels).batch(rows, draws)

    def take(self, rows: Indices) -> ArrayImages:
        """Only these rows of the whole set; the chunks behind the last of them are not corrupted."""
        each = chunk_rows(self.base.pixels)
        needed = -(-(int(rows.max(initial=-1)) + 1) // each) * each
        first = replace(self.base, pixels=self.base.pixels[:needed], labels=self.labels[:needed])
        return replace(first, pixels=replace(self, base=first).pixels).take(rows)


def corrupted(
    read: Callable[[], ArrayImages], constants: str, files: tuple[Path, ...], kind: str = "synthetic"
) -> list[ShiftedSet]:
    """``clean`` and 95 corruptions of a shuffled image set in memory, which is read once from ``files``."""
    clean = cache(read)

    def shifted(name: str, severity: int) -> CorruptedArray:
        return CorruptedArray(clean(), name, severity, constants)

    sets = [
        ShiftedSet(
            f"{name}_{severity}",
            kind,
            partial(shifted, name, severity),
            files,
            describe(name, severity, constants),
            shuffled=True,
        )
        for name in NAMES
        for severity in range(1, 6)
    ]
    return [ShiftedSet("clean", "clean", clean, files, shuffled=True), *sets]


def describe(name: str, severity: int, constants: str) -> str:
    """How a corrupted set is made, as a text that is part of its digest.

    >>> describe("fog", 3, "cifar")
    'fog 3, constants cifar, seed 0'
    """
    textures = f", frost {frost_origin()}" if name == "frost" else ""
    return f"{name} {severity}, constants {constants}, seed 0{textures}"
