"""From files to `Source`, `Target`, labels and a second model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError, InputError, Note, nearest
from shiftgauge.io.arrays import npy_parts, read_mapping, read_scores_mapping, read_scores_npy
from shiftgauge.io.batches import Table
from shiftgauge.io.compressed import ENDINGS as COMPRESSED
from shiftgauge.io.files import files_behind, form_of, is_glob
from shiftgauge.io.form import Content, Form
from shiftgauge.io.frames import frame_parts
from shiftgauge.io.layout import Layout, table_layout
from shiftgauge.io.parts import parts_of_table
from shiftgauge.io.stdin import is_stdin, is_stream, plainly, said_plainly, spooled
from shiftgauge.io.tables import OPENERS, open_table, read_scores_table, table_columns
from shiftgauge.io.values import labels_in, shown
from shiftgauge.rows import Engine, Part, Rows, source_of, subsample_step
from shiftgauge.samples import Source, Target
from shiftgauge.storage import read_npy
from shiftgauge.validation import IDLE_INSIST

ENDINGS = (".npz", ".npy", ".pt", ".pth", *OPENERS)
COMPRESSIBLE = {".csv", ".tsv", ".jsonl", ".ndjson"}


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
    return _source(path, form, labels, _content(path, form))


def open_source(
    path: str | Path,
    form: Form,
    labels: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Source:
    """As `read_source`, but no row of a large file is held twice, and of too many rows some are drawn.

    Args:
        path, form, labels: as for `read_source`.
        progress: called with rows done and rows in all while a large file is read.
    """
    opened = _open(path, form)
    if isinstance(opened, Content):
        return _source(path, form, labels, opened)
    opened.progress = progress
    return source_of(opened, None if labels is None else read_labels(labels, form, opened.classes))


def _source(path: str | Path, form: Form, labels: str | Path | None, content: Content) -> Source:
    if labels is not None and content.labels is not None:
        raise labels_twice(path, labels)
    truth = content.labels if labels is None else read_labels(labels, form, content.classes)
    if truth is None:
        raise FileError(f"{_name(path)}: {_labels_missing(path, form, content)} (--labels FILE)")
    with _names(path, labels):
        source = Source(labels=truth, drop_unlabelled=form.drop_unlabelled, **content.arguments(form))
    return source.with_notes(content.notes, kept=source.kept)


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
    return _target(path, form, second, like, content), content.labels


def open_target(path: str | Path, form: Form, like: Source) -> Target | Rows:
    """As `read_target`, but of too many rows to hold in memory `Rows`, which are read anew in every pass.

    How many rows there are is looked up in the headers and footers of Parquet, Arrow and `.npy` files; other forms,
    and streams, are held.
    """
    opened = _open(path, form.for_target(like))
    return opened if isinstance(opened, Rows) else _target(path, form, None, like, opened)


def _target(
    path: str | Path, form: Form, second: str | Path | None, like: Source | None, content: Content
) -> Target:
    if like is not None:
        _same_classes(path, form, content, like)
        form = form.for_target(like)
    if second is not None and content.second is not None:
        raise FileError(
            f"{_name(path)}: has a second model's predictions under the key 'second', and --second {second} has "
            "others; wanted one of the two"
        )
    other = content.second if second is None else read_second(second, form, content.classes)
    with _names(path, second):
        target = Target(second=other, **content.arguments(form))
    return target.with_notes(content.notes)


def open_rows(
    data: Any,
    form: Form,
    *,
    second: str | None = None,
    zone: str | None = None,
    engine: Engine | None = None,
) -> Rows:
    """Rows that are read anew in every pass: of a path, a frame, a query, a data set; see `shiftgauge.scan`."""
    if not isinstance(data, str | Path):
        layout, parts = frame_parts(data, form, second, zone)
        return make_rows(layout, parts, form, f"the {type(data).__name__}", engine)
    file = real_path(data)
    if form_of(file) == ".npy":
        for word, column in (("weight", form.weight), ("id", form.id)):
            if column is not None:
                raise FileError(f"{data}: a .npy file has no column {column!r} ({word}=); wanted a table")
        return make_rows(*npy_parts(file, form), form, str(data), engine)
    if form_of(file) not in OPENERS:
        wanted = ", ".join(OPENERS)
        raise FileError(
            f"{data}: cannot be scanned, by its ending; wanted {wanted}, .npy, or a folder of those"
        )
    table, layout = _open_table(file, form, second, zone)
    return make_rows(layout, parts_of_table(table, layout), form, str(data), engine, table.notes)


def _open_table(
    file: Path, form: Form, second: str | None = None, zone: str | None = None
) -> tuple[Table, Layout]:
    table = open_table(file)
    schemas = [each.schema for each in table.files if each.schema is not None]
    return table, table_layout(table.names, schemas, form, file, second, zone, table.more)


def make_rows(
    layout: Layout,
    parts: list[Part],
    form: Form,
    name: str,
    engine: Engine | None = None,
    notes: tuple[str, ...] = (),
) -> Rows:
    """`Rows` of parts of the same layout."""
    if form.insist and layout.kind == "probs":
        raise InputError(IDLE_INSIST.format(who="scan"))
    if layout.prediction is not None and layout.threshold is not None:
        raise InputError("target: predictions= and threshold= both arrived; wanted one of the two")
    return Rows(
        parts,
        layout.kind,
        layout.k,
        layout.classes,
        engine=engine,
        weighted=layout.weight is not None,
        decisions=layout.prediction is not None or layout.threshold is not None,
        second=layout.second is not None,
        ids=layout.id is not None,
        columns=layout.names,
        label=form.label,
        labelled=layout.label is not None,
        drop=form.drop_unlabelled,
        tolerance=form.tolerance,
        insist=form.insist,
        notes=notes,
        by_place=isinstance(form.threshold, int | float),
        name=name,
    )


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
    return form_of(Path(path)) in OPENERS


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
        files_behind(file)
        return file
    if not there:
        raise FileError(f"{path}: no such file")
    known = form_of(file)
    if known not in ENDINGS or (file.suffix.lower() in COMPRESSED and known not in COMPRESSIBLE):
        raise FileError(
            f"{path}: cannot tell its form from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted {', '.join(ENDINGS)}, or .csv.gz"
        )
    if file.stat().st_size == 0:
        raise FileError(f"{path}: is empty")
    return file


def _content(path: str | Path, form: Form) -> Content:
    """All rows of a path in memory."""
    content = _open(path, form, hold=True)
    assert isinstance(content, Content)
    return content


def _open(path: str | Path, form: Form, hold: bool = False) -> Content | Rows:
    """Open a path once, and read all its rows into memory if they fit or are to be held; else return `Rows`."""
    file = real_path(path)
    hold = hold or is_stream(path)
    with said_plainly():
        content = _open_file(file, form, hold)
    if isinstance(content, Rows):
        return content
    return replace(content, notes=tuple(Note(plainly(note)) for note in content.notes))


def _open_file(file: Path, form: Form, hold: bool) -> Content | Rows:
    ending = form_of(file)
    if ending in OPENERS:
        table, layout = _open_table(file, form)
        if hold or table.rows is None or subsample_step(table.rows, layout.k) == 1:
            return read_scores_table(table, layout)
        return make_rows(layout, parts_of_table(table, layout), form, str(file), notes=table.notes)
    if ending != ".npy":
        return read_scores_mapping(file, form)
    if not hold:
        layout, parts = npy_parts(file, form)
        if subsample_step(sum(part.rows for part in parts), layout.k) > 1:
            return make_rows(layout, parts, form, str(file))
    return read_scores_npy(file, form)


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
    key = "" if form_of(Path(path)) == ".npy" else "a key 'labels', or "
    return f"no labels; the source needs {key}a file of labels"


@contextmanager
def _names(path: str | Path, other: str | Path | None = None) -> Iterator[None]:
    """Put the file's name, and that of what belongs to it, before errors about their content."""
    try:
        yield
    except InputError as problem:
        if isinstance(problem, FileError):
            raise
        name = _name(path) if other is None else f"{_name(path)} with {other}"
        hint = "; --prediction-column '' leaves them out" if " predictions: row" in str(problem) else ""
        raise FileError(f"{name}: {problem}{hint}") from None
