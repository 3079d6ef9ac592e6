"""No table comes of scores that do not belong together, and none hides what it lacks."""

import dataclasses
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cv2")

from shiftgauge.cli.app import run as command  # noqa: E402
from shiftgauge.errors import FileError  # noqa: E402
from shiftgauge.experiments import bench, collect, figures, joint, tables  # noqa: E402
from shiftgauge.experiments.progress import Clock  # noqa: E402
from shiftgauge.experiments.protocol import ESTIMATES, estimates_sweep  # noqa: E402
from shiftgauge.experiments.recipes import RECIPES  # noqa: E402
from shiftgauge.experiments.scores import ScoreFolder  # noqa: E402
from shiftgauge.experiments.shards import merge  # noqa: E402
from shiftgauge.experiments.storage import read_table  # noqa: E402

pytestmark = pytest.mark.torch

NAME = "fashion-mnist"


def scores_of(setting, seed=0):
    return ScoreFolder.of(setting.runs, NAME, "small", seed)


def run(setting, out="out"):
    return bench.run(NAME, setting.runs, setting.root / out)


def killed_after(setting, sets):
    """Collect until so many sets have been scored, then die."""

    def dies(stage, done, total, what):
        if stage == "shifts scored" and done == sets:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect.collect(dataclasses.replace(setting, redo=True, progress=dies), [0])


def other_files(setting, change):
    """The setting with ``change`` done to one of its shifts."""
    every = setting.dataset.shifts
    dataset = dataclasses.replace(setting.dataset, shifts=lambda root: [change(s) for s in every(root)])
    return dataclasses.replace(setting, dataset=dataset)


def test_an_interrupted_redo_with_fewer_rows_is_refused(setting):
    collect.collect(setting, [0])
    fewer = dataclasses.replace(setting, rows=20)
    killed_after(fewer, 4)
    with pytest.raises(FileError, match=r"was made with other rows than .*manifest.json says; .*--redo"):
        run(setting)
    collect.collect(dataclasses.replace(fewer, redo=True), [0])
    run(setting)


def test_an_interrupted_redo_on_other_files_is_refused(setting):
    collect.collect(setting, [0])
    published = setting.root / "contrast.bin"
    published.write_bytes(b"published")
    # The files of four sets are others now, and only one of them was scored again.
    changed = other_files(
        setting,
        lambda s: dataclasses.replace(s, files=(published,), corruption="") if "contrast" in s.name else s,
    )
    killed_after(changed, 8)
    with pytest.raises(FileError, match=r"was made with other corruption, data than .*manifest.json says"):
        run(setting)


def test_scores_without_a_stamp_are_refused_where_stamps_are_given(setting):
    collect.collect(setting, [0])
    scores = scores_of(setting)
    held = scores.read("contrast_2")
    scores.write("contrast_2", held.scores, held.labels, held.kind)
    with pytest.raises(
        FileError, match=r"contrast_2.npz was made with other code, corruption, data, precision, weights than"
    ):
        run(setting)


def test_a_projnorm_without_a_stamp_is_refused(setting):
    collect.collect_scores(setting, [0], projnorm_steps=1)
    scores_of(setting).write_projnorm("projnorm-short/contrast_2", 1.0, 1, {})
    with pytest.raises(FileError, match=r"projnorm-short/contrast_2.npz was made with other scores"):
        run(setting)


def test_seeds_on_other_images_are_no_row_of_one_table(setting):
    collect.collect(setting, [0])
    shifts = {s.name: s for s in setting.dataset.shifts(setting.root)}
    harder = lambda s: (  # noqa: E731
        dataclasses.replace(s, load=shifts["contrast_5"].load) if s.name == "contrast_1" else s
    )
    collect.collect(other_files(setting, harder), [1])
    with pytest.raises(
        FileError, match=r"seed1/shifts/contrast_1.npz was made with other inputs than .*seed0"
    ):
        run(setting)


def test_seeds_with_other_numbers_of_rows_are_no_row_of_one_table(setting):
    collect.collect(setting, [0])
    collect.collect(dataclasses.replace(setting, rows=20), [1])
    with pytest.raises(FileError, match=r"seed1/.* was made with other .*rows.* than .*seed0"):
        run(setting)


def test_seeds_of_other_recipes_are_no_row_of_one_table(setting):
    collect.collect(setting, [0])
    longer = dataclasses.replace(setting, recipe=dataclasses.replace(setting.recipe, epochs=3))
    collect.collect(longer, [1])
    with pytest.raises(FileError, match=r"seed1/source.npz was made with other recipe than .*seed0.*--redo"):
        run(setting)


