"""CSV: commas, semicolons or tabs, plain or compressed; numbers where numbers are wanted, texts to the letter."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from shiftgauge.errors import FileError, Note
from shiftgauge.io.batches import TableFile
from shiftgauge.io.compressed import ending, opened_binary, opened_text
from shiftgauge.io.files import FileStamp

#: Bytes that are parsed in one go; a row must fit.
BLOCK_BYTES = 1 << 24
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: A number written with a decimal comma, as spreadsheets of half of Europe write it; and one with a point.
COMMA_NUMBER, POINT_NUMBER = (re.compile(rf"[+-]?\d+{p}\d+([eE][+-]?\d+)?") for p in (",", r"\."))
#: Lines that are looked at for the delimiter and the decimal sign.
FIRST = 1000


def open_csv(stamp: FileStamp) -> TableFile:
    """A CSV file by its header; its delimiter is the one that the header holds most of."""
    path = Path(stamp.file)
    usual = "\t" if ending(path) == ".tsv" else ","
    with opened_text(path) as file:
        delimiter, names, comma = _header(file, usual)
    notes = []
    if delimiter != usual:
        notes.append(Note(f"{path}: its columns are separated by {DELIMITERS[delimiter]}"))
    if comma:
        notes.append(Note(f"{path}: its numbers are written with a decimal comma"))
    read = partial(read_csv, tuple(names), delimiter, "," if comma else ".")
    return TableFile(stamp, tuple(names), read, notes=tuple(notes))


def _header(file: TextIO, usual: str) -> tuple[str, list[str], bool]:
    """The delimiter, the columns' names, and whether the first rows write more numbers with a comma than a point."""
    lines = list(itertools.islice(file, FIRST))
    bare = re.sub(r'"[^"]*"', "", lines[0] if lines else "")
    counts = {d: bare.count(d) for d in dict.fromkeys((usual, *DELIMITERS))}
    delimiter = max(counts, key=lambda d: counts[d])  # the usual one where several are as many
    rows = list(csv.reader(lines, delimiter=delimiter))
    cells = [cell.strip() for row in rows[1:] for cell in row] if delimiter != "," else []
    commas, points = (sum(map(bool, map(form.fullmatch, cells))) for form in (COMMA_NUMBER, POINT_NUMBER))
    return delimiter, rows[0] if rows else [], commas > points


def read_csv(
    names: tuple[str, ...],
    delimiter: str,
    point: str,
    stamp: FileStamp,
    numbers: Sequence[str],
    texts: Sequence[str],
    groups: range | None,
    batch_rows: int,
) -> Iterator[Any]:
    """Record batches of a CSV file, from its start."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    types = {**{name: pa.float64() for name in numbers}, **{name: pa.string() for name in texts}}
    path = Path(stamp.file)
    with opened_binary(path) as file:
        try:
            reader = arrow.open_csv(
                file,
                read_options=arrow.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
                parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types=types, include_columns=list(types), decimal_point=point
                ),
            )
            yield from reader
        except pa.ArrowInvalid as problem:
            raise _wrong_cell(path, names, str(problem)) or problem from None


def _wrong_cell(path: Path, names: Sequence[str], text: str) -> FileError | None:
    """Arrow counts columns and rows, the header as a row; people read names and count from 0."""
    found: Any = re.search(
        r"column #(\d+): (?:Row #(\d+): )?CSV conversion error.* value '(.*?)'$", text, re.S
    )
    if found is None:
        return None
    row = "" if found[2] is None else f", row {int(found[2]) - 2}"
    return FileError(f"{path}: column {names[int(found[1])]!r}{row} is {found[3]!r}; wanted numbers")
