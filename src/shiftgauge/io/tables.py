"""Tables on disk: CSV, JSON lines, Parquet and Arrow files, one column per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from shiftgauge.errors import FileError
from shiftgauge.io.arrow import open_arrow
from shiftgauge.io.batches import BATCH_ROWS, Table, TableBatch, TableFile, guarded, located, unreadable
from shiftgauge.io.delimited import open_csv
from shiftgauge.io.files import FileStamp, files_behind, form_of
from shiftgauge.io.form import Content, Form
from shiftgauge.io.jsonlines import open_jsonl
from shiftgauge.io.layout import Layout, both_columns
from shiftgauge.io.parquet import open_parquet
from shiftgauge.io.values import collect_columns, known, labels_in
from shiftgauge.rows import ordered_map

OPENERS: dict[str, Callable[[FileStamp], TableFile]] = {
    ".csv": open_csv,
    ".tsv": open_csv,
    ".jsonl": open_jsonl,
    ".ndjson": open_jsonl,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
}
#: What people call the column of the truth, likeliest first.
LABEL_NAMES = (
    *("label", "labels", "target", "y_true", "truth", "y", "true_label", "ground_truth", "class", "outcome"),
    *("gold", "answer", "actual", "true_class", "category"),
)


def open_table(path: Path) -> Table:
    """The table behind a path: a file, or a folder or a glob of files; only headers and footers are read."""
    files = tuple(ordered_map(_open_file, files_behind(path)))
    names, more = same_columns([file.stamp.file for file in files], [file.names for file in files])
    counts = [file.groups for file in files]
    rows = sum(map(sum, filter(None, counts))) if None not in counts else None
    if rows == 0:
        raise no_rows(path)

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[TableBatch]:
        for file in files:
            yield from file_batches(file, numbers, texts)

    return Table(str(path), names, rows, read, files, tuple(n for f in files for n in f.notes), more)


def _open_file(path: Path) -> TableFile:
    stamp = FileStamp.of(path)
    if stamp.size == 0:
        raise FileError(f"{path}: is empty")
    try:
        file = OPENERS[form_of(path)](stamp)
    except FileError:
        raise
    except Exception as problem:  # Arrow, zlib and the operating system each have their own
        raise unreadable(path, form_name(str(path)), problem) from None
    refuse_repeated(file.names, path)
    return file


def file_batches(
    file: TableFile,
    numbers: Sequence[str],
    texts: Sequence[str],
    groups: range | None = None,
    first: int = 0,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[TableBatch]:
    """The batches of a file, or of some of its row groups, of which `first` is the first row."""
    name = file.stamp.file
    batches = file.read(file.stamp, numbers, texts, groups, batch_rows)
    return guarded(located(batches, name, first), name, form_name(name))


def form_name(file: str) -> str:
    """What a file is called in messages about its form."""
    form = form_of(Path(file))
    return form if form in (".jsonl", ".parquet") else Path(file).suffix


def no_rows(path: object) -> FileError:
    """The refusal of a table without rows."""
    return FileError(f"{path}: has a header but no rows; is it empty by mistake?")


def same_columns(
    files: Sequence[str], columns: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns of the first file, which all must have, and those that only later ones have, with the first."""
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


def refuse_repeated(names: Sequence[str], path: object) -> None:
    """Refuse a table of which two columns have the same name."""
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise FileError(f"{path}: the column {repeated!r} stands there twice; wanted different names")


def table_columns(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """(n,) columns of a table as objects: of CSV to the letter, of other forms as stored; None where empty."""
    table = open_table(path)
    return collect_columns(table, [], [known(name, table.names, path) for name in dict.fromkeys(names)])[2]


def read_scores_table(table: Table, layout: Layout) -> Content:
    """All rows of a table in memory."""
    texts = [n for n in dict.fromkeys((layout.label, layout.prediction, layout.id)) if n is not None]
    scores, weights, others = collect_columns(table, layout.scores, texts, layout.weight)
    if not len(scores):
        raise no_rows(table.where)
    classes = layout.classes
    labels, decisions = (
        None if name is None else labels_in(others[name], classes)
        for name in (layout.label, layout.prediction)
    )
    return Content(
        scores=both_columns(scores, table.where) if len(layout.scores) < layout.k else scores,
        kind=layout.kind,
        classes=classes,
        columns=table.names,
        labels=labels,
        weights=weights,
        predictions=decisions,
        ids=None if layout.id is None else others[layout.id],
        likely=None if labels is not None else _likely_label(table, layout),
        notes=table.notes,
    )


def _likely_label(table: Table, layout: Layout) -> str | None:
    """The column that probably holds the labels: by its name, or because class names stand in it."""
    others = [name for name in table.names if name not in layout.scores and name != Form.prediction]
    for usual in LABEL_NAMES:
        found = next((name for name in others if name.lower() == usual), None)
        if found is not None:
            return found
    first = next(iter(table.read([], others)), None)
    if first is None:
        return None
    for name in others:
        held = {str(v) for v in first.batch.column(name)[:1000].to_pylist() if v is not None and v != ""}
        if held and held <= set(layout.classes or ()):
            return name
    return None
