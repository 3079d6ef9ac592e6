"""Files: parts are known by their footers and headers, and read by whoever works on them."""

from __future__ import annotations

import glob
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from shiftgauge._threads import in_turn
from shiftgauge.errors import FileError
from shiftgauge.io.blocks import guarded, numbered, unreadable, validated
from shiftgauge.io.compressed import ending
from shiftgauge.io.form import Form
from shiftgauge.io.parquet import ENDINGS as PARQUET
from shiftgauge.io.parquet import group_rows, is_glob, opened_parquet, parquet_files, same_columns
from shiftgauge.io.tables import OPENERS, open_table, refuse_more_classes, refuse_repeated
from shiftgauge.scale.layout import Layout, table_layout
from shiftgauge.scans import Chunk, Part

ARROW = (".arrow", ".feather")
FORMS = (PARQUET, ARROW, (".npy",))
#: About how many scores a part has, unless that makes too many parts: what a pass sends home grows with them.
PART_SCORES, PARTS = 1 << 22, 256


@dataclass(frozen=True)
class Stamp:
    """A file as it was when it was opened.

    Attributes:
        file: its name.
        size, changed: its bytes, and when it was written, in nanoseconds.
    """

    file: str
    size: int
    changed: int

    @classmethod
    def of(cls, file: str | Path) -> Stamp:
        """The file as it is now."""
        try:
            found = os.stat(file)
        except OSError as problem:
            raise FileError(f"{file}: cannot be read ({problem.strerror})") from None
        return cls(str(file), found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that was written to since."""
        if Stamp.of(self.file) != self:
            raise FileError(f"{self.file}: changed between two passes; start again when nobody writes to it")


def rows_a_part(rows: int, k: int) -> int:
    """About how many rows a part has, of so many rows and k scores each in all."""
    return max(1, max(PART_SCORES, -(-rows * k // PARTS)) // k)


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of a file that must stay as it was.

    Attributes:
        layout: what they hold.
        stamp: the file.
        first, rows: the number of the first of them in it, and how many they are.
    """

    layout: Layout
    stamp: Stamp
    first: int
    rows: int

    @property
    def name(self) -> str:
        """The file."""
        return self.stamp.file

    @property
    def mark(self) -> str:
        """What tells this data from other data."""
        return f"{self.stamp} {self.first}"


@dataclass(frozen=True)
class GroupsPart(FilePart):
    """Consecutive groups of rows, from the first of `groups` up to the last, which is not among them."""

    groups: tuple[int, int]
    form: ClassVar[str]

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        blocks = numbered(self._batches(self.layout.reads(columns)), self.name, self.first)
        return self.layout.chunks(guarded(blocks, self.name, self.form), columns)

    @abstractmethod
    def _batches(self, wanted: list[str]) -> Iterator[Any]:
        """The record batches of these columns."""


class ParquetPart(GroupsPart):
    """Row groups of a Parquet file."""

    form = ".parquet"

    def _batches(self, wanted: list[str]) -> Iterator[Any]:
        self.stamp.check()
        with opened_parquet(self.name, _footer(self.stamp)) as opened:
            yield from validated(
                opened.iter_batches(
                    self.layout.batch_rows, row_groups=range(*self.groups), columns=wanted, use_threads=False
                )
            )


@lru_cache(maxsize=64)
def _footer(stamp: Stamp) -> Any:
    """The footer of a file; those of wide tables take a while to read."""
    with opened_parquet(stamp.file) as opened:
        return opened.metadata


class ArrowPart(GroupsPart):
    """Record batches of an Arrow file."""

    form = ".arrow"

    def _batches(self, wanted: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import ipc

        self.stamp.check()
        with pa.OSFile(self.name) as file:
            schema = ipc.open_file(file).schema
            fields = [schema.get_field_index(name) for name in wanted]
            reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
            for number in range(*self.groups):
                (whole,) = validated([reader.get_batch(number)])
                for begin in range(0, whole.num_rows, self.layout.batch_rows):
                    yield whole.slice(begin, self.layout.batch_rows)


class TablePart(FilePart):
    """A table without a footer (an Arrow stream, CSV, JSON lines), read from its start each time."""

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        self.stamp.check()
        wanted = self.layout.reads(columns)
        numbers = [name for name in wanted if name in (*self.layout.scores, self.layout.weight)]
        rest = [name for name in wanted if name not in numbers]
        return self.layout.chunks(open_table(Path(self.name)).read(numbers, rest), columns)


@dataclass(frozen=True)
class Run:
    """Several small parts that are worked on as one."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(part.rows for part in self.parts)

    @property
    def name(self) -> str:
        """The first and the last file."""
        return f"{self.parts[0].name} to {self.parts[-1].name}"

    @property
    def mark(self) -> str:
        """What tells this data from other data."""
        return " ".join(str(getattr(part, "mark", "")) for part in self.parts)

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Their rows, one after the other."""
        for part in self.parts:
            yield from part.read(columns)


def files_behind(path: Path) -> list[Path]:
    """The files of one form behind a path, in the order of their names."""
    form = next((endings for endings in FORMS[1:] if _holds(path, endings)), PARQUET)
    return parquet_files(path, form)


def _holds(path: Path, endings: Sequence[str]) -> bool:
    if is_glob(path):
        found: Iterable[str] = glob.iglob(str(path), recursive=True)
    elif path.is_dir():
        found = (file.name for file in path.rglob("*") if file.name[0] not in "._")
    else:
        return False
    return Path(next((name for name in sorted(found) if Path(name).suffix), "")).suffix.lower() in endings


def file_parts(
    path: Path, form: Form, second: str | None = None, zone: str | None = None
) -> tuple[Layout, list[Part]]:
    """The layout and the parts of the tables behind a path; only footers are read, where there are any."""
    files = files_behind(path)
    if not all(_form(file) in OPENERS for file in files):
        wanted = ", ".join(OPENERS)
        raise FileError(
            f"{path}: cannot be scanned, by its ending; wanted {wanted}, .npy, or a folder of those"
        )
    heads = list(in_turn(_head, files))
    columns = [tuple(head.schema.names) for head in heads]
    more = same_columns(files, columns)[1]
    refuse_more_classes(more, form)
    layout = table_layout([head.schema for head in heads], form, path, second, zone)
    share = rows_a_part(sum(sum(head.rows) for head in heads), layout.k)
    parts = [part for head in heads for part in head.parts(layout, share)]
    return layout, joined(parts, share)


def _form(file: Path) -> str:
    return ".parquet" if file.suffix.lower() in PARQUET else ending(file)


@dataclass(frozen=True)
class Head:
    """What is known of a file before its rows are read: its columns, and the rows of each of its groups."""

    stamp: Stamp
    schema: Any
    rows: list[int]
    make: Any

    def parts(self, layout: Layout, share: int) -> Iterator[Part]:
        """Runs of groups of about so many rows."""
        if self.make is TablePart:
            yield TablePart(layout, self.stamp, 0, sum(self.rows))
            return
        first = begin = held = 0
        for number, rows in enumerate([*self.rows, 0]):
            end = number == len(self.rows)
            if held and (end or held + rows > share):
                yield self.make(layout, self.stamp, first, held, (begin, number))
                first, begin, held = first + held, number, 0
            held += rows


def joined(parts: Iterable[Part], share: int) -> list[Part]:
    """Consecutive parts together, where they have no more than so many rows: many small files are few parts."""
    runs: list[list[Part]] = []
    rows = 0
    for part in parts:
        if not runs or rows + part.rows > share:
            runs.append([])
            rows = 0
        runs[-1].append(part)
        rows += part.rows
    return [run[0] if len(run) == 1 else Run(tuple(run)) for run in runs]


def _head(file: Path) -> Head:
    stamp = Stamp.of(file)
    if stamp.size == 0:
        raise FileError(f"{file}: is empty")
    form = _form(file)
    try:
        if form == ".parquet":
            footer = _footer(stamp)
            head = Head(stamp, footer.schema.to_arrow_schema(), group_rows(footer), ParquetPart)
        else:
            head = (_arrow_head(stamp) if form in ARROW else None) or _table_head(stamp)
        refuse_repeated(head.schema.names, file)
        return head
    except FileError:
        raise
    except Exception as problem:
        raise unreadable(file, form, problem) from None


def _arrow_head(stamp: Stamp) -> Head | None:
    """Of an Arrow file the rows of each batch, by its first column alone; None for a stream, which has no footer."""
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(stamp.file) as file:
        try:
            schema = ipc.open_file(file).schema
        except pa.ArrowInvalid:
            return None
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[0]))
        rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    return Head(stamp, schema, rows, ArrowPart)


def _table_head(stamp: Stamp) -> Head:
    """Of a table without a footer the rows are counted, by reading a column of it."""
    import pyarrow as pa

    table = open_table(Path(stamp.file))
    blocks = table.read([], table.names[:1])
    rows = table.rows if table.rows is not None else sum(block.batch.num_rows for block in blocks)
    first = next(iter(table.read([], table.names)), None)
    schema = pa.schema([(name, pa.string()) for name in table.names]) if first is None else first.batch.schema
    return Head(stamp, schema, [rows], TablePart)
