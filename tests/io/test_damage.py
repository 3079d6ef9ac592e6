"""Damaged and hostile files are refused in one line that names them; none ends the process."""

import bz2
import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import shiftgauge as sg
from shiftgauge import FileError
from shiftgauge.io import read_source, read_target

P = np.full((50, 2), 0.5)

#: Reads damaged Arrow files in a process of its own, which a fault would end.
ARROW = """
import sys
from pathlib import Path
import numpy as np, pyarrow as pa
from pyarrow import feather, ipc
from shiftgauge.errors import FileError
from shiftgauge.io import read_source
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
    assert sg.Source.load(tmp_path / "a.npz").n == 50


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
    with pytest.raises(FileError, match="'probs' holds pickled objects, which are never loaded"):
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
        sg.load(tmp_path / name)


#: Flips single bits of files of every form and reads them whole and by scan, in a process of its own.
FLIPS = """
import bz2, gzip, io, json, random, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from pyarrow import feather, ipc, parquet
import shiftgauge as sg
from shiftgauge.io import read_source, read_target
folder, rng = Path(sys.argv[1]), np.random.default_rng(0)
z = rng.normal(size=(40, 3))
p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
names = np.array(["cat", "dog", "\u00e9lan"])
table = pa.table({**{f"prob_{c}": p[:, j] for j, c in enumerate(names)}, "label": names[z.argmax(axis=1)]})
source = sg.Source(logits=z, labels=names[z.argmax(axis=1)], classes=names)
lines = "".join(json.dumps(row) + chr(10) for row in table.to_pylist()).encode()
text = io.StringIO()
table.to_pandas().to_csv(text, index=False)
parquet.write_table(table, folder / "a.parquet", row_group_size=25)
parquet.write_table(table, folder / "b.parquet", compression="zstd", write_page_checksum=True)
feather.write_feather(table, folder / "a.feather")
with ipc.new_file(folder / "a.arrow", table.schema) as file:
    file.write_table(table, max_chunksize=25)
with ipc.new_stream(folder / "b.arrow", table.schema) as stream:
    stream.write_table(table)
np.savez(folder / "a.npz", logits=z, labels=z.argmax(axis=1))
np.savez_compressed(folder / "b.npz", logits=z, labels=z.argmax(axis=1))
np.save(folder / "a.npy", z)
(folder / "a.jsonl").write_bytes(lines)
(folder / "a.csv").write_text(text.getvalue())
(folder / "a.csv.gz").write_bytes(gzip.compress(text.getvalue().encode()))
(folder / "a.jsonl.bz2").write_bytes(bz2.compress(lines))
read = {"refused": 0, "fine": 0}
def attempt(function, *given, **said):
    try:
        function(*given, **said)
        read["fine"] += 1
    except sg.ShiftgaugeError as problem:
        assert ("d." in str(problem) or str(problem).startswith("target: ")) and len(str(problem)) < 600, problem
        read["refused"] += 1
