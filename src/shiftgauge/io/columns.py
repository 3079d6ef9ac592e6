"""Columns other than scores: groups, times, ids; and small files of label shares, costs and label plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError, nearest
from shiftgauge.io.arrays import read_mapping
from shiftgauge.io.options import ReadOptions
from shiftgauge.io.read import check_path, is_table, read_labels
from shiftgauge.io.streams import stream_names_in_errors
from shiftgauge.io.tables import open_table, table_columns
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
        with stream_names_in_errors():
            return table_columns(file, names)
    arrays, keys = read_mapping(file, names)
    for name in names:
        if name not in arrays:
            raise FileError(f"{path}: no key {name!r}{nearest(name, keys)} (found {', '.join(keys[:8])})")
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
    present = _names_in(path)
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
    present = _names_in(path)
    return split_bin(name, present)[0] in present


def _names_in(path: str | Path) -> Sequence[str]:
    file = check_path(path)
    if file.suffix.lower() == ".npy":
        return ()
    if not is_table(file):
        return read_mapping(file, ())[1]
    with stream_names_in_errors():
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
        raise FileError(f"{path}: found the columns {', '.join(names[:8])}; wanted class,mass")
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


def read_plan(
    path: str | Path, options: ReadOptions | None = None, classes: tuple[Hashable, ...] | None = None
) -> tuple[dict[str, list[Any]], dict[int, Any]]:
    """A label plan, and the labels that were added to it, by row number.

    Blank lines, as spreadsheets write them, are skipped; a label without a row number is refused.

    Returns:
        The columns of `row`, `stratum`, `inclusion_probability` and `error_probability` that exist, and
        row number -> label for the rows that have one.
    """
    options = options or ReadOptions()
    values = _added_labels(path, options, classes)
    columns = [name for name in PLANNED if name in _names_in(path)]
    cells = read_columns(path, ["row", *columns])
    numbers = cells["row"]
    if numbers.ndim != 1 or np.shape(values) != numbers.shape:
        raise FileError(
            f"{path}: rows and labels have the shapes {numbers.shape} and {np.shape(values)}; wanted one each"
        )
    kept = [i for i, row in enumerate(numbers.tolist()) if not validation.is_missing(row)]
    blank = (i for i, row in enumerate(numbers.tolist()) if validation.is_missing(row))
    lost = next((values[i] for i in blank if not validation.is_missing(values[i])), None)
    if lost is not None:
        raise FileError(f"{path}: a label, {lost}, has no row number; wanted both")
    rows = [_row_number(numbers[i], path) for i in kept]
    twice = next((row for row, count in Counter(rows).items() if count > 1), None)
    if twice is not None:
        raise FileError(f"{path}: row {twice} appears twice; wanted each row once")
    table: dict[str, list[Any]] = {"row": rows}
    for name in columns:
        table[name] = [_planned(cells[name][i], name, path) for i in kept]
    return table, {
        r: values[i] for r, i in zip(rows, kept, strict=True) if not validation.is_missing(values[i])
    }


#: Columns of a label plan other than the row number.
PLANNED = ("stratum", "inclusion_probability", "error_probability")


def _planned(value: Any, name: str, path: str | Path) -> float:
    try:
        return _number(value)
    except (TypeError, ValueError):
        raise FileError(
            f"{path}: {name!r} is {value!r} in one line; wanted a number, as the plan wrote it"
        ) from None


def _row_number(value: Any, path: str | Path) -> int:
    try:
        number = _number(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (number.is_integer() and 0 <= number < 2**53):
        raise FileError(
            f"{path}: 'row' must hold the row numbers that the plan wrote; one line has {value!r}"
        )
    return int(number)


def _added_labels(path: str | Path, options: ReadOptions, classes: tuple[Hashable, ...] | None) -> Any:
    """The label column of a table, or an array `labels` or `label`."""
    if is_table(check_path(path)):
        return read_labels(path, options, classes)
    key = "label" if "label" in _names_in(path) else "labels"
    return read_columns(path, [key])[key]
