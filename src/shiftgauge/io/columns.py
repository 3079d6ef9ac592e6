"""Columns beside the scores: groups, times, ids; and small files of label shares, costs and bought labels."""

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
from shiftgauge.io.form import Form
from shiftgauge.io.read import is_table, read_labels, real_path
from shiftgauge.io.stdin import said_plainly
from shiftgauge.io.tables import open_table, table_columns
from shiftgauge.storage import read_npy
from shiftgauge.times import bin_times, split_bin

Array = npt.NDArray[Any]


def read_columns(path: str | Path, names: Sequence[str]) -> dict[str, Array]:
    """Columns of a table, or keys of a mapping, in one pass: of CSV to the letter, else as stored.

    Versions `1.1` and `1.10`, codes `01` and `1` stay different.
    """
    file = real_path(path)
    if file.suffix.lower() == ".npy":
        raise FileError(f"{path}: a .npy file has no column {names[0]!r}; wanted a table, .npz or .pt")
    if is_table(file):
        with said_plainly():
            return table_columns(file, names)
    held, found = read_mapping(file, names)
    for name in names:
        if name not in held:
            raise FileError(f"{path}: no key {name!r}{nearest(name, found)} (found {', '.join(found[:8])})")
    return {name: validation.as_array(held[name], f"{path}: {name!r}") for name in names}


def read_column(path: str | Path, name: str) -> Any:
    """One column, with the numbers in it as numbers."""
    values = read_columns(path, [name])[name]
    return values if values.dtype != object else _numbers_where_all_are(values)


def read_groups(
    path: str | Path, names: Sequence[str], rows: int | None = None, zone: str | None = None
) -> dict[str, Array]:
    """Columns that say something of each row of scores, by the names asked for: `site`, or binned, `time:1d`.

    Args:
        path: the file that holds the columns.
        names: columns, each with the width of its bins behind a colon where it holds times.
        rows: how many rows of scores there are, if that is to be checked.
        zone: the time zone to count times in that have one.
    """
    held = _names_in(path)
    split = {name: split_bin(name, held) for name in names}
    found = read_columns(path, list(dict.fromkeys(column for column, _ in split.values())))
    out = {}
    for name, (column, width) in split.items():
        values = found[column]
        if values.ndim != 1 or (rows is not None and len(values) != rows):
            raise InputError(
                f"{path}: {column!r} arrived with shape {values.shape}; wanted one value per row of scores, ({rows},)"
            )
        out[name] = values if width is None else bin_times(values, width, f"{path}: {column!r}", zone)
    return out


def holds(path: str | Path, name: str) -> bool:
    """Whether a file has the column or key that is asked for, as `site` or binned, `time:1d`."""
    held = _names_in(path)
    return split_bin(name, held)[0] in held


def _names_in(path: str | Path) -> Sequence[str]:
    file = real_path(path)
    if file.suffix.lower() == ".npy":
        return ()
    if not is_table(file):
        return read_mapping(file, ())[1]
    with said_plainly():
        return open_table(file).names


def _numbers_where_all_are(values: Array) -> Array:
    """Texts of a CSV as numbers, if each is one or empty."""
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
    file = real_path(path)
    if file.suffix.lower() == ".npy":
        return validation.check_label_shares(np.array(read_npy(file)), k, classes, str(path))
    if not is_table(file):
        raise FileError(f"{path}: wanted a CSV with the columns class,mass or a 1-D .npy")
    names = open_table(file).names
    if not {"class", "mass"} <= set(names):
        raise FileError(f"{path}: found the columns {', '.join(names[:8])}; wanted class,mass")
    held = table_columns(file, ["class", "mass"])
    named = [str(v) for v in held["class"].tolist()]
    masses = [_mass(mass, name, path) for name, mass in zip(named, held["mass"].tolist(), strict=True)]
    twice = next((name for name, count in Counter(named).items() if count > 1), None)
    if twice is not None:
        raise FileError(f"{path}: class {twice!r} stands there twice")
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
    """A cell as a number, with a decimal point or, as some spreadsheets write it, a comma."""
    return float(value.replace(",", ".") if isinstance(value, str) else value)


def read_costs(path: str | Path, k: int | None = None) -> npt.NDArray[np.float64]:
    """(K, K) what each mistake costs, true classes in rows, predictions in columns: a `.npy`, or a CSV of numbers.

    Args:
        path: the file; a CSV has no header.
        k: the number of classes, where it is to be checked here.
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


def read_picks(
    path: str | Path, form: Form | None = None, classes: tuple[Hashable, ...] | None = None
) -> tuple[dict[str, list[Any]], dict[int, Any]]:
    """The rows that a plan picked, as it wrote them, and the labels that were added, by row number.

    Blank lines, as spreadsheets leave them behind, are passed over; a label without its row is refused.

    Returns:
        The columns `row`, `stratum`, `inclusion_probability` and `error_probability`, those that are there, and
        row number -> label for the rows that have one.
    """
    form = form or Form()
    values = _added_labels(path, form, classes)
    columns = [name for name in PLANNED if name in _names_in(path)]
    held = read_columns(path, ["row", *columns])
    numbers = held["row"]
    if numbers.ndim != 1 or np.shape(values) != numbers.shape:
        raise FileError(
            f"{path}: rows and labels have the shapes {numbers.shape} and {np.shape(values)}; wanted one each"
        )
    kept = [i for i, row in enumerate(numbers.tolist()) if not validation.is_missing(row)]
    blank = (i for i, row in enumerate(numbers.tolist()) if validation.is_missing(row))
    lost = next((values[i] for i in blank if not validation.is_missing(values[i])), None)
    if lost is not None:
        raise FileError(f"{path}: a label, {lost}, stands without its row number; wanted both")
    rows = [_row_number(numbers[i], path) for i in kept]
    twice = next((row for row, count in Counter(rows).items() if count > 1), None)
    if twice is not None:
        raise FileError(f"{path}: row {twice} stands there twice; wanted each row once")
    table: dict[str, list[Any]] = {"row": rows}
    for name in columns:
        table[name] = [_planned(held[name][i], name, path) for i in kept]
    return table, {
        r: values[i] for r, i in zip(rows, kept, strict=True) if not validation.is_missing(values[i])
    }


#: What a plan writes beside the row numbers.
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


def _added_labels(path: str | Path, form: Form, classes: tuple[Hashable, ...] | None) -> Any:
    """The labels of a table's column, or of an array `labels` or `label`."""
    if is_table(real_path(path)):
        return read_labels(path, form, classes)
    key = "label" if "label" in _names_in(path) else "labels"
    return read_columns(path, [key])[key]
