"""What a data set is: a description, a training set, a reserved validation set and its shifts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.examples import Examples


@dataclass(frozen=True)
class Shift:
    """One target set: its name, the column of the paper's table it belongs to, and how to read it.

    ``kind`` is ``clean`` (no shift; in no table), ``synthetic``, ``natural``, ``same`` or ``novel``; any
    other word is a row of its own beside the paper's. ``files`` are the files and folders it reads and
    ``made`` says how it is made of them here (empty: they are the published set). A set that belongs to the
    data set but is not there has ``absent``: what is missing. ``mixed`` says that its rows stand in random
    order, so that the first of them are a sample.
    """

    name: str
    kind: str
    load: Callable[[], Examples]
    files: tuple[Path, ...] = ()
    made: str = ""
    absent: str = ""
    mixed: bool = False

    def some(self, rows: int, n: int) -> NDArray[np.int64]:
        """Which ``rows`` of its ``n`` stand for all: the first of a mixed set, else evenly spaced ones.

        Folders of classes, patients and experiments stand in order: the first rows would be a few classes.

        >>> Shift("sketch", "natural", list).some(3, 9), Shift("fog_1", "synthetic", list, mixed=True).some(3, 9)
        (array([0, 3, 6]), array([0, 1, 2]))
        """
        rows = min(rows, n)
        return np.arange(rows) if self.mixed else np.arange(rows) * n // max(rows, 1)

    @property
    def origin(self) -> str:
        """``published`` or ``made here``."""
        return "made here" if self.made else "published"


@dataclass(frozen=True)
class Dataset:
    """A data set as officially distributed, under one directory of the user's.

    ``expects`` are the paths below that directory without which it cannot be used, ``reads`` those that
    change what is read where they are there, ``extras`` those that add shifts. ``training``,
    ``validation`` and ``shifts`` take the directory.
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
    shifts: Callable[[Path], Sequence[Shift]]
    extras: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    text: bool = False
    marginal: str = "source"
    """Label shares the paper's authors transport to: ``source`` or ``uniform``."""
    statistics: str = "imagenet"
    """How networks normalise its images: ``imagenet``, ``cifar``, ``breeds`` or ``image``."""
    note: str = ""
    """What every table of it must say."""
    score: Callable[..., dict[str, int]] | None = None
    """For sets without images: trains, scores and records everything itself."""
    collections: tuple[str, ...] = ()
    """Parts that have a source each; empty for one source."""
    package: str = ""
    """A Python package that brings the data."""

    def files(self, root: Path) -> tuple[Path, ...]:
        """What training and validation sets are read from: those of ``expects`` and ``reads`` that are there."""
        return found(root, (*self.expects, *self.reads))

    def missing(self, root: Path) -> list[str]:
        """The expected paths that are not there; or the package, where one brings the data."""
        if self.package and not _installed(self.package):
            return [f"the package {self.package}"]
        return [path for path in self.expects if not any_of(root, path)]

    def require(self, root: Path) -> None:
        """One clear line if something is missing."""
        missing = self.missing(root)
        if missing:
            raise FileError(
                f"{self.title} is not complete: {root / missing[0]} is missing"
                + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
                + f"; get it from {self.origin} and unpack it there, or name its directory with --data"
            )


def _installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def any_of(root: Path, path: str) -> bool:
    """Whether ``path`` exists below ``root``, plain or gzipped."""
    return (root / path).exists() or (root / f"{path}.gz").exists()


def found(root: Path, paths: Sequence[str]) -> tuple[Path, ...]:
    """Those of ``paths`` that exist below ``root``, plain or else gzipped."""
    forms = [(root / path, root / f"{path}.gz") for path in paths]
    return tuple(next(p for p in both if p.exists()) for both in forms if any(p.exists() for p in both))


def reserve(n: int, held_out: int, seed: int | list[int] = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split range(n) into rows to train on and ``held_out`` reserved rows, both ascending.

    The split has its own seed: networks trained from different seeds share one validation set.

    >>> training, reserved = reserve(10, 3)
    >>> len(training), len(reserved), sorted([*training, *reserved]) == list(range(10))
    (7, 3, True)
    """
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[held_out:]), np.sort(order[:held_out])
