"""Splitting work over machines: shard i of n takes every n-th unit, and runs are merged afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labelfree.errors import FileError, InputError
from labelfree.experiments._store import replacing


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
            raise InputError(f"--shard is {text!r}; the part must lie between 1 and {count}")
        return cls(number, count)

    def takes(self, unit: int) -> bool:
        """Whether a unit of work (from 0) belongs to this part."""
        return unit % self.count == self.number - 1

    def __str__(self) -> str:
        """As it was given."""
        return f"{self.number}/{self.count}"


FOLDERS = ("checkpoints", "scores", "estimates")


def merge(parts: Sequence[Path], runs: Path) -> int:
    """Copy the results of several run directories into one; how many files are there now.

    The same file in two places must be the same bytes: runs of different data or weights are not mixed.
    """
    found = [(part, path) for part in parts for name in FOLDERS for path in sorted((part / name).rglob("*"))]
    files = [(part, path) for part, path in found if path.is_file() and not path.name.endswith(".part")]
    if not files:
        raise FileError(f"{', '.join(map(str, parts))} hold nothing to merge; expected {', '.join(FOLDERS)}")
    for part, path in files:
        at = runs / path.relative_to(part)
        if at.exists() and at.read_bytes() != path.read_bytes():
            raise FileError(
                f"{path} and {at} differ; these runs were not made from the same data and weights"
            )
        if not at.exists():
            with replacing(at) as out, path.open("rb") as held:
                shutil.copyfileobj(held, out)
    return sum(path.is_file() for name in FOLDERS for path in (runs / name).rglob("*"))
