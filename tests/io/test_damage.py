"""Damaged and hostile files are refused in one line that names them; none ends the process."""

import io
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import labelfree as lf
from labelfree import FileError
from labelfree.io import read_source

P = np.full((50, 2), 0.5)

#: Reads damaged Arrow files in a process of its own, which a fault would end.
ARROW = """
import sys
from pathlib import Path
import numpy as np, pyarrow as pa
from pyarrow import feather, ipc
from labelfree.errors import FileError
from labelfree.io import read_source
folder, rng = Path(sys.argv[1]), np.random.default_rng(0)
words = np.array(["a", "b"])[rng.integers(0, 2, 90)]
table = pa.table({"prob_a": np.ones(90), "prob_b": np.zeros(90), "label": words,
                  "coded": pa.array(words).dictionary_encode()})
feather.write_feather(table, folder / "lz4.feather")
feather.write_feather(table, folder / "plain.feather", compression="uncompressed")
with ipc.new_stream(folder / "stream.arrow", table.schema) as stream:
    stream.write_table(table, max_chunksize=30)
refused = 0
for file in ("lz4.feather", "plain.feather", "stream.arrow"):
    raw = (folder / file).read_bytes()
    for trial in range(120):
        spoilt = bytearray(raw)
        for _ in range(rng.integers(1, 6)):
            spoilt[rng.integers(len(spoilt))] = rng.integers(256)
        if trial % 5 == 0:
            del spoilt[rng.integers(len(spoilt)):]
        path = folder / ("x" + Path(file).suffix)
        path.write_bytes(spoilt)
        try:
            read_source(path, label=("label", "coded")[trial % 2])
        except FileError as problem:
            assert path.name in str(problem), problem
            refused += 1
print(refused)
"""


def test_damaged_arrow_files(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ARROW, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 200


def test_parquet_s_page_checksums_are_verified(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    table = pa.table({"prob_a": p, "prob_b": 1 - p, "label": ["a"] * 2000})
    parquet.write_table(
        table, tmp_path / "a.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )
    raw = (tmp_path / "a.parquet").read_bytes()
    at = raw.index(p[700].tobytes())
    (tmp_path / "a.parquet").write_bytes(
        raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
    )  # the last bit of a number
    with pytest.raises(FileError, match=r"a\.parquet: cannot be read as \.parquet .*(CRC|checksum)"):
        read_source(tmp_path / "a.parquet")


def test_a_later_part_with_one_more_class(tmp_path):
    first = {"prob_a": [0.5], "prob_b": [0.5], "label": ["a"]}
    parquet.write_table(pa.table(first), tmp_path / "a.parquet")
    parquet.write_table(pa.table({**first, "prob_c": [0.0]}), tmp_path / "b.parquet")
    with pytest.raises(FileError, match=r"b\.parquet: has a column 'prob_c'"):
        read_source(tmp_path)
    parquet.write_table(pa.table({**first, "note": ["x"]}), tmp_path / "b.parquet")
    assert read_source(tmp_path).n == 2  # what is no score may come and go


def npz(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_keys_that_nobody_asked_for_are_not_read(tmp_path):
    npz(tmp_path / "a.npz", probs=npy(P), labels=npy(np.zeros(50, int)), blob=b"no array at all")
    assert read_source(tmp_path / "a.npz").n == 50
    assert lf.Source.load(tmp_path / "a.npz").n == 50


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_key_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for content in (npy(P), npy(P[::-1])):
            archive.writestr("probs.npy", content)
    with pytest.raises(FileError, match="holds the key 'probs' twice"):
        read_source(tmp_path / "a.npz")


def header(shape):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue()


def test_a_header_that_promises_more_than_there_is(tmp_path):
    npz(tmp_path / "a.npz", probs=header((10**11, 10)) + b"\0" * 80, labels=npy(np.zeros(1, int)))
    with pytest.raises(FileError, match=r"a\.npz: cannot be read as \.npz \(its header promises"):
        read_source(tmp_path / "a.npz")
    (tmp_path / "a.npy").write_bytes(header((10**11, 10)) + b"\0" * 80)
    with pytest.raises(FileError, match=r"a\.npy: cannot be read as \.npy"):
        read_source(tmp_path / "a.npy", kind="probs")
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{" + b" " * 20000)
    with pytest.raises(FileError, match=r"b\.npy: cannot be read as \.npy"):
        read_source(tmp_path / "b.npy", kind="probs")


@pytest.mark.parametrize("content", [b"PK\x03\x04 not really", b"text", npy(P)[:40], b""])
def test_files_that_are_none(tmp_path, content):
    for name in ("a.npz", "a.npy"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=rf"{name}: "):
            read_source(tmp_path / name, kind="probs")


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", probs=np.array([{}, []], dtype=object), labels=[0, 1])
    with pytest.raises(FileError, match="pickled objects, which are never loaded"):
        read_source(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("e.json", "[" * 100_000, "not JSON; wanted a fitted estimator"),
        ("e.json", "{}", "not a saved estimator; wanted a fitted estimator"),
        ("e.npz", "PK", "samples are read by Source.load"),
    ],
)
def test_load_says_what_it_loads(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=words):
        lf.load(tmp_path / name)
