"""The mutation tool itself: what it breaks, that it never touches a file, who notices, and how it goes on."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from mutation import plan as plans  # noqa: E402
from mutation.mutants import broken, mutants  # noqa: E402

posix = pytest.mark.skipif(os.name != "posix", reason="forks")


def after(text, kind=None):
    """The statements that the mutants of a text leave, as text."""
    found = [one for one in mutants("f.py", text) if kind in (None, one.kind)]
    return [ast.unparse(broken(text, one)) for one in found]


@pytest.mark.parametrize(
    ("text", "kind", "left"),
    [
        ("x = a < b", "comparison", ["x = a <= b"]),
        ("x = a is None", "comparison", ["x = a is not None"]),
        ("x = a < b <= c", "comparison", ["x = a <= b <= c", "x = a < b < c"]),
        ("x = a - b", "arithmetic", ["x = a + b"]),
        ("x = value * weights", "factor dropped", ["x = value"]),
        ("x = mass * value", "factor dropped", ["x = value"]),
        ("x = a * b", "factor dropped", []),
        (
            "x = f(a, weights=w, seed=s)",
            "argument not passed on",
            ["x = f(a, seed=s)", "x = f(a, weights=w)"],
        ),
        ("x = f(a, dtype=int)", "argument not passed on", []),
        ("x = np.minimum(a, b)", "function", ["x = np.maximum(a, b)"]),
        ("x = max(a)", "function", ["x = min(a)"]),
        ("x = sorted(a)", "order", ["x = list(a)"]),
        ("x = np.sort(a)", "order", ["x = a"]),
        ("x = s(a, side='left')", "word", ["x = s(a, side='right')"]),
        ("LEVEL = 0.95", "constant", ["LEVEL = 1.9"]),
        ("x = 0", "constant", ["x = 1"]),
        ("x = True", "constant", ["x = False"]),
        ("x = not a", "sign or not dropped", ["x = a"]),
        ("x = a if b else c", "choice", ["x = c if b else a"]),
        ("x = a and b", "and, or", ["x = a or b"]),
        ("notes.append(a)", "statement dropped", ["pass"]),
        ("if a:\n    b()", "condition", ["if not a:\n    b()"]),
    ],
)
def test_what_is_broken(text, kind, left):
    assert after(text, kind) == left


@pytest.mark.parametrize(
    "text",
    ["'''Doc 1.'''", "import a", "x: int", "raise E(f'{a + 1}')", "assert a < b", "x = f'{a:.1f}'", "__all__ = [1]",
     "if TYPE_CHECKING:\n    x = 1", "@cache(1)\ndef f() -> g[1]: return a", "x = 'text' + a"],
)  # fmt: skip
def test_what_means_nothing_is_left_alone(text):
    assert after(text) == []


def test_a_name_does_not_move_with_its_line():
    text = "def f(a):\n    return a < 1\n\n\ndef g(a):\n    return a < 1 or a < 1\n"
    first = {one.name for one in mutants("f.py", text)}
    assert len(first) == len(mutants("f.py", text))
    assert {one.name for one in mutants("f.py", "# a line more\n\n" + text)} == first
    assert "f.py:g: comparison: a < 1 -> a <= 1 #1" in first


def test_what_stands_outside_of_functions_is_said():
    text = "A = 1\n\n\nclass C:\n    b = 2\n\n    def f(self, c=3):\n        return c\n"
    assert [one.function for one in mutants("f.py", text)] == ["<outside>", "C.<outside>", "C.f"]


SOURCE = """
FACTOR = 1


def kept(values, limit=3):
    total = FACTOR * sum(values)
    return total if total < limit else limit


def doubled(a):
    return 2 * a


def unseen(a):
    return a + 1


def endless(n):
    while n > 0:
        n = n - 1
    return n
"""
# The source is named like a test, which pytest would load by itself.
TESTS = """
import pytest
from tiny.core_test import doubled, endless, kept

@pytest.fixture(scope="session")
def four():
    return doubled(2)

def test_another(four):
    assert four > 0

def test_four(four):
    assert four == 4

def test_kept():
    assert kept([1, 1]) == 2
    assert kept([2, 2]) == 3

def test_endless():
    assert endless(3) == 0
