"""Machine code: compiled once, only what is needed, and never the reason why a solve fails."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shiftgauge
from shiftgauge.transport import Problem, _kernels, _prepare, solve

#: Too large for Python itself; nothing has to move, so the search, most of the machine code, is not compiled.
SOLVE = """
from shiftgauge.transport import Problem, solve
print(solve(Problem([[.9, .1], [.4, .6]] * 20_000, [1, 1])).value)
"""
MOVED = """
import numpy as np
from shiftgauge.transport import Problem, smoothed, solve
p = np.random.default_rng(0).dirichlet(np.full(4, 0.3), 60)
print(solve(Problem(p, [1, 2, 3, 4])).value.hex(), solve(Problem(p.astype("float16"), [1, 2, 3, 4])).value.hex())
print(round(smoothed(p, np.full(4, 1 / 4), np.full(60, 1 / 60), np.zeros(4)).value, 9))
"""
#: Only a guard against a machine that stands still: compiling takes seconds.
PATIENCE = 600


def run(code, *, check=True, preexec_fn=None, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=check,
        timeout=PATIENCE,
        preexec_fn=preexec_fn,
    )


def test_import_is_light():
    code = "import sys, shiftgauge.transport; print([m for m in ('numba', 'scipy') if m in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_soft_transport_compiles_nothing():
    code = """
import sys, numpy as np
from shiftgauge.transport import soft_transport
p = np.random.default_rng(0).dirichlet(np.full(4, 0.3), 60)
soft_transport(np.log(p), np.full(4, 0.25), np.full(60, 1 / 60))
print("numba" in sys.modules)
"""
    assert run(code).stdout.strip() == "False"


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with machine code, and what the first process said."""
    folder = tmp_path_factory.mktemp("code")
    return folder, run(SOLVE, NUMBA_CACHE_DIR=str(folder))


@pytest.mark.slow
def test_compiles_once_and_says_so(warm):
    folder, first = warm
    assert float(first.stdout) == pytest.approx(0.25)
    assert "compiling the transport solver for float64 scores" in first.stderr
    assert "once per environment" in first.stderr
    second = run(SOLVE, NUMBA_CACHE_DIR=str(folder))
    assert second.stdout == first.stdout
    assert second.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["truncated", "garbage", "flipped"])
