"""Folders and globs of Parquet are one table, read in the order of their names."""

import glob

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from shiftgauge import FileError
from shiftgauge.io import ReadOptions, read_checked, read_labels, read_source, read_target
from shiftgauge.io.batches import BATCH_ROWS


def table(n, seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1, 1, 1], n).astype(dtype)
    names = np.array(["x", "y", "z"])
    return pa.table(
        {**{f"prob_{c}": p[:, j] for j, c in enumerate(names)}, "label": names[rng.integers(0, 3, n)]}
    )


@pytest.fixture
def folder(tmp_path):
    whole = tmp_path / "data"
    (whole / "day=2").mkdir(parents=True)
    (whole / "_SUCCESS").write_text("")
    for name, seed in (("a.parquet", 0), ("b.parquet", 1), ("day=2/c.parquet", 2)):
        parquet.write_table(table(50, seed), whole / name)
    return whole


def expected():
    return pa.concat_tables([table(50, seed) for seed in range(3)])


def test_a_folder_and_a_glob_are_one_table(folder):
    whole = expected()
    want = np.column_stack([whole.column(f"prob_{c}").to_numpy() for c in "xyz"])
    for path in (folder, folder / "**" / "*.parquet"):
        source = read_source(path)
        assert source.scores.dtype == np.float32
        assert np.array_equal(source.scores, want)
        assert [source.class_name(j) for j in source.labels] == whole.column("label").to_pylist()
    assert read_target(folder / "?.parquet").n == 100
    assert len(read_labels(folder, ReadOptions(), ("x", "y", "z"))) == 150


def test_more_rows_than_a_batch_and_more_precision(tmp_path):
    parquet.write_table(table(BATCH_ROWS + 7, 0), tmp_path / "a.parquet")
    parquet.write_table(table(5, 1, np.float64), tmp_path / "b.parquet")
    target, labels = read_checked(tmp_path)
    assert target.scores.dtype == np.float64
    assert target.n == len(labels) == BATCH_ROWS + 12
    assert np.array_equal(target.scores[-5:, 0], table(5, 1, np.float64).column("prob_x").to_numpy())


def test_a_column_nobody_asked_for_is_not_read(tmp_path):
    """A column that cannot even be decoded does no harm as long as it is not wanted."""
    held = table(200, 0).append_column("blob", pa.array(["secret" * 50] * 200))
    file = tmp_path / "a.parquet"
    parquet.write_table(held, file, use_dictionary=False, compression="none")
    raw = file.read_bytes()
    at = raw.index(b"secretsecret")
    file.write_bytes(raw[: at - 4] + b"\xff" * 400 + raw[at + 396 :])
    with pytest.raises((OSError, pa.ArrowException)):
        parquet.read_table(file)
    assert read_source(file).n == 200


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "b.parquet").write_bytes(b"PAR1"), "b.parquet: cannot be read"),
        (lambda f: (f / "notes.txt").write_text("hello"), "is a folder that also holds notes.txt"),
        (
            lambda f: parquet.write_table(table(5, 0).drop_columns("prob_y"), f / "b.parquet"),
            "no column 'prob_y'",
        ),
        (
            lambda f: parquet.write_table(
                table(2, 0).set_column(0, "prob_x", pa.array([None, 0.5], pa.float32())), f / "b.parquet"
            ),
            "b.parquet: column 'prob_x', row 0 is empty",
        ),
    ],
)
def test_a_spoilt_folder_names_the_file(folder, spoil, words):
    spoil(folder)
    with pytest.raises(FileError, match=words):
        read_source(folder)


def test_nothing_there(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "*.parquet"):
        with pytest.raises(FileError, match=r"without \.parquet files|no file matches"):
            read_target(path)
    (tmp_path / "a.csv").write_text("prob_a,prob_b\n.5,.5\n")
    with pytest.raises(FileError, match=r"also matches a\.csv"):
        read_target(tmp_path / "*.csv")


def test_parts_are_read_in_the_order_of_their_names(folder, monkeypatch):
    """Whatever order the file system gives them in."""
    want = expected().column("label").to_pylist()
    for name, path in (("glob", folder / "**" / "*.parquet"), ("folder", folder)):
        real = glob.glob if name == "glob" else type(folder).rglob

        def turned(*given, real=real, **more):
            return sorted(real(*given, **more), reverse=True)

        monkeypatch.setattr(glob if name == "glob" else type(folder), real.__name__, turned)
        assert read_labels(path).tolist() == want


def test_hidden_files_and_folders_are_left_out(folder):
    (folder / ".tmp" / "deep").mkdir(parents=True)
    for name in (".tmp/deep/a.parquet", "_metadata", ".a.parquet", ".tmp/x.txt"):
        (folder / name).write_text("no table")
    assert read_target(folder).n == 150


def test_a_file_whose_name_looks_like_a_pattern(tmp_path):
    parquet.write_table(table(3, 0), tmp_path / "a[1].parquet")
    parquet.write_table(table(4, 0), tmp_path / "a1.parquet")
    assert read_target(tmp_path / "a[1].parquet").n == 3
    assert read_target(tmp_path / "[ab]1.parquet").n == 4


def test_a_table_of_one_row_and_one_of_none(tmp_path):
    parquet.write_table(table(1, 0), tmp_path / "a.pq")
    assert read_target(tmp_path / "a.pq").n == 1
    parquet.write_table(table(0, 0), tmp_path / "a.pq")
    for read in (read_target, read_labels):
        with pytest.raises(FileError, match=r"a\.pq: has a header but no rows"):
            read(tmp_path / "a.pq")


def test_what_is_missing_is_said_of_the_first_part_without_it(folder):
    """And of what is there too much, the first part that has it."""
    for name in ("b.parquet", "day=2/c.parquet"):
        parquet.write_table(table(2, 0).drop_columns("label"), folder / name)
    with pytest.raises(FileError, match=r"b\.parquet: no column 'label', which the files before it have"):
        read_source(folder)
    for name in ("b.parquet", "day=2/c.parquet"):
        parquet.write_table(table(2, 0).append_column("logit_w", pa.array([0.0, 0.0])), folder / name)
    with pytest.raises(FileError, match=r"b\.parquet: has a column 'logit_w', which the first file lacks"):
        read_source(folder)
