"""Digests of the code behind scores and estimates change with that code, and not with its comments."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shiftgauge

#: Makes each change in turn, takes it back, and prints which digests of the code noticed.
CODE = """
import json, sys
from pathlib import Path
from shiftgauge.experiments import provenance
top = Path(provenance.__file__).parent.parent

def digests():
    provenance.code_digest.cache_clear()
    provenance.method_digest.cache_clear()
    return provenance.code_digest(), provenance.code_digest("projnorm.py"), provenance.method_digest()

before = digests()
for names, added in json.loads(sys.argv[1]):
    texts = {name: (top / name).read_text() for name in names}
    for name, text in texts.items():
        (top / name).write_text(text + added)
    print(json.dumps([now != was for now, was in zip(digests(), before)]))
    for name, text in texts.items():
        (top / name).write_text(text)
"""
NETWORK, PROJNORM = "experiments/networks/resnet.py", "experiments/projnorm.py"
METHOD, PROTOCOL = "methods/cott.py", "experiments/protocol.py"
CHANGES = [
    ([NETWORK], "\nADDED = 1\n", [True, True, False]),
    ([PROJNORM], "\nADDED = 1\n", [False, True, False]),
    ([METHOD], "\nADDED = 1\n", [False, False, True]),
    ([PROTOCOL], "\nADDED = 1\n", [False, False, True]),
    ([NETWORK, PROJNORM, METHOD, PROTOCOL], "\n# why\n", [False, False, False]),
]


@pytest.mark.slow
def test_digests_change_with_the_code_that_scores_and_estimates(tmp_path):
    package = Path(shiftgauge.__file__).parent
    shutil.copytree(package, tmp_path / "shiftgauge", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([change[:2] for change in CHANGES])],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    noticed = [json.loads(line) for line in done.stdout.splitlines()]
    assert noticed == [expected for *_, expected in CHANGES]
