"""Labels of TARGET through the command: plan, label, estimate again; and one line for labels that cannot be used."""

import csv
import json
import shlex
from importlib import resources

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import shiftgauge as sg

NAMES = ("cat", "dog", "owl")
BOTH_CSV = ("s.csv", "t.csv")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """600 source rows and 500 target rows of a shift that scores understate; ids are numbers."""
    rng = np.random.default_rng(1)
    z = 2.0 * rng.normal(size=(1100, 3))
    noise = rng.gumbel(size=z.shape) * np.where(np.arange(1100) < 600, 1.0, 1.6)[:, None]
    y = np.array(NAMES)[(z + noise).argmax(1)]
    columns = {f"logit_{name}": z[:, j] for j, name in enumerate(NAMES)}
    parquet.write_table(
        pa.table({**{k: v[:600] for k, v in columns.items()}, "label": y[:600]}), tmp_path / "s.parquet"
    )
    target = {**{k: v[600:] for k, v in columns.items()}, "key": np.arange(5000, 5500)}
    parquet.write_table(pa.table(target), tmp_path / "t.parquet", row_group_size=100)
    some = [label if row % 10 == 0 else None for row, label in enumerate(y[600:].tolist())]
    parquet.write_table(pa.table({**target, "label": some}), tmp_path / "some.parquet", row_group_size=100)
    parquet.write_table(pa.table({k: v[::-1] for k, v in target.items()}), tmp_path / "other.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.save("truth.npy", y[600:])
    return y[600:]


def write(path, truth, rows, key="row", first=0, more=()):
    lines = [f"{key},label", *(f"{row + first},{truth[row]}" for row in rows), *more]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def both(name="t.parquet"):
    return "s.parquet", name


def samples(**options):
    return sg.read_source("s.parquet"), sg.read_target("t.parquet", **options)


def test_plan_label_estimate(shiftgauge, place):
    ran = shiftgauge("label-plan", *both(), "-n", "20", "-o", "rows.csv", "--save-plan", "plan.json")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("label 20 rows: the range should shrink from ")
    assert "shiftgauge estimate s.parquet t.parquet --labels rows.csv" in ran.out
    with open("rows.csv") as file:
        lines = list(csv.DictReader(file))
    rows = [int(line["row"]) for line in lines]
    assert {line["label"] for line in lines} == {""}  # to be filled in
    assert "no line has a label" in shiftgauge("estimate", *both(), "--labels", "rows.csv").err
    plan = sg.label_plan(*samples(), n=20)
    assert rows == plan.rows.tolist()
    write("labels.csv", place, rows)
    (one,) = shiftgauge("estimate", *both(), "--labels", "labels.csv", "--plan", "plan.json", "--json").json[
        "estimates"
    ]
    labels = {row: place[row] for row in rows}
    known = sg.estimate(*samples(), labels=labels, labels_chosen=plan)
    assert one["error"] == known.error
    assert one["labels"]["n"] == 20
    assert one["range"] == known.range.to_dict()
    ran = shiftgauge("estimate", *both("other.parquet"), "--labels", "labels.csv", "--plan", "plan.json")
    assert ran.code == 2
    assert "plan.json: the plan's rows have other scores or ids in this target" in ran.err
    write("unplanned.csv", place, [*rows, next(r for r in range(500) if r not in rows)])
    ran = shiftgauge("estimate", *both(), "--labels", "unplanned.csv", "--plan", "plan.json")
    assert (ran.code, "was not planned" in ran.err) == (2, True)
    assert "--labels-chosen unknown" in ran.err


def next_command(text):
    """The words of the command that a screen says to type next."""
    lines = text[text.index("next  ") :].split("\n", 1)[1].replace("\\\n", " ")
    return shlex.split(next(line for line in lines.splitlines() if "shiftgauge " in line))[1:]


def fill_in(path, truth, key="row", first=0):
    """Label the rows of a plan that have no label yet; returns the labels of all its rows."""
    with open(path) as file:
        lines = list(csv.DictReader(file))
    labels = {}
    for line in lines:
        known = truth[int(line[key]) - first]
        assert line.get("label", "") in ("", known)
        line["label"] = labels[int(line[key])] = known
    with open(path, "w") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return labels


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("words", [[], ["--id", "key"]])
def test_the_printed_commands_add_labels_and_lose_none(shiftgauge, place, words, blocks, monkeypatch):
    if blocks:
        monkeypatch.setattr("shiftgauge.io.read.subsample_step", lambda rows, k: 2 if rows == 500 else 1)
    wrong = np.random.default_rng(0).random(500) < 0.3
    place = np.where(wrong, np.array(NAMES)[(np.searchsorted(NAMES, place) + 1) % 3], place)
    key, first = ("id", 5000) if words else ("row", 0)
    command, labels = ["label-plan", *both(), *words, "-n", "2", "-o", "rows.csv"], {}
    for count, name in ((2, "rows.csv"), (22, "rows-2.csv")):
        planned = shiftgauge(*command)
        assert planned.code == 0, planned.err
        assert max(map(len, planned.out.splitlines())) <= 80
        assert (command[0], command[-1]) == ("label-plan", name)
        before, labels = labels, fill_in(name, place, key, first)
        assert len(labels) == count
        assert before.items() <= labels.items()
        command = next_command(planned.out)
        assert command[-1] == name
        answer = shiftgauge(*command)
        assert f" rows, {count} labels" in answer.out, answer.err
        lost = shiftgauge("label-plan", *both(), "-o", name)
        assert (lost.code, lost.err) == (
            2,
            f"shiftgauge: --out {name}: {count} lines have labels there, which would be lost; wanted another file\n",
        )
        command = next_command(answer.out)
    assert command[0] == "doctor"  # these are enough labels


def test_rows_beside_labelled_ones_are_a_plan_too(shiftgauge, place):
    write("some.csv", place, [3, 4, 499])
    asked = ("label-plan", *both(), "--labels", "some.csv", "-n", "50")
    found = shiftgauge(*asked, "-o", "rows.parquet", "--save-plan", "plan.json", "--json").json
    assert found["sentence"] == "label 50 more rows; 3 have a label already"
    assert found["rows"][50:] == [3, 4, 499]
    assert len(set(found["rows"])) == 53
    table = parquet.read_table("rows.parquet").to_pydict()
    assert table["label"] == [""] * 50 + [place[row] for row in (3, 4, 499)]
    write("all.csv", place, found["rows"])
    (one,) = shiftgauge("estimate", *both(), "--labels", "all.csv", "--plan", "plan.json", "--json").json[
        "estimates"
    ]
    assert one["labels"]["n"] == 53
    own = shiftgauge("label-plan", *both("some.parquet"), "--use-labels", "--json").json
    assert sorted(own["rows"][20:]) == list(range(0, 500, 10))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--labels", "some.csv", "-n", "498"], "n 498: wanted 497 or fewer"),
        (["--labels", "all.csv"], "all.csv: every row of TARGET has a label; there is nothing left to label"),
        (["--labels", "some.csv", "--decide", "0.2"], "put all rows in one order; leave the labels out"),
        (["--labels", "some.csv", "-o", "some.csv"], "some.csv: that is an input, which would be lost"),
        (["--labels", "strange.csv"], "strange.csv: 700 is not a row of the target"),
        (["-o", "truth.npz"], "--out truth.npz: 500 lines have labels there, which would be lost"),
        (["-o", "named.csv", "--label-column", "species"], "--out named.csv: 1 line has a label there"),
    ],
)
def test_plans_that_would_lose_or_repeat_labels_are_refused(shiftgauge, place, words, line):
    write("some.csv", place, [3, 4, 499])
    write("all.csv", place, range(500))
    write("strange.csv", place, [], more=["700,cat"])
    np.savez("truth.npz", label=place)
    with open("named.csv", "w") as file:
        file.write("row,species\n1,cat\n2,\n")
    parquet.write_table(
        parquet.read_table("s.parquet").rename_columns([*(f"logit_{name}" for name in NAMES), "species"]),
        "named.parquet",
    )
    source = "named.parquet" if "--label-column" in words else "s.parquet"
    ran = shiftgauge("label-plan", source, "t.parquet", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert line in ran.err


def test_names_that_look_like_formulas_come_back_as_labels(shiftgauge, tmp_path, monkeypatch):
    """A CSV has an apostrophe before them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    p = rng.random(400)
    names = np.where(rng.random(400) < p, "-1", "+1")
    for name, rows, last in (("s.csv", range(300), ",label"), ("t.csv", range(300, 400), "")):
        lines = [f"{p[i]},{1 - p[i]}" + (f",{names[i]}" if last else "") for i in rows]
        with open(name, "w") as file:
            file.write("\n".join([f"prob_-1,prob_+1{last}", *lines]) + "\n")
    write("some.csv", names, [301, 302, 303], first=-300)
    ran = shiftgauge("label-plan", *BOTH_CSV, "--labels", "some.csv", "-n", "5", "-o", "rows.csv")
    assert ran.code == 0, ran.err
    with open("rows.csv") as file:
        assert "\"'" in file.read()
    before, after = (
        shiftgauge("estimate", *BOTH_CSV, "--labels", name, "--json").json["estimates"][0]
        for name in ("some.csv", "rows.csv")
    )
    assert after["labels"] == before["labels"]


def test_files_without_labels_are_written_anew(shiftgauge, place):
    for _ in range(2):
        assert shiftgauge("label-plan", *both(), "-o", "rows.csv").code == 0
    with open("rows.csv", "w") as file:
        file.write("not,a\ntable")
    assert shiftgauge("label-plan", *both(), "-o", "rows.csv").code == 0


def test_labels_that_came_by_themselves_are_not_mixed_with_a_plan(shiftgauge, place):
    predicted = np.array(NAMES)[sg.read_target("t.parquet").predictions]
    other = {"cat": "dog", "dog": "owl", "owl": "cat"}
    write("rows.csv", [other[name] for name in predicted], range(2))
    answer = shiftgauge("estimate", *both(), "--labels", "rows.csv", "--labels-chosen", "unknown")
    command = next_command(answer.out)
    assert (command[0], command[-1], "--labels" in command) == ("label-plan", "rows-2.csv", False)


def test_a_saved_plan_is_the_plan(place, tmp_path):
    for options in ({}, {"decide": 0.2}):
        plan = sg.label_plan(*samples(id="key"), **options)
        plan.save("plan.json")
        again = type(plan).load("plan.json")
        assert again.to_dict() == plan.to_dict()
        assert (again.prior, again.classes) == (plan.prior, plan.classes)
        np.testing.assert_array_equal(again.error_probability, plan.error_probability)
    labels = {int(key): place[key - 5000] for key in plan.ids[:40]}
    assert again.progress(labels).to_dict() == plan.progress(labels).to_dict()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:50], "plan.json: not JSON"),
        (lambda text: text.replace("shiftgauge-label-plan", "other"), "plan.json: not a label plan"),
        (lambda text: text.replace('"schema": "', '"schema": "0'), "plan.json: written by another version"),
        (lambda text: text.replace('"prior"', '"past"'), "plan.json: damaged"),
        (lambda text: "[]", "plan.json: not a label plan"),
    ],
)
def test_a_damaged_plan_is_one_line(shiftgauge, place, change, words):
    sg.label_plan(*samples()).save("plan.json")
    with open("plan.json") as file:
        text = file.read()
    with open("plan.json", "w") as file:
        file.write(change(text))
    write("labels.csv", place, range(3))
    ran = shiftgauge("estimate", *both(), "--labels", "labels.csv", "--plan", "plan.json")
    assert (ran.code, words in ran.err) == (2, True), ran.err


def test_label_progress(shiftgauge, place):
    ran = shiftgauge(
        "label-plan", *both(), "--id", "key", "--decide", "0.9", "-o", "rows.csv", "--save-plan", "p.json"
    )
    assert ran.code == 0, ran.err
    assert "shiftgauge label-progress p.json rows.csv" in ran.out
    with open("rows.csv") as file:
        keys = [int(line["id"]) for line in csv.DictReader(file)]
    assert len(keys) == 500
    write("none.csv", place, [], "id", more=[f"{key}," for key in keys])
    ran = shiftgauge("label-progress", "p.json", "none.csv")
    assert (ran.code, ran.out) == (0, f"go on: 0 of 500 rows are labelled; begin with {keys[0]}\n")
    empty = shiftgauge("label-progress", "p.json", "none.csv", "--json").json
    assert (empty["labels"], empty["done"], empty["range"]["low"], empty["range"]["high"]) == (
        0,
        False,
        0.0,
        1.0,
    )
    write("few.csv", place, [key - 5000 for key in keys[:2]], "id", 5000)
    assert shiftgauge("label-progress", "p.json", "few.csv").out.startswith("go on: 2 labels, ")
    write("more.csv", place, [key - 5000 for key in keys[:60]], "id", 5000)
    assert shiftgauge("label-progress", "p.json", "more.csv").out.startswith(
        "stop: the error is below 90.0%; 60 labels"
    )
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    found = shiftgauge("label-progress", "p.json", "more.csv", "--json").json
    jsonschema.validate(found, {"$ref": "#/$defs/progress", "$defs": schema["$defs"]})
    write("gap.csv", place, [key - 5000 for key in [*keys[:5], *keys[6:9]]], "id", 5000)
    assert "! 3 labels come after row" in shiftgauge("label-progress", "p.json", "gap.csv").out
    write("strange.csv", place, [0], "id", 90)
    ran = shiftgauge("label-progress", "p.json", "strange.csv")
    assert (ran.code, ran.err) == (
        2,
        "shiftgauge: strange.csv: '90' is not a row of the plan; wanted labels of its rows\n",
    )
    assert shiftgauge("label-plan", *both(), "--save-plan", "spread.json").code == 0
    write("rows2.csv", place, range(3))
    ran = shiftgauge("label-progress", "spread.json", "rows2.csv")
    assert (ran.code, "this plan has no aim at which to stop" in ran.err) == (2, True)


@pytest.mark.parametrize("key", ["id", "row"])
@pytest.mark.parametrize("blocks", [False, True])
def test_labels_by_id_and_by_row_in_memory_and_in_blocks(shiftgauge, place, key, blocks, monkeypatch):
    """Rows are counted in reading order."""
    rows = list(range(0, 500, 11))
    write("labels.csv", place, rows, key, 5000 if key == "id" else 0)
    words = ["--id", "key"] if key == "id" else []
    expected = sg.estimate(*samples(), labels={row: place[row] for row in rows})
    if blocks:
        monkeypatch.setattr("shiftgauge.io.read.subsample_step", lambda rows, k: 2)
    (one,) = shiftgauge("estimate", *both(), "--labels", "labels.csv", *words, "--json").json["estimates"]
    assert one["error"] == pytest.approx(expected.error, abs=1e-6)
    assert one["labels"]["errors"] == expected.labels.errors


@pytest.mark.parametrize("blocks", [False, True])
def test_labels_in_target(shiftgauge, place, blocks, monkeypatch):
    if blocks:
        monkeypatch.setattr("shiftgauge.io.read.subsample_step", lambda rows, k: 2 if rows == 500 else 1)
    plain = shiftgauge("estimate", *both("some.parquet"), "--json")
    said = "a label column; see --use-labels and --check"
    if not blocks:
        said = "labels in 50 of 500 rows; see --use-labels and --check"
    assert plain.err == f"shiftgauge: TARGET has {said}\n"
    assert shiftgauge("estimate", *both("some.parquet"), "--json", "--quiet").err == ""
    assert plain.json["estimates"][0]["labels"] is None
    ran = shiftgauge("estimate", *both("some.parquet"), "--use-labels", "--json")
    expected = sg.estimate(*samples(), labels={row: place[row] for row in range(0, 500, 10)})
    assert ran.err == ""
    assert ran.json["estimates"][0]["error"] == pytest.approx(expected.error, abs=1e-6)
    checked = shiftgauge("estimate", *both("some.parquet"), "--check", "--json").json
    assert checked["estimates"][0]["error"] == pytest.approx(plain.json["estimates"][0]["error"], abs=1e-6)
    predicted = np.array(NAMES)[sg.read_target("t.parquet").predictions]
    assert checked["target"]["true_error"] == pytest.approx(np.mean(predicted[::10] != place[::10]))
    full = shiftgauge("estimate", *both("some.parquet"), "--truth", "truth.npy", "--json").json
    assert full["target"]["true_error"] == pytest.approx(np.mean(predicted != place))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--labels", "class.csv"], "class.csv: row 1 is 'cow', which is not a class"),
        (["--labels", "twice.csv"], "twice.csv: row 0 has two labels"),
        (
            ["--labels", "row.csv"],
            "row.csv: 500 is not a row of the target; wanted row numbers from 0 to 499",
        ),
        (["--labels", "id.csv", "--id", "key"], "id.csv: no row has the id "),
        (["--labels", "id.csv"], "id.csv: has ids, and TARGET was read without"),
        (
            ["--labels", "fine.csv", "--use-labels"],
            "--labels fine.csv and --use-labels: wanted one of the two",
        ),
        (["--labels", "fine.csv", "--labels-chosen", "randm"], "did you mean 'random'"),
        (["--labels-chosen", "unknown"], "there are no labels; pass --labels FILE too"),
        (["--labels", "fine.csv", "-m", "scot"], "labels combine with auto alone; leave --method scot out"),
        (["--use-labels"], "t.parquet: --use-labels was asked for, but there is no label column"),
        (["--check"], "t.parquet: --check was asked for, but there are no labels"),
        (["--labels", "none.csv"], "none.csv: no such file"),
    ],
)
def test_labels_that_cannot_be_used_are_one_line(shiftgauge, place, words, line):
    write("fine.csv", place, range(5))
    write("class.csv", place, [0], more=["1,cow"])
    write("twice.csv", place, [0], more=[f"0,{'dog' if place[0] != 'dog' else 'cat'}"])
    write("row.csv", place, [0], more=["500,cat"])
    write("id.csv", place, [0], "id", 100)
    ran = shiftgauge("estimate", *both(), *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert line in ran.err


def test_labels_of_all_rows_are_the_answer(shiftgauge, place):
    write("all.csv", place, range(500))
    predicted = np.array(NAMES)[sg.read_target("t.parquet").predictions]
    ran = shiftgauge("estimate", *both(), "--labels", "all.csv")
    assert ran.out.startswith(f"error {100 * np.mean(predicted != place):.1f}%   by the labels of all rows\n")


def test_a_truth_outside_the_range_is_said_to_be(shiftgauge, place):
    predicted = np.array(NAMES)[sg.read_target("t.parquet").predictions]
    other = {"cat": "dog", "dog": "owl", "owl": "cat"}
    np.save("quarter.npy", [other[name] if row % 4 == 0 else name for row, name in enumerate(predicted)])
    ran = shiftgauge("estimate", *both(), "--truth", "quarter.npy")
    assert "truth 25.0% by the labels of all rows; the estimate is " in ran.out
    np.save("right.npy", predicted)
    text = " ".join(shiftgauge("estimate", *both(), "--truth", "right.npy").out.split())
    assert "truth 0.0% by the labels of all rows, outside the 90% range; the estimate is " in text
    ran = shiftgauge("estimate", *both(), "--truth", "right.npy", "-m", "scot")
    assert "outside" not in ran.out  # a named method has no range


def test_every_command_follows_the_labels(shiftgauge, place):
    write("labels.csv", place, range(0, 500, 5))
    words = ("--labels", "labels.csv", "--json")
    expected = sg.estimate(*samples(), labels={row: place[row] for row in range(0, 500, 5)}).error
    assert shiftgauge("metrics", *both(), *words).json["error"] == pytest.approx(expected, abs=1e-6)
    found = shiftgauge("compare", *both(), *words).json["estimates"]
    assert {e["method"]: e["error"] for e in found}["auto"] == pytest.approx(expected)
    assert all(e["labels"] is None for e in found if e["method"] != "auto")
    slices = shiftgauge("slices", *both("some.parquet"), "--by", "label", "--replicates", "20", *words).json
    assert slices["error"] == pytest.approx(expected, abs=1e-6)
    report = shiftgauge("report", *both(), "--replicates", "0", *words).json
    assert f"{100 * expected:.1f}%" in report["answer"]["sentence"]
    assert shiftgauge("doctor", *both(), *words).code in (0, 1)


@pytest.mark.parametrize(
    "extra",
    [
        (),
        ("--labels", "some.csv"),
        ("--truth", "truth.npy"),
        ("--labels", "wrong.csv"),
        ("--labels", "some.csv", "--truth", "truth.npy", "--fail-above", "0.001"),
        ("--fail-above", "0.123", "--calibration", "vector", "--proportions", "same", "--logits"),
    ],
)
def test_the_screen_of_estimate_is_short(shiftgauge, place, extra):
    """At most eight lines of at most 80 columns; the answer first; no number twice."""
    write("some.csv", place, range(0, 500, 25))
    predicted = np.array(NAMES)[sg.read_target("t.parquet").predictions]
    other = {"cat": "dog", "dog": "owl", "owl": "cat"}
    write("wrong.csv", [other[name] for name in predicted], range(0, 500, 10))
    limited = "--fail-above" in extra
    ran = shiftgauge("estimate", *both("some.parquet" if limited else "t.parquet"), *extra)
    lines = [*ran.out.splitlines(), *ran.err.splitlines()]
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 80
    (one,) = shiftgauge("estimate", *both(), *extra, "--json").json["estimates"]
    answer = f"{100 * one['error']:.1f}%"
    if limited:
        assert answer in lines.pop()  # it stands alone with --quiet
    assert lines[0].startswith(f"error {answer}   90% range ")
    assert lines[0].endswith(f"grade: {one['details']['grade']}")
    assert "\n".join(lines).count(answer) == 1
    assert any(line.startswith("why   ") for line in lines)
    assert any(line.startswith("next  ") for line in lines) or limited
    assert ("contradict each other" in " ".join(ran.out.split())) == ("wrong.csv" in extra)
    assert "contradict" not in ran.out or "! labels and scores" not in ran.out


def test_an_estimate_prints_what_the_command_prints(shiftgauge, place):
    """Answer, validation error and why are the same lines; what to do is a call instead of a command."""
    lines = shiftgauge("estimate", *both()).out.splitlines()
    answer = sg.estimate(*samples())
    printed = repr(answer).splitlines()
    assert printed[:3] == lines[:3]
    assert printed[0].endswith(f"grade: {answer.grade}")
    assert printed[3].startswith("next  ")
    assert "(source, target)" in printed[3]


def test_a_period_with_all_labels_has_no_range_of_no_width(place):
    source, target = samples()
    found = repr(sg.timeline(source, target, every="250 rows", labels=list(place)))
    assert found.count("  labelled ") == 2
    assert "% to " not in found
