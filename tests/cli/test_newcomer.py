"""What a newcomer gets wrong: each slip is one line that says what to do."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet


@pytest.fixture
def place(tmp_path, monkeypatch, scores):
    """A folder with good and bad files, which the command is run in."""
    monkeypatch.chdir(tmp_path)
    z, y = scores["logits"], scores["labels"]
    np.savez("s.npz", logits=z, labels=y, short=y[:3])
    np.savez("t.npz", logits=scores["shifted"])
    np.save("s.npy", z)
    np.save("y.npy", y)
    np.save("short.npy", y[:5])
    header = ",".join(f"logit_{name}" for name in "abcde")
    rows = [",".join(map(repr, map(float, row))) for row in z]
    for name, column in (("s.csv", "label"), ("upper.csv", "Label"), ("other.csv", "outcome")):
        lines = [f"{row},{'abcde'[j]}" for row, j in zip(rows, y, strict=True)]
        (tmp_path / name).write_text("\n".join([f"{header},{column}", *lines]) + "\n")
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "nan.csv").write_text("\n".join([header, *rows[:2], "nan,0,0,0,0"]) + "\n")
    (tmp_path / "latin.csv").write_bytes("prob_é,prob_b,label\n0.5,0.5,é\n".encode("latin-1"))
    (tmp_path / "short.csv").write_text("\n".join([header[:-8], *(r.rsplit(",", 1)[0] for r in rows)]) + "\n")
    (tmp_path / "q.csv").write_text("class,mass\na,1\n")
    (tmp_path / "data").mkdir()
    columns = {f"logit_{name}": scores["shifted"][:, j] for j, name in enumerate("abcde")}
    parquet.write_table(pa.table(columns), tmp_path / "data" / "t.parquet")
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "costs.csv").write_text("a,b,c,d,e\n0,1,1,1,1\n")
    (tmp_path / "words.csv").write_text("row,label\nfirst,a\n")
    (tmp_path / "scores").write_text("x")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_text(header)
    for folder in ("folder.csv", "folder.html"):
        (tmp_path / folder).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("estimate", "; see shiftgauge estimate --help"),
        ("estimate s.csv t.csv --metod ac", "; see shiftgauge estimate --help"),
        ("estimat s.csv t.csv", "; see shiftgauge --help"),
        ("bench trian", "; see shiftgauge bench --help"),
        (
            "estimate folder.csv t.csv",
            "is a folder without .parquet files; wanted a file, or a folder of .parquet, .arrow, .npy files",
        ),
        ("report s.csv t.csv", "report: pass --out report.html, or --format md or json to print it"),
        ("report s.csv t.csv --format html", "report: pass --out report.html"),
        ("estimate tables t.csv", "is a folder without .parquet files; wanted a file"),
        ("estimate none*.parquet t.csv", "no file matches the pattern"),
        ("estimate scores t.csv", "cannot tell its format from its name; wanted .npz"),
        ("estimate s.csv nan.csv", "column 'logit_a', row 2 is empty or NaN"),
        ("estimate latin.csv t.csv", "save it as UTF-8"),
        (
            "estimate s.npy s.npy --logits",
            "no labels; the source needs a file of labels (--source-labels FILE)",
        ),
        (
            "estimate s.npy s.npy --logits --source-labels short.npy",
            "s.npy with short.npy: source labels: 5 labels",
        ),
        (
            "estimate s.csv t.csv -m gde --second short.npy",
            "t.csv with short.npy: second model's predictions",
        ),
        ("estimate other.csv t.csv", "no column 'label'; is it --label-column outcome? (found logit_a"),
        ("estimate other.csv t.csv", "in a separate file (--source-labels FILE)"),
        ("estimate other.csv t.csv --label-column outcom", "no column 'outcom'; did you mean 'outcome'?"),
        ("estimate upper.csv t.csv", "did you mean 'label'? Rename it, or pass --label-column Label"),
        ("estimate s.npz t.npz --plan y.npy", "there are no labels; pass --labels FILE too"),
        ("estimate s.csv t.csv --save-rows rows", "cannot tell its format from its name"),
        ("estimate s.csv t.csv --save-rows folder.csv", "is a folder; wanted the name of a file"),
        ("estimate s.csv t.csv --seed -1", "--seed -1: wanted 0 or more"),
        ("metrics s.csv t.csv --cost costs.csv", "numbers and no header"),
        ("metrics s.csv t.csv --cost folder.csv", "cannot be read as costs (Is a directory)"),
        ("slices s.csv t.csv --by label --by-file words.csv", "words.csv: 'label' arrived with shape (1,)"),
        ("slices s.csv t.csv --by label --groups s.csv --replicates 0", "--replicates 0: wanted 20 or more"),
        ("backtest s.csv --repeats 0", "--repeats 0: wanted 1 or more"),
        ("backtest s.npz --by short", "s.npz: 'short' arrived with shape (3,); wanted one value per row"),
        ("backtest s.npz --time logits", "s.npz: 'logits' arrived with shape (600, 5)"),
        (
            "estimate s.csv t.csv --labels words.csv",
            "words.csv: 'row' is 'first' in one line; wanted row numbers",
        ),
        (
            "estimate s.csv t.csv -m cot --marginal words.csv --save-rows words.csv",
            "that is an input, which would be lost",
        ),
        (
            "estimate s.csv t.csv --labels words.csv --save-rows words.csv",
            "that is an input, which would be lost",
        ),
        ("estimate s.csv data --save-rows data/r.parquet", "that is an input, which would be lost"),
        ("estimate s.csv data/*.parquet --save-rows data/r.parquet", "that is an input, which would be lost"),
        ("label-plan s.csv data/*.parquet --out data/r.parquet", "that is an input, which would be lost"),
        (
            "estimate s.csv data/[pt].parquet --save-rows data/p.parquet",
            "that is an input, which would be lost",
        ),
        ("estimate s.csv link/*.parquet --save-rows data/p.parquet", "that is an input, which would be lost"),
        ("report s.csv data -o data/r.html", "--out data/r.html: that is an input, which would be lost"),
        ("report s.csv data/t.* -o data/t.md", "--out data/t.md: that is an input, which would be lost"),
        ("estimate - - --logits", "standard input was named twice"),
        ("estimate s.csv short.csv", "short.csv: no column 'logit_e', a class of the source"),
        ("estimate s.csv t.csv --threshold 0.9", "5 classes; it is for two"),
        ("estimate s.csv t.csv --threshold high", "wanted a fraction such as 0.9, or NAME=0.9"),
        ("label-plan s.csv t.csv --out t.csv", "that is an input, which would be lost"),
        (
            "label-plan s.csv t.csv --save-plan q.json --out q.json",
            "cannot tell its format from '.json'",
        ),
        ("report s.csv t.csv -o folder.html", "is a folder; wanted the name of a file"),
    ],
)
def test_a_slip_is_one_line(shiftgauge, place, words, message):
    before = {file: file.read_bytes() for file in place.iterdir() if file.is_file()}
    ran = shiftgauge(*words.split())
    assert (ran.code, ran.out) == (2, "")
    last = ran.err.splitlines()[-1]  # slow machines say what they are doing before that
    assert last.startswith("shiftgauge: ")
    assert message in last
    assert "internal error" not in last
    assert {file: file.read_bytes() for file in place.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    "command", [["metrics", "--confusion"], ["slices", "--by", "label", "--replicates", "20"]]
)
def test_class_names_are_printed_to_the_letter(shiftgauge, place, command):
    """Brackets and colons mean something to the library that prints the tables."""
    text = (place / "s.csv").read_text()
    for plain, odd in (("a", "[/red]"), ("b", ":cat:"), ("c", "[bold]c")):
        text = text.replace(f"logit_{plain}", f"logit_{odd}").replace(f",{plain}\n", f",{odd}\n")
    (place / "odd.csv").write_text(text)
    ran = shiftgauge(command[0], "odd.csv", "odd.csv", *command[1:])
    assert ran.code == 0, ran.err
    assert all(name in ran.out for name in ("[/red]", ":cat:", "[bold]c"))


@pytest.mark.parametrize("words", [[], ["bench"]])
def test_no_words_show_the_help_and_no_complaint(shiftgauge, words):
    ran = shiftgauge(*words)
    assert "Usage" in ran.out + ran.err
    assert "shiftgauge: " not in ran.err


def test_blank_lines_after_the_labelled_rows(shiftgauge, place):
    """A spreadsheet leaves rows without number and label behind."""
    assert shiftgauge("label-plan", "s.csv", "t.csv", "-n", "100", "--out", "plan.csv").code == 0
    header, *lines = (place / "plan.csv").read_text().splitlines()
    filled = [header, *(f"{line.rpartition(',')[0]},a" for line in lines), "," * header.count(",")]
    (place / "plan.csv").write_text("\n".join(filled) + "\n")
    ran = shiftgauge("estimate", "s.csv", "t.csv", "--labels", "plan.csv", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["estimates"][0]["labels"]["n"] == 100


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_is_one_line():
    """As a process: an interrupt in the midst of the work."""
    code = (
        # A shell's background job inherits that interrupts are ignored; a terminal's does not.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import shiftgauge.io\n"
        "from shiftgauge.cli import main\n"
        "def demo_data():\n"
        "    print('begun', flush=True)\n"
        "    import time; time.sleep(60)\n"
        "shiftgauge.io.demo_data = demo_data\n"
        "main(['demo'])\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "shiftgauge: interrupted\n")


def test_labels_in_the_wrong_order_are_named_at_once(shiftgauge, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(200).round(6)
    lines = [f"{a:.6f},{1 - a:.6f},{int(a > 0.5)}" for a in p]
    (tmp_path / "s.csv").write_text("\n".join(["prob_a,prob_b,label", *lines]) + "\n")
    shown = " ".join(shiftgauge("estimate", tmp_path / "s.csv", tmp_path / "s.csv").out.split())
    assert "worse than chance: are labels and columns in the same order?" in shown
