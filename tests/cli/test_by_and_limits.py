"""Columns in the command: slices, bins of time, groups, ids; limits on both ends of the range; provenance."""

import csv
import datetime
import json

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.reports.provenance import fingerprint


@pytest.fixture
def tables(tmp_path, scores):
    """SOURCE and TARGET as CSV with a time, a user and an id of each row."""
    for name, logits, labels in (("s.csv", "logits", "labels"), ("t.csv", "shifted", "truth")):
        with (tmp_path / name).open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow([*(f"logit_{j}" for j in range(5)), "label", "time", "user", "key"])
            begun = datetime.datetime(2026, 1, 1)
            for i, (row, label) in enumerate(zip(scores[logits], scores[labels], strict=True)):
                when = begun + datetime.timedelta(minutes=7 * i)
                out.writerow(
                    [*map(repr, map(float, row)), label, when.isoformat(), f"u{i % 40}", f"k{i:04d}"]
                )
    return tmp_path / "s.csv", tmp_path / "t.csv"


def test_times_are_sliced_in_bins(shiftgauge, tables):
    ran = shiftgauge("slices", *tables, "--by", "time:1d", "--replicates", "20", "--json")
    found = ran.json["slices"]
    assert [s["name"][:10] for s in found] == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    assert sum(s["rows"] for s in found) == 800
    ran = shiftgauge("slices", *tables, "--by", "time", "--replicates", "20")
    assert (ran.code, ran.out) == (2, "")
    assert "800 different values in 800 rows" in ran.err
    assert "COLUMN:1d" in ran.err


def test_groups_mean_rows_that_are_resampled_together(shiftgauge, tables):
    words = ("slices", *tables, "--by", "time:1week", "--replicates", "40", "--json", "-m", "scot")
    alone, grouped = shiftgauge(*words).json, shiftgauge(*words, "--groups", "user").json
    assert [s["error"] for s in alone["slices"]] == [s["error"] for s in grouped["slices"]]
    assert [s["range"] for s in alone["slices"]] != [s["range"] for s in grouped["slices"]]
    ran = shiftgauge("report", *tables, "--groups", "user", "--replicates", "20", "--json")
    assert ran.code == 0
    assert ran.json["slices"] == []
    assert "--by COLUMN shows the error by a column" in " ".join(ran.err.split())


def test_ids_travel_into_rows_and_picks(shiftgauge, tables, tmp_path):
    words = ("--id", "key", "--save-rows", tmp_path / "rows.csv")
    plan = ("--id", "key", "--out", tmp_path / "rows.csv")
    assert shiftgauge("estimate", *tables, "-m", "ac", "--replicates", "0", *words).code == 0
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert [row["id"] for row in rows] == [f"k{i:04d}" for i in range(800)]
    ran = shiftgauge("label-plan", *tables, "-n", "60", *plan, "--json")
    picks = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert [row["id"] for row in picks] == [f"k{int(row['row']):04d}" for row in picks]
    assert ran.json["ids"] == [row["id"] for row in picks]


