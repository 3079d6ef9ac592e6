"""Keeps some children at work on mutants and writes down what they found."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation import plan as plans
from mutation import trial as trials
from mutation.mutants import Mutant

#: A mutant's tests may take so many seconds by the survey's clock; then it counts as having survived them. A test that
#: takes more than half of it is left out.
BUDGET = 10.0
#: A trial may use that many seconds of processor time, and so many times what the survey used: an endless loop has
#: been noticed. By the wall it may take longer, for the machine may be busy; one that sleeps for ever ends too.
LEAST, SLACK, PATIENCE = 5.0, 3.0, 20.0
#: A survey, or the process of a room, whose trials have limits of their own.
LONG = 24 * 3600.0
ERRORS = os.dup(2)  # what a child says reaches the terminal, although its own output goes to a file

Answer = dict[str, Any]
Work = Callable[[], Any]


@dataclass
class Running:
    """A child at work, and what is done with its answer (None if it ended without) and its exit code."""

    done: Callable[[Any, int], None]
    pipe: int
    limit: float
    parent: bool  # of children of its own
    waited: float = 0.0
    heard: bytes = b""


class Runner:
    """Surveys rooms, tries their mutants, and keeps what was found in a folder."""

    def __init__(self, plan: plans.Plan, folder: Path, workers: int) -> None:
        self.plan, self.folder, self.workers = plan, folder, workers
        self.children: dict[int, Running] = {}
        folder.mkdir(exist_ok=True)
        self.file = folder / "results.jsonl"
        self.results = self.read()

    def read(self) -> dict[str, Answer]:
        """What was found before: the last word about each mutant."""
        if not self.file.exists():
            return {}
        # The last line of a killed run may be half: it is tried again.
        whole = [line for line in self.file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        self.file.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        return {held["mutant"]: held for held in map(json.loads, whole)}

    def survey(self, room: plans.Room) -> Answer:
        """Which tests run which functions; kept for each test file until it or the room's sources change."""
        file = self.folder / f"survey-{room.name.replace('/', '-')}.json"
        held = json.loads(file.read_text()) if file.exists() else {}
        keys = self.plan.survey_keys(room)
        kept = {name: held[name] for name, key in keys.items() if name in held and held[name]["key"] == key}
        new = [name for name in keys if name not in kept]
        if new:
            say(f"{room.name}: running its tests once, {len(new)} of {len(keys)} files")
            sources = {self.plan.module(path): path for path in room.files}

            def done(answer: Any, _: int) -> None:
                if not answer or not answer["tests"]:
                    raise SystemExit(f"{room.name}: its tests cannot be run; see {self.folder}/log-*.txt")
                for name in new:
                    own = {test: of for test, of in answer["tests"].items() if test.startswith(f"{name}::")}
                    kept[name] = {"key": keys[name], "tests": own}
                    kept[name] |= {key: answer[key] for key in ("always", "modules")}

            self.start(lambda: trials.survey(self.plan.root, sources, new, BUDGET / 2), done, LONG, "survey")
            self.wait(0)
            file.write_text(json.dumps(kept))
        tests = {test: of for one in kept.values() for test, of in one["tests"].items()}
        red = [test for test, of in tests.items() if of.get("failed")]
        if red:  # a test that fails anyway notices nothing
            say(
                f"{room.name}: {len(red)} tests fail on sound code or are too slow and are left out, such as {red[0]}"
            )
        both = {
            key: sorted({name for one in kept.values() for name in one[key]}) for key in ("always", "modules")
        }
        return {"tests": tests, **both}

    def room(self, room: plans.Room, sample: list[Mutant], until: float) -> None:
        """Try every mutant of a sample that has no result yet: most in one process, the others each in its own.

        In a process that has collected the room's tests, a function's code is exchanged for the broken one. What runs
        while modules are imported, or stands outside of functions, needs an import of the broken module.
        """
        pending = self.pending(room, sample)
        if not pending:
            return
        survey = self.survey(room)
        always = set(survey["always"])
        quick = [one for one in pending if one.inside and f"{one.path}:{one.function}" not in always]
        if quick:
            self.start(lambda: self.quickly(room, survey, quick, until), _nothing, LONG, "room", parent=True)
            self.wait(0)
            self.results = self.read()
        say(f"{room.name}: those that need an import")

        def work(mutant: Mutant, tests: list[str]) -> Work:
            path = self.plan.root / mutant.path
            return lambda: trials.trial(self.plan.root, self.plan.module(path), path, mutant, tests)

        self.run(room, survey, self.pending(room, sample), until, work)

    def pending(self, room: plans.Room, sample: list[Mutant]) -> list[Mutant]:
        """Those of a sample that have no result yet, in the order drawn."""
        left = [one for one in sample if not self.plan.holds(room, one, self.results.get(one.name))]
        return sorted(left, key=lambda one: one.rank(self.plan.seed))

    def quickly(self, room: plans.Room, survey: Answer, queue: list[Mutant], until: float) -> None:
        """In a process of the room's own: collect its tests, then fork for each mutant."""
        signal.signal(signal.SIGTERM, lambda *_: (self.stop(), os._exit(1)))
        self.children = {}

        def tour(items: dict[str, Any]) -> None:
            def work(mutant: Mutant, tests: list[str]) -> Work:
                path = self.plan.root / mutant.path
                chosen = [items[name] for name in tests if name in items]
                return lambda: trials.quick_trial(path, self.plan.module(path), mutant, chosen)

            self.run(room, survey, queue, until, work)
            self.control(room, queue, items)

        trials.collected(self.plan.root, list(room.tests), survey["modules"], self.plan.warm, tour)

    def control(self, room: plans.Room, queue: list[Mutant], items: dict[str, Any]) -> None:
        """Tests that fail in such a process on sound code too have noticed nothing."""
        found = {one.name: self.results.get(one.name, {}) for one in queue}
        killers = sorted({held["by"] for held in found.values() if held.get("by") in items})
        failed: list[str] = []

        def done(answer: Any, _: int) -> None:
            failed.extend(killers if answer is None else answer)

        if killers:
            work = lambda: trials.run_items([items[name] for name in killers], most=len(killers))  # noqa: E731
            self.start(work, done, LONG, "control")
            self.wait(0)
        for one in queue:
            if found[one.name].get("by") in failed:
                note = f"its killer fails on sound code too: {found[one.name]['by']}"
                self.record(room, one, {"killed": False, "by": note})

    def run(
        self,
        room: plans.Room,
        survey: Answer,
        queue: list[Mutant],
        until: float,
        work: Callable[[Mutant, list[str]], Work],
    ) -> None:
        """Try mutants until time is up."""
        for number, mutant in enumerate(queue):
            if time.monotonic() > until:
                break
            tests = affordable(trials.runs(survey, mutant))
            if not tests:
                self.record(room, mutant, {"killed": False, "by": "no test runs it"})
                continue
            self.wait(self.workers - 1)

            def done(answer: Any, ended: int, mutant: Mutant = mutant) -> None:
                late = ended in (-signal.SIGXCPU, -signal.SIGKILL)
                lost = {"killed": True, "by": "it took too long" if late else "the process died"}
                if answer != {}:  # else it could not be tried in this way
                    self.record(room, mutant, answer or lost)

            limit = LEAST + SLACK * sum(seconds for _, seconds in tests)
            self.start(work(mutant, [name for name, _ in tests]), done, limit, f"trial-{len(self.children)}")
            if number % 20 == 0:
                say(f"{room.name}: {number} of {len(queue)}")
        self.wait(0)

    def record(self, room: plans.Room, mutant: Mutant, answer: Answer) -> None:
        """Write a result down at once."""
        held = {"room": room.name, "mutant": mutant.name, "line": mutant.line, **answer}
        self.results[mutant.name] = held | self.plan.marks(room, mutant, answer)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(self.results[mutant.name]) + "\n")

    def start(
        self, work: Work, done: Callable[[Any, int], None], limit: float, log: str, parent: bool = False
    ) -> None:
        """Fork a child for the work."""
        child, pipe = trials.fork(work, self.folder / f"log-{log}.txt", int(limit))
        self.children[child] = Running(done, pipe, PATIENCE * limit, parent)

    def wait(self, most: int) -> None:
        """Listen until at most so many children are left."""
        seen = time.monotonic()
        while len(self.children) > most:
            pipes = {held.pipe: child for child, held in self.children.items()}
            ready, _, _ = select.select(list(pipes), [], [], 1.0)
            for pipe in ready:
                held = self.children[pipes[pipe]]
                piece = os.read(pipe, 1 << 16)
                held.heard += piece
                if not piece:
                    self.finish(pipes[pipe])
            # A look takes a second; if much more went by, the machine slept, and the children with it.
            passed, seen = min(2.0, time.monotonic() - seen), time.monotonic()
            for child, held in list(self.children.items()):
                held.waited += passed
                if held.waited > held.limit:
                    os.killpg(child, signal.SIGKILL)
                    self.finish(child)

    def finish(self, child: int) -> None:
        """Take a child's answer."""
        held = self.children.pop(child)
        os.close(held.pipe)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        held.done(json.loads(held.heard) if held.heard else None, ended)

    def stop(self) -> None:
        """Leave no child behind; one that has children of its own ends them first."""
        for child, held in self.children.items():
            os.killpg(child, signal.SIGTERM if held.parent else signal.SIGKILL)
            os.waitpid(child, 0)
        self.children = {}


def affordable(tests: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The quickest tests that fit the budget, and one at least."""
    spent, kept = 0.0, []
    for name, seconds in tests:
        spent += seconds
        if kept and spent > BUDGET:
            break
        kept.append((name, seconds))
    return kept


def say(text: str) -> None:
    """A line to the terminal, from whatever process."""
    os.write(ERRORS, f"{time.strftime('%H:%M:%S')} {text}\n".encode())
    sys.stderr.flush()


def _nothing(answer: Any, ended: int) -> None:
    if ended:
        say("a room's process ended early; what it did not try is tried one by one")
