"""Scores in tables: CSV, Parquet and Arrow files, one column per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import FileError, nearest
from labelfree.io.form import Content, Form, refuse_misspelt
from labelfree.io.parquet import is_parquet, parquet_names, parquet_scores, parquet_table


def read_table(path: Path, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> Any:
    """The file as a pyarrow table; of Parquet, only the named columns are read.

    The columns named in `text` of a CSV are taken to the letter: `01`, `true` and `NA` may be class names.
    """
    import pyarrow as pa

    try:
        if path.suffix.lower() in (".csv", ".tsv"):
            from pyarrow import csv

            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
            return csv.read_csv(
                path,
                parse_options=csv.ParseOptions(delimiter=delimiter),
                convert_options=csv.ConvertOptions(column_types={name: pa.string() for name in text}),
            )
        if is_parquet(path):
            return parquet_table(path, columns)
        return _read_arrow(path)
    except (pa.ArrowException, OSError, ValueError) as problem:
        text = str(problem).strip().splitlines()[0][:160].rstrip(".")
        hint = "save it as UTF-8" if "UTF8" in text else "is it complete?"
        raise FileError(f"{path}: cannot be read as {path.suffix} ({text}); {hint}") from None


def read_scores_table(path: Path, form: Form) -> Content:
    """Scores, labels and the rest by column; class names are what stands behind the prefix."""
    if is_parquet(path):
        return _read_parquet(path, form)
    table = read_table(path, text=[name for name in (form.label, form.prediction) if name is not None])
    _check_header(table.column_names, table.num_rows, path)
    if form.positive is not None or form.negative is not None:
        scores, kind, classes = _two_classes(table, form, path)
    else:
        kind, chosen, classes = score_columns(table.column_names, form, path)
        scores = np.column_stack([numbers(table, name, path) for name in chosen])
    return _content(table, table.column_names, form, path, scores, kind, classes)


def _read_parquet(path: Path, form: Form) -> Content:
    """The same, batch by batch, touching only the columns that are needed."""
    names, n = parquet_names(path)
    _check_header(names, n, path)
    others = [
        name for name in (form.label, form.weight, form.prediction) if name is not None and name in names
    ]
    if form.positive is not None or form.negative is not None:
        table = read_table(path, [*others, *(["prob"] if "prob" in names else [])])
        scores, kind, classes = _two_classes(table, form, path)
    else:
        table = read_table(path, others) if others else None
        kind, chosen, classes = score_columns(names, form, path)
        scores = parquet_scores(path, chosen, n, numbers)
    return _content(table, names, form, path, scores, kind, classes)


def _check_header(names: Sequence[str], rows: int, path: Path) -> None:
    if rows == 0:
        raise FileError(f"{path}: has a header but no rows; is it empty by mistake?")
    if len(names) == 1 and ";" in names[0]:
        raise FileError(f"{path}: its columns are separated by semicolons; wanted commas, or tabs in a .tsv")
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise FileError(f"{path}: the column {repeated!r} stands there twice; wanted different names")


def _content(
    table: Any,
    names: Sequence[str],
    form: Form,
    path: Path,
    scores: npt.NDArray[Any],
    kind: str,
    classes: tuple[str, ...],
) -> Content:
    if form.label not in names and form.label == Form.label:  # a name that was asked for is not misspelt
        refuse_misspelt(names, [form.label], path, "column", "--label-column")
    for name in (form.weight, form.prediction):
        if name is not None:
            _known(name, names, path)
    return Content(
        scores=scores,
        kind=kind,
        classes=classes,
        columns=tuple(names),
        labels=texts(table, form.label, classes) if form.label in names else None,
        weights=None if form.weight is None else numbers(table, form.weight, path),
        predictions=None if form.prediction is None else texts(table, form.prediction, classes),
    )


def score_columns(names: Sequence[str], form: Form, path: object) -> tuple[str, list[str], tuple[str, ...]]:
    """Which columns hold the scores: logits or probabilities, the columns, and their classes."""
    prefixes = {"logits": form.logit_prefix, "probs": form.prob_prefix}
    special = {form.label, form.weight, form.prediction}
    columns = {
        kind: [name for name in names if name.startswith(prefix) and name not in special]
        for kind, prefix in prefixes.items()
    }
    held = [kind for kind, found in columns.items() if found]
    if not held:
        hint = (
            "; for two classes with one column of probabilities pass --positive NAME --negative NAME"
            if "prob" in names
            else "; name the prefix with --logit-prefix or --prob-prefix"
        )
        raise FileError(
            f"{path}: no columns begin with {form.logit_prefix!r} or {form.prob_prefix!r} "
            f"(found {shown(names)}){hint}"
        )
    kind = form.choose(held, path)
    chosen = columns[kind]
    return kind, chosen, tuple(name[len(prefixes[kind]) :] for name in chosen)


def _two_classes(table: Any, form: Form, path: Path) -> tuple[npt.NDArray[Any], str, tuple[str, ...]]:
    if form.positive is None or form.negative is None:
        raise FileError(f"{path}: with one column of probabilities both --positive and --negative are needed")
    if form.kind == "logits":
        raise FileError(
            f"{path}: --positive and --negative go with one column 'prob' of probabilities, not --logits"
        )
    p = numbers(table, column_named(table, "prob", path), path)
    outside = (p < 0) | (p > 1)
    if outside.any():
        row = int(np.argmax(outside))
        raise FileError(f"{path}: column 'prob', row {row} is {p[row]:g}; wanted probabilities from 0 to 1")
    return np.column_stack([1.0 - p, p]), "probs", (form.negative, form.positive)


def column_named(table: Any, name: str, path: object) -> str:
    """The name itself, if there is such a column."""
    return _known(name, table.column_names, path)


def _known(name: str, names: Sequence[str], path: object) -> str:
    if name not in names:
        raise FileError(f"{path}: no column {name!r}{nearest(name, names)} (found {shown(names)})")
    return name


def shown(names: Sequence[str]) -> str:
    """The names in a message: the first of them, if there are many."""
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def numbers(table: Any, name: str, path: object, first: int = 0) -> npt.NDArray[Any]:
    """A column of numbers without gaps; rows in messages count from `first`."""
    import pyarrow as pa

    column = table.column(name)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        bad = next((v for v in column.to_pylist() if not isinstance(v, int | float)), None)
        raise FileError(f"{path}: column {name!r} holds {column.type} such as {bad!r}; wanted numbers")
    if column.null_count:
        row = first + column.is_null().to_pylist().index(True)
        raise FileError(f"{path}: column {name!r}, row {row} is empty or NaN; wanted a number in every row")
    return np.asarray(column.to_numpy())


def stored(table: Any, name: str) -> npt.NDArray[np.object_]:
    """A column's values as they are stored, None where empty."""
    values, codes = _coded(table, name)
    return np.asarray(np.array(values, dtype=object)[codes])


