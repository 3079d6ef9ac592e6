"""Parquet of any size: one file, a folder of files, or a glob; read batch by batch, only what is needed."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import FileError

ENDINGS = (".parquet", ".pq")
#: Rows decoded in one go.
BATCH_ROWS = 1 << 16


def is_glob(path: Path) -> bool:
    """Whether the name is a pattern, not a file."""
    return glob.has_magic(str(path)) and not path.exists()


def is_parquet(path: Path) -> bool:
    """Whether the path is read as Parquet: by its ending, or because it is a folder or a glob."""
    return path.suffix in ENDINGS or path.is_dir() or is_glob(path)


def parquet_files(path: Path) -> list[Path]:
    """The files behind a path, in the order of their names; hidden ones and `_metadata` are left out."""
    if is_glob(path):
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        files = [file for file in found if file.is_file()]
        wrong = next((file for file in files if file.suffix not in ENDINGS), None)
        if wrong is not None:
            raise FileError(f"{path}: also matches {wrong.name}; of several files wanted only .parquet")
    elif path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        files = [f for f in inside if not any(part[0] in "._" for part in f.relative_to(path).parts)]
        wrong = next((file for file in files if file.suffix not in ENDINGS), None)
        if not files:
            raise FileError(
                f"{path}: is a folder without .parquet files; wanted a file, or a folder of those"
            )
        if wrong is not None:
            raise FileError(
                f"{path}: is a folder that also holds {wrong.name}; wanted a folder of .parquet files, "
                f"or a pattern such as '{path}/*.parquet'"
            )
    else:
        return [path]
    if not files:
        raise FileError(f"{path}: no file matches the pattern")
    return files


def parquet_names(path: Path) -> tuple[list[str], int]:
    """The columns of the first file and the rows of all; only footers are read."""
    names: list[str] = []
    rows = 0
    for file, opened in _opened(path):
        rows += opened.metadata.num_rows
        here = list(opened.schema_arrow.names)
        missing = [name for name in names if name not in here]
        if missing:
            raise FileError(
                f"{file}: no column {missing[0]!r}, which the files before it have; wanted the same columns"
            )
        names = names or here
    return names, rows


def parquet_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """The named columns (all by default) as one table."""
    import pyarrow as pa

    tables = [opened.read(columns=None if columns is None else list(columns)) for _, opened in _opened(path)]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def parquet_scores(
    path: Path, columns: Sequence[str], rows: int, numbers: Callable[..., npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """(rows, len(columns)) numbers in a matrix reserved once; beyond it only one batch is ever in memory."""
    import pyarrow as pa

    out: npt.NDArray[Any] | None = None
    row = 0
    for file, opened in _opened(path):
        inside = 0
        for batch in opened.iter_batches(BATCH_ROWS, columns=list(columns)):
            part = pa.Table.from_batches([batch])
            values = [numbers(part, name, file, inside) for name in columns]
            kind = np.result_type(*values) if all(v.dtype.kind == "f" for v in values) else np.dtype(float)
            if out is None:
                out = np.empty((rows, len(columns)), kind)
            elif np.promote_types(out.dtype, kind) != out.dtype:  # a later file of higher precision
                out = out.astype(kind)
            for j, value in enumerate(values):
                out[row : row + len(value), j] = value
            row += batch.num_rows
            inside += batch.num_rows
    assert out is not None
    assert row == rows
    return out


def _opened(path: Path) -> Iterator[tuple[Path, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    for file in parquet_files(path):
        try:
            with parquet.ParquetFile(file) as opened:
                yield file, opened
        except (pa.ArrowException, OSError, ValueError) as problem:
            if isinstance(problem, FileError):
                raise
            text = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:160].rstrip(".")
            raise FileError(f"{file}: cannot be read as .parquet ({text}); is it complete?") from None
