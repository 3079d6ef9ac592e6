"""Columns beside the scores: to the letter, binned in time; shares, costs and bought labels from files."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from shiftgauge import FileError, InputError
from shiftgauge.io import (
    ReadOptions,
    has_column,
    read_column,
    read_columns,
    read_costs,
    read_groups,
    read_labels,
    read_marginal,
    read_source,
    read_target_labels,
)
from shiftgauge.times import bin_times


def test_groups_are_taken_to_the_letter(tmp_path, columns, write_csv):
    path = write_csv(tmp_path / "a.csv", columns)
    assert read_groups(path, ["version"], 40)["version"].tolist() == columns["version"]
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert read_groups(tmp_path / "a.parquet", ["version"], 40)["version"].tolist() == columns["version"]
    np.savez(tmp_path / "a.npz", site=["01", "1"], time=np.array(["2026-03-01", "2026-03-02"], "M8[s]"))
    found = read_groups(tmp_path / "a.npz", ["site", "time:month"], 2)
    assert {name: values.tolist() for name, values in found.items()} == {
        "site": ["01", "1"],
        "time:month": ["2026-03", "2026-03"],
    }


def test_times_are_binned_where_that_is_asked(tmp_path, columns, write_csv):
    path = write_csv(tmp_path / "a.csv", {**columns, "odd:1d": columns["version"]})
    found = read_groups(path, ["time:1d", "time:week", "odd:1d"], 40)
    assert sorted(set(found["time:1d"])) == [f"2026-03-{day:02d}" for day in range(1, 21)]
    assert set(found["time:week"]) == {"2026-02-23", "2026-03-02", "2026-03-09", "2026-03-16"}
    assert found["odd:1d"].tolist() == columns["version"]  # a column of that name goes first
    with pytest.raises(FileError, match="no column 'tim:1d'"):
        read_groups(path, ["tim:1d"], 40)
    with pytest.raises(InputError, match="'fortnight' is not a length of time"):
        read_groups(path, ["time:fortnight"], 40)
    with pytest.raises(InputError, match=r"'version': row 0 is 1\.1; wanted an ISO date"):
        read_groups(path, ["version:1d"], 40)
    with pytest.raises(
        InputError, match=r"arrived with shape \(40,\); wanted one value per row of scores, \(7,\)"
    ):
        read_groups(path, ["time"], 7)


UTC = datetime.timezone.utc
NOON = datetime.datetime(2026, 3, 29, 12, 34, 56, tzinfo=UTC)  # the day that summer time begins in Berlin


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-29T12:34:56Z",
        "2026-03-29 14:34:56+02:00",
        "20260329T123456Z",
        NOON,
        NOON.astimezone(datetime.timezone(datetime.timedelta(hours=-7))),
        NOON.timestamp(),
        str(int(NOON.timestamp())),
        int(NOON.timestamp() * 1e3),
        int(NOON.timestamp() * 1e6),
        int(NOON.timestamp() * 1e9),
    ],
    ids=str,
)
def test_the_same_moment_in_every_spelling(value):
    for width, want in {
        "15min": "2026-03-29T12:30",
        "hour": "2026-03-29T12",
        "6h": "2026-03-29T12",
        "1d": "2026-03-29",
        "week": "2026-03-23",
        "month": "2026-03",
        "year": "2026",
    }.items():
        assert bin_times([value, None], width).tolist() == [want, "(missing)"], width
    assert bin_times([value], "hour", zone="Europe/Berlin").tolist() == ["2026-03-29T14"]
    assert bin_times([value], "day", zone="Pacific/Auckland").tolist() == ["2026-03-30"]


def test_bins_agree_with_pandas():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    times = pandas.Series(pandas.to_datetime(rng.integers(0, 2_000_000_000, 300), unit="s"))
    texts = times.dt.strftime("%Y-%m-%dT%H:%M:%S").tolist()
    for width, period in {"day": "D", "week": "W-SUN", "month": "M", "year": "Y", "hour": "h"}.items():
        begun = times.dt.to_period(period).dt.start_time
        found = pandas.to_datetime(pandas.Series(bin_times(texts, width)), format="ISO8601")
        assert (found.to_numpy() == begun.to_numpy()).all(), width


@pytest.mark.parametrize(
    ("values", "zone", "words"),
    [
        (["2026-03-01", "2026-03-01T00:00Z"], None, "row 0 is a date, row 1 is a date with a time zone"),
        (["2026-13-01"], None, "row 0 is '2026-13-01'; wanted a number or an ISO date"),
        ([3.5], None, "row 0 is 3.5; wanted an ISO date or a Unix time"),
        (["2026-03-01"], "Europe/Berlin", "have no time zone"),
        (["2026-03-01T00:00Z"], "Europe/Atlantis", "zone 'Europe/Atlantis' is not known"),
    ],
)
def test_times_that_cannot_be_binned(values, zone, words):
    with pytest.raises(InputError, match=words):
        bin_times(values, "day", zone=zone)


def test_a_column_with_its_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("row,word\n1,a\n2,b\n,c\n")
    assert read_column(tmp_path / "a.csv", "row").tolist() == [1, 2, None]
    assert read_column(tmp_path / "a.csv", "word").tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "npz"])
def test_labels_of_some_rows(tmp_path, ending):
    """By row number or id; lines without a label are skipped, one that is repeated counts once."""
    columns = {"id": ["x", "y", "z", "z"], "row": [4, 7, 9, 9], "label": ["cat", None, "dog", "dog"]}
    path = tmp_path / f"labels.{ending}"
    if ending == "csv":
        path.write_text("id,row,label\nx,4,cat\ny,7,\nz,9.0,dog\nz,9,dog\n,,\n")
    elif ending == "jsonl":
        lines = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    elif ending == "parquet":
        parquet.write_table(pa.table(columns), path)
    else:
        np.savez(
            path,
            **{k: np.array([v or "" for v in columns[k]]) if k != "row" else columns[k] for k in columns},
        )
    labels, notes = read_target_labels(path, ReadOptions(), ("cat", "dog"))
    assert labels == {4: "cat", 9: "dog"}
    assert notes == (f"{path}: 1 line repeats a label; each counts once",)
    assert read_target_labels(path, ReadOptions(), ("cat", "dog"), ids=True)[0] == {"x": "cat", "z": "dog"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row,label\nfirst,a\n", "'row' is 'first' in one line; wanted row numbers, counted from 0"),
        ("row,label\n1.5,a\n", "'row' is '1.5'"),
        ("row,label\n3,a\n-1,a\n", "'row' is '-1'"),
        ("row,label\n9007199254740992,a\n", "'row' is '9007199254740992'"),  # floats skip the next
        ("row,label\n0,a\n,\n,b\n,a\n", "the label 'b' has no row"),
        ("row,label\n1,a\n1,b\n", "row 1 has two labels, 'a' and 'b'"),
        ("line,label\n1,a\n", "found line, label; wanted 'id' or 'row'"),
        ("id,label\n1,a\n", "has ids, and TARGET was read without"),
        ("row,answer\n1,a\n", "no column 'label'"),
        ("row,label\n1,\n", "no line has a label"),
    ],
)
def test_labels_that_cannot_be_used(tmp_path, text, words):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(FileError, match=words):
        read_target_labels(tmp_path / "labels.csv", ReadOptions(), ("a", "b"))


def test_labels_without_the_ids_of_the_target(tmp_path):
    (tmp_path / "labels.csv").write_text("row,label\n1,a\n")
    with pytest.raises(FileError, match="no column 'id', by which TARGET's rows are known"):
        read_target_labels(tmp_path / "labels.csv", ReadOptions(id="key"), ("a", "b"), ids=True)


def test_row_numbers_from_the_first_to_the_last_that_a_float_can_tell(tmp_path):
    (tmp_path / "labels.csv").write_text("row,label\n0,a\n1000,\n9007199254740991,b\n")
    assert read_target_labels(tmp_path / "labels.csv")[0] == {0: "a", 9007199254740991: "b"}


@pytest.mark.parametrize("key", ["label", "labels"])
def test_rows_and_labels_that_are_not_one_each(tmp_path, key):
    path = tmp_path / "labels.npz"
    for rows, labels in (((3,), (2,)), ((2, 2), (2, 2))):
        np.savez(path, **{"row": np.zeros(rows), key: np.zeros(labels)})
        with pytest.raises(FileError) as caught:
            read_target_labels(path)
        assert f"have the shapes {rows} and {labels}" in str(caught.value)


@pytest.mark.torch
def test_labels_in_a_torch_file_are_plain(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"row": torch.tensor([4, 7]), "labels": torch.tensor([1, 0])}, tmp_path / "labels.pt")
    assert read_target_labels(tmp_path / "labels.pt")[0] == {4: 1, 7: 0}


def test_whether_a_file_has_a_column(tmp_path, columns, write_csv):
    path = write_csv(tmp_path / "a.csv", columns)
    np.savez(tmp_path / "a.npz", time=[0])
    np.save(tmp_path / "a.npy", [0])
    for file in (path, tmp_path / "a.npz"):
        assert has_column(file, "time")
        assert has_column(file, "time:1d")
        assert not has_column(file, "site")
        assert not has_column(file, "site:1d")
    assert not has_column(tmp_path / "a.npy", "time")


def test_columns_that_are_not_there(tmp_path):
    np.save(tmp_path / "a.npy", [0])
    np.savez(tmp_path / "a.npz", site=np.zeros((2, 2)), **{f"k{j}": [0] for j in range(9)})
    with pytest.raises(FileError, match=r"a\.npy: a \.npy file has no column 'site'; wanted a table"):
        read_columns(tmp_path / "a.npy", ["site"])
    with pytest.raises(
        FileError, match=r"no key 'sit'; did you mean 'site'\? \(found site, k0, k1, k2, k3, k4, k5, k6\)$"
    ):
        read_columns(tmp_path / "a.npz", ["site", "sit"])
    with pytest.raises(InputError, match=r"'site' arrived with shape \(2, 2\); wanted one value per row"):
        read_groups(tmp_path / "a.npz", ["site"])


@pytest.mark.parametrize(
    ("cells", "want"),
    [
        (["1", "2", " "], [1, 2, None]),
        (["1.5", "2", ""], [1.5, 2.0, None]),
        (["1", "b", ""], ["1", "b", ""]),
    ],
)
def test_texts_are_numbers_where_all_are(tmp_path, write_csv, cells, want):
    found = read_column(write_csv(tmp_path / "a.csv", {"x": cells, "y": "abc"}), "x").tolist()
    assert found == want
    assert [type(v) for v in found] == [type(v) for v in want]


def test_what_is_stored_as_it_is_stays_so(tmp_path):
    parquet.write_table(pa.table({"x": ["1", None], "y": [1, None]}), tmp_path / "a.parquet")
    assert read_column(tmp_path / "a.parquet", "x").tolist() == ["1", None]
    assert read_column(tmp_path / "a.parquet", "y").tolist() == [1, None]
    np.savez(tmp_path / "a.npz", x=["1", "2"])
    assert read_column(tmp_path / "a.npz", "x").tolist() == ["1", "2"]


def test_classes_that_are_called_like_numbers_are_names(tmp_path):
    """The first column is called 1: a label 1 means it, and not the column with the number 1."""
    (tmp_path / "a.csv").write_text("prob_1,prob_0,label\n0.9,0.1,1\n0.2,0.8,0\n0.7,0.3,1\n")
    source = read_source(tmp_path / "a.csv")
    assert (source.classes, source.labels.tolist(), source.error) == (("1", "0"), [0, 1, 0], 0.0)
    for classes, want in (
        (("1", "0"), ["1", "0", "1"]),
        (("a", "1.0"), ["1", "0", "1"]),
        (("a", "b"), [1, 0, 1]),
        (("a", "1.5"), [1, 0, 1]),
        (None, [1, 0, 1]),
    ):
        assert read_labels(tmp_path / "a.csv", classes=classes).tolist() == want, classes


def test_labels_are_numbers_only_where_all_of_them_are(tmp_path, write_csv):
    for cells, want in (
        (["1", "2.0", "-3"], [1, 2, -3]),
        (["1", "", "2"], [1, "", 2]),
        (["1", "x", "2"], ["1", "x", "2"]),
        (["1", "1.5", "2"], ["1", "1.5", "2"]),
    ):
        path = write_csv(tmp_path / "a.csv", {"label": cells, "n": "abc"})
        assert read_labels(path, classes=("a", "b")).tolist() == want


def test_costs(tmp_path):
    costs = np.array([[0.0, 5.0], [1.0, 0.0]])
    np.save(tmp_path / "c.npy", costs)
    np.savetxt(tmp_path / "c.csv", costs, delimiter=",")
    for name in ("c.npy", "c.csv"):
        assert np.array_equal(read_costs(tmp_path / name, 2), costs)
        with pytest.raises(FileError, match=rf"{name}: 2 x 2 costs for 3 classes"):
            read_costs(tmp_path / name, 3)
    (tmp_path / "d.csv").write_text("a,b\n0,1\n1,0\n")
    (tmp_path / "e.csv").write_text("0,1\n")
    np.save(tmp_path / "f.npy", [0.0, 1.0])
    np.save(tmp_path / "g.npy", [["a"]])
    (tmp_path / "h.npy").write_text("0,1\n1,0\n")
    for name, words in (
        ("d.csv", "numbers and no header"),
        ("e.csv", r"e\.csv: holds float64 of shape \(1, 2\); wanted K x K numbers"),
        ("none.csv", r"none\.csv: cannot be read as costs \(.*none\.csv not found"),
        ("f.npy", r"holds float64 of shape \(2,\)"),
        ("g.npy", "holds str32 of shape"),
        ("h.npy", r"h\.npy: not a \.npy file of plain numbers"),
    ):
        with pytest.raises(FileError, match=words):
            read_costs(tmp_path / name)
    np.save(tmp_path / "i.npy", np.eye(3, dtype=bool))
    assert read_costs(tmp_path / "i.npy").tolist() == np.eye(3).tolist()
    (tmp_path / "one.csv").write_text("2\n")
    assert read_costs(tmp_path / "one.csv", 1).tolist() == [[2.0]]


def test_shares_in_any_order_and_form(tmp_path):
    (tmp_path / "q.csv").write_text("class;mass\n01;0,25\n1;0,75\n")
    assert read_marginal(tmp_path / "q.csv", ("1", "01"), 2).tolist() == [0.75, 0.25]
    parquet.write_table(pa.table({"class": [1, 0], "mass": [0.75, 0.25]}), tmp_path / "q.parquet")
    assert read_marginal(tmp_path / "q.parquet", None, 2).tolist() == [0.25, 0.75]
    (tmp_path / "r.csv").write_text("class,mass\na,much\n")
    with pytest.raises(FileError, match="the mass of class 'a' is 'much'; wanted a number"):
        read_marginal(tmp_path / "r.csv", ("a",), 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class,mass\na,0.5\nb,0.25\na,0.25\n", "class 'a' appears twice"),
        ("class,share\na,1\n", "found the columns class, share; wanted class,mass"),
        ("class,mass,note\na,0.5,x\nb,0.75,y\n", "the masses sum to 1.25"),
        ("class,mass\na,1\n", "class 'b' has no mass"),
    ],
)
def test_shares_that_cannot_be_used(tmp_path, text, words):
    (tmp_path / "q.csv").write_text(text)
    with pytest.raises(InputError, match=rf"q\.csv: .*{words}"):
        read_marginal(tmp_path / "q.csv", ("a", "b"), 2)


def test_shares_in_the_order_of_columns(tmp_path):
    np.save(tmp_path / "q.npy", [0.25, 0.75])
    assert read_marginal(tmp_path / "q.npy", ("b", "a"), 2).tolist() == [0.25, 0.75]
    (tmp_path / "q.csv").write_text("class,mass\n1,0.75\n0,0.25\n")
    assert read_marginal(tmp_path / "q.csv", None, 2).tolist() == [0.25, 0.75]
    np.savez(tmp_path / "q.npz", mass=[0.25, 0.75])
    with pytest.raises(FileError, match=r"q\.npz: wanted a CSV with the columns class,mass or a 1-D \.npy"):
        read_marginal(tmp_path / "q.npz", None, 2)


def test_times_are_binned_where_the_reader_lives(tmp_path, write_csv):
    path = write_csv(tmp_path / "a.csv", {"time": ["2026-03-01T23:30:00Z"]})
    assert read_groups(path, ["time:1d"])["time:1d"].tolist() == ["2026-03-01"]
    assert read_groups(path, ["time:1d"], zone="Europe/Berlin")["time:1d"].tolist() == ["2026-03-02"]
