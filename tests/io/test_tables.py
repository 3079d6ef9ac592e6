"""Tables of every form hold the same sample, and say what is wrong with file and row."""

import gzip
import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import shiftgauge as sg
from shiftgauge import FileError, InputError
from shiftgauge.io import (
    delimited,
    jsonlines,
    read_checked,
    read_columns,
    read_source,
    read_target,
)
from shiftgauge.io.layout import binary_probabilities
from shiftgauge.io.tables import open_table
from shiftgauge.io.values import numeric_column
from shiftgauge.samples import meeting_notes


def write_jsonl(path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    data = "\n".join(map(json.dumps, rows)) + "\n\n"
    path.write_bytes(gzip.compress(data.encode()) if path.suffix == ".gz" else data.encode())
    return path


def write_stream(path, columns):
    table = pa.table(columns)
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=7)
    return path


def every_form(folder, columns, write_csv):
    yield write_csv(folder / "a.csv", columns)
    yield write_csv(folder / "b.csv.gz", columns)
    yield write_csv(folder / "c.csv.bz2", columns)
    yield write_csv(folder / "d.csv", columns, ";")
    yield write_csv(folder / "e.csv", columns, ";", lambda v: repr(v).replace(".", ","))
    yield write_csv(folder / "f.csv", columns, "\t")
    yield write_csv(folder / "g.tsv", columns, "\t")
    yield write_csv(folder / "h.TSV", columns, ",")
    yield write_jsonl(folder / "i.jsonl", columns)
    yield write_jsonl(folder / "j.jsonl.gz", columns)
    yield write_stream(folder / "k.arrow", columns)
    feather.write_feather(pa.table(columns), folder / "l.feather")
    yield folder / "l.feather"
    parquet.write_table(pa.table(columns), folder / "U.PARQUET")
    yield folder / "U.PARQUET"


def test_every_form_is_the_same_sample(tmp_path, columns, write_csv):
    probs = np.column_stack([columns[f"prob_{name}"] for name in "xyz"])
    for path in every_form(tmp_path, columns, write_csv):
        source = read_source(path, id="version")
        np.testing.assert_array_equal(source.scores, probs, err_msg=path.name)
        assert [source.class_name(j) for j in source.labels] == columns["label"], path.name
        assert [source.class_name(j) for j in source.predictions] == columns["prediction"], path.name
        assert source.ids.tolist() == columns["version"], path.name
        blocks = list(open_table(path).read(["prob_x"], ["label"]))
        assert sum(block.batch.num_rows for block in blocks) == 40, path.name
        assert blocks[-1].where == str(path)


def test_what_was_sniffed_is_said(tmp_path, columns, write_csv):
    for delimiter, word in ((";", "semicolons"), ("\t", "tabs")):
        path = write_csv(tmp_path / "a.csv", columns, delimiter)
        for read in (read_source, read_target):
            assert [word in note for note in read(path).notes] == [True]
    path = write_csv(tmp_path / "b.csv", columns, ";", lambda v: repr(v).replace(".", ","))
    assert "decimal comma" in read_target(path).notes[1]
    for name, delimiter in (
        ("c.tsv", "\t"),
        ("c.TSV", "\t"),
        ("c.tsv.gz", "\t"),
        ("c.tsv.csv", ","),
        ("c.csv", ","),
    ):
        assert read_target(write_csv(tmp_path / name, columns, delimiter)).notes == (), name
    (tmp_path / "d.csv").write_text('"prob_a";"prob_b";"a,b,c,d"\n0,25;0,75;x\n')
    assert read_target(tmp_path / "d.csv").scores.tolist() == [[0.25, 0.75]]


