"""Break the code on purpose in random places, and see whether the tests of its package notice.

    python scripts/mutate.py [PACKAGE ...] [--mutants 40] [--seed 0] [--minutes 4]

Each package's tests run once under coverage, which records the tests that execute each line. Then cosmic-ray changes
one place at a time in a copy of the tree, and up to 40 of those tests run, the quickest first. A mutant that no test
notices is printed: it is a test to write, code to delete, or a change without effect. A run that was stopped goes on
where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".mutants"
#: Tests of packages that have no folder of the same name.
TESTS = {
    "validation": [
        "tests/test_validation.py",
        "tests/test_samples.py",
        "tests/test_bad_input.py",
        "tests/test_hard_numbers.py",
        "tests/inference/test_labels_given.py",
        "tests/inference/test_refusals.py",
    ],
    "labelshift": ["tests/labelshift", "tests/methods/test_facts.py"],
    "transport": ["tests/transport", "tests/parity"],
}
#: Compiled code, a published list of tests, and tables of numbers from the paper.
SKIPPED = ("_kernels.py", "checks.py", "published.py")
#: Annotations are full of |, which changes nothing there; decorators of commands and routes run at import.
NO_OPERATORS = ("core/ReplaceBinaryOperator_BitOr", "core/RemoveDecorator", "core/Variable")
PYTEST = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
QUICK = "not (slow or torch or spark or postgres or browser or extended)"
MOST_TESTS = 40


def places(path: Path) -> list[tuple[int, list[tuple[str, int]]]]:
    """The places of a file that can be changed: the line of each, and the operators with their occurrence."""
    tree = get_ast(path.read_text(encoding="utf-8"))
    found: dict[tuple[Any, Any], list[tuple[str, int]]] = defaultdict(list)
    for name in operator_names():
        if name.startswith(NO_OPERATORS) or get_operator(name).arguments():
            continue
        operator, occurrence = get_operator(name)(), 0
        for node in ast_nodes(tree):
            for span in operator.mutation_positions(node):
                found[span].append((name, occurrence))
                occurrence += 1
    return [(start[0], operators) for (start, _), operators in sorted(found.items())]


def run(folder: Path, *words: str, timeout: float | None = None) -> int:
    """Run Python in a copy of the tree; -1 if it takes too long."""
    env = os.environ | {"PYTHONPATH": str(folder / "src"), "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=env, timeout=timeout, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def measured(folder: Path, package: str) -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
    """By file and line the tests that execute it, and the seconds of each test."""
    tests = TESTS.get(package, [f"tests/{package}"])
    record, times = folder / "coverage", folder / "times.xml"
    command = [
        "-m",
        "pytest",
        *PYTEST,
        *tests,
        "-m",
        QUICK,
        f"--junitxml={times}",
        f"--cov={folder}/src/shiftgauge",
    ]
    code = run(
        folder, *command, "--cov-context=test", "--cov-report=", f"--cov-config={_config(folder, record)}"
    )
    if code:
        raise SystemExit(f"{package}: its tests fail without any change (exit code {code}); mend them first")
    data = coverage.CoverageData(str(record))
    data.read()
    lines = {
        file: {
            line: [c.split("|")[0] for c in names if c]
            for line, names in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return lines, _seconds(times)


def _config(folder: Path, record: Path) -> Path:
    file = folder / "coverage.ini"
    file.write_text(f"[run]\ndata_file = {record}\nconcurrency = thread\n", encoding="utf-8")
    return file


def _seconds(times: Path) -> dict[str, float]:
    from xml.etree import ElementTree

    cases = ElementTree.parse(times).iter("testcase")
    return {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 0)) for case in cases}


def judged(folder: Path, path: Path, change: tuple[str, int], tests: list[str]) -> bool | None:
    """Whether one of the tests fails after the change; None if nothing changes."""
    file = folder / path.relative_to(ROOT)
    sound = path.read_text(encoding="utf-8")
    broken = mutate_code(sound, get_operator(change[0])(), change[1])
    if broken is None or broken == sound:
        return None
    if not tests:
        return False
    file.write_text(broken, encoding="utf-8")
    try:
        return run(folder, "-m", "pytest", *PYTEST, *tests, timeout=120) != 0
    finally:
        file.write_text(sound, encoding="utf-8")


def try_package(package: str, count: int, seed: int, minutes: float) -> tuple[int, int, list[str]]:
    """How many mutants were tried and noticed, and those that were not."""
    kept = KEPT / f"{package}-{seed}.jsonl"
    known = {}
    if kept.exists():
        known = {r["mutant"]: r["noticed"] for r in map(json.loads, kept.read_text().splitlines())}
    files = [p for p in sorted((ROOT / "src/shiftgauge" / package).rglob("*.py")) if p.name not in SKIPPED]
    drawn = [(path, line, changes) for path in files for line, changes in places(path)]
    rng = random.Random(seed)
    rng.shuffle(drawn)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "tree"
        skipped = shutil.ignore_patterns(".*", "results", "site", "__pycache__")
        shutil.copytree(ROOT, folder, ignore=skipped)
        lines, seconds = measured(folder, package)
        end = time.monotonic() + 60 * minutes
        for path, line, changes in drawn:
            if len(known) >= count or time.monotonic() > end:
                break
            change = rng.choice(changes)
            mutant = f"{path.relative_to(ROOT)}:{line} {change[0].removeprefix('core/')} {change[1]}"
            if mutant in known:
                continue
            names = set(lines.get(str(folder / path.relative_to(ROOT)), {}).get(line, ()))
            quickest = sorted(names, key=lambda test: seconds.get(test, 1.0))[:MOST_TESTS]
            noticed = judged(folder, path, change, quickest)
            if noticed is not None:
                known[mutant] = noticed
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"mutant": mutant, "noticed": noticed}) + "\n")
    return len(known), sum(known.values()), [mutant for mutant, noticed in known.items() if not noticed]


def main() -> None:
    """Print a line per package, and the mutants that nobody noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folders = (ROOT / "src/shiftgauge").iterdir()
    packages = sorted(p.name for p in folders if p.is_dir() and any(p.glob("*.py")))
    parser.add_argument("packages", nargs="*", default=packages, metavar="PACKAGE", help=", ".join(packages))
    parser.add_argument("--mutants", type=int, default=40, help="how many per package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, default=4, help="at most so many for the mutants of a package"
    )
    given = parser.parse_args()
    KEPT.mkdir(exist_ok=True)
    for package in given.packages:
        tried, noticed, survivors = try_package(package, given.mutants, given.seed, given.minutes)
        print(f"{package:12} {noticed:3} of {tried:3} noticed ({noticed / max(tried, 1):.0%})", flush=True)
        for mutant in survivors:
            print(f"    {mutant}", flush=True)


if __name__ == "__main__":
    main()
