"""Frames of every make give the same source, by column names."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import shiftgauge as sg
from shiftgauge.adapters import from_dataframe

DATA = {
    "id": ["a", "b", "c", "d"],
    "prob_cat": [0.9, 0.2, 0.6, 0.5],
    "prob_dog": [0.1, 0.8, 0.4, 0.5],
    "label": ["cat", "dog", "dog", "cat"],
    "weight": [1.0, 1.0, 2.0, 0.0],
    "score": [2.0, -1.0, 0.5, 0.0],
}


def frames():
    yield "pyarrow", lambda: pa.table(DATA)
    for name in ("pandas", "polars"):
        yield name, lambda name=name: pytest.importorskip(name).DataFrame(DATA)
    yield "duckdb", _duckdb
    yield "datasets", lambda: pytest.importorskip("datasets").Dataset.from_dict(DATA)


def _duckdb():
    return pytest.importorskip("duckdb").from_arrow(pa.table(DATA))


SLOW = {"datasets"}  # not installed by the extra `dev`


@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name, marks=pytest.mark.slow if name in SLOW else ()) for name, make in frames()],
)
def test_every_make(make):
    source = from_dataframe(make(), labels="label").source()
    assert isinstance(source, sg.Source)
    assert source.classes == ("cat", "dog")
    assert source.error == 0.25
    np.testing.assert_array_equal(source.scores[:, 0], DATA["prob_cat"])
    assert isinstance(from_dataframe(make()).target(), sg.Target)


def test_columns_are_said_in_three_ways():
    table = pa.table({"cat": DATA["prob_cat"], "dog": DATA["prob_dog"], "label": DATA["label"]})
    by_list = from_dataframe(table, probs=["cat", "dog"], labels="label").source()
    by_map = from_dataframe(
        pa.table(DATA), probs={"cat": "prob_cat", "dog": "prob_dog"}, labels="label"
    ).source()
    by_prefix = from_dataframe(pa.table(DATA), probs="prob_", labels="label").source()
    for other in (by_map, by_prefix):
        assert other.classes == by_list.classes
        assert np.array_equal(other.scores, by_list.scores)


def test_one_column_of_two_classes_and_weights():
    source = from_dataframe(
        pa.table(DATA), probs={"cat": None, "dog": "prob_dog"}, labels="label", weights="weight"
    ).source()
    np.testing.assert_allclose(source.scores[:, 0], DATA["prob_cat"])
    assert source.error == 0.5  # row c, wrong, weighs 2 of 4
    by_other = from_dataframe(pa.table(DATA), probs={"cat": "prob_cat", "dog": None}, labels="label").source()
    np.testing.assert_allclose(by_other.scores, source.scores)
    with pytest.raises(sg.InputError, match=r"column 'p', row 1 is 1\.5; wanted probabilities from 0 to 1"):
        from_dataframe(pa.table({"p": [0.5, 1.5]}), probs={"cat": "p", "dog": None})


def test_numbers_as_classes_and_categories():
    table = pa.table({"p0": [0.9, 0.2], "p1": [0.1, 0.8], "y": pa.array([1, 1])})
    assert from_dataframe(table, probs={0: "p0", 1: "p1"}, labels="y").source().error == 0.5
    table = table.set_column(2, "y", pa.array(["1", "1"]).dictionary_encode())
    assert from_dataframe(table, probs={"0": "p0", "1": "p1"}, labels="y").source().error == 0.5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: from_dataframe(t, probs="prob_", logits="logit_"), "wanted one"),
        (lambda t: from_dataframe(t, probs=["prob_cat", "prob_dgo"]), "did you mean 'prob_dog'"),
        (lambda t: from_dataframe(t, labels="labl"), None),
        (lambda t: from_dataframe(t, labels="truth"), "no column 'truth'"),
        (lambda t: from_dataframe(t, probs=["id", "label"]), "wanted numbers"),
        (lambda t: from_dataframe(t, probs={"cat": None, "dog": "score"}), "from 0 to 1"),
        (lambda t: from_dataframe(t, probs={"a": None, "b": "prob_dog", "c": "prob_cat"}), "two classes"),
        (lambda t: from_dataframe(t.slice(0, 0)), "no rows"),
        (lambda t: from_dataframe(object()), "Arrow interface"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(sg.InputError, match=words):
        call(pa.table(DATA))


def test_pandas_is_not_needed():
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pandas': raise ImportError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "import pyarrow as pa\n"
        "from shiftgauge.adapters import from_dataframe\n"
        "print(from_dataframe(pa.table({'prob_a': [.9], 'prob_b': [.1]})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_column_label_is_read_where_it_is_there():
    assert from_dataframe(pa.table(DATA)).source().error == pytest.approx(0.25)
    bare = pa.table({name: DATA[name] for name in ("prob_cat", "prob_dog")})
    with pytest.raises(sg.InputError, match="the column labels="):
        from_dataframe(bare).source()


def test_the_index_of_a_pandas_frame_names_its_rows():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(DATA)
    assert from_dataframe(frame).target().ids is None
    assert from_dataframe(frame[::-1]).target().ids.tolist() == [3, 2, 1, 0]
    assert from_dataframe(frame.set_index("id")).target().ids.tolist() == DATA["id"]
