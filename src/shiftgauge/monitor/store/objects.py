"""Objects: files that are written once, whole or not at all, and never changed; readers may find one removed."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[a-z]+/[0-9]+/[0-9a-f]{32}\.[a-z]+")


class Removed(Exception):  # noqa: N818 (not an error: whoever reads begins again)
    """A file that a batch named when the transaction began was replaced or erased since."""


@dataclass(frozen=True)
class Objects:
    """A folder that all processes see.

    >>> import tempfile
    >>> held = Objects(Path(tempfile.mkdtemp()))
    >>> name = held.put("sources", 1, "npz", b"abc")
    >>> held.path(name).read_bytes()
    b'abc'
    """

    folder: Path

    def put(self, room: str, owner: int, ending: str, content: bytes) -> str:
        """Keep these bytes; durable when it returns."""
        name = self.new_name(room, owner, ending)
        self.write(name, content)
        return name

    @staticmethod
    def new_name(room: str, owner: int, ending: str) -> str:
        """A name that no object has. It is ours, so that nobody's name becomes a path."""
        return f"{room}/{owner}/{uuid.uuid4().hex}.{ending}"

    def write(self, name: str, content: bytes) -> None:
        """Keep these bytes under a new name; durable when it returns."""
        file = self.path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        try:
            with part.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)
        _sync_folder(file.parent)

    def path(self, name: str) -> Path:
        """Where an object lies."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"not an object's name: {name!r}")
        return self.folder / name

    def drop(self, name: str) -> None:
        """Delete an object, whole or half written, if it is still there; durable when it returns."""
        file = self.path(name)
        for path in (file, file.with_suffix(".part")):
            path.unlink(missing_ok=True)
        if file.parent.is_dir():
            _sync_folder(file.parent)

    def names(self) -> Iterator[tuple[str, float]]:
        """Every object and part of one, with the time it was written (seconds since 1970)."""
        for file in self.folder.glob("*/*/*"):
            try:
                yield file.relative_to(self.folder).as_posix(), file.stat().st_mtime
            except FileNotFoundError:
                continue


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
