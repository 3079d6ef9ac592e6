"""What every stage reads and writes: whole files below folders that are made on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labelfree import _files
from labelfree.errors import FileError, LabelfreeError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that becomes ``path`` when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.replacing(path) as part, part.open("wb") as file:
        yield file


def write_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write a compressed ``.npz`` atomically."""
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path, *only: str) -> dict[str, NDArray[Any]]:
    """Read an ``.npz`` (or ``only`` some of its arrays) without pickle; a broken file is one clear line."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {key: file[key] for key in file.files if not only or key in only}
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `labelfree bench collect` first") from None
    except Exception as error:
        raise FileError(
            f"{path} is not a readable .npz file ({error}); delete it and collect again"
        ) from None


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, sorted and indented so that differences are readable."""
    with replacing(path) as file:
        file.write((json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON; a missing or broken file is one clear line."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except ValueError as error:
        raise FileError(f"{path} is not valid JSON ({error})") from None


def write_text(path: Path, text: str) -> None:
    """Write text atomically."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Say where in a long run an error happened: its message begins with ``what``."""
    try:
        yield
    except LabelfreeError as error:
        raise type(error)(f"{what}: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{what}: {type(error).__name__}: {error}") from error