def test_seeds_with_another_source_are_no_row_of_one_table(setting):
    collect.collect(setting, [0])
    reserved = setting.dataset.validation
    fewer = dataclasses.replace(
        setting.dataset, validation=lambda root: reserved(root).take(np.arange(len(reserved(root)) - 1))
    )
    collect.collect(dataclasses.replace(setting, dataset=fewer), [1])
    with pytest.raises(
        FileError, match=r"seed1/source.npz was made with other inputs than .*seed0/source.npz"
    ):
        run(setting)


@pytest.mark.parametrize(("first", "then"), [({}, {"epochs": 3}), ({"momentum": 0.8}, {"momentum": 0.0})])
def test_results_of_another_recipe_are_not_written_over(setting, first, then, monkeypatch, capsys):
    setting = dataclasses.replace(setting, recipe=dataclasses.replace(setting.recipe, **first))
    collect.collect(setting, [0])
    folder = run(setting)
    bench.table(NAME, setting.root / "out")
    for table in (folder / "tables").glob("*.md"):
        assert "Trained for 2 epochs of sgd from random weights." in table.read_text()
    changed = dataclasses.replace(setting.recipe, **then)
    other = dataclasses.replace(setting, recipe=changed, runs=setting.root / "other")
    collect.collect(other, [0])
    held = (folder / "estimates.csv").read_bytes()
    said = f"small was made with other {next(iter(then))}; .* with --results"
    with pytest.raises(FileError, match=said):
        run(other)
    assert (folder / "estimates.csv").read_bytes() == held
    run(other, "beside")
    # The whole chain says so before it trains.
    monkeypatch.setitem(RECIPES, NAME, changed)
    places = ("--datasets", setting.root, "--runs", setting.root / "new", "--results", setting.root / "out")
    assert command(["bench", "all", NAME, *map(str, places)]) == 2
    assert "was made with other" in capsys.readouterr().err
    assert not (setting.root / "new").exists()


def test_the_second_network_does_not_vote_on_sets_that_are_missing_for_it(setting):
    collect.collect(setting, [0, 1])
    about = scores_of(setting, 1).folder / "manifest.json"
    told = json.loads(about.read_text())
    about.write_text(json.dumps(told | {"missing": {"contrast_2": "x is not there"}}))
    table = read_table(run(setting) / "estimates.csv", ESTIMATES)
    voted = set(table[(table.method == "gde") & (table.seed == 0)]["shift"])
    assert "contrast_1" in voted
    assert "contrast_2" not in voted


def test_results_say_how_many_rows_the_source_has(setting):
    collect.collect(setting, [0])
    source = json.loads((run(setting) / "manifest.json").read_text())["seeds"]["0"]["source"]
    scores = scores_of(setting)
    assert source == {"n": len(scores.read().labels), "inputs": scores.stamp()["inputs"]}
    assert source["n"] == len(setting.dataset.validation(setting.root))


def test_sets_that_went_missing_do_not_count(setting):
    collect.collect(setting, [0])
    gone = other_files(
        setting,
        lambda s: (
            dataclasses.replace(s, absent=f"{setting.root}/x is not there") if s.name == "contrast_1" else s
        ),
    )
    (made,) = collect.collect_scores(gone, [0])
    # What is missing is said without the directory of this machine, so that parts of several can be merged.
    assert (made["shifts"], made["missing"]) == (10, {"contrast_1": "x is not there"})
    about = json.loads((run(setting) / "manifest.json").read_text())
    assert "contrast_1" not in about["shifts"]
    assert about["missing"] == {"contrast_1, seed 0": "x is not there"}


def test_random_draws_do_not_depend_on_what_else_is_there(setting):
    collect.collect(setting, [0])
    run(setting, "whole")
    path = scores_of(setting).path("contrast_2")
    held = path.read_bytes()
    path.unlink()
    for kept in (setting.runs / "estimates").rglob("*.json"):
        kept.unlink()
    run(setting, "part")
    path.write_bytes(held)
    run(setting, "again")
    for file in ("estimates.csv", "mild_label_shift_text.csv", "mild_label_shift_code.csv"):
        whole, part, again = (
            (setting.root / out / NAME / "small" / file).read_text().splitlines()
            for out in ("whole", "part", "again")
        )
        assert whole == again
        assert [line for line in whole if ",contrast_2," not in line] == part
    # Every shift and seed has a draw of its own.
    mild = [line.split(",") for line in whole]
    assert len({line[5] for line in mild[1:]}) > 5


