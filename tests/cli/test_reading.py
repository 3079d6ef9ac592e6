"""The options on how files are read: the same for every command that reads scores."""

import contextlib
import glob
import os
from dataclasses import fields
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pytest
import typer
from pyarrow import parquet

import shiftgauge as sg
from shiftgauge.cli.app import app
from shiftgauge.cli.inputs import InputOptions
from shiftgauge.cli.outputs import check_output
from shiftgauge.errors import InputError

ALL = typer.main.get_command(app).commands
#: Each command that reads scores, with what it needs beside the files.
COMMANDS = {
    "estimate": ("-m", "ac"),
    "compare": ("-m", "ac"),
    "doctor": (),
    "metrics": (),
    "slices": ("--by", "site"),
    "backtest": (),
    "label-plan": (),
    "report": ("--format", "md"),
    "timeline": ("--time", "when"),
    "drivers": ("--by", "site"),
}


def given(command, files):
    """SOURCE, and TARGET where the command takes one."""
    return files[: sum(p.param_type_name == "argument" for p in ALL[command].params)]


def test_these_are_the_commands_that_read():
    assert {name for name, c in ALL.items() if "logits" in {p.name for p in c.params}} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_options_with_their_defaults_and_in_their_order(command):
    names = {f.name: f.default for f in fields(InputOptions)}
    held = {p.name: p.default for p in ALL[command].params if p.name in names}
    assert list(held.items()) == list(names.items())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--label-column", "truth"),
        ("--logit-prefix", "z_"),
        ("--prob-prefix", "p_"),
        ("--positive", "a"),
        ("--negative", "b"),
        ("--weight-column", "w"),
        ("--prediction-column", "said"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_about_columns_where_no_file_has_any(shiftgauge, files, command, option, value):
    ran = shiftgauge(command, *given(command, files), *COMMANDS[command], option, value)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"shiftgauge: {option} is about the columns of a table, and no file is one")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_logits_or_probs(shiftgauge, files, command):
    ran = shiftgauge(command, *given(command, files), *COMMANDS[command], "--logits", "--probs")
    assert (ran.code, "both given" in ran.err, ran.err.count("\n")) == (2, True, 1)


def test_one_table_among_the_files_is_enough(shiftgauge, files, tmp_path, scores):
    labels = tmp_path / "y.csv"
    labels.write_text("truth\n" + "\n".join(map(str, scores["labels"])) + "\n")
    wanted = shiftgauge("estimate", *files, "-m", "ac", "--json").json["source"]["error"]
    np.savez(tmp_path / "unlabelled.npz", logits=scores["logits"])
    words = ("estimate", tmp_path / "unlabelled.npz", files[1], "-m", "ac", "--json")
    ran = shiftgauge(*words, "--source-labels", labels, "--label-column", "truth")
    assert ran.code == 0, ran.err
    assert ran.json["source"]["error"] == wanted


def test_the_second_model_may_be_the_table(shiftgauge, files, tmp_path, scores):
    second = np.random.default_rng(0).integers(0, 5, 800)
    np.savetxt(tmp_path / "second.csv", second, fmt="%d", header="said", comments="")
    words = ("-m", "gde", "--second", tmp_path / "second.csv", "--prediction-column", "said", "--json")
    ran = shiftgauge("estimate", *files, *words)
    assert ran.code == 0, ran.err
    assert ran.json["estimates"][0]["error"] == pytest.approx(np.mean(scores["shifted"].argmax(1) != second))


def test_the_labelled_rows_may_be_the_table(shiftgauge, files, tmp_path, scores):
    rows = tmp_path / "rows.csv"
    assert shiftgauge("label-plan", *files, "-n", 100, "--out", rows).code == 0
    header, *lines = rows.read_text().splitlines()
    at = header.split(",").index('"row"')
    truth = [f"{line},{scores['truth'][int(line.split(',')[at])]}" for line in lines]
    rows.write_text("\n".join([f"{header},truth", *truth]) + "\n")
    ran = shiftgauge("estimate", *files, "--labels", rows, "--label-column", "truth", "--json")
    assert ran.code == 0, ran.err
    (one,) = ran.json["estimates"]
    assert one["labels"]["n"] == 100
    assert one["error"] == pytest.approx(np.mean(scores["shifted"].argmax(1) != scores["truth"]), abs=0.15)


