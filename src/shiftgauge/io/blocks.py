"""Tables of every form as one thing: columns with names, and blocks of rows that know where they stand.

A form (CSV, JSON lines, Arrow, Parquet, a frame in memory) opens a path as a `Tabular`. Whoever reads it, all at
once or block by block, gets Arrow record batches, each with its file and the number of its first row there, so
that whatever is wrong can be said with both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shiftgauge._threads import check_stopped
from shiftgauge.errors import FileError

T = TypeVar("T")

#: Rows that are decoded in one go.
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Block:
    """Some rows of a table.

    Attributes:
        batch: a pyarrow record batch with the columns that were asked for.
        where: the file, or the frame, that they stand in.
        first: the number of the first of them there, from 0.
    """

    batch: Any
    where: str
    first: int


#: Numbers (columns that must hold numbers) and texts (columns to be taken to the letter) in, blocks out.
Reader = Callable[[Sequence[str], Sequence[str]], Iterator[Block]]


@dataclass(frozen=True)
class Tabular:
    """A table that is open for reading.

    Attributes:
        where: its name in messages.
        names: its columns.
        rows: how many rows it has, where that is known without reading them.
        read: gives the blocks of the columns asked for, each time from the start.
        more: columns that only later parts have, with the first file that has each.
        notes: what was found out about its form, a sentence each.
    """

    where: str
    names: tuple[str, ...]
    rows: int | None
    read: Reader
    notes: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)


def in_memory(table: Any, where: str) -> Tabular:
    """A pyarrow table."""

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        return numbered(table.select([*numbers, *texts]).to_batches(BLOCK_ROWS), where)

    return Tabular(where, tuple(table.column_names), table.num_rows, read)


def numbered(batches: Any, where: str, first: int = 0) -> Iterator[Block]:
    """Batches with the number of their first row; `first` is that of the first of them."""
    for batch in batches:
        yield Block(batch, where, first)
        first += batch.num_rows


def validated(batches: Any) -> Iterator[Any]:
    """The same record batches, each checked in full: damaged offsets or texts would fail, or crash, later."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def guarded(blocks: Iterator[T], where: str, form: str) -> Iterator[T]:
    """The same blocks; what goes wrong while they are read is said of the file."""
    try:
        for block in blocks:
            check_stopped()
            yield block
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
