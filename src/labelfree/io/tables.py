"""Scores in tables: CSV, Parquet and Arrow files, one column per class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import FileError, nearest
from labelfree.io.form import Content, Form, refuse_misspelt


def read_table(path: Path) -> Any:
    """The file as a pyarrow table."""
    import pyarrow as pa

    try:
        if path.suffix in (".csv", ".tsv"):
            from pyarrow import csv

            delimiter = "\t" if path.suffix == ".tsv" else ","
            return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter))
        if path.suffix in (".parquet", ".pq"):
            from pyarrow import parquet

            return parquet.read_table(path)
        from pyarrow import feather

        return feather.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as problem:
        text = str(problem).strip().splitlines()[0][:160].rstrip(".")
        raise FileError(f"{path}: cannot be read as {path.suffix} ({text}); is it complete?") from None


def read_scores_table(path: Path, form: Form) -> Content:
    """Scores, labels and the rest by column; class names are what stands behind the prefix."""
    table = read_table(path)
    if table.num_rows == 0:
        raise FileError(f"{path}: has a header but no rows; is it empty by mistake?")
    names = table.column_names
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise FileError(f"{path}: the column {repeated!r} stands there twice; wanted different names")
    single = form.positive is not None or form.negative is not None
    scores, kind, classes = _two_classes(table, form, path) if single else _per_class(table, form, path)
    if form.label not in names:
        refuse_misspelt(names, [form.label], path, "column")
    return Content(
        scores=scores,
        kind=kind,
        classes=classes,
        labels=texts(table, form.label) if form.label in names else None,
        weights=None if form.weight is None else _numbers(table, _column(table, form.weight, path), path),
        predictions=None if form.prediction is None else texts(table, _column(table, form.prediction, path)),
    )


def _per_class(table: Any, form: Form, path: Path) -> tuple[npt.NDArray[Any], str, tuple[str, ...]]:
    prefixes = {"logits": form.logit_prefix, "probs": form.prob_prefix}
    special = {form.label, form.weight, form.prediction}
    columns = {
        kind: [name for name in table.column_names if name.startswith(prefix) and name not in special]
        for kind, prefix in prefixes.items()
    }
    held = [kind for kind, found in columns.items() if found]
    if not held:
        shown = ", ".join(table.column_names[:8]) + (", ..." if len(table.column_names) > 8 else "")
        hint = (
            "; for two classes with one column of probabilities pass --positive NAME --negative NAME"
            if "prob" in table.column_names
            else "; name the prefix with --logit-prefix or --prob-prefix"
        )
        raise FileError(
            f"{path}: no columns begin with {form.logit_prefix!r} or {form.prob_prefix!r} (found {shown}){hint}"
        )
    kind = form.choose(held, path)
    chosen = columns[kind]
    scores = np.column_stack([_numbers(table, name, path) for name in chosen])
    return scores, kind, tuple(name[len(prefixes[kind]) :] for name in chosen)


def _two_classes(table: Any, form: Form, path: Path) -> tuple[npt.NDArray[Any], str, tuple[str, ...]]:
    if form.positive is None or form.negative is None:
        raise FileError(f"{path}: with one column of probabilities both --positive and --negative are needed")
    if form.kind == "logits":
        raise FileError(
            f"{path}: --positive and --negative go with one column 'prob' of probabilities, not --logits"
        )
    p = _numbers(table, _column(table, "prob", path), path)
    outside = (p < 0) | (p > 1)
    if outside.any():
        row = int(np.argmax(outside))
        raise FileError(f"{path}: column 'prob', row {row} is {p[row]:g}; wanted probabilities from 0 to 1")
    return np.column_stack([1.0 - p, p]), "probs", (form.negative, form.positive)


def _column(table: Any, name: str, path: Path) -> str:
    if name not in table.column_names:
        shown = ", ".join(table.column_names[:8]) + (", ..." if len(table.column_names) > 8 else "")
        raise FileError(f"{path}: no column {name!r}{nearest(name, table.column_names)} (found {shown})")
    return name


def _numbers(table: Any, name: str, path: Path) -> npt.NDArray[Any]:
    import pyarrow as pa

    column = table.column(name)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        bad = next((v for v in column.to_pylist() if not isinstance(v, int | float)), None)
        raise FileError(f"{path}: column {name!r} holds {column.type} such as {bad!r}; wanted numbers")
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise FileError(f"{path}: column {name!r}, row {row} is empty; wanted a number in every row")
    return np.asarray(column.to_numpy())


def texts(table: Any, name: str) -> npt.NDArray[np.object_]:
    """Class names as text; whole numbers that were stored as decimals lose their `.0`."""
    column = table.column(name).to_pylist()
    return np.array(
        [
            str(int(v))
            if isinstance(v, float) and v == v and v.is_integer()
            else None
            if v is None
            else str(v)
            for v in column
        ],
        dtype=object,
    )
