"""Digests of code change with the code that they cover, and not with comments or with other data sets."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shiftgauge

#: Makes each change in turn, undoes it, and prints which digests differ.
CODE = """
import json, sys
from pathlib import Path
from shiftgauge.experiments import digests
top = Path(digests.__file__).parent.parent
ROOTS = json.loads(sys.argv[2])

def all_digests():
    digests.code_digest.cache_clear()
    return [digests.code_digest(*("shiftgauge." + root for root in roots)) for roots in ROOTS]

before = all_digests()
for names, added in json.loads(sys.argv[1]):
    texts = {name: (top / name).read_text() if (top / name).exists() else None for name in names}
    for name, text in texts.items():
        (top / name).write_text((text or "") + added)
    print(json.dumps([now != was for now, was in zip(all_digests(), before)]))
    for name, text in texts.items():
        (top / name).unlink() if text is None else (top / name).write_text(text)
"""
#: Two data sets of images, one of tables, two networks, scoring, ProjNorm, estimates.
ROOTS = [
    ["experiments.datasets.cifar10"], ["experiments.datasets.amazon"], ["experiments.datasets.natural_90"],
    ["experiments.networks.resnet"], ["experiments.networks.distilbert"], ["experiments.scoring"],
    ["experiments.projnorm"], ["experiments.protocol"],
]  # fmt: skip
CODE_ADDED, COMMENT = "\nADDED = 1\n", "\n# why\n"
CHANGES = [
    (["experiments/datasets/cifar10.py"], CODE_ADDED, [1, 0, 0, 0, 0, 0, 0, 0]),
    (["experiments/datasets/_wilds.py"], CODE_ADDED, [0, 1, 0, 0, 0, 0, 0, 0]),
    (["experiments/datasets/tables.py"], CODE_ADDED, [0, 0, 1, 0, 0, 0, 0, 0]),
    (["experiments/networks/_parts.py"], CODE_ADDED, [0, 0, 0, 1, 0, 0, 0, 0]),
    (["experiments/scoring.py"], CODE_ADDED, [0, 0, 0, 0, 0, 1, 1, 0]),
    (["experiments/projnorm.py"], CODE_ADDED, [0, 0, 0, 0, 0, 0, 1, 0]),
    (["methods/cott.py"], CODE_ADDED, [0, 0, 0, 0, 0, 0, 0, 1]),
    (["methods/auto_constants.json"], " ", [0, 0, 0, 0, 0, 0, 0, 1]),
    # A new data set, a new network, their lines in the registries, a recipe, the version: nothing else changes.
    (
        ["experiments/datasets/new.py", "experiments/datasets/__init__.py", "experiments/networks/new.py",
         "experiments/networks/__init__.py", "experiments/recipes.py", "_version.py"],
        CODE_ADDED, [0] * 8,
    ),
    (["experiments/datasets/cifar10.py", "methods/cott.py"], COMMENT, [0] * 8),
]  # fmt: skip


@pytest.mark.slow
def test_a_digest_changes_with_its_own_code_only(tmp_path):
    package = Path(shiftgauge.__file__).parent
    shutil.copytree(package, tmp_path / "shiftgauge", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([change[:2] for change in CHANGES]), json.dumps(ROOTS)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    noticed = [json.loads(line) for line in done.stdout.splitlines()]
    assert noticed == [expected for *_, expected in CHANGES]
