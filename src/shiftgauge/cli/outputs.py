"""Refuse to write to a file that the command reads, or would read the next time."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from shiftgauge.errors import InputError


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
