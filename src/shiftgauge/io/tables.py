"""Scores in tables: CSV, JSON lines, Parquet and Arrow files, one column per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import FileError
from shiftgauge.io.arrow import open_arrow
from shiftgauge.io.blocks import Tabular
from shiftgauge.io.compressed import ending
from shiftgauge.io.delimited import open_csv
from shiftgauge.io.form import Content, Form, refuse_misspelt
from shiftgauge.io.jsonlines import open_jsonl
from shiftgauge.io.parquet import is_parquet, open_parquet
from shiftgauge.io.values import gather, known, labels_in, shown

OPENERS = {
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


def open_table(path: Path) -> Tabular:
    """The table behind a path, by its ending; a folder or a glob is Parquet."""
    table = open_parquet(path) if is_parquet(path) else OPENERS[ending(path)](path)
    refuse_repeated(table.names, path)
    if table.rows == 0:
        raise FileError(f"{path}: has a header but no rows; is it empty by mistake?")
    return table


def refuse_repeated(names: Sequence[str], path: object) -> None:
    """Refuse a table of which two columns have the same name."""
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise FileError(f"{path}: the column {repeated!r} stands there twice; wanted different names")


def table_columns(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """(n,) columns of a table as objects: of CSV to the letter, of other forms as stored; None where empty."""
    table = open_table(path)
    return gather(table, [], [known(name, table.names, path) for name in dict.fromkeys(names)])[2]


def read_scores_table(path: Path, form: Form) -> Content:
    """Scores, labels and the rest by column; class names are what stands behind the prefix."""
    table = open_table(path)
    names = table.names
    kind, chosen, classes = scores_in(names, form, path)
    refuse_more_classes(table.more, form)
    decision = form.wanted_prediction(names, path)
    for name in (form.weight, decision, form.id):
        if name is not None:
            known(name, names, path)
    if form.label not in names and form.label == Form.label:  # a name that was asked for is not misspelt
        refuse_misspelt(names, [form.label], path, "column", "--label-column")
    texts = [n for n in dict.fromkeys((form.label, decision, form.id)) if n is not None and n in names]
    scores, weights, others = gather(table, chosen, texts, form.weight)
    if not len(scores):
        raise FileError(f"{path}: has a header but no rows; is it empty by mistake?")
    labels = others.get(form.label)
    return Content(
        scores=both_columns(scores, path) if len(chosen) < len(classes) else scores,
        kind=kind,
        classes=classes,
        columns=names,
        labels=None if labels is None else labels_in(labels, classes),
        weights=weights,
        predictions=None if decision is None else labels_in(others[decision], classes),
        ids=None if form.id is None else others[form.id],
        likely=None if labels is not None else _likely_label(table, chosen, classes),
        notes=table.notes,
    )


def scores_in(names: Sequence[str], form: Form, path: object) -> tuple[str, list[str], tuple[str, ...]]:
    """What the scores are, their columns and their classes: of two classes one column may stand for both."""
    two = form.positive is not None or form.negative is not None
    return _two_classes(form, path, names) if two else score_columns(names, form, path)


def score_columns(names: Sequence[str], form: Form, path: object) -> tuple[str, list[str], tuple[str, ...]]:
    """Which columns hold the scores: logits or probabilities, the columns, and their classes."""
    prefixes = {"logits": form.logit_prefix, "probs": form.prob_prefix}
    special = {form.label, form.weight, form.prediction, form.id}
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


def refuse_more_classes(more: Mapping[str, str], form: Form) -> None:
    """A column that only a later part has may come and go, unless it is one class more."""
    for name, file in more.items():
        if name.startswith((form.logit_prefix, form.prob_prefix)):
            raise FileError(
                f"{file}: has a column {name!r}, which the first part has not; wanted the same classes"
            )


def _two_classes(form: Form, path: object, names: Sequence[str]) -> tuple[str, list[str], tuple[str, ...]]:
    if form.positive is None or form.negative is None:
        raise FileError(f"{path}: with one column of probabilities both --positive and --negative are needed")
    if form.kind == "logits":
        raise FileError(
            f"{path}: --positive and --negative go with one column 'prob' of probabilities, not --logits"
        )
    return "probs", [known("prob", names, path)], (form.negative, form.positive)


def both_columns(matrix: npt.NDArray[Any], path: object, first: int = 0) -> npt.NDArray[Any]:
    """(n, 2) probabilities of two classes, from (n, 1) of the second; `first` is the first row's number."""
    p = matrix[:, 0]
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise FileError(
            f"{path}: column 'prob', row {first + row} is {p[row]:g}; wanted probabilities from 0 to 1"
        )
    return np.column_stack([1.0 - p, p])


def _likely_label(table: Tabular, scores: Sequence[str], classes: Sequence[str]) -> str | None:
    """The column that probably holds the labels: by its name, or because class names stand in it."""
    others = [name for name in table.names if name not in scores and name != Form.prediction]
    for usual in LABEL_NAMES:
        found = next((name for name in others if name.lower() == usual), None)
        if found is not None:
            return found
    first = next(iter(table.read([], others)), None)
    if first is None:
        return None
    for name in others:
        held = {str(v) for v in first.batch.column(name)[:1000].to_pylist() if v is not None and v != ""}
        if held and held <= set(classes):
            return name
    return None
