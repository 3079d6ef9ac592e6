"""From files to `Source`, `Target`, labels and marginals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.errors import FileError, InputError, nearest
from labelfree.io.arrays import read_mapping, read_npy, read_scores_mapping, read_scores_npy
from labelfree.io.form import Content, Form
from labelfree.io.parquet import is_glob, is_parquet, parquet_files, parquet_names
from labelfree.io.tables import column_named, read_scores_table, read_table, shown, stored, texts
from labelfree.types import Source, Target

READERS: dict[str, Callable[[Path, Form], Content]] = {
    ".npz": read_scores_mapping,
    ".npy": read_scores_npy,
    ".pt": read_scores_mapping,
    ".pth": read_scores_mapping,
    ".csv": read_scores_table,
    ".tsv": read_scores_table,
    ".parquet": read_scores_table,
    ".pq": read_scores_table,
    ".arrow": read_scores_table,
    ".feather": read_scores_table,
}
TABLES = {suffix for suffix, reader in READERS.items() if reader is read_scores_table}


def read_source(path: str | Path, form: Form | None = None, labels: str | Path | None = None) -> Source:
    """Read labelled scores.

    Args:
        path: the file of scores.
        form: what the file does not say by itself.
        labels: a separate file of labels, for `.npy` scores.
    """
    form = form or Form()
    content = _content(path, form)
    truth = content.labels if labels is None else read_labels(labels, form, content.classes)
    if truth is None:
        raise FileError(f"{path}: {_labels_missing(path, form, content)} (--labels FILE)")
    with _names(path, labels):
        return Source(labels=truth, **content.arguments(form.tolerance))


def read_target(
    path: str | Path, form: Form | None = None, second: str | Path | None = None
) -> tuple[Target, Any]:
    """Read unlabelled scores; labels that the file holds all the same come back beside the target."""
    form = form or Form()
    content = _content(path, form)
    other = content.second if second is None else read_second(second, form, content.classes)
    with _names(path, second):
        return Target(second=other, **content.arguments(form.tolerance)), content.labels


def read_labels(
    path: str | Path, form: Form | None = None, classes: tuple[Hashable, ...] | None = None
) -> Any:
    """Read labels alone: a 1-D `.npy`, the key `labels`, or the label column of a table.

    A table's labels come as text where the classes have names, and as stored where they have not.
    """
    form = form or Form()
    file = _path(path)
    if _ending(file) == ".npy":
        return read_npy(file)
    if _ending(file) not in TABLES:
        held = read_mapping(file)
        if "labels" not in held:
            raise FileError(f"{path}: no key 'labels' (found {', '.join(held)})")
        return held["labels"]
    table = read_table(file, _only(file, form.label), [form.label] if classes is not None else [])
    return _labels_in(table, column_named(table, form.label, path), classes)


def read_column(path: str | Path, name: str) -> Any:
    """Read one more column of a table, or key of a mapping, as it is stored: groups, times, segments."""
    file = _path(path)
    if _ending(file) == ".npy":
        raise FileError(f"{path}: a .npy file has no column {name!r}; wanted a table, .npz or .pt")
    if _ending(file) not in TABLES:
        held = read_mapping(file)
        if name not in held:
            raise FileError(f"{path}: no key {name!r}{nearest(name, held)} (found {', '.join(held)})")
        return np.asarray(held[name])
    table = read_table(file, _only(file, name))
    return stored(table, column_named(table, name, path))


def read_second(
    path: str | Path, form: Form | None = None, classes: tuple[Hashable, ...] | None = None
) -> Any:
    """Read a second model: predictions (1-D, or a `prediction` column or key) or scores.

    A table's predictions come as text where the classes have names, and as stored where they have not.
    """
    form = form or Form()
    file = _path(path)
    if _ending(file) == ".npy":
        return read_npy(file)
    if _ending(file) in TABLES:
        column = form.prediction or "prediction"
        table = read_table(file, _only(file, column), [column] if classes is not None else [])
        if column in table.column_names:
            return _labels_in(table, column, classes)
    else:
        held = read_mapping(file)
        for key in ("predictions", "second"):
            if key in held:
                return held[key]
    content = READERS[_ending(file)](file, form)
    with _names(path):
        model = Target(**content.arguments(form.tolerance))
    if model.classes is None:
        return model.predictions
    return np.array([model.classes[j] for j in model.predictions], dtype=object)


def read_marginal(path: str | Path, classes: tuple[Hashable, ...] | None, k: int) -> npt.NDArray[np.float64]:
    """(K,) label masses: a CSV with columns `class` and `mass`, or a 1-D `.npy` in column order."""
    file = _path(path)
    if _ending(file) == ".npy":
        return _door.as_marginal(np.array(read_npy(file)), k, classes, str(path))
    if _ending(file) not in TABLES:
        raise FileError(f"{path}: wanted a CSV with the columns class,mass or a 1-D .npy")
    table = read_table(file, text=["class"])
    if not {"class", "mass"} <= set(table.column_names):
        raise FileError(f"{path}: found the columns {', '.join(table.column_names[:8])}; wanted class,mass")
    names = [str(v) for v in table.column("class").to_pylist()]
    masses = table.column("mass").to_pylist()
    for name, mass in zip(names, masses, strict=True):
        if not isinstance(mass, int | float):
            raise FileError(f"{path}: the mass of class {name!r} is {mass!r}; wanted a number")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise FileError(f"{path}: class {twice!r} stands there twice")
    known = {str(c): c for c in (classes or ())}
    if classes is None:
        known = {name: int(name) for name in names if name.isdigit()}
    given = {known.get(name, name): mass for name, mass in zip(names, masses, strict=True)}
    return _door.as_marginal(given, k, classes, str(path))


def _labels_missing(path: str | Path, form: Form, content: Content) -> str:
    if content.columns:
        near = nearest(form.label, content.columns)
        found = f"no column {form.label!r}{near} (found {shown(content.columns)})"
        return f"{found}; the source needs labels, there or in a file of their own"
    key = "" if _ending(Path(path)) == ".npy" else "a key 'labels', or "
    return f"no labels; the source needs {key}a file of labels"


def _content(path: str | Path, form: Form) -> Content:
    file = _path(path)
    return READERS[_ending(file)](file, form)


def _path(path: str | Path) -> Path:
    file = Path(path)
    try:
        there, folder = file.exists(), file.is_dir()
    except OSError as problem:  # such as a name that is too long
        raise FileError(f"{path}: cannot be opened ({problem.strerror})") from None
    if is_glob(file) or folder:
        parquet_files(file)
        return file
    if not there:
        raise FileError(f"{path}: no such file")
    if _ending(file) not in READERS:
        raise FileError(
            f"{path}: cannot tell its form from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted {', '.join(READERS)}"
        )
    if file.stat().st_size == 0:
        raise FileError(f"{path}: is empty")
    return file


def is_table(path: str | Path) -> bool:
    """Whether a path is read as a table with named columns."""
    return _ending(Path(path)) in TABLES


def _labels_in(table: Any, column: str, classes: tuple[Hashable, ...] | None) -> Any:
    """Labels in the spelling of the classes; as stored, which may be as class indices, where these have no names."""
    return table.column(column).to_numpy() if classes is None else texts(table, column, classes)


def _only(file: Path, column: str) -> list[str] | None:
    """Of Parquet, read no more than the column that is wanted, where it is there."""
    return [column] if is_parquet(file) and column in parquet_names(file)[0] else None


def _ending(file: Path) -> str:
    """What the file is read as; folders and globs are Parquet."""
    return ".parquet" if is_parquet(file) else file.suffix.lower()


class _names:  # noqa: N801 (reads as a word in `with _names(path)`)
    """Put the file's name, and that of what belongs to it, before what the door says of their content."""

    def __init__(self, path: str | Path, other: str | Path | None = None) -> None:
        self.path = path if other is None else f"{path} with {other}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        if isinstance(problem, InputError) and not isinstance(problem, FileError):
            raise FileError(f"{self.path}: {problem}") from None
