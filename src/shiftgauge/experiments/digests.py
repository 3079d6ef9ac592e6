"""Digests of data files, weights and code: equal digests mean that two things are the same, not that they are right.

Files up to 256 MB are read completely. Of larger files the size and both ends count, of folders of images the names
and sizes.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError

READ_COMPLETELY = 256 * 2**20
END_BYTES = 2**20
PACKAGE = Path(__file__).parents[1]
NOT_CODE = {
    "shiftgauge",
    "shiftgauge._version",
    "shiftgauge.errors",
    "shiftgauge.experiments.progress",
    "shiftgauge.experiments.shards",
}
"""Modules that change no number: lazy attributes, the version, messages, progress, the split over machines."""


def digest(*parts: Any) -> str:
    """Sixteen hexadecimal digits of plain data.

    >>> digest("fog", 3) == digest("fog", 3), digest("fog", 3) == digest("fog", 4)
    (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def files_digest(paths: Iterable[Path]) -> str:
    """Digest of the contents and names of files and folders; their directory does not count."""
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
def _file_digest(path: Path, size: int, modified: int) -> str:
    result = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        if size <= READ_COMPLETELY:
            result.update(file.read())
        else:
            result.update(file.read(END_BYTES))
            file.seek(-END_BYTES, os.SEEK_END)
            result.update(file.read())
    return result.hexdigest()[:16]


@cache
def _folder_digest(folder: Path, modified: int) -> str:
    result = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            result.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
    return result.hexdigest()[:16]


def weights_digest(network: Any) -> str:
    """Digest of a torch module's state: every name and every value."""
    result = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        result.update(name.encode())
        result.update(value.detach().cpu().contiguous().flatten().numpy().tobytes())
    return result.hexdigest()[:16]


@cache
def code_digest(*modules: str) -> str:
    """Digest of modules and of everything of this package that they import, directly or not.

    Comments, docstrings and the version number do not count. Data files count if a module names them and they are
    beside it. So a new data set or network changes no digest but its own. The registry of methods belongs to the
    digest of estimates: a new method changes it, and estimates are computed again, which takes minutes.
    """
    contents: dict[str, Any] = {}
    queue = list(modules)
    while queue:
        name = queue.pop()
        path = _module_file(name)
        if name in contents or name in NOT_CODE or path is None:
            continue
        tree = _without_docstrings(ast.parse(path.read_text(encoding="utf-8")))
        data = [(path.parent / text).read_text(encoding="utf-8") for text in _data_files(tree, path.parent)]
        contents[name] = [ast.dump(tree), *data]
        queue += _imported(tree)
    return digest(contents)


def _module_file(name: str) -> Path | None:
    """The source of a module of this package, or of another module that is loaded."""
    first, *rest = name.split(".")
    if first != "shiftgauge":
        file = getattr(sys.modules.get(name), "__file__", None)
        return None if file is None else Path(file)
    path = PACKAGE.joinpath(*rest)
    return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if rest and p.is_file()), None)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of the modules of this package that a syntax tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("shiftgauge."))
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "shiftgauge":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield str(node.module) if _module_file(inner) is None else inner


def _data_files(tree: ast.AST, folder: Path) -> list[str]:
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    names = (text for text in texts if isinstance(text, str) and text.endswith((".json", ".csv")))
    return sorted(name for name in names if "/" not in name and (folder / name).is_file())


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        # A string that stands alone documents what is above it.
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)] or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@cache
def software() -> str:
    """Versions of the packages that scores depend on: recorded, never compared."""
    names = ("torch", "numpy", "opencv-python-headless", "opencv-python", "pillow")
    return ", ".join(f"{name} {number}" for name in names if (number := _version(name)))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def check_made_by(
    path: Path, old: Mapping[str, Any], new: Mapping[str, Any], advice: str, than: str = ""
) -> None:
    """Refuse a file that was made with other settings than ``new``, and name those that differ."""
    changed = difference(old, new)
    if changed:
        raise FileError(f"{path} was made with other {changed}{than}; {advice}")


def must_be_made(
    path: Path, present: Mapping[str, Any] | None, expected: Mapping[str, Any], redo: bool
) -> bool:
    """Whether a file is missing (``present`` is None), or was made by something else and ``redo`` allows it."""
    if present is None:
        return True
    if redo:
        return bool(difference(present, expected))
    advice = "make it again with --redo, or choose another directory with --runs"
    check_made_by(path, present, expected, advice)
    return False


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Names of the entries of ``new`` that differ in ``old``; empty if none does.

    >>> difference({"weights": "a", "rows": 5}, {"weights": "b", "rows": 5})
    'weights'
    """
    return ", ".join(key for key in new if old.get(key) != new[key])
