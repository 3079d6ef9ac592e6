"""Tables of every format through one interface: named columns, and record batches with their file and row number.

CSV, JSON lines, Arrow, Parquet and frames are opened as an `OpenTable`, which yields Arrow record batches. Each batch
has its file and the number of its first row there, so that messages can name both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shiftgauge.errors import FileError
from shiftgauge.io.files import FileVersion
from shiftgauge.rows import check_stopped

T = TypeVar("T")

#: Rows that are decoded at a time when a whole table is read.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TableBatch:
    """Consecutive rows of a table.

    Attributes:
        batch: a pyarrow record batch of the requested columns.
        where: the name of the file or frame.
        first: the number of the first row in it, from 0.
    """

    batch: Any
    where: str
    first: int


#: Takes numeric columns and text columns; yields batches, from the first row on each call.
Reader = Callable[[Sequence[str], Sequence[str]], Iterator[TableBatch]]
#: The same for some row groups of a file (None for all), with the approximate number of rows of a batch.
FileReader = Callable[[FileVersion, Sequence[str], Sequence[str], "range | None", int], Iterator[Any]]


@dataclass(frozen=True)
class TableFile:
    """A file of a table: the content of its header or footer.

    Attributes:
        version: the file.
        names: its columns.
        read: yields record batches of the requested columns; it can be pickled.
        schema: its Arrow schema; None if numbers are read as float64 (CSV, JSON lines).
        groups: the number of rows of each row group; None if it has no footer.
        notes: sentences about its format, such as its delimiter.
    """

    version: FileVersion
    names: tuple[str, ...]
    read: FileReader
    schema: Any = None
    groups: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenTable:
    """A table that is open for reading.

    Attributes:
        where: its name in messages.
        names: its columns.
        rows: the number of rows, if it is known without reading them.
        read: yields batches of the requested columns, from the first row on each call.
        files: its files, if any.
        notes: sentences about its format, such as its delimiter.
        more: columns that only later files have, with the first file that has each.
    """

    where: str
    names: tuple[str, ...]
    rows: int | None
    read: Reader
    files: tuple[TableFile, ...] = ()
    notes: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)


def arrow_table(table: Any, where: str) -> OpenTable:
    """A pyarrow table as an `OpenTable`."""

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[TableBatch]:
        return number_rows(table.select([*numbers, *texts]).to_batches(BATCH_ROWS), where)

    return OpenTable(where, tuple(table.column_names), table.num_rows, read)


def number_rows(batches: Iterable[Any], where: str, first: int = 0) -> Iterator[TableBatch]:
    """Batches with the numbers of their first rows; `first` is that of the first batch."""
    for batch in batches:
        yield TableBatch(batch, where, first)
        first += batch.num_rows


def validate_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """The same record batches, each validated in full: damaged offsets or texts can crash the process later."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def name_errors(items: Iterable[T], where: str, file_format: str) -> Iterator[T]:
    """The same items; errors while they are read name the file."""
    try:
        for item in items:
            check_stopped()
            yield item
    except FileError:
        raise
    except Exception as problem:  # Arrow, zlib and the operating system raise different types
        if type(problem) is MemoryError:  # Arrow raises a subclass for impossible sizes in damaged files
            raise
        raise read_error(where, file_format, problem) from None


def read_error(where: object, file_format: str, problem: BaseException) -> FileError:
    """The error for a file that cannot be read: why, and what to try."""
    text = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:160].rstrip(".")
    if isinstance(problem, OSError) and problem.strerror:
        return FileError(f"{where}: cannot be read ({problem.strerror})")
    decoding = isinstance(problem, UnicodeDecodeError) or "UTF8" in text
    hint = "save it as UTF-8" if decoding else "is it complete?"
    return FileError(f"{where}: cannot be read as {file_format} ({text}); {hint}")


def rebatch(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """The same rows in batches of exactly `rows` rows, except for the last one.

    Engines choose their own batch sizes; sums and digests must not depend on them.
    """
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        begin = 0
        while batch.num_rows - begin >= rows - count:
            head = batch.slice(begin, rows - count)
            yield _concatenate([*waiting, head])
            begin, waiting, count = begin + head.num_rows, [], 0
        if begin < batch.num_rows:
            waiting.append(batch.slice(begin))
            count += batch.num_rows - begin
    if waiting:
        yield _concatenate(waiting)


def _concatenate(batches: list[Any]) -> Any:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return batch
