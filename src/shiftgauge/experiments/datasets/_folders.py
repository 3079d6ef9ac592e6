"""Read image sets laid out as one folder per class."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError
from shiftgauge.experiments.examples import FileImages

_ENDINGS = (".jpeg", ".jpg", ".png")


def list_images(folder: Path) -> dict[str, list[Path]]:
    """Class folder name -> its image files, both sorted."""
    if not folder.is_dir():
        raise FileError(f"{folder} does not exist or is not a folder of class folders")
    found: dict[str, list[Path]] = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            names = sorted(f.name for f in os.scandir(entry.path) if f.name.lower().endswith(_ENDINGS))
            found[entry.name] = [Path(entry.path) / name for name in names]
    if not any(found.values()):
        raise FileError(f"{folder} holds no image in any class folder")
    return found


def read_images(folder: Path, class_of: dict[str, int]) -> FileImages:
    """The images of a folder of class folders, labelled by ``class_of``; classes it does not name are left out.

    A named class without an image is refused: a set that was unpacked partly is another set.
    """
    files = list_images(folder)
    paths = [(path, class_of[name]) for name, group in files.items() if name in class_of for path in group]
    if not paths:
        raise FileError(
            f"{folder} holds no image of a known class: its {len(files)} folders are called {_few(files)}; "
            f"wanted are names like {_few(class_of)}"
        )
    lacking = [name for name in class_of if not files.get(name)]
    if lacking:
        raise FileError(
            f"{folder} has no image of {len(lacking)} of the {len(class_of)} classes that are read from it "
            f"({_few(lacking)}); was it unpacked completely?"
        )
    return FileImages([path for path, _ in paths], np.array([label for _, label in paths], np.int64))


def _few(names: Iterable[str]) -> str:
    first, *rest = names
    return f"{first} or {rest[-1]}" if rest else first