def texts(table: Any, name: str, classes: Collection[Any] = ()) -> npt.NDArray[np.object_]:
    """Class names as text, in the spelling of `classes` where a number or a truth value has several."""
    values, codes = _coded(table, name)
    known = {str(c) for c in classes}
    return np.asarray(np.array([_text(v, known) for v in values], dtype=object)[codes])


def _coded(table: Any, name: str) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """A column's distinct values, with None at the end, and (n,) which of them each row holds."""
    import pyarrow as pa

    column = table.column(name)
    try:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        coded = coded.unify_dictionaries()
    except pa.ArrowException:  # nested types have no dictionary
        values = column.to_pylist()
        return [*values, None], np.arange(len(values))
    values = coded.chunk(0).dictionary.to_pylist() if coded.num_chunks else []
    parts = [np.asarray(c.indices.fill_null(len(values)), dtype=np.intp) for c in coded.chunks]
    return [*values, None], np.concatenate(parts) if parts else np.zeros(0, np.intp)


def _text(value: Any, known: Collection[str]) -> str | None:
    if value is None:
        return None
    spellings = [str(value)]
    if isinstance(value, float) and value == value and value.is_integer():
        spellings.insert(0, str(int(value)))
    if isinstance(value, bool):
        spellings += [str(value).lower(), str(int(value))]
    return next((text for text in spellings if text in known), spellings[0])


def _read_arrow(path: Path) -> Any:
    """An Arrow file in either of its two forms: the file form (Feather) or the stream form."""
    import pyarrow as pa
    from pyarrow import feather, ipc

    try:
        return feather.read_table(path)
    except pa.ArrowInvalid:
        with path.open("rb") as file, ipc.open_stream(file) as stream:
            return stream.read_all()