def test_a_prediction_column_is_used_as_a_label_column_is(tmp_path, columns, write_csv):
    path = write_csv(tmp_path / "a.csv", columns)
    source, target = read_source(path), read_target(path)
    wrong = np.mean(np.array(columns["label"]) != np.array(columns["prediction"]))
    assert source.error == pytest.approx(wrong)
    argmax = read_source(path, prediction=None)
    assert argmax.decided is None
    assert source.decided == np.mean(source.predictions != argmax.predictions)
    assert f"{100 * source.decided:.1f}% of the source's rows" in meeting_notes(source, target)[0]
    assert any("source only" in note for note in meeting_notes(source, read_target(path, prediction=None)))
    del columns["prediction"]
    assert read_source(write_csv(tmp_path / "b.csv", columns)).decided is None
    with pytest.raises(FileError, match="no column 'said'"):
        read_source(path, prediction="said")
    columns["prediction"] = ["maybe"] * 40
    with pytest.raises(FileError, match=r"'maybe', which is not a class .*--prediction-column '' leaves"):
        read_source(write_csv(tmp_path / "c.csv", columns))


def test_whole_numbers_beside_names_and_rows_without_labels(tmp_path, columns, write_csv):
    want = ["xyz".index(c) for c in columns["label"]]
    columns["label"] = want
    del columns["prediction"]
    for path in every_form(tmp_path, columns, write_csv):
        assert read_source(path).labels.tolist() == want, path.name
    columns["label"] = ["", *want[1:]]
    path = write_csv(tmp_path / "n.csv", columns)
    with pytest.raises(FileError, match=r"row 0 is missing; .*--drop-unlabelled"):
        read_source(path)
    source = read_source(path, drop_unlabelled=True)
    assert (source.n, source.labels.tolist()) == (39, want[1:])
    assert "1 of 40 source rows have no label" in source.notes[0]


@pytest.mark.parametrize("name", ["Y_True", "target", "sentiment"])
def test_a_missing_label_column_gets_a_suggestion(tmp_path, columns, write_csv, name):
    columns[name] = columns.pop("label")
    path = write_csv(tmp_path / "a.csv", columns)
    with pytest.raises(FileError, match=f"is it --label-column {name}?"):
        read_source(path)
    assert read_source(path, label=name).n == 40
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(FileError, match=f"is it --label-column {name}?"):
        read_source(tmp_path / "a.parquet")


def test_columns_are_compared_before_numbers(tmp_path, columns, write_csv):
    source = read_source(write_csv(tmp_path / "s.csv", columns))
    del columns["prob_z"], columns["prediction"]
    path = write_csv(tmp_path / "t.csv", columns)
    with pytest.raises(FileError, match=r"t\.csv: no column 'prob_z', a class of the source"):
        read_target(path, like=source)
    np.savez(tmp_path / "t.npz", probs=np.full((5, 4), 0.25))
    with pytest.raises(FileError, match="4 columns of scores, and the source has 3"):
        read_target(tmp_path / "t.npz", like=source)


def test_one_column_and_a_threshold(tmp_path):
    (tmp_path / "s.csv").write_text("prob,label\n0.95,fraud\n0.6,fine\n0.2,fine\n")
    said = {"positive": "fraud", "negative": "fine"}
    assert read_source(tmp_path / "s.csv", **said).error == pytest.approx(1 / 3)
    assert read_source(tmp_path / "s.csv", threshold=0.9, **said).error == 0.0
    assert read_source(tmp_path / "s.csv", threshold={"fine": 0.9}, **said).error == pytest.approx(2 / 3)


