"""Tables of every form as one thing: named columns, and record batches that know where their rows stand.

A form (CSV, JSON lines, Arrow, Parquet, a frame in memory) is opened as a `Table`. Whoever reads it, at once or part by
part, gets Arrow record batches, each with its file and the number of its first row there, so that a message can name
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shiftgauge.errors import FileError
from shiftgauge.io.files import FileStamp
from shiftgauge.rows import check_stopped

T = TypeVar("T")

#: Rows that are decoded at a time when a table is read whole.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TableBatch:
    """Consecutive rows of a table.

    Attributes:
        batch: a pyarrow record batch with the columns that were asked for.
        where: the file, or the frame, that holds them.
        first: the number of the first of them there, from 0.
    """

    batch: Any
    where: str
    first: int


#: Columns that must hold numbers and columns to be read to the letter in, batches out, each time from the start.
Reader = Callable[[Sequence[str], Sequence[str]], Iterator[TableBatch]]
#: The same of some row groups of a file (None for all), with about so many rows to a batch.
FileReader = Callable[[FileStamp, Sequence[str], Sequence[str], "range | None", int], Iterator[Any]]


@dataclass(frozen=True)
class TableFile:
    """A file of a table, as its header or footer describes it.

    Attributes:
        stamp: the file.
        names: its columns.
        read: yields the record batches of the columns asked for; it can be sent to another process.
        schema: its Arrow schema; None if numbers are read as float64 (CSV, JSON lines).
        groups: how many rows each of its row groups has; None if it has no footer.
        notes: what was found out about its form, a sentence each.
    """

    stamp: FileStamp
    names: tuple[str, ...]
    read: FileReader
    schema: Any = None
    groups: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table that is open for reading.

    Attributes:
        where: its name in messages.
        names: its columns.
        rows: how many rows it has, if that is known without reading them.
        read: yields the batches of the columns asked for, each time from the start.
        files: the files that it consists of, if any.
        notes: what was found out about its form, a sentence each.
        more: columns that only later files have, with the first file that has each.
    """

    where: str
    names: tuple[str, ...]
    rows: int | None
    read: Reader
    files: tuple[TableFile, ...] = ()
    notes: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)


def in_memory(table: Any, where: str) -> Table:
    """A pyarrow table."""

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[TableBatch]:
        return located(table.select([*numbers, *texts]).to_batches(BATCH_ROWS), where)

    return Table(where, tuple(table.column_names), table.num_rows, read)


def located(batches: Iterable[Any], where: str, first: int = 0) -> Iterator[TableBatch]:
    """Batches with the number of their first row; `first` is that of the first batch."""
    for batch in batches:
        yield TableBatch(batch, where, first)
        first += batch.num_rows


def validated(batches: Iterable[Any]) -> Iterator[Any]:
    """The same record batches, each checked in full: damaged offsets or texts would fail, or crash, later."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def guarded(items: Iterable[T], where: str, form: str) -> Iterator[T]:
    """The same items; an error while they are read names the file."""
    try:
        for item in items:
            check_stopped()
            yield item
    except FileError:
        raise
    except Exception as problem:  # Arrow, zlib and the operating system each have their own
        if type(problem) is MemoryError:  # Arrow's own is a size that a damaged file promises
            raise
        raise unreadable(where, form, problem) from None


def unreadable(where: object, form: str, problem: BaseException) -> FileError:
    """One line that says why a file cannot be read, and what to try."""
    text = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:160].rstrip(".")
    if isinstance(problem, OSError) and problem.strerror:
        return FileError(f"{where}: cannot be read ({problem.strerror})")
    decoding = isinstance(problem, UnicodeDecodeError) or "UTF8" in text
    hint = "save it as UTF-8" if decoding else "is it complete?"
    return FileError(f"{where}: cannot be read as {form} ({text}); {hint}")


def resized(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """The same rows in batches of exactly so many, except for the last one.

    Engines hand over batches of whatever size suits them; sums and digests must not depend on that.
    """
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        begin = 0
        while batch.num_rows - begin >= rows - count:
            piece = batch.slice(begin, rows - count)
            yield _joined([*waiting, piece])
            begin, waiting, count = begin + piece.num_rows, [], 0
        if begin < batch.num_rows:
            waiting.append(batch.slice(begin))
            count += batch.num_rows - begin
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> Any:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return whole
