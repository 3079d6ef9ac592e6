"""What the commands print, to the letter, on rows whose answers can be worked out by hand."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import typer

import shiftgauge as sg
from shiftgauge.cli.app import COMMANDS, app
from shiftgauge.cli.estimate import check_folder
from shiftgauge.cli.options import DATA, OUTPUT
from shiftgauge.cli.outputs import check_output
from shiftgauge.errors import InputError

PLAIN = ["--calibration", "none"]


def rows(n, every):
    """Four kinds of rows in turn; every so many the model is wrong."""
    kinds = [[0.875, 0.125, 0.0], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5], [0.5, 0.375, 0.125]]
    probs = np.tile(kinds, (n // 4, 1))
    labels = probs.argmax(axis=1)
    labels[::every] = (labels[::every] + 1) % 3
    return {"probs": probs, "labels": labels}


@pytest.fixture
def few(tmp_path):
    """80 source rows of which 16 are wrong, and 40 target rows of which 10 are, by site."""
    np.savez(tmp_path / "s.npz", **rows(80, 5))
    np.savez(tmp_path / "t.npz", **rows(40, 4), site=np.repeat(["east", "west"], [30, 10]))
    return tmp_path / "s.npz", tmp_path / "t.npz"


def shown(ran):
    assert ran.code == 0, ran.err
    return "\n".join(line.rstrip() for line in ran.out.splitlines())


def text(lines):
    return dedent(lines).strip("\n")


def test_estimate(shiftgauge, few):
    """AC's error probability is 1/8, 1/4, 1/2 and 1/2 in turn: 11/32 in mean."""
    methods = ["-m", "ac", "-m", "unchanged", "-m", "entropy"]
    found = shiftgauge("compare", *few, *methods, *PLAIN, "--replicates", 0, "--check")
    assert shown(found) == text("""
        validation error 20.0%; 40 rows, 0 labels
        method     estimate      difference
        AC         34.4%               +9.4
        Unchanged  20.0%               -5.0
        Entropy    score 0.7816
        truth      25.0%
        truth: the error by the labels of all rows
    """)


def test_metrics_with_and_without_the_confusion_matrix(shiftgauge, few):
    table = text("""
        class     share  predicted  precision  recall     f1
        0         43.8%      50.0%      68.8%   78.6%  73.3%
        1         37.5%      25.0%      75.0%   50.0%  60.0%
        2         18.8%      25.0%      50.0%   66.7%  57.1%

        macro                           64.6%   65.1%  63.5%
        weighted                        67.6%   65.6%  65.3%
        micro                           65.6%   65.6%  65.6%
    """)
    matrix = text("""
        true class \\ prediction, percent of all rows
               0      1      2
        0  34.38   3.12   6.25
        1  12.50  18.75   6.25
        2   3.12   3.12  12.50
    """)
    plain, more = (shown(shiftgauge("metrics", *few, "-m", "ac", *PLAIN, *w)) for w in ([], ["--confusion"]))
    assert plain.startswith("error 34.4% by ac, kappa 0.463\n" + table)
    assert "true class" not in plain
    assert table + "\n" + matrix + "\nestimated, not counted: it rests on what ac assumes" in more


def test_slices(shiftgauge, few):
    """East has 8, 8, 7 and 7 rows of the four kinds, west 2, 2, 3 and 3."""
    found = shown(
        shiftgauge("slices", *few, "--by", "site", "-m", "ac", *PLAIN, "--replicates", 50)
    ).splitlines()
    assert found[0] == "slice  error   from     to  rows"
    assert found[1].split()[:2] == ["east", "33.3%"]
    assert found[2].split()[:2] == ["west", "37.5%"]
    assert found[3] == "all    34.4%                  40"
    assert [found[0].index(word) + len(word) for word in ("error", "from", "to", "rows")] == [12, 19, 26, 32]
    assert [line[12 - 1] + line[19 - 1] + line[26 - 1] for line in found[1:3]] == ["%%%", "%%%"]
    assert [line[26:32].strip() for line in found[1:3]] == ["30", "10"]


