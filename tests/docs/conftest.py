"""What the documentation's snippets find: a folder with the example files, and the command on the PATH."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line it begins at."""

    language: str
    text: str
    line: int


def pages():
    return sorted(path for path in DOCS.rglob("*.md"))


def blocks(path):
    text = path.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 1) for m in FENCE.finditer(text)]


@pytest.fixture(scope="session")
def example_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    subprocess.run(
        [sys.executable, ROOT / "examples" / "make_files.py", folder], check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """Variables under which `labelfree` and `python` are those of this environment."""
    folder = tmp_path_factory.mktemp("bin")
    for name, words in (("labelfree", "-m labelfree_command"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / "labelfree_command.py").write_text("from labelfree.cli import main\nmain()\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    extra = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}
    return {**os.environ, **extra, "EXAMPLES": str(ROOT / "examples"), "COLUMNS": "200"}
