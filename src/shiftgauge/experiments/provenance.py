"""What made a file of scores: digests of weights, data files, code and options, so that none can lie.

A digest says "the same", never "good". Files up to 256 MB are read whole; larger ones, and folders of images,
are told apart by names, sizes and (for files) both ends.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError

WHOLE = 256 * 2**20
_END = 2**20


def digest(*parts: Any) -> str:
    """Sixteen hexadecimal digits of plain data.

    >>> digest("fog", 3) == digest("fog", 3), digest("fog", 3) == digest("fog", 4)
    (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def files_digest(paths: Iterable[Path]) -> str:
    """Digest of files and folders by what they hold, wherever they lie."""
    return digest(*(_path_digest(path) for path in paths))


def _path_digest(path: Path) -> list[Any]:
    if path.is_dir():
        return [path.name, _folder_digest(path, path.stat().st_mtime_ns)]
    try:
        state = path.stat()
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    return [path.name, _file_digest(path, state.st_size, state.st_mtime_ns)]


@cache
def _file_digest(path: Path, size: int, changed: int) -> str:
    found = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        if size <= WHOLE:
            found.update(file.read())
        else:
            found.update(file.read(_END))
            file.seek(-_END, os.SEEK_END)
            found.update(file.read())
    return found.hexdigest()[:16]


@cache
def _folder_digest(folder: Path, changed: int) -> str:
    found = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place) / name
            found.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
    return found.hexdigest()[:16]


def weights_digest(network: Any) -> str:
    """Digest of a torch module's state: every name and every value."""
    found = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().flatten().numpy().tobytes())
    return found.hexdigest()[:16]


@cache
def code_digest(*more: str) -> str:
    """Digest of the code that turns files into scores: corruptions, networks, readers; comments do not count.

    ``more`` are further files of this folder.
    """
    here = Path(__file__).parent
    rooms = ("corruptions", "networks", "datasets")
    alone = ("collect.py", "examples.py", "loading.py", "pipeline.py", "sets.py", "training.py", *more)
    return _code(
        [*(here / name for name in alone), *(path for room in rooms for path in here.glob(f"{room}/*.py"))]
    )


@cache
def method_digest() -> str:
    """Digest of the code that turns scores into estimates: the methods, all they lean on, and the protocol."""
    here, top = Path(__file__).parent, Path(__file__).parent.parent
    rooms = ("calibration", "transport", "labelshift", "methods", "rows")
    alone = ("ablation.py", "protocol.py", "resampling.py", "sweep.py")
    methods = [path for room in rooms for path in (top / room).rglob("*.py")]
    return _code([*(here / name for name in alone), *top.glob("*.py"), *methods])


@cache
def software() -> str:
    """Versions of what scores depend on beside this code: recorded, never compared."""
    names = ("torch", "numpy", "opencv-python-headless", "opencv-python", "pillow")
    return ", ".join(f"{name} {number}" for name in names if (number := _version(name)))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _code(paths: list[Path]) -> str:
    return digest(*((path.name, _meaning(path)) for path in sorted(paths)))


def _meaning(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What differs between two records, in words; empty if nothing does.

    >>> difference({"weights": "a", "rows": 5}, {"weights": "b", "rows": 5})
    'weights'
    """
    return ", ".join(key for key in new if old.get(key) != new[key])