def test_one_column_holds_shares_of_one(tmp_path):
    """From 0 to 1, both included; the first row that is outside is named."""
    said = {"positive": "fraud", "negative": "fine"}
    path = tmp_path / "s.csv"
    path.write_text("prob,label\n0,fine\n1,fraud\n0.25,fine\n")
    assert read_source(path, **said).scores.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.75, 0.25]]
    for wrong, shown in (("1.5", "1.5"), ("-0.25", "-0.25"), ("inf", "inf")):
        path.write_text(f"prob,label\n0.5,fine\n0.5,fine\n{wrong},fine\n7,fine\n")
        with pytest.raises(
            FileError, match=rf"s\.csv: column 'prob', row 2 is {shown}; wanted probabilities"
        ):
            read_source(path, **said)
    with pytest.raises(FileError, match="f: column 'prob', row 11 is 2; wanted"):
        binary_probabilities(np.array([[0.5], [2.0]]), "f", 10)
    for one in ("positive", "negative"):
        with pytest.raises(FileError, match="both --positive and --negative are needed"):
            read_source(path, **{one: "fraud"})
    with pytest.raises(FileError, match="go with one column 'prob' of probabilities, not --logits"):
        read_source(path, kind="logits", **said)
    path.write_text("p,label\n0.5,fine\n")
    with pytest.raises(FileError, match=r"no column 'prob' \(found p, label\)"):
        read_source(path, **said)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            "prob,label",
            "(found prob, label); for two classes with one column of probabilities pass --positive",
        ),
        ("p_a,p_b,label", "(found p_a, p_b, label); rename them prob_NAME or logit_NAME, one per class"),
        (
            "p,label",
            "(found p, label); for two classes name 'p' 'prob' and pass --positive NAME --negative NAME",
        ),
        ("a,b,c,d,e,f,g,h", "(found a, b, c, d, e, f, g, h); rename them"),
        ("a,b,c,d,e,f,g,h,i", "(found a, b, c, d, e, f, g, h, ...); rename them"),
    ],
)
def test_a_table_without_scores_gets_a_hint(tmp_path, names, words):
    (tmp_path / "a.csv").write_text(names + "\n" + ",".join("1" for _ in names.split(",")) + "\n")
    with pytest.raises(FileError) as caught:
        read_target(tmp_path / "a.csv")
    assert f"no columns begin with 'logit_' or 'prob_' {words}" in str(caught.value)


def test_prefixes_and_kinds_that_were_said(tmp_path):
    (tmp_path / "a.csv").write_text("prob_a,prob_b,logit_a,logit_b,prob_label\n0.5,0.5,3,-3,b\n")
    with pytest.raises(FileError, match=r"holds both logits and probs; say which with --logits or --probs"):
        read_source(tmp_path / "a.csv", label="prob_label")
    for kind, row in (("probs", [0.5, 0.5]), ("logits", [3.0, -3.0])):
        source = read_source(tmp_path / "a.csv", label="prob_label", kind=kind)
        assert (source.scores.tolist(), source.classes, source.labels.tolist()) == ([row], ("a", "b"), [1])
    (tmp_path / "b.csv").write_text("p.a,p.b,label\n0.5,0.5,b\n")
    assert read_source(tmp_path / "b.csv", prob_prefix="p.").classes == ("a", "b")
    assert read_source(tmp_path / "b.csv", logit_prefix="p.", insist=True).kind == "logits"
    with pytest.raises(FileError, match="--logits was asked for, but the file holds only probs"):
        read_source(tmp_path / "b.csv", prob_prefix="p.", kind="logits")


def test_a_misspelt_column_of_labels_is_refused(tmp_path):
    """Unless the right one is there too, or it is the one that was asked for."""
    (tmp_path / "a.csv").write_text("prob_a,prob_b,Lable\n0.5,0.5,b\n")
    with pytest.raises(FileError) as caught:
        read_target(tmp_path / "a.csv")
    assert str(caught.value).endswith(
        "a.csv: unknown column 'Lable'; did you mean 'label'? Rename it, or pass --label-column Lable"
    )
    assert read_source(tmp_path / "a.csv", label="Lable").labels.tolist() == [1]
    assert read_target(tmp_path / "a.csv", label="truth").n == 1
    (tmp_path / "b.csv").write_text("prob_a,prob_b,lable,label\n0.5,0.5,b,a\n")
    assert read_source(tmp_path / "b.csv").labels.tolist() == [0]
    (tmp_path / "c.csv").write_text("prob_a,prob_b,table,cabal\n0.5,0.5,b,a\n")
    assert read_target(tmp_path / "c.csv").n == 1  # near enough for a hint, not for a refusal