"""
PLAN = """
seed = 0
goal = 0.9
minutes = 5
[[room]]
name = "tiny"
sources = ["src/tiny"]
tests = ["tests"]
mutants = 100
[[accepted]]
mutant = "src/tiny/core_test.py:kept: comparison: total < limit -> total <= limit"
reason = "at the limit both sides are the limit"
"""


@pytest.fixture
def project(tmp_path):
    """A package of one file with a test that misses one function."""
    for name, text in {
        "src/tiny/__init__.py": "",
        "src/tiny/core_test.py": SOURCE,
        "tests/test_core.py": TESTS,
        "scripts/mutants.toml": PLAN,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def mutate(project, *words):
    command = [sys.executable, SCRIPTS / "mutate.py", "--plan", project / "scripts" / "mutants.toml", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.slow
@posix
def test_a_whole_run(project):
    done = mutate(project, "--workers", "2")
    assert done.returncode == 1, done.stderr  # the function that no test runs is below the goal
    results = [json.loads(line) for line in (project / ".mutants" / "results.jsonl").read_text().splitlines()]
    alive = {one["mutant"].split("core_test.py:")[1]: one["by"] for one in results if not one["killed"]}
    assert alive == {
        "kept: comparison: total < limit -> total <= limit": "",
        "unseen: arithmetic: a + 1 -> a - 1": "no test runs it",
        "unseen: constant: 1 -> 2": "no test runs it",
    }
    killers = {one["mutant"].split("core_test.py:")[1]: one["by"] for one in results if one["killed"]}
    assert killers["<outside>: constant: 1 -> 2"] == "tests/test_core.py::test_kept"
    # Run for the first test that uses the fixture, noticed by the second.
    assert killers["doubled: constant: 2 -> 3"] == "tests/test_core.py::test_four"
    assert killers["endless: arithmetic: n - 1 -> n + 1"] == "it took too long"
    assert (project / "src/tiny/core_test.py").read_text() == SOURCE
    last = done.stdout.splitlines()
    assert last[-1].startswith("score 84.6%")
    assert sum("no test runs it" in line for line in last) == 2
    accepted = next(line.split() for line in last if line.startswith("tiny"))
    assert accepted[-2] == "1"

    # A second run has nothing left to do; half of the results lost, as by a kill, are found again.
    again = mutate(project, "--workers", "2")
    assert again.stdout == done.stdout
    file = project / ".mutants" / "results.jsonl"
    lines = file.read_text().splitlines()
    kept = [line for line in lines if "endless" in line]
    file.write_text("\n".join(kept) + "\n" + lines[-1][:30])
    assert mutate(project, "--workers", "1").stdout == done.stdout

    # A test for the missed function reaches the goal.
    with (project / "tests" / "test_core.py").open("a") as out:
        out.write("\n\nfrom tiny.core_test import unseen\n\ndef test_unseen():\n    assert unseen(1) == 2\n")
    assert mutate(project).returncode == 0


@pytest.mark.slow
@posix
def test_a_stopped_run_leaves_no_child_behind(project):
    """Stopped while its tests sleep; the child's number is written by the test itself."""
    note = project / "child"
    text = f"""
import os, pathlib, time

def test_sleep():
    pathlib.Path({str(note)!r}).write_text(str(os.getpid()))
    time.sleep(600)
"""
    (project / "tests" / "test_core.py").write_text(text)
    command = [sys.executable, SCRIPTS / "mutate.py", "--plan", project / "scripts" / "mutants.toml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        while not (note.exists() and note.read_text()):
            assert running.poll() is None
            time.sleep(0.1)
        running.terminate()
        assert "run it again" in running.communicate(timeout=300)[1]
    child = int(note.read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child goes on")


def test_a_sample_is_drawn_by_the_seed_and_tries_every_kind(project):
    whole, count = plans.read(project / "scripts" / "mutants.toml").chosen(
        plans.read(project / "scripts" / "mutants.toml").rooms[0]
    )
    assert len(whole) == count
    text = (project / "scripts" / "mutants.toml").read_text()
    (project / "scripts" / "mutants.toml").write_text(text.replace("mutants = 100", "mutants = 5"))
    some, of = plans.read(project / "scripts" / "mutants.toml").chosen(
        plans.read(project / "scripts" / "mutants.toml").rooms[0]
    )
    assert (some, of) == (whole[:5], count)
    assert len({one.kind for one in some}) == 5


def test_a_reason_is_asked_for(project):
    file = project / "scripts" / "mutants.toml"
    file.write_text(file.read_text().replace("at the limit both sides are the limit", " "))
    with pytest.raises(SystemExit, match="without a reason"):
        plans.read(file)


def test_our_own_plan_names_what_is_there():
    plan = plans.read(SCRIPTS / "mutants.toml")
    assert {room.name for room in plan.rooms} >= {"methods", "labelshift", "transport", "reports"}
    for room in plan.rooms:
        assert room.files, room.name
