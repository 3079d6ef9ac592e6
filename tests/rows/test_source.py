"""Rows as a source: what reading the file whole gives, to the last bit; of too many, some drawn by number."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from engines import samples
from engines.samples import labelled
from engines.samples import same_source as same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

import shiftgauge as sg
from shiftgauge.errors import FileError, InputError
from shiftgauge.rows import Rows
from shiftgauge.rows.source import uniform


def test_probabilities_a_threshold_and_one_column_for_two_classes(tmp_path, small_parts):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000).astype("f4")
    table = pa.table({"prob": p, "label": np.where(rng.uniform(size=3000) < p, "yes", "no")})
    parquet.write_table(table, tmp_path / "a.parquet")
    said = {"positive": "yes", "negative": "no", "threshold": 0.8}
    same(sg.scan(table, **said).source(), sg.read_source(tmp_path / "a.parquet", **said))


def test_labels_that_stand_apart(tmp_path, small_parts):
    z = np.random.default_rng(0).normal(size=(4000, 3)).astype("f4")
    labels = z.argmax(axis=1)
    np.save(tmp_path / "a.npy", z)
    same(sg.scan(tmp_path / "a.npy", kind="logits").source(labels), sg.Source(logits=z, labels=labels))
    with pytest.raises(InputError, match="3999 labels for 4000 rows"):
        sg.scan(tmp_path / "a.npy", kind="logits").source(labels[1:])
    some = sg.scan(tmp_path / "a.npy", kind="logits").source(labels, most=1000)
    np.testing.assert_array_equal(some.scores, z[some.kept])
    np.testing.assert_array_equal(some.labels, labels[some.kept])


def cut(arrays, cuts, size, **how):
    parts = samples.parts_of(arrays, cuts, size)
    return Rows(parts, "logits", 4, weighted=True, decisions=True, labelled=True, **how)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    cuts=st.lists(st.integers(0, 900), max_size=6),
    size=st.integers(1, 1000),
    most=st.integers(1, 1200),
    seed=st.integers(0, 2**40),
    drop=st.booleans(),
)
def test_the_same_rows_are_drawn_however_they_are_cut(cuts, size, most, seed, drop):
    rng = np.random.default_rng(1)
    arrays = {
        "scores": rng.normal(size=(900, 4)),
        "decisions": rng.integers(0, 4, 900),
        "weights": rng.uniform(1, 2, 900),
        "labels": np.where(rng.random(900) < 0.3 * drop, -1, rng.integers(0, 4, 900)),
    }
    there = arrays["labels"] >= 0
    wanted = np.flatnonzero(there & ((uniform(0, 900, seed) < most / there.sum()) | (most >= there.sum())))
    scan = cut(arrays, cuts, size, drop=drop)
    if not len(wanted):
        with pytest.raises(InputError):
            scan.source(most=most, seed=seed)
        return
    source = scan.source(most=most, seed=seed)
    np.testing.assert_array_equal(wanted if source.kept is None else source.kept, wanted)
    for name, held in (("scores", "scores"), ("predictions", "decisions"), ("labels", "labels")):
        np.testing.assert_array_equal(getattr(source, name), arrays[held][wanted])
    np.testing.assert_allclose(source.mass, arrays["weights"][wanted] / arrays["weights"][wanted].sum())
    said = " ".join(source.notes)
    assert ("drawn at random" in said) == (len(wanted) < there.sum())
    assert ("have no label and were dropped" in said) == (not there.all())


def test_rows_are_drawn_evenly_and_independently():
    """Against the binomial law: counts of a row over seeds, of pairs of neighbours, and over rows of one seed."""
    drawn = np.array([uniform(10**9, 400, seed) < 0.3 for seed in range(2000)])
    counts = drawn.sum(axis=0)
    assert abs(counts - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)
    both = (drawn[:, 1:] & drawn[:, :-1]).sum(axis=0)
    assert abs(both - 180).max() < 5 * np.sqrt(2000 * 0.09 * 0.91)
    assert abs((uniform(0, 10**6, 7) < 0.3).mean() - 0.3) < 5 * np.sqrt(0.21 / 10**6)
    assert abs(np.corrcoef(uniform(0, 10**6, 7), uniform(1, 10**6, 7))[0, 1]) < 5e-3
    assert abs(np.corrcoef(uniform(0, 10**6, 7), uniform(0, 10**6, 8))[0, 1]) < 5e-3


def test_what_sampling_adds_is_said_and_true():
    """The doubt that is said, against the spread of the sample's error over seeds."""
    scan = sg.scan(labelled(8000), prediction=None)
    whole = scan.source().error
    found = [scan.source(most=2000, seed=seed) for seed in range(40)]
    off = 100 * np.std([s.error - whole for s in found])
    said = float(found[0].notes[-1].split("off by about ")[1].split(" ")[0])
    assert said == pytest.approx(off, rel=0.4)
    target = sg.scan(samples.rows(1000, seed=5)[2])
    pair = sg.Pair(found[0], target)
    assert any("were kept, drawn at random (seed 0)" in w for w in pair.estimate("ac").warnings)


