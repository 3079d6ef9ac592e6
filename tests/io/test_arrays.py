"""Scores in numpy's and torch's own files, by key, and the labels and second models that lie beside them."""

import os
import re

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge import FileError
from shiftgauge.io import ReadOptions, read_labels, read_second, read_source, read_target

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
PT, PTH = (pytest.param(ending, marks=pytest.mark.torch) for ending in ("pt", "pth"))


def write(path, **held):
    if path.suffix == ".npz":
        np.savez(path, **held)
    else:
        torch = pytest.importorskip("torch")
        torch.save(
            {k: v if isinstance(v[0], str) else torch.tensor(np.array(v)) for k, v in held.items()}, path
        )
    return path


@pytest.mark.parametrize("ending", ["npz", PT, PTH])
def test_every_key_is_read_for_what_it_is(tmp_path, ending):
    path = write(
        tmp_path / f"a.{ending}",
        logits=np.log(P),
        labels=["x", "y", "y"],
        classes=["x", "y", "z"],
        weights=[1.0, 1.0, 2.0],
        predictions=["y", "y", "z"],
        second=["z", "z", "x"],
        ids=[7, 8, 9],
        extra=[0],
    )
    source, target = read_source(path), read_target(path)
    for sample in (source, target):
        assert (sample.kind, sample.classes) == ("logits", ("x", "y", "z"))
        np.testing.assert_array_equal(sample.scores, np.log(P))
        assert sample.predictions.tolist() == [1, 1, 2]
        assert sample.mass.tolist() == [0.25, 0.25, 0.5]
        assert sample.ids.tolist() == [7, 8, 9]
    assert source.labels.tolist() == [0, 1, 1]
    assert target.second.tolist() == [2, 2, 0]
    assert read_target(path, prediction=None).predictions.tolist() == [0, 1, 2]  # the largest score


@pytest.mark.parametrize("ending", ["npz", PT])
@pytest.mark.parametrize(
    ("held", "said", "words"),
    [
        ({"prob": P}, {}, "unknown key 'prob'; did you mean 'probs'?"),
        ({"probs": P, "lables": [0, 1, 2]}, {}, "unknown key 'lables'; did you mean 'labels'?"),
        ({"probs": P, "weigth": [1, 1, 1]}, {}, "unknown key 'weigth'; did you mean 'weights'?"),
        ({"x": [0], "y": [0]}, {}, "no key 'logits' or 'probs'; found 'x', 'y'"),
        (
            {f"k{j}": [0] for j in range(9)},
            {},
            "found 'k0', 'k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7'",
        ),
        (
            {"probs": P, "logits": P},
            {},
            "holds both logits and probs; say which with --logits or --probs (kind=)",
        ),
        ({"probs": P}, {"kind": "logits"}, "--logits was asked for, but the file holds only probs"),
        ({"probs": P, "classes": np.eye(3)}, {}, "'classes' has shape (3, 3); wanted one name per column"),
    ],
)
def test_keys_that_cannot_be_used(tmp_path, ending, held, said, words):
    path = write(tmp_path / f"a.{ending}", **held)
    with pytest.raises(FileError) as caught:
        read_target(path, **said)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(words)


def test_of_two_kinds_of_scores_the_one_that_is_asked_for(tmp_path):
    path = write(tmp_path / "a.npz", probs=P, logits=2 * P - 3)
    np.testing.assert_array_equal(read_target(path, kind="probs").scores, P)
    np.testing.assert_array_equal(read_target(path, kind="logits").scores, 2 * P - 3)


def test_an_empty_archive_holds_nothing(tmp_path):
    np.savez(tmp_path / "a.npz")
    with pytest.raises(FileError, match="no key 'logits' or 'probs'; found nothing"):
        read_target(tmp_path / "a.npz")


@pytest.mark.torch
def test_a_torch_file_that_is_no_dictionary(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.tensor(P), tmp_path / "a.pt")
    with pytest.raises(
        FileError, match=r"a\.pt: holds a Tensor; wanted a dictionary with 'logits' or 'probs'"
    ):
        read_target(tmp_path / "a.pt")


class Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.mark.torch
def test_a_torch_file_that_would_run_something(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"logits": Hostile(tmp_path / "made")}, tmp_path / "a.pt")
    with pytest.raises(FileError) as caught:
        read_target(tmp_path / "a.pt")
    path, why, wanted = re.fullmatch(
        r"(.*): refused by torch's safe loader \((.*)\); (.*)", str(caught.value)
    ).groups()
    assert (path, wanted) == (str(tmp_path / "a.pt"), "wanted a dictionary of plain tensors")
    assert why.startswith("Weights only load failed")
    assert len(why) <= 120
    assert not (tmp_path / "made").exists()


