"""CSV: commas, semicolons or tabs, plain or compressed; numbers where numbers are wanted, texts to the letter."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from shiftgauge.errors import FileError, Note
from shiftgauge.io.blocks import Block, Tabular, guarded, numbered, unreadable
from shiftgauge.io.compressed import ending, opened_binary, opened_text

#: Bytes that are parsed in one go; a row must fit.
BLOCK_BYTES = 1 << 24
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: A number written with a decimal comma, as spreadsheets of half of Europe write it; and one with a point.
COMMA_NUMBER, POINT_NUMBER = (re.compile(rf"[+-]?\d+{p}\d+([eE][+-]?\d+)?") for p in (",", r"\."))
#: Lines that are looked at for the delimiter and the decimal sign.
FIRST = 1000


def open_csv(path: Path) -> Tabular:
    """The table of a CSV file; its delimiter is the one that its header holds most of."""
    usual = "\t" if ending(path) == ".tsv" else ","
    try:
        with opened_text(path) as file:
            delimiter, names, comma = _header(file, usual)
    except FileError:
        raise
    except Exception as problem:
        raise unreadable(path, path.suffix, problem) from None
    notes = []
    if delimiter != usual:
        notes.append(Note(f"{path}: its columns are separated by {DELIMITERS[delimiter]}"))
    if comma:
        notes.append(Note(f"{path}: its numbers are written with a decimal comma"))

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        blocks = _blocks(path, names, delimiter, "," if comma else ".", numbers, texts)
        return guarded(blocks, str(path), path.suffix)

    return Tabular(str(path), tuple(names), None, read, tuple(notes))


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


def _blocks(
    path: Path, names: list[str], delimiter: str, point: str, numbers: Sequence[str], texts: Sequence[str]
) -> Iterator[Block]:
    import pyarrow as pa
    from pyarrow import csv as arrow

    types = {**{name: pa.float64() for name in numbers}, **{name: pa.string() for name in texts}}
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
            yield from numbered(reader, str(path))
        except pa.ArrowInvalid as problem:
            raise _wrong_cell(path, names, str(problem)) or problem from None


def _wrong_cell(path: Path, names: list[str], text: str) -> FileError | None:
    """Arrow counts columns and rows, the header as a row; people read names and count from 0."""
    found: Any = re.search(
        r"column #(\d+): (?:Row #(\d+): )?CSV conversion error.* value '(.*?)'$", text, re.S
    )
    if found is None:
        return None
    row = "" if found[2] is None else f", row {int(found[2]) - 2}"
    return FileError(f"{path}: column {names[int(found[1])]!r}{row} is {found[3]!r}; wanted numbers")
