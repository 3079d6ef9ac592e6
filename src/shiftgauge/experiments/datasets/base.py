"""A data set: a description, a training set, a validation set that is the source, and its shifted sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.examples import ArrayImages, Examples

RESERVED = 10_000
"""Training images that are reserved for validation, where there are enough."""


@dataclass(frozen=True)
class ShiftedSet:
    """One target set: its name, its row in the paper's table, and how to read it.

    ``kind`` is ``clean`` (no shift; in no table), ``synthetic``, ``natural``, ``same`` or ``novel``; any other word is
    a row of its own beside the paper's. ``files`` are the files and folders it reads. ``corruption`` says how it is
    made from them here (empty for a published set). ``absent`` says what is missing if the set cannot be read.
    ``shuffled`` says that its rows are in random order, so that the first of them are a sample.
    """

    name: str
    kind: str
    load: Callable[[], Examples]
    files: tuple[Path, ...] = ()
    corruption: str = ""
    absent: str = ""
    shuffled: bool = False

    def subset(self, rows: int, n: int) -> NDArray[np.int64]:
        """Numbers of ``rows`` of its ``n`` rows: the first of a shuffled set, else evenly spaced ones.

        Folders of classes, patients and experiments are in order: their first rows would be of a few classes.

        >>> ShiftedSet("sketch", "natural", list).subset(3, 9)
        array([0, 3, 6])
        >>> ShiftedSet("fog_1", "synthetic", list, shuffled=True).subset(3, 9)
        array([0, 1, 2])
        """
        rows = min(rows, n)
        return np.arange(rows) if self.shuffled else np.arange(rows) * n // max(rows, 1)

    @property
    def origin(self) -> str:
        """``published`` or ``made here``."""
        return "made here" if self.corruption else "published"


@dataclass(frozen=True)
class Dataset:
    """A data set of images or texts as officially distributed, below one directory of the user.

    ``expects`` are paths below that directory that are required, ``reads`` paths that change what is read if they
    exist, ``extras`` paths that add shifts. ``training``, ``validation`` and ``shifts`` take the directory.
    """

    name: str
    title: str
    classes: int
    expects: tuple[str, ...]
    origin: str
    licence: str
    size: str
    splits: str
    network: str
    recipe: str
    training: Callable[[Path], Examples]
    validation: Callable[[Path], Examples]
    shifts: Callable[[Path], Sequence[ShiftedSet]]
    extras: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    text: bool = False
    marginal: str = "source"
    """Label proportions that the paper's authors transport to: ``source`` or ``uniform``."""
    statistics: str = "imagenet"
    """How networks normalise its images: ``imagenet``, ``cifar``, ``breeds`` or ``image``."""
    note: str = ""
    """A note for every table of this data set."""

    @property
    def module(self) -> str:
        """The module that reads it, for the digest of its code."""
        return str(self.validation.__module__)

    def files(self, root: Path) -> tuple[Path, ...]:
        """The files of training and validation sets: those of ``expects`` and ``reads`` that exist."""
        return existing(root, (*self.expects, *self.reads))

    def missing(self, root: Path) -> list[str]:
        """The expected paths that do not exist."""
        return [path for path in self.expects if not existing(root, (path,))]

    def require(self, root: Path) -> None:
        """Refuse a data set that is not complete."""
        missing = self.missing(root)
        if missing:
            raise FileError(
                f"{self.title} is not complete: {root / missing[0]} is missing"
                + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
                + f"; get it from {self.origin} and unpack it there, or name its directory with --datasets"
            )


def existing(root: Path, paths: Sequence[str]) -> tuple[Path, ...]:
    """Those of ``paths`` that exist below ``root``, plain or else gzipped."""
    forms = [(root / path, root / f"{path}.gz") for path in paths]
    return tuple(next(p for p in both if p.exists()) for both in forms if any(p.exists() for p in both))


def reserve(n: int, held_out: int, seed: int | list[int] = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split range(n) into rows for training and ``held_out`` rows for validation, both ascending.

    The split has its own seed: networks trained from different seeds share one validation set.

    >>> training, validation = reserve(10, 3)
    >>> len(training), len(validation), sorted([*training, *validation]) == list(range(10))
    (7, 3, True)
    """
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def hold_out(images: ArrayImages, one_in: int = 5) -> tuple[ArrayImages, ArrayImages]:
    """(images to train on, reserved images); of a small set one in ``one_in`` is reserved."""
    training, validation = reserve(len(images), min(RESERVED, len(images) // one_in))
    return images.take(training), images.take(validation)
