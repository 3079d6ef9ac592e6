"""Standard input: its format by its first bytes, read once, and named in messages."""

import bz2
import gzip
import os
import subprocess
import sys
import threading

import pytest

from shiftgauge import FileError
from shiftgauge.io import read_target, streams


def run(code, data):
    """The lines that a new process prints, which finds the data on its standard input."""
    imports = (
        "from shiftgauge import FileError\nfrom shiftgauge.io import *\nfrom shiftgauge.io import streams\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", imports + code], input=data, capture_output=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


@pytest.fixture
def pipe(tmp_path):
    """Makes a named pipe that yields the data given."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes on this system")
    writers = []

    def make(data):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(data,)))
        writers[0].start()
        return path

    yield make
    for writer in writers:
        writer.join(60)


def test_a_copy_is_read_once_and_goes_with_the_process():
    rows = 20_000  # more than is looked at to tell the form
    code = """
print(read_target("-").n, read_target("-").n, is_table("-"), streams.copy_stream().parent.is_dir())
print(streams.copy_stream())
"""
    first, file = run(code, b"prob_a,prob_b\n" + b"0.25,0.75\n" * rows)
    assert first == f"{rows} {rows} True True"
    assert os.path.basename(file) == "input.csv"
    assert not os.path.exists(os.path.dirname(file))


def test_messages_and_notes_speak_of_standard_input(tmp_path):
    code = """
for read in (read_target, read_source, lambda path: read_columns(path, ["site"])):
    try:
        print(read("-").notes)
    except FileError as problem:
        print(problem)
"""
    wrong, _, column = run(code, b"prob_a,prob_b\n0.5,high\n")
    assert wrong.startswith("standard input: column 'prob_b', row 0 is 'high'")
    assert column.startswith("standard input: no column 'site'")
    notes, label, _ = run(code, b"prob_a;prob_b\n0,25;0,75\n")
    assert label.startswith("standard input: no column 'label'")
    assert notes == str(
        (
            "standard input: its columns are separated by semicolons",
            "standard input: its numbers are written with a decimal comma",
        )
    )
    (empty, *_) = run(code, b"")
    assert empty.startswith("standard input: is empty")
    (tmp_path / "a.csv").write_text("prob_a,prob_b\n0.5,low\n")
    with pytest.raises(FileError, match=r"a\.csv: column 'prob_b', row 0 is 'low'"):
        read_target(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"a,b\n1,2\n", "input.csv"),
        (b' \r\n{"a": 1}\n', "input.jsonl"),
        (b"PAR1...", "input.parquet"),
        (b"ARROW1..", "input.arrow"),
        (b"\xff\xff\xff\xff....", "input.arrow"),
        (b"\x93NUMPY", "input.npy"),
        (b"PK\x03\x04", "input.npz"),
        (b'\xef\xbb\xbf{"a": 1}\n', "input.jsonl"),
    ],
)
def test_the_first_bytes_tell_the_form(pipe, data, name):
    file = streams.copy_stream(pipe(data))
    assert (file.name, file.read_bytes()) == (name, data)


@pytest.mark.parametrize(("pack", "tool"), [(gzip.compress, "gzip -dc"), (bz2.compress, "bzip2 -dc")])
def test_compressed_streams_are_refused(pipe, pack, tool):
    with pytest.raises(FileError, match=f"is compressed; wanted plain content, e.g. {tool} FILE"):
        read_target(pipe(pack(b'{"prob_a": 0.25, "prob_b": 0.75}\n' * 5)))


def test_standard_input_that_is_closed(monkeypatch):
    """As programs find it that a service starts."""
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(streams, "_copies", {})
    with pytest.raises(FileError, match="standard input: is closed; wanted scores, or the name of a file"):
        read_target("-")
