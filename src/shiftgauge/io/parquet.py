"""Parquet files; only the requested columns are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from shiftgauge.io.batches import TableFile, validate_batches
from shiftgauge.io.files import FileVersion


def open_parquet(version: FileVersion) -> TableFile:
    """A Parquet file by its footer."""
    footer = _footer(version)
    groups = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
    if min(groups, default=0) < 0 or sum(groups) != footer.num_rows:
        raise ValueError(f"its footer promises {footer.num_rows} rows in groups of {sum(groups)}")
    schema = footer.schema.to_arrow_schema()
    return TableFile(version, tuple(schema.names), read_parquet, schema, groups)


def read_parquet(
    version: FileVersion, numbers: Sequence[str], texts: Sequence[str], groups: range | None, batch_rows: int
) -> Iterator[Any]:
    """Record batches of some row groups, or of a whole file, which several threads decode."""
    with _open(version, _footer(version)) as file:
        yield from validate_batches(
            file.iter_batches(
                batch_rows, row_groups=groups, columns=[*numbers, *texts], use_threads=groups is None
            )
        )


@lru_cache(maxsize=64)
def _footer(version: FileVersion) -> Any:
    """The footer of a file, cached: those of wide tables are slow to read."""
    with _open(version) as file:
        return file.metadata


def _open(version: FileVersion, footer: Any = None) -> Any:
    """The file, open for reading; page checksums are verified if it has them."""
    from pyarrow import parquet

    return parquet.ParquetFile(version.file, metadata=footer, page_checksum_verification=True)
