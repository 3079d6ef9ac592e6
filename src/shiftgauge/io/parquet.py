"""Parquet files, of which only the columns that are wanted are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from shiftgauge.io.batches import TableFile, validated
from shiftgauge.io.files import FileStamp


def open_parquet(stamp: FileStamp) -> TableFile:
    """A Parquet file by its footer."""
    footer = _footer(stamp)
    groups = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
    if min(groups, default=0) < 0 or sum(groups) != footer.num_rows:
        raise ValueError(f"its footer promises {footer.num_rows} rows in groups of {sum(groups)}")
    schema = footer.schema.to_arrow_schema()
    return TableFile(stamp, tuple(schema.names), read_parquet, schema, groups)


def read_parquet(
    stamp: FileStamp, numbers: Sequence[str], texts: Sequence[str], groups: range | None, batch_rows: int
) -> Iterator[Any]:
    """Record batches of some row groups; those of a whole file are decoded by several threads."""
    with _open(stamp, _footer(stamp)) as file:
        yield from validated(
            file.iter_batches(
                batch_rows, row_groups=groups, columns=[*numbers, *texts], use_threads=groups is None
            )
        )


@lru_cache(maxsize=64)
def _footer(stamp: FileStamp) -> Any:
    """The footer of a file; those of wide tables take a while to read."""
    with _open(stamp) as file:
        return file.metadata


def _open(stamp: FileStamp, footer: Any = None) -> Any:
    """The file, open for reading; pages that say what they should add up to are checked."""
    from pyarrow import parquet

    return parquet.ParquetFile(stamp.file, metadata=footer, page_checksum_verification=True)