def test_a_column_of_class_names_may_hold_the_labels(tmp_path, write_csv):
    scores = {"prob_a": [0.5, 0.5, 0.5], "prob_b": [0.5, 0.5, 0.5]}
    for others, want in (
        ({"site": ["x", "y", "z"], "said": ["a", "", "b"]}, "said"),
        ({"site": ["x", "a", "b"], "said": ["b", "b", "b"]}, "said"),
        ({"prediction": ["a", "b", "a"], "said": ["a", "b", "a"]}, "said"),
        ({"said": ["a", "b", "a"], "Gold": ["x", "y", "z"]}, "Gold"),  # by its name, whatever it holds
        ({"site": ["", "", ""], "prediction": ["a", "b", "a"]}, None),
    ):
        with pytest.raises(FileError) as caught:
            read_source(write_csv(tmp_path / "a.csv", {**scores, **others}))
        assert f"no column 'label'{f'; is it --label-column {want}?' if want else ' (found'}" in str(
            caught.value
        )


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="kind 'scores' is not known"):
        read_source(tmp_path / "s.csv", kind="scores")


HEAD = "prob_a,prob_b,label\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", HEAD + "0.5,0.5,a\n0.5,high,a\n", "column 'prob_b', row 1 is 'high'; wanted numbers"),
        ("a.csv", HEAD + "0.5,0.5,a\n0.5,,a\n", "column 'prob_b', row 1 is empty or NaN"),
        ("a.csv", HEAD + "0.5,0.5,a\n0.5,a\n", "a.csv: row 1 has 2 values for 3 columns; is it complete"),
        ("a.csv", HEAD, "has a header but no rows"),
        ("a.csv", HEAD.strip(), "has a header but no rows"),
        ("a.csv", "\n\r\n", "a.csv: is empty"),
        ("a.csv", "prob_a,prob_b, label\n.5,.5,a\n", "or pass --label-column ' label'"),
        ("a.csv", "prob_a,prob_a,label\n.5,.5,a\n", "the column 'prob_a' appears twice"),
        ("a.csv", b"prob_\xe9,prob_b,label\n.5,.5,b\n", "save it as UTF-8"),
        (
            "a.csv.gz",
            gzip.compress(HEAD.encode() + b".5,.5,a\n" * 999, mtime=0)[:-30],
            "a.csv.gz: cannot be read",
        ),
        ("a.jsonl", '{"prob_a": 1.0, "prob_b": 0.0, "label": "a"}\n{"prob_a": 1}}\n', "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", "line 1 is a list; wanted one object"),
        (
            "a.jsonl",
            '{"prob_a": 1.0, "label": "a"}\n{"prob_a": 0.5, "prob_b": 0.5}\n',
            "row 1 has a key 'prob_b'",
        ),
        ("a.jsonl", '{"prob_a": 1.0, "prob_b": "?", "label": "a"}\n', "wanted numbers"),
        (
            "a.jsonl",
            '{"prob_a": 1.0, "prob_b": 0.0, "label": "a"}\n{"prob_a": true, "prob_b": 0, "label": "a"}\n',
            "column 'prob_a', row 1 is True; wanted numbers",
        ),
        ("a.jsonl", "[" * 100000 + "\n", "line 1 is not JSON"),
        ("a.npz.gz", b"x", "cannot tell its format"),
        ("a\x1b[31m.csv", HEAD, r"a\\x1b\[31m.csv: has a header"),
    ],
)
def test_what_cannot_be_read(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError, match=words) as caught:
        read_source(tmp_path / name)
    assert str(caught.value).isprintable()


