"""Tables out: CSV, Parquet, Arrow or npz, by the file's ending; written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labelfree.errors import FileError

ENDINGS = (".csv", ".parquet", ".arrow", ".feather", ".npz")


def check_ending(path: str | Path) -> Path:
    """Refuse a file name that no table can be written to."""
    file = Path(path)
    if file.suffix not in ENDINGS:
        raise FileError(
            f"{path}: cannot tell its form from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted a name ending in {', '.join(ENDINGS)}"
        )
    if file.is_dir():
        raise FileError(f"{path}: is a folder; wanted the name of a file")
    if not file.parent.is_dir():
        raise FileError(f"{path}: the folder {file.parent} does not exist")
    return file


def write_table(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write named columns of equal length; an existing file is replaced only when the new one is complete."""
    file = check_ending(path)
    part = file.with_name(f".{file.name}.{os.getpid()}.part{file.suffix}")
    try:
        _write(part, file.suffix, columns)
        os.replace(part, file)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        part.unlink(missing_ok=True)


def _write(part: Path, suffix: str, columns: Mapping[str, Any]) -> None:
    if suffix == ".npz":
        arrays: dict[str, Any] = {name: np.asarray(values) for name, values in columns.items()}
        np.savez_compressed(part, **arrays)
        return
    import pyarrow as pa

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(table, part)
    elif suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, part)
    else:
        from pyarrow import feather

        feather.write_feather(table, part)
