"""Standard input: its form by its first bytes, read once, and called by its name."""

import bz2
import gzip
import io
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from shiftgauge import FileError
from shiftgauge.io import is_table, read_columns, read_source, read_target, stdin


@pytest.fixture
def feed(monkeypatch):
    """Put bytes on standard input, as a new process finds them; gives what is to be done when it ends."""
    at_end = []

    def put(data):
        monkeypatch.setattr(stdin, "_spooled", {})
        monkeypatch.setattr(
            stdin, "atexit", SimpleNamespace(register=lambda *a, **k: at_end.append(partial(*a, **k)))
        )
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return at_end

    yield put
    for done in at_end:
        done()


def test_what_was_spooled_is_read_once_and_goes_with_the_process(feed):
    rows = 20_000  # more than is looked at to tell the form
    at_end = feed(b"prob_a,prob_b\n" + b"0.25,0.75\n" * rows)
    assert [read_target("-").n, read_target("-").n] == [rows, rows]
    assert is_table("-")
    folder = stdin.spooled().parent
    assert (stdin.spooled().name, folder.is_dir(), len(at_end)) == ("input.csv", True, 1)
    for _ in range(2):  # somebody may have been quicker
        at_end[0]()
        assert not folder.exists()


def test_messages_speak_of_standard_input(feed, tmp_path):
    feed(b"prob_a,prob_b\n0.5,high\n")
    with pytest.raises(FileError, match=r"^standard input: column 'prob_b', row 0 is 'high'"):
        read_target("-")
    with pytest.raises(FileError, match=r"^standard input: no column 'site'"):
        read_columns("-", ["site"])
    (tmp_path / "a.csv").write_text("prob_a,prob_b\n0.5,low\n")
    with pytest.raises(FileError, match=r"a\.csv: column 'prob_b', row 0 is 'low'"):
        read_target(tmp_path / "a.csv")
    feed(b"prob_a,prob_b\n0.5,0.5\n")
    with pytest.raises(FileError, match=r"^standard input: no column 'label'"):
        read_source("-")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"a,b\n1,2\n", "input.csv"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "input.csv.gz"),
        (b' \r\n{"a": 1}\n', "input.jsonl"),
        (b"PAR1...", "input.parquet"),
        (b"ARROW1..", "input.arrow"),
        (b"\xff\xff\xff\xff....", "input.arrow"),
        (b"\x93NUMPY", "input.npy"),
        (b"PK\x03\x04", "input.npz"),
        (b"PK\x03\x04....archive/data.pkl....", "input.pt"),
        (gzip.compress(b'{"a": 1}\n', mtime=0), "input.jsonl.gz"),
        (bz2.compress(b'{"a": 1}\n'), "input.jsonl.bz2"),
        (bz2.compress(b"a,b\n1,2\n"), "input.csv.bz2"),
        (b'\xef\xbb\xbf{"a": 1}\n', "input.jsonl"),
        (b"\x1f\x8bdamaged", "input.csv.gz"),
        (b"BZhdamaged", "input.csv.bz2"),
    ],
)
def test_the_first_bytes_tell_the_form(feed, data, name):
    feed(data)
    file = stdin.spooled()
    assert (file.name, file.read_bytes()) == (name, data)


def test_nothing_on_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(FileError, match="standard input: is empty"):
        read_target("-")


def test_notes_speak_of_standard_input_too(feed):
    feed(b"prob_a;prob_b\n0,25;0,75\n")
    assert read_target("-").notes == (
        "standard input: its columns are separated by semicolons",
        "standard input: its numbers are written with a decimal comma",
    )


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed_lines_of_json(feed, pack):
    feed(pack(b'{"prob_a": 0.25, "prob_b": 0.75}\n' * 5))
    assert read_target("-").predictions.tolist() == [1] * 5
