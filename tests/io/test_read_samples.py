"""Samples go to a file and come back as they were, and the command reads the same file."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.io import read_source, read_target

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]], dtype=np.float32)
FIELDS = ("scores", "kind", "predictions", "weights", "classes", "ids", "decided")


def same(left, right, more):
    for name in (*FIELDS, *more):
        one, two = getattr(left, name), getattr(right, name)
        assert np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two, name
    assert left.scores.dtype == right.scores.dtype


@pytest.mark.parametrize(
    "options",
    [
        {"probs": P},
        {"logits": P * 3, "weights": [1.0, 2.0, 4.0]},
        {"probs": P, "classes": ["a", "b", "é"], "predictions": ["b", "b", "é"], "ids": ["r1", "r2", "r3"]},
        {"probs": P, "classes": [30, 10, 20], "ids": np.array(["2026-01-01"] * 3, dtype="M8[D]")},
        {"probs": P, "classes": ["1", "2", "0"], "predictions": ["0", "2", "1"]},
        {"probs": P, "classes": [0.5, 1.5, 2.5], "ids": [7, 8, 9]},
    ],
)
def test_there_and_back(tmp_path, options):
    names = options.get("classes") or [0, 1, 2]
    source = sg.Source(labels=[names[0], names[2], names[1]], **options)
    source.save(tmp_path / "s.npz")
    for twin in (sg.Source.load(tmp_path / "s.npz"), read_source(tmp_path / "s.npz")):
        same(source, twin, ["labels"])
    target = sg.Target(second=[names[1], names[1], names[2]], **options)
    target.save(tmp_path / "t.npz")
    for twin in (sg.Target.load(tmp_path / "t.npz"), read_target(tmp_path / "t.npz")):
        same(target, twin, ["second"])


def test_a_source_s_file_is_also_a_target(tmp_path):
    sg.Source(probs=P, labels=[0, 1, 2]).save(tmp_path / "s.npz")
    assert sg.Target.load(tmp_path / "s.npz").n == 3


def test_what_is_refused(tmp_path):
    target = sg.Target(probs=P, classes=["a", 1, 2])
    with pytest.raises(sg.FileError, match="classes of several types"):
        target.save(tmp_path / "t.npz")
    with pytest.raises(sg.FileError, match=r"name ending in \.npz"):
        target.save(tmp_path / "t.json")
    sg.Target(probs=P).save(tmp_path / "t.npz")
    with pytest.raises(sg.FileError, match=r"t\.npz: holds no labels \(found probs\); wanted a source"):
        sg.Source.load(tmp_path / "t.npz")
    with pytest.raises(sg.FileError, match="No such file"):
        sg.Target.load(tmp_path / "none.npz")
    np.savez(tmp_path / "bad.npz", probs=P * 2)
    with pytest.raises(sg.FileError, match=r"bad\.npz: target probs: row 0 sums to 2"):
        sg.Target.load(tmp_path / "bad.npz")


def test_short_words_for_long_things():
    assert repr(sg.Target(probs=P)) == "Target(probs, 3 rows x 3 classes)"
    assert repr(sg.Target(probs=P, classes=list("abc"))).endswith("classes=['a', 'b', 'c'])")
    assert repr(sg.Target(probs=[[0.25] * 4], classes=list("abcd"))).endswith("classes=['a', 'b', 'c', ...])")
    assert len(repr(sg.demo_data())) < 200
