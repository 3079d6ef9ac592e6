"""Work split over machines: shard i of n takes every n-th unit; the runs are merged afterwards."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments.storage import replacing


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of ``count``.

    >>> [unit for unit in range(7) if Shard.parse("2/3").takes(unit)]
    [1, 4]
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """Read ``i/n``; None is the whole work."""
        if text is None:
            return cls()
        try:
            number, count = (int(part) for part in text.split("/"))
        except ValueError:
            raise InputError(f"--shard is {text!r}; it must be like 2/8: the second of eight parts") from None
        if not 1 <= number <= count:
            raise InputError(
                f"--shard is {text!r}; it must be like 2/8: a part from 1 to the number of parts, and that number"
            )
        return cls(number, count)

    def takes(self, unit: int) -> bool:
        """Whether a unit of work (from 0) belongs to this part."""
        return unit % self.count == self.number - 1


FOLDERS = ("checkpoints", "scores", "estimates")


def merge(parts: Sequence[Path], runs: Path) -> int:
    """Copy the files of several run directories into one; returns the number of files there.

    A file that is in two directories must have the same bytes, so that runs of different data or weights are not
    mixed. All files are compared before any is copied.
    """
    where: dict[Path, Path] = {}
    for part in parts:
        files = _files(part)
        if not files:
            raise FileError(f"{part} holds nothing to merge; wanted a directory with {' or '.join(FOLDERS)}")
        for path in files:
            at = runs / path.relative_to(part)
            other = where.setdefault(at, at if at.exists() else path)
            if other != path and not filecmp.cmp(other, path, shallow=False):
                raise FileError(
                    f"{path} and {other} differ; these runs were not made from the same data, weights and options"
                )
    for at, path in where.items():
        if at != path:
            with replacing(at) as out, path.open("rb") as file:
                shutil.copyfileobj(file, out)
    return len(_files(runs))


def _files(part: Path) -> list[Path]:
    paths = [path for name in FOLDERS for path in sorted((part / name).rglob("*"))]
    return [path for path in paths if path.is_file() and not path.name.endswith(".part")]
