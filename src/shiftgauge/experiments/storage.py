"""Files of every stage: arrays, JSON, text and tables, each written completely or not at all."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftgauge import storage
from shiftgauge.errors import FileError, ShiftgaugeError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that becomes ``path`` if the block succeeds and is deleted otherwise."""
    with _writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with storage.replacing(path) as part, part.open("wb") as file:
        yield file


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written or created, before any work is done for it."""
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    with _writing(folder), tempfile.TemporaryFile(dir=existing):
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
    """Write a compressed ``.npz`` file."""
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path, *only: str) -> dict[str, NDArray[Any]]:
    """Read an ``.npz`` file (or ``only`` some of its arrays) without pickle."""
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
    """Write JSON, sorted and indented so that differences are readable."""
    with replacing(path) as file:
        file.write((json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def read_mapping(path: Path) -> dict[str, Any]:
    """Read JSON that must be an object."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except ValueError as error:
        raise FileError(f"{path} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise FileError(f"{path} holds no JSON object but {type(value).__name__}")
    return value


def write_text(path: Path, text: str) -> None:
    """Write text."""
    with replacing(path) as file:
        file.write(text.encode())


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a CSV file, floats with six decimals."""
    write_text(path, table.to_csv(index=False, float_format="%.6f", lineterminator="\n"))


def read_table(path: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    """Read the CSV file of a table with these columns; ``columns`` gives their types."""
    try:
        table = pd.read_csv(path, dtype=dict(columns), keep_default_na=False)
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `shiftgauge bench run` first") from None
    except (ValueError, TypeError) as error:
        raise FileError(f"{path} is not a table of estimates ({error})") from None
    missing = [name for name in columns if name not in table]
    if missing:
        raise FileError(f"{path} is not a table of estimates: it has no column {missing[0]!r}")
    return table[list(columns)]


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Prefix the message of an error with the place in a long run where it happened."""
    try:
        yield
    except ShiftgaugeError as error:
        raise type(error)(f"{where}: {error}") from error
    except OSError as error:
        raise FileError(f"{where}: {error}") from error
    except MemoryError as error:
        raise ShiftgaugeError(
            f"{where}: there was not enough memory; with --max-rows or --shard it takes less"
        ) from error
    except Exception as error:
        raise RuntimeError(f"{where}: {type(error).__name__}: {error}") from error
