"""Read `Source`, `Target`, labels and a second model from files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError, InputError, format_names, nearest
from shiftgauge.io.arrays import npy_parts, read_keys, read_mapping, read_scores_mapping, read_scores_npy
from shiftgauge.io.batches import OpenTable
from shiftgauge.io.files import COMPRESSION, format_of, is_glob, list_files
from shiftgauge.io.frames import frame_parts
from shiftgauge.io.layout import Layout, table_layout
from shiftgauge.io.options import Content, ReadOptions, Threshold
from shiftgauge.io.parts import table_parts
from shiftgauge.io.streams import copy_stream, is_copy, is_stream
from shiftgauge.io.tables import OPENERS, likely_label, open_table, read_scores_table, table_columns
from shiftgauge.io.values import parse_labels
from shiftgauge.rows import Engine, Part, Rows, source_of, subsample_step
from shiftgauge.samples import Source, Target
from shiftgauge.storage import read_npy
from shiftgauge.validation import IDLE_INSIST

ENDINGS = (".npz", ".npy", ".pt", ".pth", *OPENERS)
COMPRESSIBLE = {".csv", ".tsv", ".jsonl", ".ndjson"}


def read_source(
    path: str | Path,
    labels: str | Path | None = None,
    *,
    kind: str | None = None,
    logit_prefix: str = "logit_",
    prob_prefix: str = "prob_",
    label: str = "label",
    weight: str | None = None,
    prediction: str | None = "prediction",
    positive: str | None = None,
    negative: str | None = None,
    tolerance: float | None = None,
    id: str | None = None,
    threshold: Threshold | None = None,
    insist: bool = False,
    drop_unlabelled: bool = False,
) -> Source:
    """Read labelled scores from a file, a folder or a glob.

    Args:
        path: `.npz`, `.npy`, `.pt`, `.csv`, `.tsv`, `.jsonl` (also `.gz`), `.parquet`, `.arrow`, or `-`.
        labels: a separate file of labels, for `.npy` scores.
        kind: `"logits"` or `"probs"`, if the file does not say which it holds.
        logit_prefix, prob_prefix: prefixes of the score columns of a table; the class name follows.
        label: the label column.
        weight: the column of row weights.
        prediction: the column of deployed predictions, read if it exists; None to ignore it.
        positive, negative: class names for a table of two classes with the single column `prob`.
        tolerance: how far the sum of a row's probabilities may be from 1.
        id: the column of row ids.
        threshold: with two classes, the probability from which the second is predicted, or `{name: threshold}`.
        insist: accept logits that look like probabilities.
        drop_unlabelled: drop rows without a label.
    """
    options = ReadOptions(
        kind, logit_prefix, prob_prefix, label, weight, prediction, positive, negative, tolerance, id, threshold,
        insist, drop_unlabelled,
    )  # fmt: skip
    file = check_path(path)
    return _source(file, options, labels, _read(file, options))


def open_source(
    path: str | Path,
    options: ReadOptions,
    labels: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Source:
    """As `read_source`, but a file too large for memory is read in one pass and subsampled.

    Args:
        path, labels: as for `read_source`.
        options: how to read it.
        progress: called with the number of rows read and the number of all rows of a large file.
    """
    file = check_path(path)
    opened = _open(file, options)
    if isinstance(opened, Content):
        return _source(file, options, labels, opened)
    opened.progress = progress
    return source_of(opened, None if labels is None else read_labels(labels, options, opened.classes))


def _source(file: Path, options: ReadOptions, labels: str | Path | None, content: Content) -> Source:
    if labels is not None and content.labels is not None:
        raise FileError(
            f"{file}: has labels of its own, and --source-labels {labels} has others; wanted one of the two; "
            "leave --source-labels out, or save the scores without labels"
        )
    values = content.labels if labels is None else read_labels(labels, options, content.classes)
    if values is None:
        raise FileError(f"{file}: {_labels_missing(file, options, content)} (--source-labels FILE)")
    with _file_in_errors(file, labels):
        source = Source(labels=values, drop_unlabelled=options.drop_unlabelled, **content.arguments(options))
    return source.with_notes(content.notes, kept=source.kept)


def read_target(
    path: str | Path,
    second: str | Path | None = None,
    *,
    like: Source | None = None,
    kind: str | None = None,
    logit_prefix: str = "logit_",
    prob_prefix: str = "prob_",
    label: str = "label",
    weight: str | None = None,
    prediction: str | None = "prediction",
    positive: str | None = None,
    negative: str | None = None,
    tolerance: float | None = None,
    id: str | None = None,
    threshold: Threshold | None = None,
    insist: bool = False,
) -> Target:
    """Read unlabelled scores from a file, a folder or a glob; labels in it are ignored.

    Args:
        path: as for `read_source`.
        second: a file of a second model's scores or predictions, for GDE.
        like: the source. The file must have a column for each of its classes, and a threshold applies to its second
            class.
        kind, logit_prefix, prob_prefix, weight, prediction, positive, negative: as for `read_source`.
        label, tolerance, id, threshold, insist: as for `read_source`.
    """
    options = ReadOptions(
        kind, logit_prefix, prob_prefix, label, weight, prediction, positive, negative, tolerance, id, threshold,
        insist,
    )  # fmt: skip
    return read_checked(path, options, second, like=like)[0]


def read_checked(
    path: str | Path,
    options: ReadOptions | None = None,
    second: str | Path | None = None,
    *,
    like: Source | None = None,
) -> tuple[Target, Any]:
    """A target, and the labels in its file to compare answers with, or None."""
    options = options or ReadOptions()
    file = check_path(path)
    content = _read(file, options)
    return _target(file, options, second, like, content), content.labels


def open_labelled_target(path: str | Path, options: ReadOptions, like: Source) -> tuple[Target | Rows, Any]:
    """As `read_target`, but `Rows`, which are read again in every pass, if they do not fit in memory; and the labels.

    The number of rows comes from the headers and footers of Parquet, Arrow and `.npy` files; files of other formats,
    and streams, are read into memory. The labels in the file are None if it has none, or if they are read in passes
    too.
    """
    file = check_path(path)
    opened = _open(file, options.for_target(like))
    if isinstance(opened, Rows):
        return opened, None
    return _target(file, options, None, like, opened), opened.labels


def _target(
    file: Path, options: ReadOptions, second: str | Path | None, like: Source | None, content: Content
) -> Target:
    if like is not None:
        _check_classes(file, options, content, like)
        options = options.for_target(like)
    if second is not None and content.second is not None:
        raise FileError(
            f"{file}: has a second model's predictions under the key 'second', and --second {second} "
            "has others; wanted one of the two"
        )
    other = content.second if second is None else read_second(second, options, content.classes)
    with _file_in_errors(file, second):
        target = Target(second=other, **content.arguments(options))
    return target.with_notes(content.notes)


def open_rows(
    data: Any,
    options: ReadOptions,
    *,
    second: str | None = None,
    zone: str | None = None,
    engine: Engine | None = None,
) -> Rows:
    """Rows of a path, a frame, a query or a data set, read again in every pass; see `shiftgauge.scan`."""
    if not isinstance(data, str | Path):
        layout, parts = frame_parts(data, options, second, zone)
        return make_rows(layout, parts, options, f"the {type(data).__name__}", engine)
    file = check_path(data)
    if format_of(file) == ".npy":
        for word, column in (("weight", options.weight), ("id", options.id)):
            if column is not None:
                raise FileError(f"{data}: a .npy file has no column {column!r} ({word}=); wanted a table")
        return make_rows(*npy_parts(file, options), options, str(data), engine)
    if format_of(file) not in OPENERS:
        wanted = ", ".join(OPENERS)
        raise FileError(f"{data}: cannot be scanned; wanted {wanted}, .npy, or a folder of those")
    table, layout = _open_table(file, options, second, zone)
    return make_rows(layout, table_parts(table, layout), options, str(data), engine, table.notes)


def _open_table(
    file: Path, options: ReadOptions, second: str | None = None, zone: str | None = None
) -> tuple[OpenTable, Layout]:
    table = open_table(file)
    schemas = [each.schema for each in table.files if each.schema is not None]
    return table, table_layout(table.names, schemas, options, file, second, zone, table.more)


def make_rows(
    layout: Layout,
    parts: list[Part],
    options: ReadOptions,
    name: str,
    engine: Engine | None = None,
    notes: tuple[str, ...] = (),
) -> Rows:
    """`Rows` of parts of the same layout."""
    if options.insist and layout.kind == "probs":
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
        label=options.label,
        labelled=layout.label is not None,
        drop=options.drop_unlabelled,
        tolerance=options.tolerance,
        insist=options.insist,
        notes=notes,
        by_place=isinstance(options.threshold, int | float),
        name=name,
    )


def read_labels(
    path: str | Path, options: ReadOptions | None = None, classes: tuple[Hashable, ...] | None = None
) -> Any:
    """Read labels alone: a 1-D `.npy`, the key `labels`, or the label column of a table."""
    options = options or ReadOptions()
    file = check_path(path)
    if file.suffix.lower() == ".npy":
        return read_npy(file)
    if not is_table(file):
        return read_keys(file, ["labels"], file)["labels"]
    return parse_labels(table_columns(file, [options.label])[options.label], classes)


def read_second(
    path: str | Path, options: ReadOptions | None = None, classes: tuple[Hashable, ...] | None = None
) -> Any:
    """Read a second model: predictions (1-D, or a `prediction` column or key) or scores."""
    options = options or ReadOptions()
    file = check_path(path)
    if file.suffix.lower() == ".npy":
        return read_npy(file)
    if is_table(file):
        column = options.prediction or "prediction"
        if column in open_table(file).names:
            return parse_labels(table_columns(file, [column])[column], classes)
    else:
        arrays, _ = read_mapping(file, ("predictions", "second"))
        if arrays:
            return arrays.get("predictions", arrays.get("second"))
    content = _read(file, options)
    with _file_in_errors(file):
        model = Target(**content.arguments(options))
    if model.classes is None:
        return model.predictions
    return np.array(model.classes, dtype=object)[model.predictions]


def is_table(path: str | Path) -> bool:
    """Whether a path is read as a table with named columns."""
    return format_of(copy_stream(path) if is_stream(path) else Path(path)) in OPENERS


def check_path(path: str | Path) -> Path:
    """Check that a path is a file of a known format, a folder or a glob; of a stream return its temporary file."""
    if is_stream(path):
        return copy_stream(path)
    file = Path(path)
    try:
        exists, is_folder = file.exists(), file.is_dir()
    except (OSError, ValueError) as problem:  # such as a name that is too long or contains NUL
        raise FileError(
            f"{path}: cannot be opened ({getattr(problem, 'strerror', None) or problem})"
        ) from None
    if is_glob(file) or is_folder:
        list_files(file)
        return file
    if not exists:
        raise FileError(f"{path}: no such file")
    suffix = format_of(file)
    if suffix not in ENDINGS or (file.suffix.lower() in COMPRESSION and suffix not in COMPRESSIBLE):
        raise FileError(
            f"{path}: cannot tell its format from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted {', '.join(ENDINGS)}, or .csv.gz"
        )
    if file.stat().st_size == 0:
        raise FileError(f"{path}: is empty")
    return file


def _read(file: Path, options: ReadOptions) -> Content:
    """All rows of a file in memory."""
    content = _open(file, options, in_memory=True)
    assert isinstance(content, Content)
    return content


def _open(file: Path, options: ReadOptions, in_memory: bool = False) -> Content | Rows:
    """All rows of a file if they fit in memory or must be there; else `Rows`, which read it again in every pass."""
    in_memory = in_memory or is_copy(file)
    suffix = format_of(file)
    if suffix in OPENERS:
        table, layout = _open_table(file, options)
        if in_memory or table.rows is None or subsample_step(table.rows, layout.k) == 1:
            return read_scores_table(table, layout)
        return make_rows(layout, table_parts(table, layout), options, str(file), notes=table.notes)
    if suffix != ".npy":
        return read_scores_mapping(file, options)
    if not in_memory:
        layout, parts = npy_parts(file, options)
        if subsample_step(sum(part.rows for part in parts), layout.k) > 1:
            return make_rows(layout, parts, options, str(file))
    return read_scores_npy(file, options)


def _check_classes(file: Path, options: ReadOptions, content: Content, source: Source) -> None:
    """Compare classes before values: with a missing class every row's sum would be wrong too."""
    if content.classes is not None and source.classes is not None:
        here = {str(c) for c in content.classes}
        prefix = options.logit_prefix if content.kind == "logits" else options.prob_prefix
        for name in source.classes:
            if str(name) not in here:
                column = f"column '{prefix}{name}'" if content.columns else f"class {name!r}"
                hint = nearest(str(name), here - {str(c) for c in source.classes})
                raise FileError(f"{file}: no {column}, a class of the source{hint}")
    shape = np.shape(content.scores)
    if len(shape) == 2 and shape[1] != source.k:
        raise FileError(
            f"{file}: {shape[1]} columns of scores, and the source has {source.k}; wanted the same classes"
        )


def _labels_missing(file: Path, options: ReadOptions, content: Content) -> str:
    if content.columns:
        near = nearest(options.label, content.columns)
        if not near:
            likely = likely_label(*_open_table(file, options))
            near = "" if likely is None else f"; is it --label-column {likely}?"
        found = f"no column {options.label!r}{near} (found {format_names(content.columns)})"
        return f"{found}; the source needs labels, in a column or in a separate file"
    key = "" if format_of(file) == ".npy" else "a key 'labels', or "
    return f"no labels; the source needs {key}a file of labels"


@contextmanager
def _file_in_errors(file: Path, other: str | Path | None = None) -> Iterator[None]:
    """Prefix errors about the content with the names of the files."""
    try:
        yield
    except InputError as problem:
        if isinstance(problem, FileError):
            raise
        name = file if other is None else f"{file} with {other}"
        hint = "; --prediction-column '' leaves them out" if " predictions: row" in str(problem) else ""
        raise FileError(f"{name}: {problem}{hint}") from None
