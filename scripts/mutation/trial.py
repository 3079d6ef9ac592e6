"""One forked process: the module broken in memory, the tests that run it, and what came of them."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from mutation.mutants import Mutant, broken

HEAVY = ("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "numba", "hypothesis", "pytest")
QUIET = (
    "-q",
    "-x",
    "--no-header",
    "--tb=no",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "-p",
    "no:xdist",
)


def load_heavy() -> None:
    """Import what every trial needs and no mutant touches, once, before the first fork."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    for name in HEAVY:
        with contextlib.suppress(ImportError):  # then the tests do without it too
            __import__(name)


class Changed(importlib.abc.MetaPathFinder):
    """Imports modules from changed trees instead of their files."""

    def __init__(self, trees: dict[str, Callable[[], ast.Module]]) -> None:
        self.trees = trees

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Stand before pytest's own finder, which takes every module that is named like a test (shift_test.py)."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a changed module, as its file gives it."""
        if name not in self.trees:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader = Loader(name, spec.origin, self.trees[name])
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """The usual one, so that files beside the module are found, with other code."""

    def __init__(self, name: str, path: str, tree: Callable[[], ast.Module]) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> CodeType:
        """Of the changed tree."""
        return compile(self.tree(), self.path, "exec")


class Unshrunk:
    """A plugin: a failing example of hypothesis is enough, it need not be made small or kept."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """After the project's own profile."""
        with contextlib.suppress(ImportError):
            from hypothesis import Phase, settings

            found = (Phase.explicit, Phase.generate)
            settings.register_profile("mutation", settings.default, phases=found, database=None)
            settings.load_profile("mutation")


class Collected:
    """A plugin: once the tests are collected, does something else with them than running them all."""

    def __init__(self, work: Callable[[dict[str, Any]], None]) -> None:
        self.work = work

    def pytest_runtestloop(self, session: Any) -> bool:
        """In place of pytest's own loop."""
        self.work({item.nodeid: item for item in session.items})
        return True


class Watcher:
    """A plugin of pytest: notes what each test took, whether it passed, and which functions it ran."""

    def __init__(self, limit: float = 0.0) -> None:
        self.limit = limit
        self.ran: set[str] = set()
        self.always: set[str] = set()
        self.fixtures: dict[str, set[str]] = {}
        self.tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """What a fixture runs belongs to every test that uses it, not to the first alone."""
        before = set(self.ran)
        self.ran.clear()
        made = yield
        self.fixtures.setdefault(fixturedef.argname, set()).update(self.ran)
        self.ran.update(before)
        return made

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """A test that no trial could afford is cut short, and counts as failed; its fixtures are not counted."""
        if self.limit:
            signal.setitimer(signal.ITIMER_PROF, self.limit)
        try:
            return (yield)
        finally:
            if self.limit:
                signal.setitimer(signal.ITIMER_PROF, 0.0)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """The fixtures' share."""
        for name in getattr(item, "fixturenames", ()):
            self.ran.update(self.fixtures.get(name, ()))

    def pytest_collection_finish(self) -> None:
        """What ran during imports belongs to every test."""
        self.always |= self.ran
        self.ran.clear()

    def pytest_runtest_logstart(self) -> None:
        """A test begins; its processor time is counted, whatever else the machine does."""
        self.begun = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called three times a test: before, for and after it."""
        held = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": False})
        held["seconds"] = time.process_time() - self.begun
        if report.failed:
            held["failed"] = True
        elif report.when == "call":
            held["passed"] = report.passed
        if report.when == "teardown":
            held["runs"] = sorted(self.ran)
            self.ran.clear()

    def failed(self) -> str | None:
        """The first test that failed."""
        return next((name for name, held in self.tests.items() if held.get("failed")), None)


def fork(work: Callable[[], Any], log: Path, seconds: int) -> tuple[int, int]:
    """Do the work in a child, in so many seconds of processor time at most.

    Returns the child's process id and the file descriptor that its answer (JSON) comes from; one that has used up its
    time, as in an endless loop, ends without an answer. Time of the processor, so that a busy machine kills no mutant.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        os.close(reading)
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        answer = json.dumps(work()).encode()
        with os.fdopen(writing, "wb") as out:
            out.write(answer)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no clean-up of the parent's


def survey(root: Path, sources: dict[str, Path], tests: list[str], limit: float) -> dict[str, Any]:
    """Run the tests on the code as it is, with a mark at the head of every function of these modules.

    A test that uses more than `limit` seconds of processor time is cut short.
    """
    watcher = Watcher(limit)
    signal.signal(signal.SIGPROF, lambda *_: pytest.fail("too slow for a trial"))
    trees = {name: (lambda path=path: marked(root, path)) for name, path in sources.items()}
    changed = Changed(trees)
    import builtins

    builtins.__dict__["__mutation_ran__"] = watcher.ran.add
    _pytest(root, [*tests, *(word for word in QUIET if word != "-x")], watcher, changed)
    return {"tests": watcher.tests, "always": sorted(watcher.always), "modules": sorted(sys.modules)}