def test_every_function_takes_a_scanned_source(tmp_path):
    table = labelled(1500)
    parquet.write_table(table, tmp_path / "a.parquet")
    scan, whole = (
        sg.scan(tmp_path / "a.parquet", weight="w"),
        sg.read_source(tmp_path / "a.parquet", weight="w"),
    )
    target = sg.read_target(tmp_path / "a.parquet")
    other = sg.scan(tmp_path / "a.parquet")
    functions = [
        lambda s: sg.estimate(s, target),
        lambda s: sg.compare(s, other, ["ac", "cott", "scot"]),
        lambda s: sg.interval(s, target, "doc", replicates=20),
        lambda s: sg.doctor(s, target),
        lambda s: sg.metrics(s, target),
        lambda s: sg.slices(s, other, "site", "doc", replicates=20),
        lambda s: sg.label_shares(s, target),
        lambda s: sg.shift_test(s, target),
        lambda s: sg.ceiling(s, target),
        lambda s: sg.suitable(s, target),
        lambda s: sg.backtest(s, repeats=1, methods=["ac", "doc"]),
        lambda s: sg.label_plan(s, target, n=50),
        lambda s: sg.methods.METHODS["cot"]().fit(s).estimate(target),
    ]
    for function in functions:
        assert function(scan).to_dict() == function(whole).to_dict()
    sg.plots.reliability(scan)
    report = sg.report(scan, target, replicates=0).summary
    assert report["answer"]["source_error"] == whole.error


def spoilt(row, value, n=2000):
    labels = labelled(n)["label"].to_pylist()
    labels[row] = value
    table = labelled(n)
    return table.set_column(table.schema.get_field_index("label"), "label", pa.array(labels))


def test_a_bad_row_is_named_with_its_file_and_its_number_there(tmp_path, small_parts):
    parquet.write_table(labelled(2000), tmp_path / "a.parquet", row_group_size=300)
    later = tmp_path / "b.parquet"
    parquet.write_table(spoilt(1234, "zebra"), later, row_group_size=300)
    with pytest.raises(
        FileError, match=r"b\.parquet: source labels: row 1234 is 'zebra', which is not a class"
    ):
        sg.scan(tmp_path).source()
    parquet.write_table(spoilt(1234, None), later, row_group_size=300)
    with pytest.raises(FileError, match=r"b\.parquet: source labels: row 1234 is missing.*drop_unlabelled"):
        sg.scan(tmp_path).source(most=10)  # every row is looked at, not only those that are drawn
    parquet.write_table(spoilt(1234, "zebra").slice(1), later, row_group_size=300)
    both = pa.concat_tables([spoilt(1230, None), spoilt(1234, "zebra")])
    parquet.write_table(both, later, row_group_size=5000)
    with pytest.raises(FileError, match=r"b\.parquet: source labels: row 3234 is 'zebra'"):
        sg.scan(tmp_path, drop_unlabelled=True).source()
    frame = labelled(2000).to_pandas()
    frame.loc[77, "logit_owl"] = np.nan
    frame.to_parquet(later)
    with pytest.raises(FileError, match=r"b\.parquet: .*row 77"):
        sg.scan(tmp_path).source()
    frame.loc[77, "logit_owl"] = np.inf
    frame.to_parquet(later)
    with pytest.raises(FileError, match=r"b\.parquet: source logits: row 77, column 2 is inf"):
        sg.scan(tmp_path).source()