for file in sorted(folder.iterdir()):
    raw, bits = file.read_bytes(), random.Random(0)
    form = "".join(file.suffixes)
    kind = {"kind": "logits"} if form == ".npy" else {}
    for _ in range(60):
        spoilt, bit = bytearray(raw), bits.randrange(8 * len(raw))
        spoilt[bit // 8] ^= 1 << bit % 8
        path = folder / f"d{form}"
        path.write_bytes(spoilt)
        attempt(read_target if form == ".npy" else read_source, path, **kind)
        if form != ".npz":
            attempt(lambda: sg.Pair(source, sg.scan(path, **kind), "none").estimate("ac"))
        path.unlink()
print(read["refused"], read["fine"])
"""


@pytest.mark.slow
def test_a_flipped_bit_ends_no_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    refused, fine = map(int, done.stdout.split())
    assert refused > 400
    assert fine > 100


def both_ways(path, **said):
    """What is said where a file is read whole, and where it is scanned."""
    with pytest.raises(FileError) as whole:
        read_source(path, **said)
    with pytest.raises(FileError) as scanned:
        sg.scan(path, **said).source()
    return str(whole.value), str(scanned.value)


def test_texts_that_are_not_utf_8(tmp_path):
    """In a column of Parquet, and in the name of a column of Arrow."""
    table = pa.table({"prob_ab": [0.5] * 20, "prob_b": [0.5] * 20, "label": ["ab", "b"] * 10})
    parquet.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    raw = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(raw.replace(b"\2\0\0\0ab", b"\2\0\0\0a\xc3", 1))
    for said in both_ways(tmp_path / "a.parquet"):
        assert "a.parquet: cannot be read as .parquet" in said
        assert "save it as UTF-8" in said
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    raw = (tmp_path / "b.arrow").read_bytes()
    (tmp_path / "b.arrow").write_bytes(raw.replace(b"prob_b", b"prob_\xff"))
    for said in both_ways(tmp_path / "b.arrow"):
        assert "b.arrow: cannot be read as .arrow" in said
        assert "save it as UTF-8" in said


def test_a_footer_that_contradicts_itself(tmp_path):
    """The number of all rows, in the footer of a Parquet file, becomes negative."""
    table = pa.table({"prob_a": [0.5] * 6, "prob_b": [0.5] * 6, "label": ["a"] * 6})
    parquet.write_table(table, tmp_path / "a.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    end = len(raw) - 8
    for at in range(
        end - int.from_bytes(raw[end : end + 4], "little"), end
    ):  # the encoder knows which byte it is
        spoilt = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        try:
            rows = parquet.read_metadata(pa.BufferReader(spoilt)).num_rows
        except Exception:  # another field
            continue
        if rows < 0:
            break
    else:
        pytest.fail("no byte of the footer makes the number of rows negative")
    (tmp_path / "a.parquet").write_bytes(spoilt)
    for said in both_ways(tmp_path / "a.parquet"):
        assert "its footer promises -" in said


def test_two_columns_of_one_name_in_a_scan(tmp_path):
    table = pa.table([[0.5], [0.5], [0.5]], names=["prob_a", "prob_b", "prob_b"])
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    for said in both_ways(tmp_path / "a.arrow"):
        assert "the column 'prob_b' appears twice" in said


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_members_of_a_compressed_file(tmp_path, pack):
    """All of them are read; what follows the last and is none is refused."""
    path = tmp_path / f"a.csv.{'gz' if pack is gzip.compress else 'bz2'}"
    first, second = pack(b"prob_a,prob_b,label\n" + b"0.5,0.5,a\n" * 5), pack(b"0.5,0.5,b\n" * 3)
    path.write_bytes(first + second)
    assert read_source(path).n == 8
    for behind in (b"garbage", second[:-4], second[:1] + b"x" + second[2:]):
        path.write_bytes(first + behind)
        with pytest.raises(FileError, match=r"a\.csv\.\w+: cannot be read"):
            read_source(path)


def test_bytes_behind_an_array_and_a_stream(tmp_path):
    """As `cat` of two files makes them: the rows of the second would be lost."""
    with (tmp_path / "a.npy").open("wb") as file:
        np.save(file, P)
        np.save(file, P)
    with pytest.raises(FileError, match=r"a\.npy: more bytes follow its first array"):
        read_target(tmp_path / "a.npy", kind="probs")
    table = pa.table({"prob_a": [0.5] * 9, "prob_b": [0.5] * 9})
    with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as stream:
        stream.write_table(table, max_chunksize=4)
    assert read_target(tmp_path / "a.arrow").n == 9
    (tmp_path / "a.arrow").write_bytes(2 * (tmp_path / "a.arrow").read_bytes())
    with pytest.raises(FileError, match=r"a\.arrow: .*more bytes follow"):
        read_target(tmp_path / "a.arrow")


def test_keys_of_json_that_stand_twice(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"prob_a": 0.5, "prob_b": 0.5}\n{"prob_a": 0.5, "prob_b": 0.5, "prob_a": 0.4}\n'
    )
    with pytest.raises(FileError, match=r"a\.jsonl: line 2: the key 'prob_a' appears twice"):
        read_target(tmp_path / "a.jsonl")
