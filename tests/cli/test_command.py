"""The command as a whole: help, version, failures in one line, the demo."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from shiftgauge import __version__


def test_help_and_version(shiftgauge):
    assert shiftgauge("--version").out.strip() == f"shiftgauge {__version__}"
    for words in (["--help"], ["estimate", "--help"], ["demo", "--help"], ["-h"]):
        ran = shiftgauge(*words)
        assert ran.code == 0
        assert "Usage" in ran.out
    assert "--json" in shiftgauge("estimate", "--help").out


def test_help_is_light():
    """`shiftgauge --help` imports none of the heavy packages."""
    code = (
        "import sys\n"
        "from shiftgauge.cli.app import run\n"
        "run(['--help']); run(['estimate', '--help'])\n"
        "heavy = {'numba', 'scipy', 'pyarrow', 'torch', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def damaged(folder, scores):
    """Files that cannot be used, each with a part of the line it should give."""
    logits, labels = scores["logits"], scores["labels"]
    good = folder / "good.npz"
    np.savez(good, logits=logits, labels=labels)

    def npz(name, **arrays):
        np.savez(folder / name, **arrays)
        return folder / name

    def text(name, content):
        (folder / name).write_text(content)
        return folder / name

    def raw(name, content):
        (folder / name).write_bytes(content)
        return folder / name

    broken = logits.copy()
    broken[3, 1] = np.nan
    hostile = np.array([{"a": 1}], dtype=object)
    np.savez(folder / "hostile.npz", logits=hostile, allow_pickle=True)
    np.save(folder / "hostile.npy", hostile, allow_pickle=True)
    whole = good.read_bytes()
    return [
        (folder / "missing.npz", "no such file"),
        (folder, "is a folder"),
        (raw("empty.npz", b""), "is empty"),
        (raw("cut.npz", whole[: len(whole) // 2]), "is it complete?"),
        (
            raw("text.npz", b"hello there, this is no archive"),
            "(File is not a zip file); is it complete?",
        ),
        (folder / "hostile.npz", "pickled objects, which are never loaded"),
        (raw("cut.parquet", b"PAR1 but not really"), "cannot be read as .parquet"),
        (raw("cut.arrow", b"nonsense"), "cannot be read as .arrow"),
        (text("scores.xlsx", "x"), "cannot tell its format from '.xlsx'"),
        (npz("keys.npz", logit=logits, labels=labels), "unknown key 'logit'; did you mean 'logits'?"),
        (npz("weight.npz", logits=logits, labels=labels, weight=np.ones(600)), "did you mean 'weights'?"),
        (npz("nothing.npz", x=labels), "no key 'logits' or 'probs'; found 'x'"),
        (npz("both.npz", logits=logits, probs=logits, labels=labels), "say which with --logits or --probs"),
        (npz("unlabelled.npz", logits=logits), "no labels; the source needs a key 'labels'"),
        (
            npz("zero.npz", probs=np.vstack([np.zeros(5), np.eye(5)]), labels=np.arange(6) % 5),
            "row 0 sums to 0",
        ),
        (
            npz("one.npz", logits=logits, labels=labels, classes=np.array("abcde")),
            "wanted one name per column",
        ),
        (npz("grid.npz", logits=logits, labels=labels, classes=np.eye(5)), "wanted one name per column"),
        (folder / ("x" * 300 + ".csv"), "cannot be opened"),
        (npz("nan.npz", logits=broken, labels=labels), "row 3, column 1 is nan"),
        (npz("flat.npz", probs=logits[:, 0], labels=labels), "wanted (rows, classes)"),
        (npz("probs.npz", probs=logits, labels=labels), "logits"),
        (npz("short.npz", logits=logits, labels=labels[:9]), "9 labels for 600 rows"),
        (npz("outside.npz", logits=logits, labels=labels + 1), "outside the 5 classes"),
        (
            text("words.csv", "prob_a,prob_b,label\n0.5,0.5,a\nx,0.5,b\n"),
            "column 'prob_a', row 1 is 'x'",
        ),
        (text("hole.csv", "prob_a,prob_b,label\n0.5,0.5,a\n,0.5,b\n"), "column 'prob_a', row 1 is empty"),
        (text("twice.csv", "prob_a,prob_a,label\n0.5,0.5,a\n"), "'prob_a' appears twice"),
        (text("plain.csv", "a,b,label\n0.5,0.5,a\n"), "no columns begin with 'logit_' or 'prob_'"),
        (
            text("lable.csv", "prob_a,prob_b,lable\n0.5,0.5,a\n"),
            "unknown column 'lable'; did you mean 'label'?",
        ),
        (text("other.csv", "prob_a,prob_b,label\n0.5,0.5,c\n"), "row 0 is 'c', which is not a class"),
        (text("blank.csv", "prob_a,prob_b,label\n0.5,0.5,\n0.5,0.5,a\n"), "row 0 is missing"),
        (text("ragged.csv", "prob_a,prob_b,label\n0.5,0.5\n"), "row 0 has 2 values for 3 columns; is it c"),
        (text("none.csv", "prob_a,prob_b,label\n"), "empty"),
    ]


def test_every_damaged_file_is_one_clear_line(shiftgauge, tmp_path, scores):
    target = tmp_path / "target.npz"
    np.savez(target, logits=scores["shifted"])
    for path, message in damaged(tmp_path, scores):
        ran = shiftgauge("estimate", path, target)
        assert ran.code == 2, path
        assert message in ran.err, (path, ran.err)
        assert ran.err.count("\n") == 1, ran.err
        assert "Traceback" not in ran.err
        assert ran.out == ""


@pytest.mark.torch
def test_a_hostile_torch_file_is_refused(shiftgauge, tmp_path, files):
    torch = pytest.importorskip("torch")

    class Hostile:
        def __reduce__(self):
            return (print, ("owned",))

    torch.save({"logits": Hostile()}, tmp_path / "bad.pt")
    ran = shiftgauge("estimate", tmp_path / "bad.pt", files[1])
    assert ran.code == 2
    assert "refused by torch's safe loader" in ran.err
    assert "owned" not in ran.out


@pytest.mark.torch
def test_torch_files_are_read(shiftgauge, tmp_path, files, scores):
    torch = pytest.importorskip("torch")
    torch.save(
        {"logits": torch.tensor(scores["logits"]), "labels": torch.tensor(scores["labels"])},
        tmp_path / "s.pt",
    )
    expected = shiftgauge("estimate", *files, "--json").json["estimates"]
    assert shiftgauge("estimate", tmp_path / "s.pt", files[1], "--json").json["estimates"] == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "cotts"], "'cotts' is not known; did you mean 'cott'"),
        (["--calibration", "temp"], "wanted one of temperature, vector, none"),
        (["--marginal", "shrink"], "'shrink' is not known"),
        (["--marginal", "nowhere.csv"], "no such file"),
        (["--logits", "--probs"], "both given"),
        (["--probs"], "the file holds only logits"),
        (["--nonsense"], "No such option"),
        (["--save-rows", "rows.xyz"], "wanted a name ending in"),
        (["--save-rows", "nowhere/rows.csv"], "does not exist"),
        (["--second", "nowhere.npy"], "no such file"),
        (["--weight-column", "w"], "no file is one"),
        (["--positive", "a", "--negative", "b"], "no file is one"),
        (["--tolerance", "nan"], "tolerance nan"),
        (["--tolerance", "2"], "tolerance 2.0"),
    ],
)
def test_bad_usage(shiftgauge, files, words, message):
    ran = shiftgauge("estimate", *files, *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_check_without_labels(shiftgauge, files, tmp_path, scores):
    np.savez(tmp_path / "bare.npz", logits=scores["shifted"])
    ran = shiftgauge("estimate", files[0], tmp_path / "bare.npz", "--check")
    assert (ran.code, "no labels to check against" in ran.err) == (2, True)


def test_demo_prints_estimates_beside_truth(shiftgauge):
    ran = shiftgauge("demo")
    assert ran.code == 0
    for word in ("truth", "90% range", "20 labels", "shiftgauge estimate"):
        assert word in ran.out


def test_demo_numbers(shiftgauge):
    results = shiftgauge("demo", "--json").json
    truths = [row["true_error"] for row in results["shifts"]]
    assert len(truths) >= 8
    assert min(truths) < 0.15
    assert max(truths) > 0.5
    for method, mae in results["mae"].items():
        errors = [
            row[method]["error"] if method == "with_labels" else row["estimates"][method]
            for row in results["shifts"]
        ]
        again = np.mean(np.abs(np.array(errors) - truths))
        assert mae == pytest.approx(again)
    assert results["mae"]["cot"] < results["mae"]["ac"]
    json.dumps(results, allow_nan=False)


def test_as_a_process(files):
    """The installed command itself, with its exit codes."""
    command = [sys.executable, "-c", "from shiftgauge.cli import main; main()"]
    done = subprocess.run([*command, "estimate", "a", "b"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "shiftgauge: a: no such file\n")
    done = subprocess.run([*command], capture_output=True, text=True, check=False)
    assert "Usage" in done.stdout + done.stderr


def shell(line, **variables):
    """Run a shell line in which `shiftgauge` is the command; returns its exit code, stdout and stderr."""
    define = f'shiftgauge() {{ {sys.executable} -c "from shiftgauge.cli import main; main()" "$@"; }}; '
    done = subprocess.run(
        ["bash", "-c", "set -o pipefail; " + define + line],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.slow
def test_broken_and_closed_streams(files):
    words = f"estimate {files[0]} {files[1]} -m ac"
    assert shell(f"shiftgauge {words} | head -1 >/dev/null").returncode == 0
    assert shell(f"shiftgauge {words} --json | true").returncode == 0
    assert shell(f"shiftgauge {words} >&-").returncode == 0
    assert shell("shiftgauge estimate nothing.npz nothing.npz 2>&-").returncode == 2
    full = shell(f"shiftgauge {words} > /dev/full")
    assert full.returncode == 2
    assert "cannot read or write" in full.stderr.splitlines()[-1]
    exceeded = shell(f"shiftgauge {words} --fail-above 0.001 > /dev/full")  # the gate holds, whoever reads
    assert exceeded.returncode == 1
    assert "cannot read or write" in exceeded.stderr.splitlines()[-1]
    assert shell(f"shiftgauge {words} --json --fail-above 0.001 > /dev/full").returncode == 1


def test_names_that_the_terminal_cannot_spell(tmp_path):
    (tmp_path / "s.csv").write_text("prob_ü,prob_ö,label\n0.9,0.1,ü\n0.8,0.2,ü\n", encoding="utf-8")
    done = shell(f"shiftgauge estimate {tmp_path}/s.csv {tmp_path}/s.csv --verbose", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "no source label is" in done.stdout


def test_an_unforeseen_error_is_one_line_and_exit_2(shiftgauge, files, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("boom")

    monkeypatch.setattr("shiftgauge.inference.compare", broken)
    ran = shiftgauge("estimate", *files)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "internal error, please report it: RuntimeError: boom" in ran.err