@pytest.mark.parametrize(
    ("out", "pattern", "found"),
    [
        ("days/new.parquet", "days/[m-o]ew.parquet", True),
        ("days/new.parquet", "link/*.parquet", True),
        ("link/new.parquet", "days/*.parquet", True),
        ("days/new.parquet", "l?nk/*.parquet", True),
        ("days/deep/new.parquet", "days/**", True),
        ("new.parquet", "**/*.parquet", True),
        ("later", "days/*.parquet", True),  # a link to a file in there that is not there yet
        ("days/new.parquet", "days/[!m-o]ew.parquet", False),
        ("days/.new.parquet", "days/*.parquet", False),  # patterns find nothing that is hidden
        ("days/deep/new.parquet", "link/*.parquet", False),
        ("days/new.parquet", "days/[new].parquet", False),
    ],
)
def test_a_pattern_reads_what_is_written_where_it_would_find_it(tmp_path, monkeypatch, out, pattern, found):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("days")
    (tmp_path / "later").symlink_to("days/later.parquet")
    (tmp_path / "days" / "gone.parquet").symlink_to("nowhere")
    refused = pytest.raises(InputError, match="that is an input") if found else contextlib.nullcontext()
    with refused:
        check_output("--out", Path(out), [pattern])
    Path(out).write_text("x")
    assert found == any(Path(name).samefile(out) for name in existing(pattern))


def existing(pattern):
    return filter(os.path.exists, glob.glob(pattern, recursive=True))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_named_pipes(shiftgauge, files, tmp_path):
    """As `<(command)` makes them: their form is told by the content, whatever the name says."""
    source, target = files
    want = shiftgauge("estimate", source, target, "--json").json["estimates"]
    for name in ("t.npz", "no_ending"):
        pipe = tmp_path / "pipes" / name
        pipe.parent.mkdir(exist_ok=True)
        os.mkfifo(pipe)
        Thread(target=pipe.write_bytes, args=(target.read_bytes(),), daemon=True).start()
        ran = shiftgauge("estimate", source, pipe, "--json")
        assert ran.json["estimates"] == want
    empty = tmp_path / "empty.csv"
    os.mkfifo(empty)
    Thread(target=empty.write_bytes, args=(b"",), daemon=True).start()
    ran = shiftgauge("estimate", source, empty)
    assert (ran.code, "empty.csv: is empty" in ran.err) == (2, True)


def test_labels_that_arrive_twice_are_refused(shiftgauge, files, tmp_path, scores):
    source, target = files
    np.save(tmp_path / "y.npy", scores["labels"])
    ran = shiftgauge("estimate", source, target, "--source-labels", tmp_path / "y.npy")
    assert ran.code == 2
    assert f"{source}: has labels of its own, and --source-labels {tmp_path / 'y.npy'} has others" in ran.err


def test_labels_that_arrive_twice_are_refused_of_a_large_source(scores, tmp_path):
    """A scan that stands for a source."""
    names = [f"logit_{j}" for j in range(scores["logits"].shape[1])]
    columns = dict(zip(names, scores["logits"].T, strict=True))
    parquet.write_table(pa.table({**columns, "label": scores["labels"]}), tmp_path / "s.parquet")
    with pytest.raises(sg.InputError, match=r"s\.parquet: has labels of its own, in the column 'label'"):
        sg.scan(tmp_path / "s.parquet").source(scores["labels"])


def test_insisting_on_logits_is_refused_of_probabilities(shiftgauge, tmp_path):
    rows = "".join(f"{p},{1 - p},{'ab'[p < 0.5]}\n" for p in (0.25, 0.75, 0.5, 0.125) * 5)
    (tmp_path / "s.csv").write_text("prob_a,prob_b,label\n" + rows)
    ran = shiftgauge("estimate", tmp_path / "s.csv", tmp_path / "s.csv", "--insist")
    assert (ran.code, "and these are probabilities; leave it out" in ran.err) == (2, True)
    with pytest.raises(sg.InputError, match=r"insist=True .*leave it out"):
        sg.scan(tmp_path / "s.csv", insist=True)


def test_labels_to_compare_with_are_named_as_the_source_names_its_classes(shiftgauge, tmp_path):
    """A target without names has the source's; errors name the file of the labels."""
    z = np.random.default_rng(0).normal(size=(40, 2))
    lines = [f"{a},{b},{'no' if a > b else 'yes'}" for a, b in z]
    (tmp_path / "s.csv").write_text("\n".join(["logit_no,logit_yes,label", *lines]) + "\n")
    np.save(tmp_path / "t.npy", z)
    words = ["estimate", tmp_path / "s.csv", tmp_path / "t.npy", "--logits", "-m", "ac", "--json", "--truth"]
    assert shiftgauge(*words, tmp_path / "s.csv").json["target"]["true_error"] == 0.0
    (tmp_path / "short.csv").write_text("label\nno\nyes\n")
    assert "short.csv: 2 labels for 40 rows of scores" in shiftgauge(*words, tmp_path / "short.csv").err
