"""Files appear whole or not at all, whoever else writes; inputs are safe; spreadsheets get no formulas."""

import csv
import os
import resource
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as pa_csv
from pyarrow import feather, parquet

import shiftgauge as sg
from shiftgauge import FileError, storage
from shiftgauge.cli.outputs import check_output
from shiftgauge.io import write_parts, write_table
from shiftgauge.io.write import check_ending

SAVE = """
import sys, numpy as np
from shiftgauge.io import write_parts, write_table
for i in range(30):
    write_table(sys.argv[1], {"value": np.full(20_000, int(sys.argv[2]))})
"""


def test_threads_and_processes_that_write_the_same_file(tmp_path):
    """Whatever is read at any time is one writer's whole file, and nothing is left behind."""
    path = tmp_path / "rows.npz"

    def save(number):
        for _ in range(12):
            write_table(path, {"value": np.full(20_000, number)})
            held = np.load(path)["value"]
            assert len(held) == 20_000
            assert (held == held[0]).all()

    command = [sys.executable, "-c", SAVE, str(path), "99"]
    with subprocess.Popen(command) as other, ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(8)))
        assert other.wait(timeout=300) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["rows.npz"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "npz"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    write_table(path, {"value": [1]})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    values = np.random.default_rng(0).random(200_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(FileError, match=rf"rows\.{ending}: cannot be written"):
            write_table(path, {"value": values})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_whatever_goes_wrong_the_part_goes_too(tmp_path):
    def interrupted():
        with storage.replacing(tmp_path / "a") as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_links_are_followed_and_permissions_kept(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_table(tmp_path / "link.csv", {"a": [1]})
    assert (tmp_path / "link.csv").is_symlink()
    assert "1" in (tmp_path / "real.csv").read_text()
    assert stat.S_IMODE((tmp_path / "real.csv").stat().st_mode) == 0o640


def test_names_as_long_as_names_can_be(tmp_path):
    write_table(tmp_path / ("n" * 251 + ".csv"), {"a": [1]})
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_written_is_noticed_before_the_work(tmp_path):
    for path, words in (
        (tmp_path / "none" / "a.csv", "does not exist"),
        ("/proc/a.csv", "cannot be written"),
        (tmp_path / ("n" * 300 + ".csv"), None),
        (tmp_path, "cannot tell its form"),
    ):
        with pytest.raises(FileError, match=words) as caught:
            check_ending(path)
        assert str(path)[:40] in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match=r"/proc/scores\.npz: cannot be written"):
        sg.Target(probs=[[0.5, 0.5]]).save("/proc/scores.npz")


def test_formulas_are_texts_to_a_spreadsheet(tmp_path):
    names = ["=1+1", "+2", "-3", "@x", "plain", "a=b"]
    write_table(tmp_path / "a.csv", {"class": names, "value": [-1.5] * 6})
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == ["'=1+1", "'+2", "'-3", "'@x", "plain", "a=b"]
    assert {row["value"] for row in rows} == {"-1.5"}
    write_table(tmp_path / "a.PARQUET", {"class": names})
    assert parquet.read_table(tmp_path / "a.PARQUET").column("class").to_pylist() == names


def test_formulas_in_any_read_column_texts_and_at_its_beginning_only(tmp_path):
    texts = ["\tx", "\rx", "", None, "x-", "'="]
    for kind in (pa.string(), pa.large_string()):
        write_table(tmp_path / "a.csv", {"first": range(6), "class": pa.array(texts, kind)})
        with (tmp_path / "a.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["class"] for row in rows] == ["'\tx", "'\rx", "", "", "x-", "'="]


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "feather", "npz"])
def test_what_is_written_is_of_the_form_that_its_name_says(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    held = {"x": [1.5, 2.5], "y": ["a", "b"]}
    write_table(path, held)
    if ending == "npz":
        found = {name: values.tolist() for name, values in np.load(path).items()}
    else:
        read = {"csv": pa_csv.read_csv, "parquet": parquet.read_table}.get(ending, feather.read_table)
        found = read(path).to_pydict()
    assert found == held


def test_arrays_are_compressed(tmp_path):
    write_table(tmp_path / "a.npz", {"x": np.zeros(100_000)})
    assert (tmp_path / "a.npz").stat().st_size < 80_000  # of 800,000 bytes


def test_parts_appear_together(tmp_path, monkeypatch):
    """While they are made, they stand beside the folder under a name that nobody reads."""
    monkeypatch.chdir(tmp_path)

    def tables():
        for number in range(2):
            hidden, *rest = os.listdir(tmp_path)
            assert (hidden[:5], rest) == (".out.", [])
            yield [{"x": [10 * number]}, {"x": [10 * number + 1, 10 * number + 2]}]

    write_parts("out", tables())
    assert os.listdir(tmp_path) == ["out"]
    assert sorted(os.listdir("out")) == ["part-00000.parquet", "part-00001.parquet"]
    assert parquet.read_table("out/part-00001.parquet").to_pydict() == {"x": [10, 11, 12]}
    assert parquet.read_table("out").to_pydict() == {"x": [0, 1, 2, 10, 11, 12]}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_parts_that_cannot_be_written_leave_nothing(tmp_path):
    def interrupted():
        yield [{"x": [1]}]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parts(tmp_path / "out", interrupted())
    assert os.listdir(tmp_path) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("here")
    with pytest.raises(FileError, match=r"out: cannot be written \(Directory not empty\)"):
        write_parts(tmp_path / "out", [[{"x": [1]}]])
    assert [os.listdir(tmp_path), os.listdir(tmp_path / "out")] == [["out"], ["mine"]]


def test_inputs_are_never_written_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days" / "deep").mkdir(parents=True)
    for name in ("shares.csv", "days/a.parquet"):
        (tmp_path / name).write_text("x")
    os.link(tmp_path / "shares.csv", tmp_path / "twin.csv")
    (tmp_path / "other").symlink_to("days")
    path = type(tmp_path)
    for out, given in (
        ("shares.csv", "shares.csv"),
        ("./days/../shares.csv", "shares.csv"),
        ("twin.csv", "shares.csv"),
        ("days/new.parquet", "days"),
        ("days/deep/new.parquet", "days"),
        ("other/new.parquet", "days"),
        ("days/new.parquet", "days/*.parquet"),
        ("days/a.parquet", "days/?.parquet"),
        ("other/a.parquet", "days/?.parquet"),
        ("days/deep/new.parquet", "days/**/*.parquet"),
        ("days/new.parquet", "days/**/*.parquet"),
    ):
        with pytest.raises(sg.InputError, match=r"--out .*: that is an input, which would be lost"):
            check_output("--out", path(out), [None, "shrunk", given])
    for out, given in (
        ("new.csv", "shares.csv"),
        ("new.parquet", "days"),
        ("days/new.csv", "days/*.parquet"),
        ("days/deep/new.parquet", "days/*.parquet"),
        ("source", "source"),
    ):
        check_output("--out", path(out), [given])


@pytest.mark.parametrize("name", ["a.parquet", "a/part-00000.parquet"])
def test_what_is_written_as_parquet_can_be_verified(tmp_path, name):
    """Any byte of a column that changes later is noticed, as numbers that are only a little wrong would not be."""
    file = tmp_path / name
    held = {"x": np.random.default_rng(0).random(5000)}
    if file.parent == tmp_path:
        write_table(file, held)
    else:
        write_parts(file.parent, [[held]])
    raw = file.read_bytes()
    for at in np.linspace(0.1, 0.9, 9):
        place = int(at * len(raw))
        file.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with parquet.ParquetFile(file, page_checksum_verification=True) as held, pytest.raises(OSError):
            held.read()
