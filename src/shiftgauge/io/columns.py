"""Columns other than scores: groups, times, ids; and small files of label shares, costs and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError, Note, format_names, nearest
from shiftgauge.io.arrays import read_keys, read_mapping
from shiftgauge.io.options import ReadOptions
from shiftgauge.io.read import check_path, is_table
from shiftgauge.io.tables import open_table, table_columns
from shiftgauge.io.values import parse_labels
from shiftgauge.rows import Block, RowBuffer, Rows, run
from shiftgauge.storage import read_npy
from shiftgauge.times import bin_times, split_bin

Array = npt.NDArray[Any]


def read_columns(path: str | Path, names: Sequence[str]) -> dict[str, Array]:
    """Columns of a table, or keys of a mapping, in one pass: those of a CSV as text, others as stored.

    So versions `1.1` and `1.10`, codes `01` and `1` stay different.
    """
    file = check_path(path)
    if file.suffix.lower() == ".npy":
        raise FileError(f"{path}: a .npy file has no column {names[0]!r}; wanted a table, .npz or .pt")
    if is_table(file):
        return table_columns(file, names)
    arrays = read_keys(file, names, path)
    return {name: validation.as_array(arrays[name], f"{path}: {name!r}") for name in names}


def read_column(path: str | Path, name: str) -> Any:
    """One column; as numbers if all its values are numbers."""
    values = read_columns(path, [name])[name]
    return values if values.dtype != object else _parse_numbers(values)


def read_groups(
    path: str | Path, names: Sequence[str], rows: int | None = None, zone: str | None = None
) -> dict[str, Array]:
    """Columns with one value per row of scores, by their names: `site`, or times in bins, `time:1d`.

    Args:
        path: the file with the columns.
        names: columns; of a column of times also the width of its bins, after a colon.
        rows: the number of rows of scores, to be checked.
        zone: the time zone of bins for times that have one.
    """
    present = column_names(path)
    split = {name: split_bin(name, present) for name in names}
    columns = read_columns(path, list(dict.fromkeys(column for column, _ in split.values())))
    out = {}
    for name, (column, width) in split.items():
        values = columns[column]
        if values.ndim != 1 or (rows is not None and len(values) != rows):
            raise InputError(
                f"{path}: {column!r} arrived with shape {values.shape}; wanted one value per row of scores, ({rows},)"
            )
        out[name] = values if width is None else bin_times(values, width, f"{path}: {column!r}", zone)
    return out


def has_column(path: str | Path, name: str) -> bool:
    """Whether a file has a column or key, given as `site` or with bins, `time:1d`."""
    present = column_names(path)
    return split_bin(name, present)[0] in present


def column_names(path: str | Path) -> Sequence[str]:
    """The names of a table's columns, or the keys of a mapping; none for a `.npy` file."""
    file = check_path(path)
    if file.suffix.lower() == ".npy":
        return ()
    if not is_table(file):
        return read_mapping(file, ())[1]
    return open_table(file).names


def _parse_numbers(values: Array) -> Array:
    """Texts of a CSV as numbers, if each is a number or empty."""
    texts = set(values.tolist())
    if not all(isinstance(v, str) for v in texts):
        return values
    for number in (int, float):
        try:
            read = {text: number(text) if text.strip() else None for text in texts}
        except ValueError:
            continue
        return np.array([read[v] for v in values.tolist()], dtype=object)
    return values


def read_marginal(path: str | Path, classes: tuple[Hashable, ...] | None, k: int) -> npt.NDArray[np.float64]:
    """(K,) label masses: a table with columns `class` and `mass`, or a 1-D `.npy` in column order."""
    file = check_path(path)
    if file.suffix.lower() == ".npy":
        return validation.check_label_shares(np.array(read_npy(file)), k, classes, str(path))
    if not is_table(file):
        raise FileError(f"{path}: wanted a CSV with the columns class,mass or a 1-D .npy")
    names = open_table(file).names
    if not {"class", "mass"} <= set(names):
        raise FileError(f"{path}: found the columns {format_names(names)}; wanted class,mass")
    columns = table_columns(file, ["class", "mass"])
    named = [str(v) for v in columns["class"].tolist()]
    masses = [_mass(mass, name, path) for name, mass in zip(named, columns["mass"].tolist(), strict=True)]
    twice = next((name for name, count in Counter(named).items() if count > 1), None)
    if twice is not None:
        raise FileError(f"{path}: class {twice!r} appears twice")
    known: dict[str, Hashable] = {str(c): c for c in (classes or ())}
    if classes is None:
        known = {name: int(name) for name in named if name.isdigit()}
    given = {known.get(name, name): mass for name, mass in zip(named, masses, strict=True)}
    return validation.check_label_shares(given, k, classes, str(path))


def _mass(value: Any, name: str, path: str | Path) -> float:
    try:
        return _number(value)
    except (TypeError, ValueError):
        raise FileError(f"{path}: the mass of class {name!r} is {value!r}; wanted a number") from None


def _number(value: Any) -> float:
    """A cell as a number, with a decimal point or a decimal comma."""
    return float(value.replace(",", ".") if isinstance(value, str) else value)