def test_drivers(shiftgauge, tmp_path):
    """The columns, what is missing or new in them, and with --verbose their slices."""
    names = {"s": (240, ["east", "west", ""]), "t": (120, ["east", "west", "north"])}
    where = {name: np.resize(sites, n) for name, (n, sites) in names.items()}
    for name, (n, _) in names.items():
        np.savez(tmp_path / f"{name}.npz", **rows(n, 5), where=where[name])
    paths = tmp_path / "s.npz", tmp_path / "t.npz"
    made = sg.drivers(sg.read_source(paths[0]), sg.read_target(paths[1]), {"where": (where["s"], where["t"])})
    words = ("drivers", *paths, "--by", "where")
    lines = shown(shiftgauge(*words)).splitlines()
    assert lines[0] == made.heading()
    assert made.counts() == ["where: missing in 80 source and 0 target rows, 40 target rows have new values"]
    assert made.counts()[0] in lines
    assert not any(line.startswith("east") for line in lines)
    table = [line.split()[:3] for line in shown(shiftgauge(*words, "-v")).splitlines()]
    assert ["east", "33.3%", "33.3%"] in table
    assert ["north", "0.0%", "33.3%"] in table


@pytest.mark.parametrize(
    "words",
    [
        ["estimate", "--verbose"],
        ["metrics", "--confusion"],
        ["label-plan", "--decide", "0.2"],
        ["report", "--out", "page.html"],
        ["slices", "--by", "site"],
    ],
    ids=lambda words: words[0],
)
def test_texts_and_tables_fit_80_columns(shiftgauge, tmp_path, words, monkeypatch):
    """Ten classes with names, and a shift that takes many words; no blanks at the end of a line of slices."""
    rng = np.random.default_rng(0)
    names = [f"a long name {j}" for j in range(10)]
    z = 2.0 * rng.normal(size=(900, 10))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    monkeypatch.chdir(tmp_path)
    np.savez("s.npz", logits=z[:500], labels=np.array(names)[labels[:500]], classes=names)
    np.savez("t.npz", logits=z[500:] * 0.3, classes=names, site=np.repeat(["east", "west"], 200))
    ran = shiftgauge(words[0], "s.npz", "t.npz", *words[1:])
    assert ran.code == 0, ran.err
    lines = [*ran.out.splitlines(), *ran.err.splitlines()]
    assert [line for line in lines if len(line) > 80] == []
    if words[0] == "slices":
        assert [line for line in lines if line != line.rstrip() or not line] == []
    if words[0] == "metrics":
        head = " ".join(line for line in lines if line.startswith(" "))
        assert all(name in head for name in names)


def test_verbose_says_what_was_added(shiftgauge, tmp_path):
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(3000, 4))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    np.savez(tmp_path / "s.npz", logits=z[:1500], labels=labels[:1500])
    np.savez(tmp_path / "t.npz", logits=z[1500:] * 0.2)
    words = ("estimate", tmp_path / "s.npz", tmp_path / "t.npz")
    (one,) = shiftgauge(*words, "--json").json["estimates"]
    assert one["details"]["added"] == 0.01
    text = " ".join(shiftgauge(*words, "-v").out.split())
    assert "; 1 point is added, since errors mostly rise when more than class proportions change" in text


def test_one_row_is_not_one_rows(shiftgauge, few, tmp_path):
    np.savez(tmp_path / "one.npz", probs=[[0.875, 0.125, 0.0]])
    ran = shiftgauge("estimate", few[0], tmp_path / "one.npz")
    assert "; 1 row, 0 labels" in ran.out
    assert "label 1 row," in " ".join(shiftgauge("estimate", few[0], tmp_path / "one.npz", "-v").out.split())


def test_backtest(shiftgauge, tmp_path):
    """Groups of one's own first, then the made ones; miss and, in brackets, the worst."""
    np.savez(tmp_path / "b.npz", **rows(320, 5), site=np.arange(320) % 2)
    found = shown(shiftgauge("backtest", tmp_path / "b.npz", "-m", "ac", "-m", "doc", "--by", "site", *PLAIN))
    lines = found.splitlines()
    at = lines.index("mean absolute error (largest), in percentage points")
    assert lines[at + 1].split() == ["kind", "of", "shift", "ac", "doc"]
    table = lines[at + 2 : next(i for i, line in enumerate(lines) if line.startswith("!"))]
    kinds = [line[:17].rstrip() for line in table]
    assert kinds[:4] == ["group", "new group", "", "none"]
    assert len({len(line) for line in table if line}) == 1
    made = shiftgauge("backtest", tmp_path / "b.npz", "-m", "ac", *PLAIN, "--json").json
    assert made["provenance"]["options"]["repeats"] == 2
    assert "" not in shown(shiftgauge("backtest", tmp_path / "b.npz", "-m", "ac", *PLAIN)).splitlines()


