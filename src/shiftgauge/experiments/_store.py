"""What every stage reads and writes: whole files below folders that are made on the way."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from shiftgauge import storage
from shiftgauge.errors import FileError, ShiftgaugeError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that becomes ``path`` when the block ends well, and vanishes when it does not."""
    with _writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with storage.replacing(path) as part, part.open("wb") as file:
        yield file


def check_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, there or not yet, before any work is done for it."""
    with (
        _writing(folder),
        tempfile.TemporaryFile(dir=next(p for p in (folder, *folder.parents) if p.exists())),
    ):
        pass


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be written ({error.strerror or error}); wanted a directory for results"
        ) from None


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
        raise FileError(f"{path} does not exist; run `shiftgauge bench collect` first") from None
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


def read_mapping(path: Path) -> dict[str, Any]:
    """Read JSON that must be an object."""
    held = read_json(path)
    if not isinstance(held, dict):
        raise FileError(f"{path} holds no JSON object but {type(held).__name__}")
    return held


def write_text(path: Path, text: str) -> None:
    """Write text atomically."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Say where in a long run an error happened: its message begins with ``what``."""
    try:
        yield
    except ShiftgaugeError as error:
        raise type(error)(f"{what}: {error}") from error
    except OSError as error:
        raise FileError(f"{what}: {error}") from error
    except MemoryError as error:
        raise ShiftgaugeError(
            f"{what}: there was not enough memory; with --rows or --shard it takes less"
        ) from error
    except Exception as error:
        raise RuntimeError(f"{what}: {type(error).__name__}: {error}") from error
