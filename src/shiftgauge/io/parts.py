"""Parts of files: row groups that are read again in every pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from shiftgauge.io.batches import FileReader, OpenTable, TableFile
from shiftgauge.io.files import FileVersion
from shiftgauge.io.layout import Layout
from shiftgauge.io.tables import all_batches, file_batches
from shiftgauge.rows import Block, Part

#: Approximate scores per part, and the most parts: what a pass returns grows with their number.
PART_SCORES, MAX_PARTS = 1 << 22, 256


def rows_per_part(rows: int, k: int) -> int:
    """The approximate number of rows of a part, of `rows` rows of k scores."""
    return max(1, max(PART_SCORES, -(-rows * k // MAX_PARTS)) // k)


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of a file, which must not change.

    Attributes:
        layout: the layout of the rows.
        version: the file.
        first, rows: the number of the first row in the file, and the number of rows.
    """

    layout: Layout
    version: FileVersion
    first: int
    rows: int

    @property
    def name(self) -> str:
        """The file."""
        return self.version.file

    @property
    def mark(self) -> str:
        """Identifies the data in checkpoints."""
        return f"{self.version} {self.first}"


@dataclass(frozen=True)
class TableFilePart(FilePart):
    """Consecutive rows of a file of a table.

    Attributes:
        reader: yields record batches of the file.
        groups: the row groups of these rows; None for the whole file.
    """

    reader: FileReader
    groups: range | None = None

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        layout = self.layout
        self.version.check()
        wanted = layout.columns_to_read(columns)
        numbers = [name for name in wanted if name in (*layout.scores, layout.weight)]
        texts = [name for name in wanted if name not in numbers]
        batches = self.reader(self.version, numbers, texts, self.groups, layout.batch_rows)
        return layout.blocks(file_batches(batches, self.name, self.first), columns)


@dataclass(frozen=True)
class JoinedParts:
    """Several small parts as one."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def name(self) -> str:
        """The first and the last file."""
        return f"{self.parts[0].name} to {self.parts[-1].name}"

    @property
    def mark(self) -> str:
        """Identifies the data in checkpoints."""
        return " ".join(str(getattr(part, "mark", "")) for part in self.parts)

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield their rows, one part after the other."""
        for part in self.parts:
            yield from part.read(columns)


def join_parts(parts: Iterable[Part], part_rows: int) -> list[Part]:
    """Join consecutive parts of up to `part_rows` rows, so that many small files are few parts."""
    runs: list[list[Part]] = []
    rows = 0
    for part in parts:
        if not runs or rows + part.rows > part_rows:
            runs.append([])
            rows = 0
        runs[-1].append(part)
        rows += part.rows
    return [run[0] if len(run) == 1 else JoinedParts(tuple(run)) for run in runs]


def table_parts(table: OpenTable, layout: Layout) -> list[Part]:
    """The parts of a table's files; rows of a file without a footer are counted by reading one column."""
    groups = [[_count_rows(file)] if file.groups is None else list(file.groups) for file in table.files]
    part_rows = rows_per_part(sum(map(sum, groups)), layout.k)
    parts = (
        part
        for file, rows in zip(table.files, groups, strict=True)
        for part in _parts_of_file(file, rows, layout, part_rows)
    )
    return join_parts(parts, part_rows)


def _count_rows(file: TableFile) -> int:
    return sum(batch.batch.num_rows for batch in all_batches(file, [], file.names[:1]))


def _parts_of_file(
    file: TableFile, groups: list[int], layout: Layout, part_rows: int
) -> Iterator[TableFilePart]:
    """Consecutive row groups of about `part_rows` rows."""
    if file.groups is None:
        yield TableFilePart(layout, file.version, 0, groups[0], file.read)
        return
    ends = [0, *accumulate(groups)]
    begin = 0
    for number in range(1, len(ends)):
        last = number == len(groups)
        if last or ends[number + 1] - ends[begin] > part_rows:
            rows, chosen = ends[number] - ends[begin], range(begin, number)
            yield TableFilePart(layout, file.version, ends[begin], rows, file.read, chosen)
            begin = number