def test_the_demo_s_table(shiftgauge, monkeypatch):
    """auto beside the truth, without labels and with 20; the ranges with labels are narrower."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shown(shiftgauge("demo")).splitlines()
    found = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured]
    assert max(map(len, found)) <= 80
    results = shiftgauge("demo", "--json").json
    first = results["shifts"][0]
    cells = next(line for line in found if line.startswith("clean")).split()
    numbers = [first["true_error"], first["estimates"]["ac"], first["auto"]["error"]]
    assert cells[1:4] == [f"{100 * v:.1f}" for v in numbers]
    assert cells[4:7] == [f"{100 * first['auto']['low']:.0f}", "to", f"{100 * first['auto']['high']:.0f}"]
    assert cells[7] == f"{100 * first['with_labels']['error']:.1f}"
    styles = set()
    for shift in results["shifts"]:
        before, after = ([shift[key][end] for end in ("low", "high")] for key in ("auto", "with_labels"))
        assert after[1] - after[0] < before[1] - before[0]
        assert before[0] <= shift["true_error"] <= before[1]
        line = next(line for line in coloured if line.startswith(shift["shift"].replace("_", " ") + " "))
        for error in (shift["estimates"]["ac"], shift["auto"]["error"], shift["with_labels"]["error"]):
            off = abs(error - shift["true_error"])
            style = "32" if off <= 0.02 else "31" if off > 0.1 else ""  # green is near, red is far
            cell = rf"\x1b\[{style}m *{100 * error:.1f}\x1b" if style else rf"(?<!m) {100 * error:.1f} "
            assert re.search(cell, line), line
            styles.add(style)
    assert styles == {"32", "31", ""}
    misses = [abs(s["with_labels"]["error"] - s["true_error"]) for s in results["shifts"]]
    assert results["mae"]["with_labels"] == pytest.approx(np.mean(misses))
    assert "in 14 of 14 ranges without labels" in " ".join(found)


def test_compare_says_each_number_once(shiftgauge, few):
    """The grade and the reason are those of auto."""
    found = shiftgauge("compare", *few, *PLAIN, "--json").json
    auto = next(e for e in found["estimates"] if e["method"] == "auto")
    lines = shown(shiftgauge("compare", *few, *PLAIN)).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("auto   ")] == [
        f"{100 * auto['error']:.1f}%"
    ]
    assert sum(line.startswith(f"auto  grade: {auto['details']['grade']}; ") for line in lines) == 1
    assert max(map(len, lines)) <= 80


def test_a_marginal_is_idle_only_where_no_method_takes_it(shiftgauge, few):
    marginal = ["--marginal", "shrunk", "--replicates", 0]
    assert shiftgauge("compare", *few, "-m", "ac", "-m", "cot", *marginal).code == 0
    refused = shiftgauge("compare", *few, "-m", "ac", "-m", "doc", *marginal)
    assert refused.code == 2
    assert "--marginal shrunk: ac, doc does not transport to label shares" in refused.err


def test_rows_of_a_scan_are_a_new_folder(tmp_path):
    (tmp_path / "there.parquet").touch()
    with pytest.raises(InputError, match=r"7,000 rows are written as a folder .* that name exists"):
        check_folder(tmp_path / "there.parquet", 7000)
    with pytest.raises(InputError, match=r"and \.csv is one file; wanted a new name that ends in \.parquet"):
        check_folder(tmp_path / "new.csv", 7000)
    check_folder(tmp_path / "new.parquet", 7000)
    check_folder(Path("NEW.PARQUET"), 7000)


def test_the_panel_of_an_option_is_by_its_long_name():
    command = typer.main.get_command(app)
    found = {}
    for name in COMMANDS:
        one = command.commands[name]
        for option in one.get_params(one.context_class(one)):
            if option.param_type_name == "option":
                found.setdefault(max(option.opts, key=len), set()).add(option.rich_help_panel)
    assert {
        name: found[name]
        for name in ("--method", "--quiet", "--out", "--logits", "--save-rows", "--fail-above")
    } == {
        "--method": {None},
        "--quiet": {OUTPUT},
        "--out": {OUTPUT},
        "--logits": {DATA},
        "--save-rows": {OUTPUT},
        "--fail-above": {None},
    }


WORK = """
import sys, time
from shiftgauge.cli.screen import quietly, show_progress
with quietly(len(sys.argv) > 2), show_progress() as progress:
    progress("reading\x1b[31m a file")
    progress("pass 1", 500, 1000)
    time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize(("arguments", "shown"), [(["3"], True), (["0"], False), (["3", "quiet"], False)])