def read_costs(path: str | Path, k: int | None = None) -> npt.NDArray[np.float64]:
    """(K, K) the cost of each mistake, true classes in rows, predictions in columns: a `.npy`, or a CSV of numbers.

    Args:
        path: the file; a CSV has no header.
        k: the number of classes, to be checked.
    """
    file = Path(path)
    try:
        costs = (
            np.array(read_npy(file))
            if file.suffix.lower() == ".npy"
            else np.loadtxt(file, delimiter=",", ndmin=2)
        )
    except FileError:
        raise
    except (OSError, ValueError) as problem:
        why = str(getattr(problem, "strerror", None) or problem).splitlines()[0].rstrip(".")
        raise FileError(
            f"{path}: cannot be read as costs ({why}); wanted K x K numbers and no header"
        ) from None
    if costs.dtype.kind not in "fiub" or costs.ndim != 2 or costs.shape[0] != costs.shape[1]:
        raise FileError(f"{path}: holds {costs.dtype.name} of shape {costs.shape}; wanted K x K numbers")
    if k is not None and len(costs) != k:
        raise FileError(f"{path}: {len(costs)} x {len(costs)} costs for {k} classes; wanted {k} x {k}")
    return costs.astype(np.float64)


def read_target_labels(
    path: str | Path,
    options: ReadOptions | None = None,
    classes: tuple[Hashable, ...] | None = None,
    ids: bool = False,
    *,
    may_be_empty: bool = False,
) -> tuple[dict[Any, Any], tuple[str, ...]]:
    """Labels of some target rows: a file with the columns or keys `label`, and `id` or `row` (counted from 0).

    Lines without a label are skipped, so a label plan that is filled in line by line can be read at any time.

    Args:
        path: a table, or a mapping such as `.npz`.
        options: how to read it; `label` and `id` are its columns, if the file has columns of these names.
        classes: the target's class names.
        ids: whether the target's rows have ids; then the labels are found by `id`, else by `row`.
        may_be_empty: whether the file may have no label yet.

    Returns:
        Row number or id -> label, and notes.
    """
    options = options or ReadOptions()
    names = column_names(path)
    key = _key_column(path, names, options, ids)
    column = next((name for name in (options.label, "label", "labels") if name in names), None)
    if column is None:
        raise FileError(f"{path}: no column 'label'{nearest('label', names)} (found {format_names(names)})")
    columns = read_columns(path, [key, column])
    keys, values = columns[key], columns[column]
    if values.ndim == 1:
        values = parse_labels(values, classes)
    if keys.ndim != 1 or np.shape(values) != keys.shape:
        raise FileError(
            f"{path}: {key!r} and labels have the shapes {keys.shape} and {np.shape(values)}; wanted one label per row"
        )
    labels: dict[Any, Any] = {}
    known = classes or ()
    repeated = 0
    for name, value in zip(keys.tolist(), np.asarray(values).tolist(), strict=True):
        if validation.is_missing(value):
            continue
        if validation.is_missing(name):
            raise FileError(f"{path}: the label {value!r} has no {key}; wanted both")
        if value not in known and isinstance(value, str) and value.startswith("'") and value[1:] in known:
            value = value[1:]  # as a CSV of ours has a name that a spreadsheet would read as a formula
        name = name if ids else _row_number(name, path)
        if name in labels and labels[name] != value:
            raise FileError(
                f"{path}: {key} {name!r} has two labels, {labels[name]!r} and {value!r}; wanted one"
            )
        repeated += name in labels
        labels[name] = value
    if not labels and not may_be_empty:
        raise FileError(f"{path}: no line has a label; wanted some, or leave the file out")
    lines = "1 line repeats" if repeated == 1 else f"{repeated:,} lines repeat"
    return labels, (Note(f"{path}: {lines} a label; each counts once"),) if repeated else ()


def _key_column(path: str | Path, names: Sequence[str], options: ReadOptions, ids: bool) -> str:
    """The column by which labels are found."""
    by_id = next((name for name in ("id", options.id) if name in names), None)
    if ids and by_id is not None:
        return by_id
    if not ids and "row" in names:
        return "row"
    if ids:
        raise FileError(f"{path}: no column 'id', by which TARGET's rows are known (--id {options.id})")
    if by_id is not None:
        raise FileError(
            f"{path}: has ids, and TARGET was read without: name its column of ids, such as --id id"
        )
    found = format_names(names) if names else "no columns"
    raise FileError(f"{path}: found {found}; wanted 'id' or 'row' (counted from 0), and 'label'")


def _row_number(value: Any, path: str | Path) -> int:
    try:
        number = _number(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (number.is_integer() and 0 <= number < 2**53):
        raise FileError(f"{path}: 'row' is {value!r} in one line; wanted row numbers, counted from 0")
    return int(number)


def label_column(rows: Rows) -> dict[Any, Any]:
    """The labels that rows read in passes have: row number, or id where rows have ids -> label."""
    step = _LabelledRows(rows.label, rows.has_ids)
    keys, values = run(rows.fold(step, columns=(rows.label,))).joined()
    return dict(zip(keys.tolist(), parse_labels(values, rows.classes).tolist(), strict=True))


@dataclass(frozen=True)
class _LabelledRows:
    """A step that returns the keys and labels of a block's labelled rows."""

    label: str
    ids: bool

    def __call__(self, block: Block) -> RowBuffer:
        values = np.asarray(block.columns[self.label])
        rows = np.flatnonzero(~validation.missing_rows(values, self.label))
        keys = block.ids if self.ids and block.ids is not None else block.numbers
        return RowBuffer.of(keys[rows], values[rows].astype(object))