def test_a_wrong_row_far_down_is_named_with_its_place(tmp_path):
    rows = 70_000
    parquet.write_table(pa.table({"prob_a": np.ones(rows), "prob_b": np.zeros(rows)}), tmp_path / "a.parquet")
    values = pa.array([0.0] * (rows - 1) + [None])
    parquet.write_table(pa.table({"prob_a": np.ones(rows), "prob_b": values}), tmp_path / "b.parquet")
    with pytest.raises(FileError, match=r"b\.parquet: column 'prob_b', row 69999 is empty"):
        read_target(tmp_path)
    seen = [
        (b.where[-9:], b.first)
        for b in open_table(tmp_path).read(["prob_a"], [])
        if len(numeric_column(b, "prob_a"))
    ]
    assert seen == [("a.parquet", 0), ("a.parquet", 65536), ("b.parquet", 0), ("b.parquet", 65536)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_csv_is_read_in_blocks_that_know_their_place(tmp_path, write_csv, monkeypatch, ending):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 200)
    held = {"prob_a": [i / 64 for i in range(64)], "prob_b": [1 - i / 64 for i in range(64)]}
    held["site"] = [f'"two\nlines {i}"' for i in range(64)]
    delimiter = "\t" if ending == "tsv" else ","
    path = write_csv(tmp_path / f"a.{ending}", held, delimiter)
    blocks = list(open_table(path).read(["prob_a"], ["site"]))
    sizes = [block.batch.num_rows for block in blocks]
    assert len(blocks) > 5
    assert [block.first for block in blocks] == [sum(sizes[:j]) for j in range(len(blocks))]
    assert {tuple(block.batch.schema.names) for block in blocks} == {("prob_a", "site")}
    found = [text for block in blocks for text in block.batch.column("site").to_pylist()]
    assert found == [f"two\nlines {i}" for i in range(64)]
    assert read_target(path).scores[:, 0].tolist() == held["prob_a"]
    held["prob_b"][50] = "high"
    with pytest.raises(FileError, match=r"column 'prob_b', row 50 is 'high'; wanted numbers"):
        read_target(write_csv(path, held, delimiter))


def test_a_wrong_cell_has_a_row_however_many_cores_there_are(tmp_path):
    (tmp_path / "a.csv").write_text(HEAD + "0.5,0.5,a\n0.5,high,a\n")
    cores = pa.cpu_count()
    try:
        for count in (1, 4):
            pa.set_cpu_count(count)
            with pytest.raises(FileError, match="column 'prob_b', row 1 is 'high'"):
                read_source(tmp_path / "a.csv")
    finally:
        pa.set_cpu_count(cores)


def test_a_row_of_another_length_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(HEAD + "0.5,0.5,a\n0,5,0,5,a\n")
    with pytest.raises(
        FileError, match=r"a\.csv: row 1 has 5 values for 3 columns; are there decimal commas, or commas"
    ):
        read_source(tmp_path / "a.csv")


def test_json_lines_are_read_in_blocks_that_know_their_place(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonlines, "BATCH_ROWS", 4)
    path = write_jsonl(tmp_path / "a.jsonl", {"prob_a": [0.5] * 10, "site": [*range(9), "x"]})
    blocks = list(open_table(path).read(["prob_a"], ["site"]))
    assert [(block.first, block.batch.num_rows) for block in blocks] == [(0, 4), (4, 4), (8, 2)]
    assert blocks[2].batch.column("site").to_pylist() == ["8", "x"]
    write_jsonl(path, {"prob_a": [0.5] * 9 + [None], "site": range(10)})
    with pytest.raises(FileError, match=r"a\.jsonl: column 'prob_a', row 9 is empty or NaN"):
        read_target(path)
    with path.open("a") as file:
        file.write('\n{"prob_a": 0.5, "sites": 1}\n')
    with pytest.raises(FileError, match="row 10 has a key 'sites', which the first row lacks"):
        list(open_table(path).read(["prob_a"], []))


def test_an_entry_outside_of_its_dictionary_is_refused(tmp_path):
    """Not taken for an empty cell, which it would be if nobody looked."""
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a"]), safe=False)
    write_stream(tmp_path / "a.arrow", {"prob_a": [0.5, 0.5], "prob_b": [0.5, 0.5], "label": coded})
    with pytest.raises(FileError, match=r"a\.arrow: cannot be read as \.arrow .*is it complete\?"):
        read_checked(tmp_path / "a.arrow")


def test_the_first_gap_of_a_column_is_named(tmp_path):
    for values, row in (([0.5, None, 0.5, None], 1), ([None] * 4, 0)):
        held = {"prob_a": [0.5] * 4, "prob_b": pa.array(values)}
        parquet.write_table(pa.table(held), tmp_path / "a.parquet")
        with pytest.raises(FileError, match=f"column 'prob_b', row {row} is empty or NaN"):
            read_target(tmp_path / "a.parquet")


