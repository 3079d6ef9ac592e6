"""Columns beside the scores: to the letter, binned in time; shares, costs and bought labels from files."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from labelfree import FileError, InputError
from labelfree._times import bin_times
from labelfree.io import Form, read_column, read_costs, read_groups, read_marginal, read_picks


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
    with pytest.raises(InputError, match="bins of 'fortnight' are not known"):
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


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_picks_come_back_with_their_labels(tmp_path, ending):
    held = {
        "row": [4, 7, 9],
        "stratum": [0, 1, 1],
        "inclusion_probability": [0.5, 0.25, 0.25],
        "label": ["cat", None, "dog"],
    }
    path = tmp_path / f"picks.{ending}"
    if ending == "csv":
        path.write_text(
            "row,stratum,inclusion_probability,label\n4,0,0.5,cat\n7,1,0.25,\n9.0,1,0.25,dog\n,,,\n"
        )
    elif ending == "parquet":
        parquet.write_table(pa.table(held), path)
    else:
        np.savez(path, **{k: np.array([v or "" for v in held[k]]) if k == "label" else held[k] for k in held})
    table, labels = read_picks(path, Form(), ("cat", "dog"))
    assert table == {"row": [4, 7, 9], "stratum": [0, 1, 1], "inclusion_probability": [0.5, 0.25, 0.25]}
    assert labels == {4: "cat", 9: "dog"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row,label\nfirst,a\n", "'row' must hold the row numbers"),
        ("row,label\n1.5,a\n", "'row' must hold the row numbers"),
        ("row,label\n1,a\n1,b\n", "row 1 stands there twice"),
        ("row,label\n,a\n", "a label, a, stands without its row number"),
        ("line,label\n1,a\n", "no column 'row'"),
        ("row,answer\n1,a\n", "no column 'label'"),
        ("row,stratum,label\n1,high,a\n", "'stratum' is 'high' in one line; wanted a number"),
    ],
)
def test_picks_that_cannot_be_used(tmp_path, text, words):
    (tmp_path / "picks.csv").write_text(text)
    with pytest.raises(FileError, match=words):
        read_picks(tmp_path / "picks.csv", Form(), ("a", "b"))


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
    for name, words in (
        ("d.csv", "numbers and no header"),
        ("e.csv", "wanted K x K"),
        ("none.csv", "none.csv"),
    ):
        with pytest.raises(FileError, match=words):
            read_costs(tmp_path / name)


def test_shares_in_any_order_and_form(tmp_path):
    (tmp_path / "q.csv").write_text("class;mass\n01;0,25\n1;0,75\n")
    assert read_marginal(tmp_path / "q.csv", ("1", "01"), 2).tolist() == [0.75, 0.25]
    parquet.write_table(pa.table({"class": [1, 0], "mass": [0.75, 0.25]}), tmp_path / "q.parquet")
    assert read_marginal(tmp_path / "q.parquet", None, 2).tolist() == [0.25, 0.75]
    (tmp_path / "r.csv").write_text("class,mass\na,much\n")
    with pytest.raises(FileError, match="the mass of class 'a' is 'much'; wanted a number"):
        read_marginal(tmp_path / "r.csv", ("a",), 1)


def test_times_are_binned_where_the_reader_lives(tmp_path, write_csv):
    path = write_csv(tmp_path / "a.csv", {"time": ["2026-03-01T23:30:00Z"]})
    assert read_groups(path, ["time:1d"])["time:1d"].tolist() == ["2026-03-01"]
    assert read_groups(path, ["time:1d"], zone="Europe/Berlin")["time:1d"].tolist() == ["2026-03-02"]
