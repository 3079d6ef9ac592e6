"""Parquet of any size: one file, a folder of files, or a glob; read block by block, only what is needed."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError
from shiftgauge.io.blocks import BLOCK_ROWS, Block, Tabular, guarded, numbered, unreadable, validated

ENDINGS = (".parquet", ".pq")
#: A file of many parts may say of each page what it should add up to: where it does, that is checked.
CHECKED = {"page_checksum_verification": True}


def is_glob(path: Path) -> bool:
    """Whether the name is a pattern, not a file."""
    return glob.has_magic(str(path)) and not path.exists()


def is_parquet(path: Path) -> bool:
    """Whether the path is read as Parquet: by its ending, or because it is a folder or a glob."""
    return path.suffix.lower() in ENDINGS or path.is_dir() or is_glob(path)


def parquet_files(path: Path, endings: Sequence[str] = ENDINGS) -> list[Path]:
    """The files behind a path, in the order of their names; hidden ones and `_metadata` are left out."""
    form = endings[0]
    if is_glob(path):
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        files = [file for file in found if file.is_file()]
        wrong = next((file for file in files if file.suffix.lower() not in endings), None)
        if wrong is not None:
            raise FileError(f"{path}: also matches {wrong.name}; of several files wanted only {form}")
    elif path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        files = [f for f in inside if not any(part[0] in "._" for part in f.relative_to(path).parts)]
        wrong = next((file for file in files if file.suffix.lower() not in endings), None)
        if not files:
            raise FileError(f"{path}: is a folder without {form} files; wanted a file, or a folder of those")
        if wrong is not None:
            raise FileError(
                f"{path}: is a folder that also holds {wrong.name}; wanted a folder of {form} files, "
                f"or a pattern such as '{path}/*{form}'"
            )
    else:
        return [path]
    if not files:
        raise FileError(f"{path}: no file matches the pattern")
    return files


def open_parquet(path: Path) -> Tabular:
    """All files behind the path as one table, in the order of their names; only footers are read here."""
    files = parquet_files(path)
    heads = [_head(file) for file in files]
    names, more = same_columns(files, [here for here, _ in heads])

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        for file in files:
            yield from guarded(_blocks(file, [*numbers, *texts]), str(file), ".parquet")

    return Tabular(str(path), names, sum(rows for _, rows in heads), read, more=more)


def same_columns(
    files: Sequence[object], columns: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns of the first file, which all must have, and those that only later ones have, with the first."""
    names = columns[0]
    more: dict[str, str] = {}
    for file, here in zip(files, columns, strict=True):
        missing = next((name for name in names if name not in here), None)
        if missing is not None:
            raise FileError(
                f"{file}: no column {missing!r}, which the files before it have; wanted the same columns"
            )
        more = {**{name: str(file) for name in here if name not in names}, **more}
    return names, more


def _head(file: Path) -> tuple[tuple[str, ...], int]:
    try:
        with opened_parquet(file) as opened:
            return tuple(opened.schema_arrow.names), sum(group_rows(opened.metadata))
    except Exception as problem:
        raise unreadable(file, ".parquet", problem) from None


def _blocks(file: Path, columns: Sequence[str]) -> Iterator[Block]:
    with opened_parquet(file) as opened:
        batches = opened.iter_batches(BLOCK_ROWS, columns=list(columns))
        yield from numbered(validated(batches), str(file))


def group_rows(footer: Any) -> list[int]:
    """How many rows each row group has; refuses a footer whose numbers of rows contradict each other."""
    rows = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    if min(rows, default=0) < 0 or sum(rows) != footer.num_rows:
        raise ValueError(f"its footer promises {footer.num_rows} rows in groups of {sum(rows)}")
    return rows


def opened_parquet(file: str | Path, metadata: Any = None) -> Any:
    """A file that is open for reading; a footer that was read before need not be read again."""
    from pyarrow import parquet

    return parquet.ParquetFile(file, metadata=metadata, **CHECKED)
