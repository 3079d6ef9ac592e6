"""CSV with commas, semicolons or tabs, plain or compressed; score columns as numbers, all others as text."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError, Note, with_stream_names
from shiftgauge.io.batches import TableFile
from shiftgauge.io.files import FileVersion, format_suffix, open_binary, open_text

#: Bytes that are parsed at a time; a row must fit.
BLOCK_BYTES = 1 << 24
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
#: Rows that decide between a decimal comma and a decimal point.
FIRST_ROWS = 100


def open_csv(version: FileVersion) -> TableFile:
    """A CSV file by its first rows; the delimiter is the one that is most frequent in the header.

    Spreadsheets in many countries write semicolons between columns and a comma in numbers. So a comma is the decimal
    sign if another character separates the columns and the first rows have more numbers with a comma than with a point.
    """
    path = Path(version.file)
    usual = "\t" if format_suffix(path) == ".tsv" else ","
    with open_text(path) as file:
        header = next((line for line in file if line.strip("\r\n")), "")
        if not header:
            raise FileError(f"{path}: is empty")
        unquoted = re.sub(r'"[^"]*"', "", header)
        # max returns the usual delimiter if several are equally frequent
        delimiter = max(dict.fromkeys((usual, *DELIMITERS)), key=unquoted.count)
        lines = csv.reader(itertools.chain([header], file), delimiter=delimiter)
        names = next(lines, [])
        rows = list(itertools.islice(lines, FIRST_ROWS))
    cells = [cell for row in rows for cell in row]
    comma = delimiter != "," and _count_numbers(cells, ",") > _count_numbers(cells, ".")
    texts = []
    if delimiter != usual:
        texts.append(f"its columns are separated by {DELIMITERS[delimiter]}")
    if comma:
        texts.append("its numbers are written with a decimal comma")
    notes = tuple(Note(with_stream_names(f"{path}: {text}")) for text in texts)
    read = partial(read_csv, tuple(names), delimiter, "," if comma else ".")
    return TableFile(version, tuple(names), read, groups=None if rows else (), notes=notes)


def _count_numbers(cells: Sequence[str], point: str) -> int:
    number = re.compile(rf"\s*[+-]?\d+[{point}]\d+([eE][+-]?\d+)?\s*")
    return sum(number.fullmatch(cell) is not None for cell in cells)


def read_csv(
    names: tuple[str, ...],
    delimiter: str,
    decimal_point: str,
    version: FileVersion,
    numbers: Sequence[str],
    texts: Sequence[str],
    *_: Any,
) -> Iterator[Any]:
    """Record batches of a CSV file, from its start."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    types = {**{name: pa.float64() for name in numbers}, **{name: pa.string() for name in texts}}
    path = Path(version.file)
    with open_binary(path) as file:
        try:
            yield from arrow.open_csv(
                file,
                read_options=arrow.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
                parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types=types, include_columns=list(types), decimal_point=decimal_point
                ),
            )
        except pa.ArrowInvalid as problem:
            raise _cell_error(path, names, str(problem)) or problem from None


def _cell_error(path: Path, names: Sequence[str], text: str) -> FileError | None:
    """Arrow's message with the column's name and the row's number, counted from 0 after the header."""
    length: Any = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
    if length is not None:
        number, wanted, found = int(length[1]) - 2, int(length[2]), int(length[3])
        hint = "is it complete?" if found < wanted else "are there decimal commas, or commas inside texts?"
        return FileError(f"{path}: row {number} has {found} values for {wanted} columns; {hint}")
    match: Any = re.search(
        r"column #(\d+): (?:Row #(\d+): )?CSV conversion error.* value '(.*?)'$", text, re.S
    )
    if match is None:
        return None
    row = "" if match[2] is None else f", row {int(match[2]) - 2}"
    return FileError(f"{path}: column {names[int(match[1])]!r}{row} is {match[3]!r}; wanted numbers")
