"""The files behind a path: one file, a folder of files of one form, or a glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftgauge.errors import FileError
from shiftgauge.io.compressed import ending

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather")
#: Endings of the forms that a folder or a glob may consist of; the first is meant where nothing tells.
FORMS = (PARQUET, ARROW, (".npy",))


@dataclass(frozen=True)
class FileStamp:
    """A file as it was when it was opened.

    Attributes:
        file: its name.
        size, changed: its bytes, and when it was written, in nanoseconds.
    """

    file: str
    size: int
    changed: int

    @classmethod
    def of(cls, file: str | Path) -> FileStamp:
        """The file as it is now."""
        try:
            status = os.stat(file)
        except OSError as problem:
            raise FileError(f"{file}: cannot be read ({problem.strerror})") from None
        return cls(str(file), status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that was written to since."""
        if FileStamp.of(self.file) != self:
            raise FileError(f"{self.file}: changed between two passes; start again when nobody writes to it")


def is_glob(path: Path) -> bool:
    """Whether the name is a pattern, not a file."""
    return glob.has_magic(str(path)) and not path.exists()


def form_of(path: Path) -> str:
    """The ending that tells how a path is read; of a folder or a glob that of its first file by name."""
    if path.is_dir() or is_glob(path):
        return next((form[0] for form in FORMS[1:] if _first_ending(path) in form), PARQUET[0])
    return PARQUET[0] if path.suffix.lower() in PARQUET else ending(path)


def _first_ending(path: Path) -> str:
    names: Iterable[str] = (
        glob.iglob(str(path), recursive=True)
        if is_glob(path)
        else (file.name for file in path.rglob("*") if file.name[0] not in "._")
    )
    return Path(next((name for name in sorted(names) if Path(name).suffix), "")).suffix.lower()


def files_behind(path: Path) -> list[Path]:
    """The files behind a path, in the order of their names; hidden ones and `_metadata` are left out."""
    if not (path.is_dir() or is_glob(path)):
        return [path]
    form = form_of(path)
    endings = next(endings for endings in FORMS if form in endings)
    return _inside(path, endings) if path.is_dir() else _matching(path, endings)


def _matching(path: Path, endings: Sequence[str]) -> list[Path]:
    found = (Path(name) for name in sorted(glob.glob(str(path), recursive=True)))
    files = [file for file in found if file.is_file()]
    other = next((file for file in files if file.suffix.lower() not in endings), None)
    if other is not None:
        raise FileError(f"{path}: also matches {other.name}; of several files wanted only {endings[0]}")
    if not files:
        raise FileError(f"{path}: no file matches the pattern")
    return files


def _inside(path: Path, endings: Sequence[str]) -> list[Path]:
    form = endings[0]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    files = [f for f in inside if not any(part[0] in "._" for part in f.relative_to(path).parts)]
    other = next((file for file in files if file.suffix.lower() not in endings), None)
    if not files:
        raise FileError(f"{path}: is a folder without {form} files; wanted a file, or a folder of those")
    if other is not None:
        raise FileError(
            f"{path}: is a folder that also holds {other.name}; wanted a folder of {form} files, "
            f"or a pattern such as '{path}/*{form}'"
        )
    return files