def test_rows_without_a_label_are_dropped_as_when_read_whole(tmp_path, small_parts):
    table = spoilt(5, None)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    whole = sg.read_source(tmp_path / "a.parquet", drop_unlabelled=True)
    found = sg.scan(tmp_path / "a.parquet", drop_unlabelled=True).source()
    same(found, whole)
    np.testing.assert_array_equal(found.kept, whole.kept)
    nothing = pa.array([None] * len(table), pa.string())
    none = table.set_column(table.schema.get_field_index("label"), "label", nothing)
    with pytest.raises(InputError, match="none of 2,000 rows has one"):
        sg.scan(none, drop_unlabelled=True).source()


def test_few_labels_among_many_rows_are_all_kept():
    """One row in fifty has a label; those count, not the others."""
    labels = [name if i % 50 == 0 else None for i, name in enumerate(labelled(5000)["label"].to_pylist())]
    table = labelled(5000).drop_columns("label").append_column("label", pa.array(labels))
    source = sg.scan(table, drop_unlabelled=True).source(most=100)
    np.testing.assert_array_equal(source.kept, np.arange(0, 5000, 50))


def test_names_in_some_parts_and_column_numbers_in_others_are_refused(tmp_path, small_parts):
    """Either alone is read; each part by itself would be, and reading both whole refuses them too."""
    numbers = labelled(2000)
    at = numbers.schema.get_field_index("label")
    index = {name: str(j) for j, name in enumerate(samples.CLASSES)}
    numbers = numbers.set_column(at, "label", pa.array([index[v] for v in numbers["label"].to_pylist()]))
    same(sg.scan(numbers).source(), sg.scan(labelled(2000)).source())
    parquet.write_table(numbers, tmp_path / "a.parquet")
    parquet.write_table(labelled(2000), tmp_path / "b.parquet")
    with pytest.raises(FileError, match=r"2,000 labels are column numbers and 2,000 are class names"):
        sg.scan(tmp_path).source()
    with pytest.raises(FileError):
        sg.read_source(tmp_path)


def test_a_scan_without_labels_is_no_source():
    with pytest.raises(FileError, match=r"no column 'label' \(found logit_cat.*label=NAME"):
        sg.estimate(sg.scan(samples.rows(100)[2]), sg.scan(samples.rows(100)[2]))
    with pytest.raises(FileError, match="no column 'lable'; did you mean 'label'"):
        sg.scan(labelled(100), label="lable").source()
    with pytest.raises(InputError, match="most 0: wanted 1 or more"):
        sg.scan(labelled(100)).source(most=0)


def test_a_pass_that_was_kept_is_not_made_again(tmp_path, small_parts):
    found = [sg.scan(labelled(2000), checkpoint=tmp_path, threads=2) for _ in range(2)]
    same(found[0].source(), found[1].source())
    assert [scan.engine.reused for scan in found] == [0, 1]