def test_the_limit_looks_at_what_on_names(shiftgauge, files):
    words = ("estimate", *files, "-m", "scot", "--replicates", "40", "--json")
    found = shiftgauge(*words).json["estimates"][0]
    between = (found["error"] + found["interval"]["high"]) / 2
    ran = shiftgauge(*words, "--fail-above", between)
    assert (ran.code, ran.json["limit"]["value"]) == (0, found["error"])
    assert ran.json["limit"]["above"] == {"low": False, "error": False, "ceiling": True}
    ran = shiftgauge(*words, "--fail-above", between, "--on", "ceiling")
    assert (ran.code, ran.json["limit"]["value"]) == (1, found["interval"]["high"])
    ran = shiftgauge(*words, "--fail-above", between, "--on", "low")
    assert (ran.code, ran.json["limit"]["value"]) == (0, found["interval"]["low"])
    limit = f"the limit of {100 * between:g}%"
    ran = shiftgauge(*words[:-1], "--fail-above", between, "--on", "ceiling")
    low, error, high = (
        f"{100 * value:.1f}%"
        for value in (found["interval"]["low"], found["error"], found["interval"]["high"])
    )
    said = " ".join(ran.err.split())
    assert f"ceiling {high} is above {limit} (error {error}, interval {low} to {high})" in said
    ran = shiftgauge(*words[:-1], "--fail-above", between)
    said = " ".join(ran.err.split())
    assert f"error {error} is not above {limit} (interval {low} to {high})" in said
    assert "limit" not in shiftgauge(*words[:-1], "--fail-above", between, "--quiet").err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--on", "ceiling"), "pass --fail-above too"),
        (("--fail-above", "0.1", "--on", "ceilin"), "did you mean 'ceiling'"),
        (("--fail-above", "0.1", "--on", "low", "--replicates", "0"), "--replicates 200 for an interval"),
        (
            ("--fail-above", "0.1", "--on", "ceiling", "--replicates", "0"),
            "--on ceiling: scot has no range; wanted auto",
        ),
    ],
)
def test_a_limit_that_cannot_be_is_one_line(shiftgauge, files, words, line):
    ran = shiftgauge("estimate", *files, "-m", "scot", *words)
    assert ran.code == 2
    assert line in ran.err


