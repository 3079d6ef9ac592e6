"""The files of a path: one file, a folder of files of one format, or a glob; and compressed files."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from shiftgauge.errors import FileError

#: Suffixes that may follow that of CSV or JSON lines, and the compression.
COMPRESSION = {".gz": "gzip", ".bz2": "bz2"}
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather")
#: Suffixes of the formats that a folder or a glob may contain; the first is the default.
FORMATS = (PARQUET, ARROW, (".npy",))


@dataclass(frozen=True)
class FileVersion:
    """The name, size and time of change of a file when it was opened.

    Attributes:
        file: its name.
        size: its size in bytes.
        changed: when it was last written, in nanoseconds.
    """

    file: str
    size: int
    changed: int

    @classmethod
    def of(cls, file: str | Path) -> FileVersion:
        """The current version of the file."""
        try:
            status = os.stat(file)
        except OSError as problem:
            raise FileError(f"{file}: cannot be read ({problem.strerror})") from None
        return cls(str(file), status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that has changed since."""
        if FileVersion.of(self.file) != self:
            raise FileError(f"{self.file}: changed between two passes; start again when nothing writes to it")


def format_suffix(path: Path) -> str:
    """The suffix that tells the format, in lower case, without that of the compression.

    >>> format_suffix(Path("scores.CSV.gz"))
    '.csv'
    """
    return Path(path.stem if path.suffix.lower() in COMPRESSION else path.name).suffix.lower()


def open_binary(path: Path) -> Any:
    """The decompressed content of a file; Arrow detects truncated and damaged files."""
    import pyarrow as pa

    return pa.input_stream(path, compression=COMPRESSION.get(path.suffix.lower()))


def open_text(path: Path) -> TextIO:
    """The same as text, without a byte order mark."""
    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", newline="")


def is_glob(path: Path) -> bool:
    """Whether the path is a glob and not the name of a file."""
    return glob.has_magic(str(path)) and not path.exists()


def format_of(path: Path) -> str:
    """The suffix that tells the format of a path; of a folder or a glob that of its first file by name."""
    if path.is_dir() or is_glob(path):
        return next(
            (file_format[0] for file_format in FORMATS[1:] if _first_suffix(path) in file_format), PARQUET[0]
        )
    return PARQUET[0] if path.suffix.lower() in PARQUET else format_suffix(path)


def _first_suffix(path: Path) -> str:
    names: Iterable[str] = (
        glob.iglob(str(path), recursive=True)
        if is_glob(path)
        else (file.name for file in path.rglob("*") if file.name[0] not in "._")
    )
    return Path(next((name for name in sorted(names) if Path(name).suffix), "")).suffix.lower()


def list_files(path: Path) -> list[Path]:
    """The files of a path, sorted by name, without hidden ones and `_metadata`."""
    if not (path.is_dir() or is_glob(path)):
        return [path]
    file_format = format_of(path)
    suffixes = next(suffixes for suffixes in FORMATS if file_format in suffixes)
    return _folder_files(path, suffixes) if path.is_dir() else _glob_files(path, suffixes)


def _glob_files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    paths = (Path(name) for name in sorted(glob.glob(str(path), recursive=True)))
    files = [file for file in paths if file.is_file()]
    other = next((file for file in files if file.suffix.lower() not in suffixes), None)
    if other is not None:
        raise FileError(f"{path}: also matches {other.name}; of several files wanted only {suffixes[0]}")
    if not files:
        raise FileError(f"{path}: no file matches the pattern")
    return files


def _folder_files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    file_format = suffixes[0]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    files = [f for f in inside if not any(part[0] in "._" for part in f.relative_to(path).parts)]
    other = next((file for file in files if file.suffix.lower() not in suffixes), None)
    if not any(file.suffix.lower() in suffixes for file in files):
        raise FileError(
            f"{path}: is a folder without {file_format} files; wanted a file, or a folder of "
            f"{', '.join(one[0] for one in FORMATS)} files"
        )
    if other is not None:
        raise FileError(
            f"{path}: is a folder that also holds {other.name}; wanted a folder of {file_format} files, "
            f"or a pattern such as '{path}/*{file_format}'"
        )
    return files
