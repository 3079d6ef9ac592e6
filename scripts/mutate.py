"""Break the code on purpose in random places, and see whether the tests of its package notice.

    python scripts/mutate.py [PACKAGE ...] [--mutants 40] [--minutes 60] [--seed 0]

Each package's quick tests run once under coverage, which records the tests that execute each line. Then cosmic-ray
changes one place at a time in a copy of the tree, and the quickest of those tests run, ten seconds of them at most. A
mutant that no test notices is printed: it is a test to write, code to delete, or a change without effect. The minutes
are shared by all packages. `.mutants/` keeps what was tried: a run that was stopped goes on where it was.
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
from itertools import accumulate
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import coverage
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "src" / "shiftgauge"
MODULES = "modules"
"""Stands for the modules that are in no package: samples, results, timelines, storage, times, ..."""
OWN_TESTS = [f"tests/{path.name}" for path in sorted((ROOT / "tests").glob("test_*.py"))]
TESTS = {  # beside tests/<package>
    MODULES: [
        *OWN_TESTS,
        "tests/io",
        "tests/methods/test_range.py",
        "tests/inference/test_every_function.py",
    ],
    "validation": [*OWN_TESTS, "tests/inference/test_labels_given.py", "tests/inference/test_refusals.py"],
    "labelshift": ["tests/methods/test_facts.py"],
    "transport": ["tests/parity"],
}
SKIPPED = ("_kernels.py", "checks.py", "published.py")
"""Compiled code, a published list of tests, and tables of numbers from the paper."""
NO_OPERATORS = ("core/ReplaceBinaryOperator_BitOr", "core/RemoveDecorator", "core/Variable")
"""Annotations are full of |, which changes nothing there; decorators of commands and routes run at import."""
PYTEST = ("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header")
QUICK = "not (slow or spark or postgres or browser or extended)"
SECONDS = 10.0


def places(path: Path) -> list[tuple[int, list[tuple[str, int]]]]:
    """The places of a file that can be changed: the line of each, and the operators with their occurrence."""
    tree = get_ast(path.read_text(encoding="utf-8"))
    found: dict[tuple[Any, Any], list[tuple[str, int]]] = defaultdict(list)
    for name in operator_names():
        if not name.startswith(NO_OPERATORS) and not get_operator(name).arguments():
            spans = (
                span for node in ast_nodes(tree) for span in get_operator(name)().mutation_positions(node)
            )
            for occurrence, span in enumerate(spans):
                found[span].append((name, occurrence))
    return [(start[0], operators) for (start, _), operators in sorted(found.items())]


def failure(tree: Path, *words: str, timeout: float) -> str:
    """What pytest prints in a copy of the tree if a test fails or takes too long, else an empty string."""
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *PYTEST, *words]
    try:
        run = subprocess.run(command, cwd=tree, env=env, timeout=timeout, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"more than {timeout:.0f} seconds"
    return run.stdout + run.stderr if run.returncode else ""


def tests_by_line(tree: Path, package: str) -> dict[tuple[str, int], list[str]]:
    """(file, line) -> the tests that execute it, the quickest first, ten seconds of them at most."""
    (tree / "coverage.ini").write_text(f"[run]\ndata_file = {tree}/coverage\n", encoding="utf-8")
    tests = [f"tests/{package}"] if (tree / "tests" / package).exists() else []
    words = (*tests, *TESTS.get(package, ()), "-m", QUICK, f"--junitxml={tree}/times.xml", "--cov-report=")
    measure = (f"--cov={tree}/src/shiftgauge", "--cov-context=test", f"--cov-config={tree}/coverage.ini")
    if printed := failure(tree, *words, *measure, timeout=3600):
        raise RuntimeError(
            f"{package}: its tests fail without any change; mend them first\n{printed[-2000:]}"
        )
    cases = ElementTree.parse(tree / "times.xml").iter("testcase")
    seconds = {
        dotted(f"{case.get('classname')}.{case.get('name')}"): float(case.get("time", 0)) for case in cases
    }
    data = coverage.CoverageData(str(tree / "coverage"))
    data.read()
    result = {}
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            names = sorted({c.split("|")[0] for c in contexts if c}, key=lambda test: seconds[dotted(test)])
            total = accumulate(seconds[dotted(test)] for test in names)
            result[file, line] = [
                test for i, (test, t) in enumerate(zip(names, total, strict=True)) if t < SECONDS or not i
            ]
    return result


def dotted(test: str) -> str:
    """One spelling of a test's name in pytest's two."""
    return test.replace("/", ".").replace(".py::", ".").replace("::", ".")


def noticed(tree: Path, path: Path, change: tuple[str, int], tests: list[str]) -> bool | None:
    """Whether one of the tests fails after the change; None if nothing changes."""
    before = path.read_text(encoding="utf-8")
    after = mutate_code(before, get_operator(change[0])(), change[1])
    if after in (None, before):
        return None
    path.write_text(after, encoding="utf-8")
    try:
        return bool(tests) and failure(tree, *tests, timeout=60 + 6 * SECONDS) != ""
    finally:
        path.write_text(before, encoding="utf-8")


def try_package(package: str, count: int, seed: int, end: float) -> dict[str, bool]:
    """Mutant -> whether it was noticed, of ``count`` mutants or as many as there is time for."""
    kept = ROOT / ".mutants" / f"{package}-{seed}.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    known = {record["mutant"]: record["noticed"] for record in map(json.loads, lines)}
    if len(known) >= count:
        return known
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "site", "__pycache__"))
        source = tree / "src" / "shiftgauge"
        files = source.glob("*.py") if package == MODULES else (source / package).rglob("*.py")
        drawn = [(p, *place) for p in sorted(files) if p.name not in SKIPPED for place in places(p)]
        rng = random.Random(seed)
        rng.shuffle(drawn)
        tests = tests_by_line(tree, package)
        for path, line, changes in drawn:
            change = rng.choice(changes)
            mutant = f"{path.relative_to(tree)}:{line} {change[0].removeprefix('core/')} {change[1]}"
            if len(known) >= count or time.monotonic() > end:
                break
            if mutant in known:
                continue
            result = noticed(tree, path, change, tests.get((str(path), line), []))
            if result is not None:
                known[mutant] = result
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"mutant": mutant, "noticed": result}) + "\n")
    return known


def main() -> None:
    """Print a line per package, and the mutants that no test noticed."""
    packages = [MODULES, *sorted(p.name for p in PACKAGES.iterdir() if any(p.glob("*.py")))]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", default=packages, metavar="PACKAGE", help=", ".join(packages))
    parser.add_argument("--mutants", type=int, default=40, help="how many per package")
    parser.add_argument("--minutes", type=float, default=60, help="at most so many in all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    (ROOT / ".mutants").mkdir(exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    for number, package in enumerate(given.packages):
        share = (end - time.monotonic()) / (len(given.packages) - number)
        try:
            known = try_package(package, given.mutants, given.seed, time.monotonic() + share)
        except RuntimeError as problem:
            print(problem, flush=True)
            continue
        right = sum(known.values())
        print(
            f"{package:12} {right:3} of {len(known):3} noticed ({right / max(len(known), 1):.0%})", flush=True
        )
        for mutant in (mutant for mutant, seen in known.items() if not seen):
            print(f"    {mutant}", flush=True)


if __name__ == "__main__":
    main()