def test_empty_lines_before_the_header(tmp_path):
    (tmp_path / "a.csv").write_text("\n\r\n" + HEAD + "0.25,0.75,b\n")
    assert read_source(tmp_path / "a.csv").scores.tolist() == [[0.25, 0.75]]


def test_whole_numbers_of_any_size_in_json(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"logit_a": 1e0, "logit_b": 1}\n{"logit_a": 0, "logit_b": 1' + 30 * "0" + "}"
    )
    assert read_target(tmp_path / "a.jsonl").scores.tolist() == [[1.0, 1.0], [0.0, 1e30]]


def test_decimals_of_databases_are_numbers(tmp_path):
    """Scores, weights, labels and times as SQL's NUMERIC columns come."""
    decimals = {
        "prob_0": ["0.25", "0.5"], "prob_1": ["0.75", "0.5"], "label": ["1", "0"], "w": ["1.5", "2"]
    }  # fmt: skip
    table = pa.table({name: pa.array(map(Decimal, values)) for name, values in decimals.items()})
    parquet.write_table(table, tmp_path / "a.parquet")
    whole = read_source(tmp_path / "a.parquet", weight="w")
    for source in (whole, sg.scan(tmp_path / "a.parquet", weight="w").source()):
        assert source.scores.tolist() == [[0.25, 0.75], [0.5, 0.5]]
        assert source.labels.tolist() == [1, 0]
        assert source.weights.tolist() == [0.75, 1.0]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([True, False], "holds bool such as True; wanted numbers"),
        (["0.5", "x"], "holds string such as '0.5'; wanted numbers"),
    ],
)
def test_a_column_of_no_numbers_shows_one(tmp_path, values, words):
    parquet.write_table(pa.table({"prob_a": [0.5, 0.5], "prob_b": values}), tmp_path / "a.parquet")
    with pytest.raises(FileError, match=rf"column 'prob_b' {words}"):
        read_target(tmp_path / "a.parquet")


def test_whole_numbers_beside_fractions_are_scores(tmp_path):
    small = pa.array([1, 0], pa.int8())
    parquet.write_table(
        pa.table({"prob_a": small, "prob_b": pa.array([0.0, 1.0], pa.float32())}), tmp_path / "a.pq"
    )
    found = read_target(tmp_path / "a.pq").scores
    assert (found.dtype, found.tolist()) == (np.float64, [[1.0, 0.0], [0.0, 1.0]])


def test_blocks_of_any_size_are_put_together(tmp_path):
    """Also where nothing says how many rows will come: an empty one first, then each longer than all before."""
    whole = pa.table({"prob_a": np.linspace(0, 1, 41), "prob_b": 1 - np.linspace(0, 1, 41)})
    with pa.ipc.new_stream(tmp_path / "a.arrow", whole.schema) as stream:
        for start, end in ((0, 0), (0, 1), (1, 8), (8, 40), (40, 41)):
            stream.write_batch(whole.to_batches()[0].slice(start, end - start))
    blocks = list(open_table(tmp_path / "a.arrow").read(["prob_a"], []))
    assert [(block.first, block.batch.num_rows) for block in blocks] == [
        (0, 0),
        (0, 1),
        (1, 7),
        (8, 32),
        (40, 1),
    ]
    assert read_target(tmp_path / "a.arrow").scores[:, 0].tolist() == np.linspace(0, 1, 41).tolist()


def test_values_of_a_column_stay_different(tmp_path, monkeypatch):
    """Across blocks too: 1 and 1.0, lists, empty cells, entries of a dictionary."""
    path = tmp_path / "a.arrow"
    held = {
        "list": [[1], [2], None, [1]] * 5,
        "coded": pa.array(["b", "a", None, "b"] * 5).dictionary_encode(),
        "word": ["x", None, "", "x"] * 5,
    }
    write_stream(path, held)
    found = read_columns(path, list(held))
    assert found["list"].tolist() == ["[1]", "[2]", None, "[1]"] * 5
    assert found["coded"].tolist() == ["b", "a", None, "b"] * 5
    assert found["word"].tolist() == held["word"]
    monkeypatch.setattr(jsonlines, "BATCH_ROWS", 2)
    values = read_columns(write_jsonl(tmp_path / "a.jsonl", {"x": [1, 2, 1.0, 2.5]}), ["x"])["x"].tolist()
    assert repr(values) == "[1, 2, 1.0, 2.5]"


