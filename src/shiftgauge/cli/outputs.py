"""Refuse to write to a file that the command reads, or would read the next time, or that holds labels."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from shiftgauge.errors import FileError, InputError, ShiftgaugeError


def check_output(option: str, out: Path, inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write to a file that is an input, or into an input folder or glob.

    Args:
        option: the option that named the output.
        out: the file to write.
        inputs: every file, folder and glob that the command reads; other texts, such as names, are ignored.
    """
    for path in inputs:
        if path is not None and _is_read(out, Path(path)):
            raise InputError(f"{option} {out}: that is an input, which would be lost; wanted another file")


def check_no_labels(option: str, out: Path, column: str) -> None:
    """Refuse to write over a table that has labels.

    Args:
        option: the option that named the output.
        out: the file to write.
        column: the name of the label column, besides `label` and `labels`.
    """
    from shiftgauge.io import column_names, read_column
    from shiftgauge.validation import missing_rows

    if not out.exists():
        return
    try:
        names = column_names(out)
        columns = [read_column(out, name) for name in names if name in (column, "label", "labels")]
    except ShiftgaugeError:  # not a table
        return
    count = sum(int((~missing_rows(values, "labels")).sum()) for values in columns)
    if count:
        lines = "1 line has a label" if count == 1 else f"{count:,} lines have labels"
        raise FileError(f"{option} {out}: {lines} there, which would be lost; wanted another file")


def new_file() -> str:
    """A name for rows to label beside files that have labels: the first of rows-2.csv, rows-3.csv, ... that is new."""
    number = 2
    while os.path.lexists(f"rows-{number}.csv"):
        number += 1
    return f"rows-{number}.csv"


def _is_read(out: Path, path: Path) -> bool:
    """Whether reading the path reads the output, which may not exist yet."""
    if path.is_dir():
        return any(Path(os.path.realpath(path)) in place.parents for place in _locations(out))
    if path.exists():
        return out.exists() and out.samefile(path)
    return glob.has_magic(str(path)) and _matches(out, os.path.join(os.curdir, path))


def _locations(out: Path) -> set[Path]:
    """Where the file will be: by its name, and if that is a link, where it points; without links in folders."""
    return {Path(os.path.realpath(out.parent), out.name), Path(os.path.realpath(out))}


def _matches(out: Path, pattern: str) -> bool:
    """Whether the glob matches the output, or will once it exists. The pattern begins with a folder."""
    existing = filter(os.path.exists, glob.iglob(pattern, recursive=True))
    if out.exists() and any(out.samefile(path) for path in existing):
        return True
    folder, last = os.path.split(pattern)
    if last == "**":
        folder, last = pattern, "*"
    folders = {Path(os.path.realpath(path)) for path in glob.iglob(folder, recursive=True)}
    return any(place.parent in folders and _matches_name(place.name, last) for place in _locations(out))


def _matches_name(name: str, pattern: str) -> bool:
    """Whether the last part of a glob matches the name; hidden files only if it begins with a dot too."""
    hidden = name.startswith(".") and not pattern.startswith(".")
    return fnmatch.fnmatch(name, pattern) and not hidden