COMMANDS = {
    "estimate": ("-m", "ac", "--replicates", "0"),
    "compare": ("-m", "ac", "-m", "cot"),
    "doctor": (),
    "metrics": (),
    "slices": ("--by", "time:1d", "--replicates", "20"),
    "label-plan": ("-n", "60"),
    "report": ("-m", "ac", "--replicates", "0"),
    "backtest": ("-m", "ac", "--repeats", "1"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_json_says_what_it_was_made_of(shiftgauge, tables, command):
    inputs = tables[:1] if command == "backtest" else tables
    held = shiftgauge(command, *inputs, *COMMANDS[command], "--json", "--label-column", "label").json[
        "provenance"
    ]
    assert held["shiftgauge"] == sg.__version__
    assert datetime.datetime.fromisoformat(held["made"]).tzinfo is not None
    assert held["source"]["name"] == "s.csv"
    known = sg.read_source(tables[0])
    assert held["source"]["fingerprint"] == fingerprint(known)
    target = held["target"]["fingerprint"]
    assert (target is None) == (command == "backtest")
    assert held["options"]["calibration"] == "temperature"
    assert held["command"].startswith(f"shiftgauge {command} {tables[0]}")
    again = shiftgauge(*held["command"].split()[1:]).json["provenance"]
    assert {**again, "made": None} == {**held, "made": None}


def test_the_estimate_begins_with_its_answer(shiftgauge, files):
    lines = shiftgauge("estimate", *files, "-m", "scot", "--replicates", "40").out.strip().splitlines()
    found = json.loads(shiftgauge("estimate", *files, "-m", "scot", "--replicates", "40", "--json").out)
    (one,) = found["estimates"]
    assert lines[0].startswith(f"error {100 * one['error']:.1f}%   90% interval ")
    assert lines[0].endswith("   sampling error alone")


def test_the_doctor_says_the_verdict_first_and_in_the_command_s_words(shiftgauge, files):
    brief = shiftgauge("doctor", *files).out.splitlines()
    assert max(map(len, brief)) <= 80
    lines = shiftgauge("doctor", *files, "--verbose").out.splitlines()
    assert lines[0] == brief[0]
    assert len(brief) < len(lines)
    statuses = [line.split()[0] for line in lines[1:] if line[:1].strip()]
    assert statuses == sorted(statuses, key=["stop", "caution", "ok"].index)
    text = " ".join(lines)
    assert "--marginal shrunk" in text
    assert "marginal='" not in text
    assert np.isin("ok", statuses)


def test_a_column_that_source_has_too_widens_its_slices(shiftgauge, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(200).round(6)
    lines = [f"{a:.6f},{1 - a:.6f},{'xy'[i % 2]},{'ab'[int(rng.random() > a)]}" for i, a in enumerate(p)]
    head = "prob_a,prob_b,site,label"
    (tmp_path / "s.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "bare.csv").write_text("\n".join([head.replace("site", "other"), *lines]) + "\n")
    words = (tmp_path / "s.csv", "--by", "site", "--replicates", "20", "--json", "-m", "ac")
    told = shiftgauge("slices", tmp_path / "s.csv", *words).json
    plain = shiftgauge("slices", tmp_path / "bare.csv", *words).json
    assert "missed of each slice on the source" in told["kind"]
    assert "not what the scores themselves miss" in plain["kind"]
    for one, more in zip(plain["slices"], told["slices"], strict=True):
        assert more["range"]["high"] > one["range"]["high"]


def sited(path, times=("x", "y"), delimiter=",", rows=200):
    """A table of two classes with a column `site`, and labels that follow the probabilities."""
    rng = np.random.default_rng(0)
    head, lines = ["prob_a", "prob_b", "site", "label"], []
    for i, a in enumerate(rng.random(rows).round(3)):
        lines.append([f"{a:.3f}", f"{1 - a:.3f}", times[i % len(times)], "ab"[int(rng.random() > a)]])
    path.write_text("\n".join(delimiter.join(line) for line in (head, *lines)) + "\n")
    return path


def test_a_note_on_how_a_file_was_read_is_no_warning(shiftgauge, tmp_path):
    commas, tabs = sited(tmp_path / "s.csv"), sited(tmp_path / "t.csv", delimiter="\t")
    words = ("-m", "ac", "--replicates", "0")
    plain, noted = (shiftgauge("estimate", commas, path, *words).out.splitlines() for path in (commas, tabs))
    more = " ".join(
        line.strip() for line in noted if not any(line.split() == other.split() for other in plain)
    )
    assert more.replace(" : ", ": ").endswith(f"note: {tabs}: its columns are separated by tabs")
    assert not any(line.startswith("! ") for line in noted)
    decided = shiftgauge("estimate", commas, tabs, *words, "--threshold", "b=0.9", "--verbose").out
    assert decided.count("note: the deployed decisions differ") == 2
    assert "! " not in decided
    planned = shiftgauge("label-plan", commas, tabs, "-n", "60", "--threshold", "b=0.9").out
    assert planned.count("\nnote: the deployed decisions differ") == 2
    assert "! " not in planned
    findings = json.loads(shiftgauge("report", commas, tabs, "--json", "--replicates", "0").out)["findings"]
    assert [f["level"] for f in findings if "tabs" in f["meaning"]] == ["ok"]


def test_a_source_column_that_cannot_be_read_is_said(shiftgauge, tmp_path):
    target = sited(tmp_path / "t.csv", ("2026-01-01", "2026-01-02"))
    source = sited(tmp_path / "s.csv", ("noon", "midnight"))
    words = (source, target, "--by", "site:1d", "--replicates", "20", "--json")
    ran = shiftgauge("slices", *words, "-m", "ac")
    (said,) = [w for w in ran.json["warnings"] if str(source) in w]
    assert said.startswith("intervals do not include the error of the scores on the source")
    assert "not what the scores themselves miss" in ran.json["kind"]
    ran = shiftgauge("report", *words)
    assert ran.code == 0
    assert str(source) in ran.err


@pytest.mark.slow
def test_the_report_shows_the_ranges_of_slices(shiftgauge, tmp_path):
    path = sited(tmp_path / "s.csv", ("x", "y", "y"))
    words = (path, path, "--by", "site", "--replicates", "60")
    told = shiftgauge("slices", *words, "--json").json
    (table,) = shiftgauge("report", *words, "--json").json["slices"]
    spans = {s["name"]: (s["low"], s["high"]) for s in told["slices"]}
    assert {r["slice"]: (r["range"]["low"], r["range"]["high"]) for r in table["rows"]} == spans
    assert table["kind"] == told["kind"]
    assert "missed of each slice on the source" in table["kind"]
    page = tmp_path / "r.html"
    shiftgauge("report", *words, "-o", page)
    written = shiftgauge("report", *words, "--format", "md").out
    for low, high in spans.values():
        span = f"{100 * low:.1f}% to {100 * high:.1f}%"
        assert span in page.read_text()
        assert span in written
    assert "missed of each slice on the source" in page.read_text()
