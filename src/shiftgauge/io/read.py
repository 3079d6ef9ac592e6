"""From files to `Source`, `Target`, labels and a second model."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge._npz import read_npy
from shiftgauge.errors import FileError, InputError, Note, nearest
from shiftgauge.io.arrays import read_mapping, read_scores_mapping, read_scores_npy
from shiftgauge.io.compressed import ENDINGS as COMPRESSED
from shiftgauge.io.compressed import ending
from shiftgauge.io.form import Content, Form
from shiftgauge.io.parquet import is_glob, is_parquet, parquet_files
from shiftgauge.io.stdin import is_stdin, is_stream, plainly, said_plainly, spooled
from shiftgauge.io.tables import OPENERS, open_table, read_scores_table, table_columns
from shiftgauge.io.values import labels_in, shown
from shiftgauge.samples import Source, Target

READERS: dict[str, Callable[[Path, Form], Content]] = {
    ".npz": read_scores_mapping,
    ".npy": read_scores_npy,
    ".pt": read_scores_mapping,
    ".pth": read_scores_mapping,
    **dict.fromkeys(OPENERS, read_scores_table),
}
TABLES = set(OPENERS)
PACKABLE = {".csv", ".tsv", ".jsonl", ".ndjson"}


def read_source(
    path: str | Path, form: Form | None = None, labels: str | Path | None = None, **said: Any
) -> Source:
    """Read labelled scores from a file, a folder or a glob.

    Args:
        path: `.npz`, `.npy`, `.pt`, `.csv`, `.tsv`, `.jsonl` (also `.gz`), `.parquet`, `.arrow`, or `-`.
        form: what the file does not say by itself; or its fields by name, such as `label="truth"`.
        labels: a separate file of labels, for `.npy` scores.
        said: fields of `Form`.
    """
    form = (form or Form()).but(**said)
    content = _content(path, form)
    if labels is not None and content.labels is not None:
        raise labels_twice(path, labels)
    truth = content.labels if labels is None else read_labels(labels, form, content.classes)
    if truth is None:
        raise FileError(f"{_name(path)}: {_labels_missing(path, form, content)} (--labels FILE)")
    with _names(path, labels):
        made = Source(labels=truth, drop_unlabelled=form.drop_unlabelled, **content.arguments(form))
    made._set(notes=(*content.notes, *made.notes))
    return made


def read_target(
    path: str | Path,
    form: Form | None = None,
    second: str | Path | None = None,
    *,
    like: Source | None = None,
    **said: Any,
) -> Target:
    """Read unlabelled scores from a file, a folder or a glob; labels that it holds are left behind.

    Args:
        path: as for `read_source`.
        form: what the file does not say by itself; or its fields by name.
        second: a file of a second model's scores or predictions, for GDE.
        like: the source; a class of it that the file has no column for is named before anything else is wrong, and
            a threshold is about its second class.
        said: fields of `Form`.
    """
    return read_checked(path, form, second, like=like, **said)[0]


def read_checked(
    path: str | Path,
    form: Form | None = None,
    second: str | Path | None = None,
    *,
    like: Source | None = None,
    **said: Any,
) -> tuple[Target, Any]:
    """A target, and the labels that its file holds all the same, or None: to check answers against."""
    form = (form or Form()).but(**said)
    content = _content(path, form)
    if like is not None:
        _same_classes(path, form, content, like)
        form = form.facing(like)
    if second is not None and content.second is not None:
        raise FileError(
            f"{_name(path)}: has a second model's predictions under the key 'second', and --second {second} has "
            "others; wanted one of the two"
        )
    other = content.second if second is None else read_second(second, form, content.classes)
    with _names(path, second):
        made = Target(second=other, **content.arguments(form))
    made._set(notes=(*content.notes, *made.notes))
    return made, content.labels


def read_labels(
    path: str | Path, form: Form | None = None, classes: tuple[Hashable, ...] | None = None
) -> Any:
    """Read labels alone: a 1-D `.npy`, the key `labels`, or the label column of a table."""
    form = form or Form()
    file = real_path(path)
    if file.suffix.lower() == ".npy":
        return read_npy(file)
    if not is_table(file):
        return _key(file, "labels")
    with said_plainly():
        return labels_in(table_columns(file, [form.label])[form.label], classes)


def labels_twice(path: str | Path, labels: str | Path, option: str = "--labels") -> FileError:
    """Two sets of labels for the same rows; neither is preferred."""
    return FileError(
        f"{_name(path)}: has labels of its own, and {option} {labels} has others; wanted one of the two; "
        f"leave {option} out, or save the scores without labels"
    )


def read_second(
    path: str | Path, form: Form | None = None, classes: tuple[Hashable, ...] | None = None
) -> Any:
    """Read a second model: predictions (1-D, or a `prediction` column or key) or scores."""
    form = form or Form()
    file = real_path(path)
    if file.suffix.lower() == ".npy":
        return read_npy(file)
    if is_table(file):
        with said_plainly():
            column = form.prediction or "prediction"
            if column in open_table(file).names:
                return labels_in(table_columns(file, [column])[column], classes)
    else:
        held, _ = read_mapping(file, ("predictions", "second"))
        if held:
            return held.get("predictions", held.get("second"))
    content = _content(path, form)
    with _names(path):
        model = Target(**content.arguments(form))
    if model.classes is None:
        return model.predictions
    return np.array(model.classes, dtype=object)[model.predictions]


def is_table(path: str | Path) -> bool:
    """Whether a path is read as a table with named columns."""
    if is_stream(path):
        path = spooled(path)
    return _ending(Path(path)) in TABLES


def real_path(path: str | Path) -> Path:
    """The path, if something can be read there: a file of a known form, a folder, a glob; streams are spooled."""
    if is_stream(path):
        return spooled(path)
    file = Path(path)
    try:
        there, folder = file.exists(), file.is_dir()
    except (OSError, ValueError) as problem:  # such as a name that is too long, or a NUL in it
        raise FileError(
            f"{path}: cannot be opened ({getattr(problem, 'strerror', None) or problem})"
        ) from None
    if is_glob(file) or folder:
        parquet_files(file)
        return file
    if not there:
        raise FileError(f"{path}: no such file")
    known = _ending(file)
    if known not in READERS or (file.suffix.lower() in COMPRESSED and known not in PACKABLE):
        raise FileError(
            f"{path}: cannot tell its form from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted {', '.join(READERS)}, or .csv.gz"
        )
    if file.stat().st_size == 0:
        raise FileError(f"{path}: is empty")
    return file


def _content(path: str | Path, form: Form) -> Content:
    file = real_path(path)
    with said_plainly():
        content = READERS[_ending(file)](file, form)
    return replace(content, notes=tuple(Note(plainly(note)) for note in content.notes))


def _ending(file: Path) -> str:
    """What the file is read as; folders and globs are Parquet."""
    return ".parquet" if is_parquet(file) else ending(file)


def _name(path: str | Path) -> str:
    return "standard input" if is_stdin(path) else str(path)


def _key(file: Path, name: str) -> Any:
    held, names = read_mapping(file, [name])
    if name not in held:
        raise FileError(f"{file}: no key {name!r}{nearest(name, names)} (found {', '.join(names[:8])})")
    return held[name]


def _same_classes(path: str | Path, form: Form, content: Content, source: Source) -> None:
    """Columns are compared before numbers: a class that is missing would show in every row's sum."""
    if content.classes is not None and source.classes is not None:
        here = {str(c) for c in content.classes}
        prefix = form.logit_prefix if content.kind == "logits" else form.prob_prefix
        for name in source.classes:
            if str(name) not in here:
                column = f"column '{prefix}{name}'" if content.columns else f"class {name!r}"
                hint = nearest(str(name), here - {str(c) for c in source.classes})
                raise FileError(f"{_name(path)}: no {column}, a class of the source{hint}")
    shape = np.shape(content.scores)
    if len(shape) == 2 and shape[1] != source.k:
        raise FileError(
            f"{_name(path)}: {shape[1]} columns of scores, and the source has {source.k}; wanted the same classes"
        )


def _labels_missing(path: str | Path, form: Form, content: Content) -> str:
    if content.columns:
        near = nearest(form.label, content.columns)
        if content.likely is not None and not near:
            near = f"; is it --label-column {content.likely}?"
        found = f"no column {form.label!r}{near} (found {shown(content.columns)})"
        return f"{found}; the source needs labels, there or in a file of their own"
    key = "" if _ending(Path(path)) == ".npy" else "a key 'labels', or "
    return f"no labels; the source needs {key}a file of labels"


class _names:  # noqa: N801 (reads as a word in `with _names(path)`)
    """Put the file's name, and that of what belongs to it, before what the door says of their content."""

    def __init__(self, path: str | Path, other: str | Path | None = None) -> None:
        self.path = _name(path) if other is None else f"{_name(path)} with {other}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        if isinstance(problem, InputError) and not isinstance(problem, FileError):
            way_out = (
                "; --prediction-column '' leaves them out" if " predictions: row" in str(problem) else ""
            )
            raise FileError(f"{self.path}: {problem}{way_out}") from None
