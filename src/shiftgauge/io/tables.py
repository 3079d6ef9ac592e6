"""Tables on disk: CSV, JSON lines, Parquet and Arrow files, one column per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from shiftgauge.errors import FileError
from shiftgauge.io.arrow import open_arrow
from shiftgauge.io.batches import (
    BATCH_ROWS,
    OpenTable,
    TableBatch,
    TableFile,
    name_errors,
    number_rows,
    read_error,
)
from shiftgauge.io.delimited import open_csv
from shiftgauge.io.files import FileVersion, format_of, list_files
from shiftgauge.io.jsonlines import open_jsonl
from shiftgauge.io.layout import Layout, binary_probabilities
from shiftgauge.io.options import Content, ReadOptions
from shiftgauge.io.parquet import open_parquet
from shiftgauge.io.values import check_column, collect_columns, parse_labels
from shiftgauge.rows import ordered_map

OPENERS: dict[str, Callable[[FileVersion], TableFile]] = {
    ".csv": open_csv,
    ".tsv": open_csv,
    ".jsonl": open_jsonl,
    ".ndjson": open_jsonl,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
}
#: Common names of the label column, the most common first.
LABEL_NAMES = (
    *("label", "labels", "target", "y_true", "truth", "y", "true_label", "ground_truth", "class", "outcome"),
    *("gold", "answer", "actual", "true_class", "category"),
)


def open_table(path: Path) -> OpenTable:
    """Open the table of a path: a file, or a folder or a glob of files; only headers and footers are read."""
    files = tuple(ordered_map(_open_file, list_files(path)))
    names, more = check_same_columns([file.version.file for file in files], [file.names for file in files])
    counts = [file.groups for file in files]
    rows = sum(map(sum, filter(None, counts))) if None not in counts else None
    if rows == 0:
        raise no_rows_error(path)

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[TableBatch]:
        for file in files:
            yield from all_batches(file, numbers, texts)

    return OpenTable(str(path), names, rows, read, files, tuple(n for f in files for n in f.notes), more)


def _open_file(path: Path) -> TableFile:
    version = FileVersion.of(path)
    if version.size == 0:
        raise FileError(f"{path}: is empty")
    try:
        file = OPENERS[format_of(path)](version)
    except FileError:
        raise
    except Exception as problem:  # Arrow, zlib and the operating system raise different types
        raise read_error(path, format_name(str(path)), problem) from None
    check_distinct_names(file.names, path)
    return file


def all_batches(file: TableFile, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[TableBatch]:
    """All batches of a file."""
    return file_batches(file.read(file.version, numbers, texts, None, BATCH_ROWS), file.version.file)


def file_batches(batches: Iterator[Any], name: str, first: int = 0) -> Iterator[TableBatch]:
    """Record batches of a file with the numbers of their first rows; errors name the file."""
    return name_errors(number_rows(batches, name, first), name, format_name(name))


def format_name(file: str) -> str:
    """The format of a file in messages."""
    file_format = format_of(Path(file))
    return file_format if file_format in (".jsonl", ".parquet") else Path(file).suffix


def no_rows_error(path: object) -> FileError:
    """The error for a table without rows."""
    return FileError(f"{path}: has a header but no rows; is it empty by mistake?")


def check_same_columns(
    files: Sequence[str], columns: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns of the first file, which all must have; and each other column with the first file that has it."""
    names = columns[0]
    more: dict[str, str] = {}
    for file, here in zip(files, columns, strict=True):
        missing = next((name for name in names if name not in here), None)
        if missing is not None:
            raise FileError(
                f"{file}: no column {missing!r}, which the files before it have; wanted the same columns"
            )
        more = {**{name: file for name in here if name not in names}, **more}
    return names, more


def check_distinct_names(names: Sequence[str], path: object) -> None:
    """Refuse a table with two columns of the same name."""
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise FileError(f"{path}: the column {repeated!r} appears twice; wanted different names")


def table_columns(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """(n,) columns of a table as objects: those of a CSV as text, others as stored; None if empty."""
    table = open_table(path)
    return collect_columns(
        table, [], [check_column(name, table.names, path) for name in dict.fromkeys(names)]
    )[2]


def read_scores_table(table: OpenTable, layout: Layout) -> Content:
    """All rows of a table in memory."""
    texts = [n for n in dict.fromkeys((layout.label, layout.prediction, layout.id)) if n is not None]
    scores, weights, others = collect_columns(table, layout.scores, texts, layout.weight)
    if not len(scores):
        raise no_rows_error(table.where)
    classes = layout.classes
    labels, predictions = (
        None if name is None else parse_labels(others[name], classes)
        for name in (layout.label, layout.prediction)
    )
    return Content(
        scores=binary_probabilities(scores, table.where) if len(layout.scores) < layout.k else scores,
        kind=layout.kind,
        classes=classes,
        columns=table.names,
        labels=labels,
        weights=weights,
        predictions=predictions,
        ids=None if layout.id is None else others[layout.id],
        notes=table.notes,
    )


def likely_label(table: OpenTable, layout: Layout) -> str | None:
    """The column that probably holds the labels: by its name, or because its values are class names."""
    others = [name for name in table.names if name not in layout.scores and name != ReadOptions.prediction]
    for usual in LABEL_NAMES:
        match = next((name for name in others if name.lower() == usual), None)
        if match is not None:
            return match
    first = next(iter(table.read([], others)), None)
    if first is None:
        return None
    for name in others:
        values = {str(v) for v in first.batch.column(name)[:1000].to_pylist() if v is not None and v != ""}
        if values and values <= set(layout.classes or ()):
            return name
    return None