def test_one_array_alone_needs_its_kind(tmp_path):
    np.save(tmp_path / "a.npy", P)
    np.save(tmp_path / "l.npy", [2, 1, 0])
    with pytest.raises(FileError, match=r"a\.npy: a \.npy file does not say what it holds; pass --logits or"):
        read_target(tmp_path / "a.npy")
    assert read_target(tmp_path / "a.npy", kind="probs").kind == "probs"
    assert read_target(tmp_path / "a.npy", kind="logits", insist=True).kind == "logits"
    source = read_source(tmp_path / "a.npy", labels=tmp_path / "l.npy", kind="probs")
    assert source.labels.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.npy", "no labels; the source needs a file of labels (--source-labels FILE)"),
        ("a.npz", "no labels; the source needs a key 'labels', or a file of labels (--source-labels FILE)"),
        (
            "a.csv",
            "(found prob_0, prob_1, prob_2); the source needs labels, in a column or in a separate file",
        ),
    ],
)
def test_a_source_without_labels_hears_where_they_may_be(tmp_path, name, words):
    np.save(tmp_path / "a.npy", P)
    np.savez(tmp_path / "a.npz", probs=P)
    np.savetxt(tmp_path / "a.csv", P, delimiter=",", header="prob_0,prob_1,prob_2", comments="")
    with pytest.raises(FileError) as caught:
        read_source(tmp_path / name, kind="probs")
    assert str(caught.value).startswith(f"{tmp_path / name}: no ")
    assert words in str(caught.value)


def test_labels_of_another_file_are_named_with_it(tmp_path):
    np.save(tmp_path / "a.npy", P)
    np.save(tmp_path / "l.npy", [0, 1])
    np.savez(tmp_path / "l.npz", label=[0, 1], x=[0])
    with pytest.raises(FileError, match=r"a\.npy with .*l\.npy: source labels: 2 labels for 3 rows"):
        read_source(tmp_path / "a.npy", labels=tmp_path / "l.npy", kind="probs")
    with pytest.raises(
        FileError, match=r"l\.npz: no key 'labels'; did you mean 'label'\? \(found label, x\)"
    ):
        read_labels(tmp_path / "l.npz")
    np.savez(tmp_path / "l.npz", labels=[0, 1, 2])
    assert read_labels(tmp_path / "l.npz").tolist() == [0, 1, 2]
    (tmp_path / "l.csv").write_text("truth,label\nz,0\nx,0\n")
    assert read_labels(tmp_path / "l.csv", ReadOptions(label="truth"), ("x", "z")).tolist() == ["z", "x"]


def test_a_second_model_in_every_form(tmp_path):
    """Its decisions where it has some, else the class that it scores highest: rows 0, 1, 2 go to z, x, y."""
    scores = P[:, [1, 2, 0]]
    names, rows = ("x", "y", "z"), [2, 0, 1]
    assert scores.argmax(axis=1).tolist() == rows
    decided = [names[j] for j in rows]
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", predictions=decided, second=["x"] * 3, probs=P)
    np.savez(tmp_path / "b.npz", second=decided)
    np.savez(tmp_path / "c.npz", probs=scores)
    np.savez(tmp_path / "d.npz", probs=scores, classes=names)
    (tmp_path / "a.csv").write_text("prediction,prob_x\n" + "".join(f"{name},9\n" for name in decided))
    (tmp_path / "b.csv").write_text("said,prediction\n" + "".join(f"{name},x\n" for name in decided))
    lines = "".join(f"{a},{b},{c}\n" for a, b, c in scores)
    (tmp_path / "c.csv").write_text("prob_x,prob_y,prob_z\n" + lines)
    for name, want, form in (
        ("a.npy", rows, None),
        ("a.npz", decided, None),
        ("b.npz", decided, None),
        ("c.npz", rows, None),
        ("d.npz", decided, None),
        ("a.csv", decided, None),
        ("a.csv", decided, ReadOptions(prediction=None)),
        ("b.csv", decided, ReadOptions(prediction="said")),
        ("c.csv", decided, None),
    ):
        assert read_second(tmp_path / name, form, names).tolist() == want, name
    np.savez(tmp_path / "t.npz", probs=P, classes=names, second=["x"] * 3)
    assert read_target(tmp_path / "t.npz").second.tolist() == [0, 0, 0]
    np.savez(tmp_path / "u.npz", probs=P, classes=names)
    assert read_target(tmp_path / "u.npz", second=tmp_path / "c.csv").second.tolist() == rows
    with pytest.raises(FileError, match=r"t\.npz: has a second model's .* --second .*c\.csv"):
        read_target(tmp_path / "t.npz", second=tmp_path / "c.csv")


def test_the_demo_is_what_was_recorded():
    """Read past the loader: the classes by name, the errors counted by number."""
    from importlib import resources

    with resources.files("shiftgauge").joinpath("data/demo.npz").open("rb") as file:
        held = dict(np.load(file))
    demo = sg.demo_data()
    names = held["classes"].tolist()
    assert demo.source.classes == tuple(names)
    assert demo.source.error == np.mean(held["val_logits"].argmax(axis=1) != held["val_labels"])
    assert list(demo.targets) == held["shifts"].tolist()
    for shift, target in demo.targets.items():
        assert target.classes == tuple(names)
        np.testing.assert_array_equal(target.second, held[f"{shift}_second"])
        np.testing.assert_array_equal(target.scores, held[f"{shift}_logits"])
    assert demo.labels.tolist() == [names[j] for j in held["labels"]]


def test_class_names_that_are_bytes(tmp_path):
    """As numpy saves texts of type `S`."""
    np.savez(
        tmp_path / "a.npz",
        logits=np.log(P),
        labels=np.array([b"x", b"y", b"y"]),
        classes=np.array([b"x", b"y", b"z"]),
    )
    source = read_source(tmp_path / "a.npz")
    assert source.classes == ("x", "y", "z")
    assert read_target(tmp_path / "a.npz", like=source).classes == ("x", "y", "z")