def test_damaged_machine_code_is_compiled_again(warm, tmp_path, ending, damage):
    """And then it is kept again: the third process finds it sound."""
    for file in warm[0].rglob("*"):
        if file.is_file():
            data = bytearray(file.read_bytes())
            if file.suffix == ending:
                if damage == "truncated":
                    data = data[: len(data) // 2]
                elif damage == "garbage":
                    data = bytearray(b"nothing of the kind")
                else:
                    data[len(data) // 2] ^= 0xFF
            copy = tmp_path / file.relative_to(warm[0])
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
    answer = run(SOLVE, NUMBA_CACHE_DIR=str(tmp_path))
    assert float(answer.stdout) == pytest.approx(0.25)
    assert run(SOLVE, NUMBA_CACHE_DIR=str(tmp_path)).stderr == ""


@pytest.mark.slow
def test_a_full_disk_is_no_reason_to_fail(tmp_path):
    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    answer = run(SOLVE, NUMBA_CACHE_DIR=str(tmp_path), preexec_fn=full)
    assert float(answer.stdout) == pytest.approx(0.25)
    assert "Traceback" not in answer.stderr
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size]


NO_LOCATOR = """
from numba.core.caching import CacheImpl
CacheImpl._locator_classes = [c for c in CacheImpl._locator_classes if "UserProvided" in c.__name__]
"""


@pytest.mark.slow
def test_where_nothing_else_can_be_written_temporary_files_keep_the_code(tmp_path):
    environment = {"TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert float(run(NO_LOCATOR + SOLVE, **environment).stdout) == pytest.approx(0.25)
    (folder,) = tmp_path.glob("shiftgauge-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run(NO_LOCATOR + SOLVE, **environment).stderr == ""


@pytest.mark.slow
def test_a_folder_that_others_can_write_is_not_trusted(tmp_path):
    folder = tmp_path / f"shiftgauge-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    answer = run(NO_LOCATOR + SOLVE, TMPDIR=str(tmp_path), NUMBA_CACHE_DIR="")
    assert float(answer.stdout) == pytest.approx(0.25)
    assert "set NUMBA_CACHE_DIR" in answer.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_changed_kernels_are_compiled_again(tmp_path):
    """The content of all kernel sources decides, not the time of one of them."""
    copy = tmp_path / "shiftgauge"
    shutil.copytree(Path(shiftgauge.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "code")}
    assert "compiling" in run(SOLVE, **environment).stderr
    for file in copy.rglob("*.py"):  # as in another layer of a container image
        os.utime(file, (1e9, 1e9))
    assert "compiling" not in run(SOLVE, **environment).stderr
    moves = copy / "transport" / "_kernels" / "moves.py"
    moves.write_text(moves.read_text() + "# changed\n")
    os.utime(moves, (1e9, 1e9))
    assert "compiling" in run(SOLVE, **environment).stderr


def small(dtype, k, weighted):
    """A problem with ties and splits; of many classes, more than rows."""
    rng, n = np.random.default_rng(k), 300 if k < 20 else 60
    probs = rng.dirichlet(np.full(k, 0.1), n).round(2).astype(dtype)
    return Problem(probs, np.arange(1.0, k + 1.0), rng.random(n) if weighted else None)


def said(plan):
    """Everything about a plan, to the last bit."""
    split = plan.split_rows, plan.split_classes, plan.split_mass, plan.split_cost
    return plan.certificate, *(x.tolist() for x in (plan.assigned, plan.cost, plan.prices, *split))


@pytest.fixture
def cold(monkeypatch):
    """As if no machine code were at hand, and nothing spent; what is compiled after all is kept here."""
    compiled = []
    monkeypatch.setattr(_prepare, "_at_hand", lambda P: bool(compiled))
    monkeypatch.setattr(_prepare, "prepare", lambda P, progress: compiled.append(P.dtype.name))
    monkeypatch.setattr(_kernels, "note_uncompiled", lambda seconds: None)
    monkeypatch.setattr(_prepare, "_spent", 0.0)
    monkeypatch.setattr(_prepare, "PATIENCE", 1e9)
    return compiled


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("k", "weighted", "tol"), [(5, False, 0.0), (5, True, 0.0), (12, False, 0.01), (70, True, 0.0)]
)
def test_small_problems_are_solved_by_python_to_the_last_bit(monkeypatch, cold, dtype, k, weighted, tol):
    monkeypatch.setattr(_prepare, "FEW_SCORES", 1 << 20)
    monkeypatch.setattr(_prepare, "FEW_CLASSES", 1 << 20)
    problem = small(dtype, k, weighted)
    with monkeypatch.context() as without:  # the compiled ones are not called
        for name in ("best_classes", "start", "drive", "audit"):
            without.setattr(_kernels, name, None)
        plain = solve(problem, tol=tol)
    assert cold == []
    assert _prepare._spent > 0.0
    monkeypatch.setattr(_prepare, "FEW_SCORES", 0)
    assert said(solve(problem, tol=tol)) == said(plain)
    assert len(cold) == 1


def test_python_gives_up_what_takes_too_long(monkeypatch, cold):
    expected = said(solve(small("float64", 5, True)))
    monkeypatch.setattr(_prepare, "PATIENCE", _prepare._spent + 1e-9)
    assert said(solve(small("float64", 5, True))) == expected
    assert cold == ["float64"]  # in the middle of a search
    cold.clear()
    assert _prepare._spent >= _prepare.PATIENCE
    monkeypatch.setattr(_kernels, "python_kernels", None)
    solve(small("float64", 5, True))  # and not tried again
    assert cold == ["float64"]


@pytest.mark.parametrize("shape", [(_prepare.FEW_SCORES // 2 + 1, 2), (40, 40)])
def test_large_problems_are_compiled(cold, shape):
    probs = np.random.default_rng(0).dirichlet(np.ones(shape[1]), shape[0])
    solve(Problem(probs, np.ones(shape[1])))
    assert cold == ["float64"]


@pytest.mark.slow
def test_the_first_small_call_compiles_nothing(tmp_path):
    count = "import numba.core.event as e\nwith e.install_recorder('numba:compile') as seen:\n"
    body = "\n".join("    " + line for line in MOVED.strip().splitlines()[:-1])
    first = run(f"{count}{body}\nprint(len(seen.buffer))", NUMBA_CACHE_DIR=str(tmp_path))
    assert first.stdout.splitlines() == [run(MOVED).stdout.splitlines()[0], "0"]
    assert first.stderr == ""
    (ledger,) = tmp_path.rglob("uncompiled-*")
    ledger.write_bytes(b"." * 1000)  # who comes often has waited long enough
    often = MOVED.replace('"float16"', '"float64"').rsplit("print", 1)[0]
    assert "compiling the transport solver" in run(often, NUMBA_CACHE_DIR=str(tmp_path)).stderr


@pytest.mark.slow
def test_python_alone_gives_the_same(tmp_path):
    """NUMBA_DISABLE_JIT=1: slow, and equal to the last bit."""
    plain = run("import warnings; warnings.simplefilter('error')" + MOVED, NUMBA_DISABLE_JIT="1")
    assert plain.stdout == run(MOVED).stdout
    assert plain.stderr == ""


SCANNED = """
import numpy as np, shiftgauge as sg
z = np.random.default_rng(0).normal(size=(420_000, 10)).astype(np.float32)
source = sg.Source(logits=z[:2000], labels=z[:2000].argmax(axis=1))
found = [m for m in ("cott", "scot")
         for w in (None, np.ones(len(z))) if sg.estimate(source, sg.Target(logits=z, weights=w), m, interval=False)]
print(sorted(set(found)), "as scans")
sg.estimate(source, sg.Target(logits=z[:1000]), "cott", interval=True, replicates=20)
sg.estimate(source, sg.Target(logits=z[:1000]))
"""


@pytest.mark.slow
def test_warm_up_leaves_nothing_to_compile(tmp_path):
    code = "from shiftgauge.transport import warm_up; print(warm_up())"
    folder = run(code, NUMBA_CACHE_DIR=str(tmp_path)).stdout.strip()
    assert folder.startswith(str(tmp_path))
    later = MOVED.replace('"float16"', '"float32"').replace(
        "solve(Problem(p, [1, 2, 3, 4])).value.hex(), ", ""
    )
    count = "import numba.core.event as e\nwith e.install_recorder('numba:compile') as seen:\n"
    body = "\n".join("    " + line for line in later.strip().splitlines())
    answer = run(f"{count}{body}\nprint(len(seen.buffer))", NUMBA_CACHE_DIR=str(tmp_path))
    assert answer.stdout.splitlines()[-1] == "0"
    scanned = "\n".join("    " + line for line in SCANNED.strip().splitlines())
    answer = run(f"{count}{scanned}\nprint(len(seen.buffer))", NUMBA_CACHE_DIR=str(tmp_path))
    assert answer.stdout.splitlines() == ["['cott', 'scot'] as scans", "0"]


def test_notice_goes_to_progress_or_the_log(monkeypatch, caplog):
    class Fresh:
        stats = type("Stats", (), {"cache_hits": {}, "cache_path": "somewhere"})

        def __call__(self, P):
            return 0.0

    monkeypatch.setattr(_kernels, "first_score", Fresh())
    seen = []
    monkeypatch.setattr(_prepare, "_ready", set())
    _prepare.prepare(np.zeros((1, 1)), seen.append)
    assert "compiling" in seen[0]
    monkeypatch.setattr(_prepare, "_ready", set())
    with caplog.at_level(logging.WARNING, logger="shiftgauge"):
        _prepare.prepare(np.zeros((1, 1)), None)
        _prepare.prepare(np.zeros((1, 1)), None)
    assert [record.name for record in caplog.records] == ["shiftgauge.transport"]