def marked(root: Path, path: Path) -> ast.Module:
    """The tree in which every function first says that it runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    where = path.relative_to(root).as_posix()

    def mark(node: ast.AST, scope: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = (*scope, child.name)
                mark(child, name)
                if not isinstance(child, ast.ClassDef):
                    said = ast.parse(f"__mutation_ran__({f'{where}:' + '.'.join(name)!r})").body
                    first = 1 if ast.get_docstring(child) is not None else 0
                    child.body[first:first] = said
            else:
                mark(child, scope)

    mark(tree, ())
    return ast.fix_missing_locations(tree)


def trial(root: Path, module: str, path: Path, mutant: Mutant, tests: list[str]) -> dict[str, Any]:
    """Run the tests on the broken module; the first that fails is the answer."""
    watcher = Watcher()
    tree = lambda: broken(path.read_text(encoding="utf-8"), mutant)  # noqa: E731
    code = _pytest(root, [*tests, *QUIET], watcher, Changed({module: tree}))
    killer = watcher.failed()
    return {
        "killed": code not in (0, 5),
        "by": killer or ("" if code in (0, 5) else f"pytest's exit code {code}"),
    }


def quick_trial(path: Path, module: str, mutant: Mutant, items: list[Any]) -> dict[str, Any]:
    """The same on collected tests, the broken code put in place of the sound; says nothing if that cannot be done."""
    importlib.import_module(module)
    text = path.read_text(encoding="utf-8")
    if not exchange(path, ast.parse(text), broken(text, mutant)):
        return {}
    failed = run_items(items, most=1)
    return {"killed": bool(failed), "by": failed[0] if failed else ""}


def exchange(path: Path, sound: ast.Module, bad: ast.Module) -> bool:
    """Give the loaded functions of a file the code of a changed tree; False if the change is not in their code."""
    before, after = _codes(path, sound), _codes(path, bad)
    keys = {key for key in after if after[key] != before.get(key)}
    changed = False
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = function.__code__
        key = (code.co_name, code.co_firstlineno)
        if code.co_filename == str(path) and key in keys:
            if len(after[key]) != 1 or len(after[key][0].co_freevars) != len(code.co_freevars):
                return False
            function.__code__ = after[key][0]
            changed = True
    return changed


def _codes(path: Path, tree: ast.Module) -> dict[tuple[str, int], list[CodeType]]:
    """The code of every function of a file, by name and first line."""
    found: dict[tuple[str, int], list[CodeType]] = {}

    def gather(code: CodeType) -> None:
        for one in code.co_consts:
            if isinstance(one, CodeType):
                found.setdefault((one.co_name, one.co_firstlineno), []).append(one)
                gather(one)

    gather(compile(tree, str(path), "exec"))
    return found


def run_items(items: list[Any], most: int) -> list[str]:
    """Run collected tests in this order until so many have failed; their names."""
    watcher = Watcher()
    items[0].config.pluginmanager.register(watcher)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if len(failed := [name for name, held in watcher.tests.items() if held.get("failed")]) >= most:
            return failed
    return failed


def collected(
    root: Path, tests: list[str], modules: list[str], warm: str, work: Callable[[dict[str, Any]], None]
) -> None:
    """Collect the tests, load what they will import and what is slow at first, and do the work with the tests."""

    def warmed(items: dict[str, Any]) -> None:
        for name in modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        if warm:
            module, _, function = warm.partition(":")
            getattr(importlib.import_module(module), function)()
        work(items)

    _pytest(root, [*tests, *QUIET], Collected(warmed))


def _pytest(root: Path, words: list[str], *plugins: Any) -> int:
    os.chdir(root)
    sys.path.insert(0, str(root / "src"))
    if any(name == "hypothesis" for name in sys.modules):
        words = [*words, "--hypothesis-seed=0"]
    return int(pytest.main(words, plugins=[*plugins, Unshrunk()]))


def runs(surveyed: dict[str, Any], mutant: Mutant) -> list[tuple[str, float]]:
    """The tests that run the mutant's function, quickest first.

    What stands outside functions, such as a constant or a class's attribute, may be read from anywhere: all tests,
    those that run something of its file first.
    """
    key = f"{mutant.path}:{mutant.function}"
    found = []
    for name, held in surveyed["tests"].items():
        if not held["passed"] or held.get("failed"):
            continue
        touched = {*held.get("runs", ()), *surveyed["always"]}
        near = key in touched if mutant.inside else any(one.startswith(f"{mutant.path}:") for one in touched)
        if near or not mutant.inside:
            found.append((not near, held["seconds"], name))
    return [(name, seconds) for _, seconds, name in sorted(found)]
