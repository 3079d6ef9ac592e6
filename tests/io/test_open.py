"""Who opens a file decides what is held, by the rows that its header or footer names: the same rows either way."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from engines.samples import fold, labelled, same_source
from pyarrow import csv, feather, ipc, parquet

import shiftgauge as sg
from shiftgauge.errors import FileError
from shiftgauge.io import ReadOptions, open_labelled_target, open_source, read_source, read_target
from shiftgauge.rows import Rows

ROWS = 700


def parquet_file(table, folder):
    parquet.write_table(table, folder / "a.parquet", row_group_size=100)
    return folder / "a.parquet"


def parquet_folder(table, folder):
    for i in range(7):
        parquet.write_table(table.slice(100 * i, 100), folder / f"{i}.parquet")
    return folder


def arrow_file(table, folder):
    with ipc.new_file(folder / "a.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=90)
    return folder / "a.arrow"


def feather_folder(table, folder):
    for i in range(7):
        feather.write_feather(table.slice(100 * i, 100), folder / f"{i}.feather")
    return folder


def csv_file(table, folder):
    with gzip.open(folder / "a.csv.gz", "wb") as file:
        csv.write_csv(table, file)
    return folder / "a.csv.gz"


def arrow_stream(table, folder):
    with ipc.new_stream(folder / "a.arrow", table.schema) as file:
        file.write_table(table)
    return folder / "a.arrow"


COUNTED = [parquet_file, parquet_folder, arrow_file, feather_folder]


@pytest.fixture
def few_fit(monkeypatch):
    """More than a hundred scores are too many to hold."""
    monkeypatch.setattr("shiftgauge.rows.subsample.WHOLE_ENTRIES", 100)
    monkeypatch.setattr("shiftgauge.rows.subsample.WIDE_ENTRIES", 100)


COLUMNS = {"weight": "w", "id": "row"}
OPTIONS = ReadOptions(**COLUMNS)


def same_rows(one, other):
    """Two targets, in memory or in passes; weights are on any scale."""
    for name in ("scores", "predictions", "weights", "ids"):
        a, b = (_column(target, name) for target in (one, other))
        if name == "weights":
            np.testing.assert_allclose(a / a.sum(), b / b.sum(), rtol=1e-12)
        else:
            np.testing.assert_array_equal(a, b)


def _column(target, name):
    if not isinstance(target, Rows):
        return getattr(target, name)
    return np.concatenate([getattr(block, name) for part in target.parts for block in part.read()])


@pytest.mark.parametrize("form", COUNTED, ids=lambda f: f.__name__)
def test_rows_that_fit_are_held_and_others_are_read_in_passes(form, tmp_path, small_parts, request):
    path = form(labelled(ROWS), tmp_path)
    source = read_source(path, **COLUMNS)
    held = open_labelled_target(path, OPTIONS, source)[0]
    assert isinstance(held, sg.Target)
    same_rows(held, read_target(path, **COLUMNS))
    same_source(open_source(path, OPTIONS), source)
    request.getfixturevalue("few_fit")
    read = open_labelled_target(path, OPTIONS, source)[0]
    assert isinstance(read, Rows)
    assert (read.n, read.classes) == (ROWS, held.classes)
    same_rows(read, held)
    same_source(open_source(path, OPTIONS), source)


@pytest.mark.parametrize("form", [csv_file, arrow_stream], ids=lambda f: f.__name__)
def test_forms_that_do_not_count_their_rows_are_held(form, tmp_path, few_fit):
    path = form(labelled(ROWS), tmp_path)
    assert isinstance(open_labelled_target(path, OPTIONS, read_source(path, **COLUMNS))[0], sg.Target)


@pytest.mark.parametrize("files", [1, 3])
def test_npy_files(files, tmp_path, request):
    scores = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
    np.save(tmp_path / "labels.npy", scores.argmax(axis=1))
    folder = tmp_path / "scores"
    folder.mkdir()
    for i, part in enumerate(np.array_split(scores, files)):
        np.save(folder / f"{i}.npy", part)
    options = ReadOptions(kind="logits")
    source = read_source(folder, tmp_path / "labels.npy", kind="logits")
    np.testing.assert_array_equal(source.scores, scores)
    np.testing.assert_array_equal(open_labelled_target(folder, options, source)[0].scores, scores)
    request.getfixturevalue("few_fit")
    rows = open_labelled_target(folder, options, source)[0]
    assert fold(rows, len) == ROWS
    seen = []
    same_source(
        open_source(folder, options, tmp_path / "labels.npy", lambda *done: seen.append(done)), source
    )
    assert seen[-1] == (ROWS, ROWS)


def test_a_threshold_is_about_the_source_s_second_class_at_any_size(tmp_path, request):
    p = np.random.default_rng(0).uniform(size=ROWS)
    parquet.write_table(pa.table({"prob_yes": p, "prob_no": 1 - p}), tmp_path / "t.parquet")
    source = sg.Source(probs=[[0.5, 0.5]], labels=["no"], classes=["no", "yes"])
    options = ReadOptions(threshold=0.8)
    held = open_labelled_target(tmp_path / "t.parquet", options, source)[0].aligned(source.classes, 2)
    request.getfixturevalue("few_fit")
    rows = open_labelled_target(tmp_path / "t.parquet", options, source)[0].aligned(source.classes, 2)
    assert (
        fold(rows, lambda block: int(block.predictions.sum())) == held.predictions.sum() == (p >= 0.8).sum()
    )


@pytest.mark.parametrize("large", [False, True])
def test_what_is_wrong_with_a_file_is_said_at_any_size(large, tmp_path, request):
    if large:
        request.getfixturevalue("few_fit")
    source = read_source(parquet_file(labelled(ROWS), tmp_path), **COLUMNS)
    for change, words in (
        (
            lambda t: t.rename_columns([n.replace("label", "lable") for n in t.column_names]),
            "did you mean 'label'",
        ),
        (
            lambda t: t.rename_columns([n.replace("logit_", "z_") for n in t.column_names]),
            "no columns begin with",
        ),
        (
            lambda t: t.rename_columns([n.replace("prediction", "y_pred") for n in t.column_names]),
            "'y_pred' hold",
        ),
        (lambda t: t.drop_columns("w"), "no column 'w'"),
        (lambda t: t.slice(0, 0), "has a header but no rows"),
    ):
        path = tmp_path / "t.parquet"
        parquet.write_table(change(labelled(ROWS)), path)
        for opened in (
            lambda path=path: open_labelled_target(path, OPTIONS, source)[0],
            lambda path=path: open_source(path, OPTIONS),
        ):
            with pytest.raises(FileError, match=words) as caught:
                opened()
            assert str(caught.value).startswith(f"{path}: ")