def test_the_command_reads_a_large_source_in_one_pass(tmp_path, monkeypatch):
    from shiftgauge.cli.app import app

    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    for i, (a, b) in enumerate(samples.cuts(5000, np.random.default_rng(0))):
        parquet.write_table(labelled(5000).slice(a, b - a), tmp_path / "source" / f"{i}.parquet")
    parquet.write_table(samples.rows(1000, seed=3)[2], tmp_path / "target" / "a.parquet")

    def run():
        asked = ["estimate", str(tmp_path / "source"), str(tmp_path / "target"), "-m", "ac", "--json"]
        asked += ["--replicates", "0", "--weight-column", "w"]
        return CliRunner().invoke(app, asked)

    whole = run()
    monkeypatch.setattr("shiftgauge.rows.subsample.WHOLE_ENTRIES", 100)
    monkeypatch.setattr("shiftgauge.rows.subsample.WIDE_ENTRIES", 100)
    parts = run()
    assert parts.exit_code == 0, parts.output
    import json

    one, other = (json.loads(found.stdout) for found in (whole, parts))
    assert one["source"] == other["source"]
    assert other["estimates"][0]["error"] == pytest.approx(one["estimates"][0]["error"], abs=1e-12)
    assert other["warnings"] == one["warnings"]
    monkeypatch.setattr("shiftgauge.rows.source.SOURCE_ENTRIES", 1000 * 13)
    some = json.loads(run().stdout)
    assert 800 < some["source"]["n"] < 1200
    assert any("5,000 labelled source rows" in text for text in some["warnings"])


def test_the_command_saves_the_passes_over_a_large_target(tmp_path, monkeypatch):
    import json

    from shiftgauge.cli.app import app

    parquet.write_table(labelled(600), tmp_path / "source.parquet")
    parquet.write_table(samples.rows(1000, seed=3)[2], tmp_path / "target.parquet")
    asked = ["estimate", str(tmp_path / "source.parquet"), str(tmp_path / "target.parquet"), "-m", "ac"]
    asked += ["--json", "--replicates", "0"]
    saved = [*asked, "--checkpoint", str(tmp_path / "passes")]
    with pytest.raises(InputError, match="is read into memory, and this is about passes over large files"):
        CliRunner().invoke(app, saved, catch_exceptions=False)
    assert not (tmp_path / "passes").exists()
    monkeypatch.setattr("shiftgauge.rows.subsample.WHOLE_ENTRIES", 100)
    monkeypatch.setattr("shiftgauge.rows.subsample.WIDE_ENTRIES", 100)
    found = [json.loads(CliRunner().invoke(app, words).stdout) for words in (asked, saved, saved)]
    assert len({one["estimates"][0]["error"] for one in found}) == 1
    assert (
        len(list((tmp_path / "passes").glob("pass-*.pickle")))
        == found[0]["estimates"][0]["details"]["passes"]
    )


CHILD = """
import sys, threading, time
import numpy as np, shiftgauge as sg, pyarrow.parquet
from shiftgauge.io import parts
from shiftgauge.rows import source as module
module.SOURCE_ENTRIES = int(sys.argv[2])
parts.PART_SCORES = 1 << 19  # there are always more parts than threads

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

next(sg.scan(sys.argv[1], threads=2).parts[0].read())
peak, over, before = [0], [], anonymous()
def watch():
    while not over:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)

watcher = threading.Thread(target=watch)
watcher.start()
source = sg.scan(sys.argv[1], threads=2).source()
over.append(1)
watcher.join()
print(source.scores.nbytes / 2**20, (peak[0] - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_no_row_is_held_twice(tmp_path):
    """A row is 40 bytes of scores, and label and prediction 16 more; of rows that are not kept nothing is left."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500_000, 10), np.float32)
    table = pa.table({f"logit_{j}": z[:, j] for j in range(10)})
    table = table.append_column("label", pa.array(rng.integers(0, 10, len(z))))
    folders = [tmp_path / "few", tmp_path / "many"]
    for folder, files in zip(folders, (1, 4), strict=True):
        folder.mkdir()
        for i in range(files):
            parquet.write_table(table, folder / f"{i}.parquet", use_dictionary=False, row_group_size=62_500)

    def grown(kept):
        found = []
        for folder in folders:
            command = [sys.executable, "-c", CHILD, str(folder), str(kept)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
            found.append([float(number) for number in done.stdout.split()])
        return np.subtract(*found[::-1])

    scores, peak = grown(1 << 26)
    assert scores == pytest.approx(1_500_000 * 40 / 2**20)
    assert peak < 2.2 * scores
    scores, peak = grown(1 << 22)
    assert abs(scores) < 0.1
    assert peak < 30.0
