"""A driver that was killed goes on where it was, and only with the same data and the same question."""

import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
from pyarrow import parquet

import shiftgauge as sg
from shiftgauge.engines.checkpoint import PlainUnpickler, digest_of
from shiftgauge.errors import FileError, InputError
from shiftgauge.rows import RowSummary

from .samples import fold, folded, rows

DRIVER = """
    import os, signal, sys
    import numpy as np
    import shiftgauge as sg
    import shiftgauge.io.parts as files
    from shiftgauge.rows import run

    files.PART_SCORES = 1500

    def question(power, state):
        def step(block):
            return (np.abs(block.scores.astype(float)) ** power + state).sum(0)
        return step

    scan = sg.scan(sys.argv[1], checkpoint=sys.argv[2])
    state = np.zeros(3)
    for power in range(1, 5):
        if power == int(sys.argv[3]):
            scan.progress = lambda done, total: os.kill(os.getpid(), signal.SIGKILL)
        state = run(scan.fold(question(power, state)))
    print(scan.engine.reused, state.tobytes().hex())
"""


def drive(file, folder, die_in):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DRIVER), str(file), str(folder), str(die_in)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "random"},
    )


def test_a_killed_driver_goes_on_where_it_was(tmp_path):
    parquet.write_table(rows()[2], tmp_path / "a.parquet", row_group_size=500)
    whole = drive(tmp_path / "a.parquet", tmp_path / "other", 0)
    died = drive(tmp_path / "a.parquet", tmp_path / "kept", 3)
    assert died.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "kept").glob("pass-*.pickle"))) == 2
    again = drive(tmp_path / "a.parquet", tmp_path / "kept", 0)
    assert again.returncode == 0, again.stderr
    assert whole.stdout.split()[0] == "0"
    assert again.stdout.split() == ["2", whole.stdout.split()[1]]


def test_other_data_or_another_question_is_read_anew(tmp_path):
    def kept(data, step):
        scan = sg.scan(data, weight="w", id="row", checkpoint=tmp_path / "kept")
        return fold(scan, step), scan.engine.reused

    table, other = rows()[2], rows(seed=1)[2]
    first, _ = kept(table, folded())
    again, reused = kept(table, folded())
    assert reused == 1
    assert again.tobytes() == first.tobytes()
    assert kept(other, folded())[1] == 0
    for name, here in (("a", table), ("b", other)):
        parquet.write_table(here, tmp_path / f"{name}.parquet")
        assert kept(tmp_path / f"{name}.parquet", folded())[1] == 0
    assert kept(tmp_path / "b.parquet", folded())[1] == 1
    assert kept(table, lambda block: len(block)) == (5000, 0)


def test_rows_that_change_are_noticed_although_the_question_is_the_same(tmp_path):
    """Every pass of a driver is made, or kept, under its own number: the second one reads anew."""
    held = [rows()[2]]
    scan = sg.scan(lambda: iter(held[0].to_batches()), checkpoint=tmp_path)
    fold(scan, _count)
    fold(scan, _count)
    assert [file.name[:9] for file in sorted(tmp_path.iterdir())] == ["pass-0001", "pass-0002"]
    held[0] = rows(seed=1)[2]
    with pytest.raises(FileError, match="changed between two passes"):
        fold(scan, _count)


def _count(block):
    return len(block)


def _asked(power, state):
    def step(block):
        return (block.scores**power).sum() + state

    return step


class Threshold:
    """A question as an object."""

    def __init__(self, at):
        self.at = at

    def above(self, block):
        return (block.scores > self.at).sum()


class Limit:
    """Another one, of the same content."""

    def __init__(self, at):
        self.at = at


#: Questions that differ in one thing each, made anew at every call.
QUESTIONS = [
    lambda: partial(_count, start=1),
    lambda: partial(_count, start=2),
    lambda: partial(_count, 1),
    lambda: partial(_asked, start=1),
    lambda: _asked(1, np.zeros(3)),
    lambda: _asked(2, np.zeros(3)),
    lambda: _asked(1, np.ones(3)),
    lambda: _asked(1, np.zeros(3, np.float32)),
    lambda: _asked(1, np.zeros((3, 1))),
    lambda: _asked(1, np.array(["a", None], dtype=object)),
    lambda: _asked(1, np.array(["b", None], dtype=object)),
    lambda: Threshold(0.5).above,
    lambda: Threshold(0.25).above,
    lambda: {"one": [1, 2.5, None]},
    lambda: {"one": [1, 2.5, "None"]},
    lambda: {"two": [1, 2.5, None]},
    lambda: frozenset({"one", "two", "three"}),
    lambda: frozenset({"one", "two"}),
    lambda: frozenset({1, "one", None}),
    lambda: [1, 2],
    lambda: (1, 2),
    lambda: Threshold(0.5),
    lambda: Limit(0.5),
    lambda: b"one",
    lambda: len,
    lambda: sum,
    lambda: Threshold,
]


def test_a_question_is_known_by_what_it_consists_of():
    """Two that are equal have one digest although they are two objects; no two that differ in anything do."""
    found = [digest_of(make()) for make in QUESTIONS]
    assert found == [digest_of(make()) for make in QUESTIONS]
    assert len(set(found)) == len(QUESTIONS)


@pytest.mark.parametrize(
    ("module", "name"), [("shiftgauge", "scan"), ("shiftgauge.engines.checkpoint", "Path"), ("os", "system")]
)
def test_only_our_own_classes_are_made_from_a_file(module, name):
    with pytest.raises(pickle.UnpicklingError, match=f"{module}.{name} is not for checkpoints"):
        PlainUnpickler(io.BytesIO(f"c{module}\n{name}\n.".encode())).load()
    ours = pickle.dumps(RowSummary(3))
    assert PlainUnpickler(io.BytesIO(ours)).load() == RowSummary(3)


def test_a_damaged_or_foreign_file_is_never_unpickled(tmp_path):
    scan = sg.scan(rows()[2], checkpoint=tmp_path)
    truth = fold(scan, lambda block: block.scores.sum(0))
    (file,) = tmp_path.glob("pass-*.pickle")

    class Harm:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    for content in (b"", file.read_bytes()[:50], pickle.dumps(Harm())):
        file.write_bytes(content)
        scan = sg.scan(rows()[2], checkpoint=tmp_path)
        assert np.array_equal(fold(scan, lambda block: block.scores.sum(0)), truth)
        assert scan.engine.reused == 0
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("inside", [".", "kept", "deep/kept"])
def test_a_checkpoint_among_the_rows_is_refused_before_anything_is_written(tmp_path, inside):
    parquet.write_table(rows()[2], tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="where every file is read as rows; wanted a folder elsewhere"):
        sg.scan(tmp_path, checkpoint=tmp_path / inside)
    assert os.listdir(tmp_path) == ["rows.parquet"]


def test_a_hidden_checkpoint_among_the_rows_works_twice(tmp_path):
    parquet.write_table(rows()[2], tmp_path / "rows.parquet")
    for kept in (0, 1):
        scan = sg.scan(tmp_path, checkpoint=tmp_path / ".kept")
        fold(scan, lambda block: block.scores.sum(0))
        assert scan.engine.reused == kept