def test_progress_is_shown_on_a_terminal_while_work_takes_long(arguments, shown):
    screen, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", WORK, *arguments], stderr=terminal, check=True)
    os.close(terminal)
    text = os.read(screen, 1 << 16) if shown else b""
    os.set_blocking(screen, False)
    with contextlib.suppress(OSError):  # nothing was written, or all was read
        text += os.read(screen, 1 << 16)
    os.close(screen)
    assert (b"pass 1" in text) == shown
    assert b"\x1b[31m a file" not in text
    assert shown or text == b""


def test_a_long_name_is_not_cut_on_a_narrow_terminal(tmp_path, few):
    """The command to type next is complete, however narrow the terminal."""
    target = tmp_path / f"{'x' * 60}.npz"
    target.write_bytes(few[1].read_bytes())
    screen, terminal = pty.openpty()
    words = [
        sys.executable,
        "-c",
        "from shiftgauge.cli import main; main()",
        "estimate",
        few[0].name,
        target.name,
        "--verbose",
    ]
    environment = {**os.environ, "COLUMNS": "40"}
    subprocess.run(words, stdout=terminal, cwd=tmp_path, env=environment, check=True)
    os.close(terminal)
    text = os.read(screen, 1 << 16).decode()
    os.close(screen)
    assert f" {target.name} \\" in text


def test_ids_are_those_of_the_target(shiftgauge, tmp_path):
    """The source need not have any."""
    (tmp_path / "s.csv").write_text("prob_a,prob_b,label\n" + "0.75,0.25,a\n0.25,0.75,b\n" * 20)
    (tmp_path / "t.csv").write_text("prob_a,prob_b,who\n0.75,0.25,ann\n0.25,0.75,bob\n")
    words = ["-m", "ac", "--replicates", 0, "--id", "who", "--save-rows", tmp_path / "r.csv"]
    ran = shiftgauge("estimate", tmp_path / "s.csv", tmp_path / "t.csv", *words)
    assert ran.code == 0, ran.err
    assert [line.split(",")[0].strip(chr(34)) for line in (tmp_path / "r.csv").read_text().splitlines()] == [
        "id",
        "ann",
        "bob",
    ]


def test_what_is_said_of_columns_is_for_the_file_that_has_some(shiftgauge, few, tmp_path):
    """One table among the files is enough."""
    lines = [",".join(map(str, [*p, y])) for p, y in zip(*rows(80, 5).values(), strict=True)]
    (tmp_path / "s.csv").write_text("prob_0,prob_1,prob_2,truth\n" + "\n".join(lines) + "\n")
    words = ["-m", "ac", *PLAIN, "--replicates", 0, "--label-column", "truth"]
    assert "34.4%" in shown(shiftgauge("estimate", tmp_path / "s.csv", few[1], *words))
    assert "--label-column is about the columns of a table" in shiftgauge("estimate", *few, *words).err


def test_an_output_behind_a_link_within_the_target_is_refused(tmp_path):
    """Under its own name it would be read next time, wherever it leads."""
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "report.html").symlink_to(tmp_path / "elsewhere.html")
    with pytest.raises(InputError, match="is an input"):
        check_output("--out", tmp_path / "days" / "report.html", [tmp_path / "days"])
    check_output("--out", tmp_path / "elsewhere.html", [tmp_path / "days"])
