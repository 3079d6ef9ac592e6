"""`shiftgauge report` through the command's own frame."""

import json
import shlex

import numpy as np
import pytest

from shiftgauge.cli import app as frame


@pytest.fixture
def files(tmp_path, scores):
    names = np.array(list("abcde"))
    for name, logits, labels in (("s", "logits", "labels"), ("t", "shifted", "truth")):
        z = scores[logits]
        rows = [",".join([f"logit_{c}" for c in names] + ["label", "day"])]
        rows += [",".join([*map(repr, map(float, r)), names[j], "mon" if i % 2 else "tue"])
                 for i, (r, j) in enumerate(zip(z, scores[labels], strict=True))]  # fmt: skip
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "s.csv", tmp_path / "t.csv"


@pytest.fixture
def run(capfd):
    def call(*words):
        capfd.readouterr()
        code = frame.run(["report", *map(str, words)])
        return code, *capfd.readouterr()

    return call


def test_a_page(run, files, tmp_path):
    out = tmp_path / "r.html"
    code, said, err = run(*files, "-o", out, "--by", "day", "--replicates", 20, "--check")
    assert code == 0, err
    assert "wrong on" in said
    text = out.read_text(encoding="utf-8")
    assert "mon" in text
    assert "SHA-256" in text
    assert "t.csv" in text


def test_a_files_name_cannot_steer_a_terminal_or_a_reader_of_markdown(run, files, tmp_path):
    odd = files[1].rename(tmp_path / "ne\rw\x1b[31m.csv")
    page = tmp_path / "page.md"
    code, out, _ = run(files[0], odd, "-m", "ac", "-o", page)
    assert code == 0
    assert r"ne\rw\x1b[31m.csv" in out
    assert not {"\r", "\x1b"} & set(out + page.read_text())
    assert run(files[0], odd, "-m", "ac", "-o", page, "--quiet")[:2] == (0, "")


def test_json_and_markdown_on_stdout(run, files):
    code, said, _ = run(*files, "--json", "--replicates", 0, "--marginal", "mlls", "-m", "scot")
    held = json.loads(said)
    assert code == 0
    words = shlex.split(held["provenance"]["command"])
    assert words[:2] == ["shiftgauge", "report"]
    again, repeated, _ = run(*words[2:])
    assert again == 0
    assert json.loads(repeated)["answer"] == held["answer"]
    code, said, _ = run(*files, "--format", "md", "--replicates", 0)
    assert code == 0
    assert said.startswith("## Estimated error")


def test_the_command_line_holds_what_was_said_and_no_more(run, files):
    _, said, _ = run(*files, "--format", "json", "--replicates", 0, "--level", 0.8, "--seed", 0, "-m", "ac")
    words = shlex.split(json.loads(said)["provenance"]["command"])
    assert words[:4] == ["shiftgauge", "report", *map(str, files)]
    given = dict(zip(words[4::2], words[5::2], strict=True))
    assert given == {"--format": "json", "--replicates": "0", "--level": "0.8", "--method": "ac"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "pass --out report.html"),
        (["--format", "html"], "pass --out report.html"),
        (["--format", "pdf"], "wanted html, md or json"),
        (["-o", "r.html", "--format", "md"], "say different things"),
        (["-o", "r.txt"], "wanted a name ending in"),
        (["--json", "--by", "dya"], "did you mean 'day'"),
        (["--json", "--marginal", "mls"], "did you mean 'mlls'"),
        (["--json", "--logits", "--probs"], "wanted one"),
        (["--json", "-m", "entropy"], "is a score"),
        (["--json", "--level", "95"], "did you mean 0.95?"),
    ],
)
def test_bad_usage_is_one_line(run, files, words, line):
    code, said, err = run(*files, *words)
    assert code == 2
    assert said == ""
    assert line in err.splitlines()[-1]  # slow machines say what they are doing before that
    assert "Traceback" not in err
