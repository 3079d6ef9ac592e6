"""A first call in a fresh environment: Python runs the kernels of small problems, to the last bit alike."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from shiftgauge.transport import Problem, solve

CODE = """
import numpy as np
from shiftgauge.transport import Problem, solve, _kernels
rng = np.random.default_rng(0)
for problem in (
    Problem(rng.dirichlet(np.full(4, 0.3), 200), [1, 2, 3, 4], rng.random(200)),
    Problem(rng.integers(0, 3, (300, 6)) / 2, rng.random(6)),
    Problem(rng.dirichlet(np.full(30, 0.3), 7), rng.random(30)),
):
    plan = solve(problem)
    print(plan.value.hex(), plan.assigned.tolist(), plan.split_mass.tolist(), plan.prices.tolist())
print(len(getattr(_kernels.drive, "signatures", ())))
"""


@pytest.mark.slow
def test_small_problems_compile_nothing_and_come_out_alike(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    cold = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
    )
    *answers, compiled = cold.stdout.splitlines()
    assert compiled == "0"
    assert not list(tmp_path.rglob("*.nbi"))
    solve(Problem(np.full((70_000, 2), 0.5), [1, 2]))  # too large for Python: compiled, here or before
    here = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert here.stdout.splitlines()[:-1] == answers


@pytest.mark.slow
def test_without_a_folder_for_machine_code_the_answer_is_the_same(tmp_path):
    folder = tmp_path / "closed"
    folder.write_text("not a folder")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