def test_a_seed_without_a_source_is_said_to_be_missing(setting, tmp_path):
    collect.collect(setting, [0, 1])
    scores_of(setting, 1).path().unlink()
    (setting.runs / "scores" / NAME / "small" / "seed0.old").mkdir()
    (setting.runs / "scores" / NAME / "small" / "seed0.old" / "source.npz").write_bytes(b"")
    folder = run(setting)
    assert json.loads((folder / "manifest.json").read_text())["missing"] == {
        "source, seed 1": "not scored yet"
    }
    bench.table(NAME, setting.root / "out")
    assert "Missing: source, seed 1." in (folder / "tables" / "mae.md").read_text()


def test_merging_looks_at_every_part_and_copies_nothing_before_all_agree(tmp_path):
    for part, file, text in (("a", "x", "1"), ("a", "y", "1"), ("b", "z", "1"), ("b", "y", "2")):
        (tmp_path / part / "scores").mkdir(parents=True, exist_ok=True)
        (tmp_path / part / "scores" / file).write_text(text)
    with pytest.raises(FileError, match="nowhere holds nothing to merge"):
        merge([tmp_path / "a", tmp_path / "nowhere"], tmp_path / "c")
    with pytest.raises(FileError, match=r"b/scores/y and .*a/scores/y differ"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()
    (tmp_path / "b" / "scores" / "y").write_text("1")
    assert merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c") == 3
    assert merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c") == 3


def test_versions_of_torch_and_others_are_recorded(setting):
    collect.collect(setting, [0])
    about = json.loads((run(setting) / "manifest.json").read_text())
    (said,) = about["seeds"]["0"]["software"]
    assert f"torch {torch.__version__}" in said
    assert f"numpy {np.__version__}" in said
    assert "made_by" not in about["seeds"]["0"]
    assert "software" not in about["shifts"]["clean"]


def test_figures_are_of_the_scores_the_estimates_came_from(setting):
    collect.collect(setting, [0, 1])
    run(setting)
    bench.figures(NAME, setting.runs, setting.root / "out")
    collect.collect(dataclasses.replace(setting, rows=7, redo=True), [0, 1])
    with pytest.raises(
        FileError, match=r"is not what .*estimates.csv was made of; run `shiftgauge bench run` again"
    ):
        bench.figures(NAME, setting.runs, setting.root / "out")


@pytest.mark.parametrize("lie", ["weights", "inputs"])
def test_figures_are_of_the_same_weights_and_images_whatever_the_error(setting, lie):
    collect.collect(setting, [0])
    folder = run(setting)
    told = json.loads((folder / "manifest.json").read_text())
    for entry in told["seeds" if lie == "weights" else "shifts"].values():
        entry[lie] = "0" * 16
    (folder / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(FileError, match=r"is not what .*estimates.csv was made of"):
        bench.figures(NAME, setting.runs, setting.root / "out")


@pytest.mark.parametrize("marginal", ["source", "uniform"])
def test_figures_transport_to_the_shares_of_the_estimates(setting, marginal, monkeypatch):
    reserved = setting.dataset.validation
    # A source with other shares than the uniform ones.
    lopsided = dataclasses.replace(
        setting.dataset,
        validation=lambda root: reserved(root).take(np.flatnonzero(reserved(root).labels < 7)),
    )
    collect.collect(dataclasses.replace(setting, dataset=lopsided), [0])
    folder = bench.run(NAME, setting.runs, setting.root / "out", marginal=marginal)
    drawn, triangle = [], figures.plots.triangle
    monkeypatch.setattr(
        figures.plots, "triangle", lambda *given: drawn.append((given[4], given[1])) or triangle(*given)
    )
    bench.figures(NAME, setting.runs, setting.root / "out")
    table = read_table(folder / "estimates.csv", ESTIMATES)
    cot = {row.shift.replace("_", " "): row.estimate for row in table[table.method == "cot"].itertuples()}
    assert len(drawn) == 3
    for shift, value in drawn:
        assert value == pytest.approx(cot[shift], abs=1e-6)


def test_older_tables_beside_new_estimates_are_said(setting, capsys):
    collect.collect(setting, [0])
    where = ("--runs", str(setting.runs), "--results", str(setting.root / "out"))
    assert command(["bench", "run", NAME, *where]) == 0
    assert "older" not in capsys.readouterr().err
    assert command(["bench", "table", NAME, *where[2:]]) == 0
    assert "±" not in capsys.readouterr().out  # one seed has no spread
    assert command(["bench", "run", NAME, *where]) == 0
    assert "are older: shiftgauge bench table, figures" in capsys.readouterr().err


def test_tables_without_about_json_say_so(setting):
    collect.collect(setting, [0])
    folder = run(setting)
    (folder / "manifest.json").unlink()
    bench.table(NAME, setting.root / "out")
    assert "There is no manifest.json" in (folder / "tables" / "mae.md").read_text()
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(FileError, match=r"manifest.json holds no JSON object but list"):
        bench.table(NAME, setting.root / "out")


def test_a_shift_that_one_seed_lacks_is_seen_on_the_screen(setting, capsys):
    collect.collect(setting, [0, 1])
    scores_of(setting, 1).path("contrast_2").unlink()
    where = ("--runs", str(setting.runs), "--results", str(setting.root / "out"))
    assert command(["bench", "run", NAME, *where]) == 0
    assert "missing: contrast_2, seed 1: not scored yet" in capsys.readouterr().err
    assert command(["bench", "table", NAME, *where[2:]]) == 0
    shown = capsys.readouterr()
    assert "9 to 10" in shown.out
    assert "±" in shown.out
    assert "missing: contrast_2, seed 1" in shown.err
    folder = setting.root / "out" / NAME / "small" / "tables"
    # All methods lack it, so the row says it and no cell does.
    correlation = (folder / "correlation.md").read_text()
    assert "small, 2 seeds, 9 to 10 shifts, R^2" in correlation
    assert "(9 shifts)" not in correlation
    (line,) = [x for x in (folder / "thresholding.md").read_text().splitlines() if "| contrast_2 |" in x]
    assert line.split("|")[3].strip() == "1"


def rows(method, seeds, shifts, dataset="cifar10", n=10):
    return [
        (dataset, "net", seed, f"fog_{i}", "synthetic", n + seed, i / 10, 0.1, method, i / 10 + 0.02, False)
        for seed in seeds
        for i in range(shifts)
    ]


def estimates(*parts):
    records = [dict(zip(ESTIMATES, record, strict=True)) for part in parts for record in part]
    return estimates_sweep().table(records)


def test_cells_of_fewer_sets_or_seeds_say_so():
    table = tables.correlations(
        estimates(rows("ac", (0, 1), 5), rows("cot", (0,), 5), rows("projnorm", (0, 1), 3))
    )
    line = dict(zip(table.header, table.rows[0], strict=True))
    assert line["network"] == "net, 2 seeds, 5 shifts, R^2"
    assert line["AC"] == "1.000"
    assert line["COT"] == "1.000 (1 seed)"
    assert line["ProjNorm"] == "1.000 (3 shifts)"
    sizes = tables.shifts(estimates(rows("ac", (0, 5), 2)), {})
    assert [row[4] for row in sizes.rows] == ["10 to 15"] * 2
    assert [(r["n"], r["n_most"]) for r in sizes.data] == [(10, 15)] * 2


def test_joint_averages_compare_like_with_like():
    two = {
        ("cifar10", "net"): estimates(rows("ac", (0, 1), 5), rows("gde", (0,), 5)),
        ("cifar100", "net"): estimates(rows("ac", (0,), 5, "cifar100")),
    }
    told = {("cifar10", "net"): {"marginal": "uniform", "shifts": {}, "missing": {"fog_9, seed 0": "gone"}}}
    table = joint.main_table(two, told)
    lines = {(row[0], row[1]): dict(zip(table.header, row, strict=True)) for row in table.rows}
    here, paper = lines["average of 2 rows", "here"], lines["average of 2 rows", "paper"]
    assert here["AC"] == "2.00"
    assert here["GDE"] == "2.00 (1 of 2 rows)"
    only = {r[0]: dict(zip(table.header, r, strict=True)) for r in table.rows if r[1] == "paper"}
    assert paper["GDE"] == only["cifar10 synthetic"]["GDE"]
    assert (
        paper["AC"]
        == f"{(float(only['cifar10 synthetic']['AC']) + float(only['cifar100 synthetic']['AC'])) / 2:.2f}"
    )
    ours = next(row for row in table.rows if row[0] == "cifar10 synthetic" and row[1] != "paper")
    assert ours[table.header.index("GDE")] == "2.00 (1 of 2 seeds)"
    assert "cifar10, net: Label shares transported to: uniform. Missing: fog_9, seed 0." in table.notes
    assert any(note.startswith("cifar100, net: There is no manifest.json") for note in table.notes)


def test_a_stage_that_begins_again_has_a_speed_of_its_own():
    now = [0.0]
    clock = Clock(lambda: now[0])
    for done in (1, 2, 3):
        clock.read("estimates", done, 3)
        now[0] += 100
    assert clock.read("estimates", 1, 10) == ""
    now[0] += 1
    assert clock.read("estimates", 2, 10) == "1.0/s, 0:08 left"