def test_labels_of_a_target_come_only_when_asked(tmp_path, columns, write_csv):
    path = write_csv(tmp_path / "a.csv", columns)
    assert read_checked(path)[1].tolist() == columns["label"]
    assert not hasattr(read_target(path), "labels")


@pytest.mark.parametrize(
    "form",
    [
        "csv",
        "npz",
        *(pytest.param(form, marks=pytest.mark.slow) for form in ("jsonl", "parquet", "arrow", "npy")),
    ],
)
def test_standard_input(tmp_path, columns, write_csv, form):
    path = tmp_path / f"a.{form}"
    probs = np.column_stack([columns[f"prob_{name}"] for name in "xyz"])
    if form.startswith("csv"):
        write_csv(path, columns)
    elif form == "jsonl":
        write_jsonl(path, columns)
    elif form == "parquet":
        parquet.write_table(pa.table(columns), path)
    elif form == "arrow":
        write_stream(path, columns)
    elif form == "npz":
        np.savez(path, probs=probs)
    else:
        np.save(path, probs)
    code = (
        "from shiftgauge.io import read_target, read_labels\n"
        "t = read_target('-', kind='probs'); print(t.n, repr(float(t.scores[3, 1])))\n"
        "try: read_target('-', kind='logits', insist=False); print('no')\n"
        "except ValueError as problem: print(problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=path.read_bytes(), capture_output=True, check=True
    )
    first, second = done.stdout.decode().splitlines()
    assert first == f"40 {float(probs[3, 1])!r}"
    assert second.startswith("standard input: ")


def test_what_was_said_of_a_table_reaches_its_sample(tmp_path, write_csv):
    weights = [1.0, 0.0, 3.0]
    scores = {"a": [0.7, 0.2, 0.5], "b": [0.2, 0.8, 0.5]}
    probs = write_csv(tmp_path / "p.csv", {**{f"prob_{c}": v for c, v in scores.items()}, "w": weights})
    with pytest.raises(FileError, match="sum"):
        read_target(probs)
    found = read_target(probs, weight="w", tolerance=0.2)
    assert found.mass.tolist() == [0.25, 0.0, 0.75]
    even = {"logit_a": [0.75, 0.25], "logit_b": [0.25, 0.75]}
    logits = write_csv(tmp_path / "l.csv", even)
    with pytest.raises(FileError, match="insist"):
        read_target(logits)
    assert read_target(logits, insist=True).kind == "logits"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_weight_column_does_not_change_the_precision_of_scores(tmp_path, dtype):
    """Nor the scores the weights': each is kept as it is stored."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), 50).astype(dtype)
    mass = np.linspace(1.0, 2.0, 50) + 1e-12
    columns = {f"prob_{c}": p[:, j] for j, c in enumerate("abc")}
    parquet.write_table(pa.table({**columns, "label": ["a"] * 50, "w": mass}), tmp_path / "a.parquet")
    for weight in (None, "w"):
        source = read_source(tmp_path / "a.parquet", weight=weight)
        assert source.scores.dtype == dtype
        np.testing.assert_array_equal(source.scores, p)
    np.testing.assert_allclose(source.mass, mass / mass.sum(), rtol=1e-14)


def test_a_text_with_a_comma_makes_no_decimal_comma(tmp_path):
    rows = "0.25;0.75;1,5\n" * 30
    (tmp_path / "a.csv").write_text("prob_a;prob_b;note\n" + rows)
    assert read_target(tmp_path / "a.csv").scores[0].tolist() == [0.25, 0.75]


def test_a_decimal_comma_after_whole_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("prob_a;prob_b;version\n" + "0;1;2\n" * 50 + "0,25;0,75;1.1\n")
    assert read_target(tmp_path / "a.csv").scores[-1].tolist() == [0.25, 0.75]
