"""Shifts that are made here: a clean image set under the 19 common corruptions at 5 severities."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from labelfree.experiments.corruptions import NAMES, corrupt
from labelfree.experiments.datasets.base import Shift
from labelfree.experiments.examples import ArrayImages


def corrupted(read: Callable[[], ArrayImages], constants: str, kind: str = "synthetic") -> list[Shift]:
    """``clean`` and 95 corruptions of an image set in memory; the set is read once."""
    clean = cache(read)

    def shifted(name: str, severity: int) -> ArrayImages:
        images = clean()
        return ArrayImages(corrupt(images.pixels, name, severity, constants=constants), images.labels)

    made = [
        Shift(f"{name}_{severity}", kind, partial(shifted, name, severity))
        for name in NAMES
        for severity in range(1, 6)
    ]
    return [Shift("clean", "clean", clean), *made]
