#!/usr/bin/env python3
"""Do the tests notice when the code is broken? Prints the score and who survived: make mutate

    python scripts/mutate.py [--room NAME] [--minutes M] [--workers N] [--list] [--fresh]

What is broken, how often, and what is accepted stands in scripts/mutants.toml. Results are kept in .mutants/ as they
come: a run that was killed goes on where it was, and a room whose files did not change is not tried again.
Exit code 1 if fewer than the goal's share were killed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation import plan as plans
from mutation import trial as trials
from mutation.mutants import Mutant
from mutation.table import report

#: A mutant's tests may take so many seconds by the survey's clock; then it counts as having survived them.
BUDGET = 20.0
#: A trial may use that many seconds of processor time, and so many times what the survey used: an endless loop has
#: been noticed. By the wall it may take longer, for the machine may be busy; one that sleeps for ever ends too.
LEAST, SLACK, PATIENCE = 10.0, 5.0, 20.0


@dataclass
class Running:
    """A child at work."""

    mutant: Mutant | None
    room: plans.Room
    pipe: int
    begun: float
    limit: float
    heard: bytes = b""


class Runner:
    """Keeps some children at work and writes down what they found."""

    def __init__(self, plan: plans.Plan, folder: Path, workers: int) -> None:
        self.plan, self.folder, self.workers = plan, folder, workers
        self.children: dict[int, Running] = {}
        self.surveys: dict[str, dict[str, Any]] = {}
        folder.mkdir(exist_ok=True)
        self.file = folder / "results.jsonl"
        self.results = {}
        if self.file.exists():
            # The last line of a killed run may be half: it is tried again.
            whole = [
                line for line in self.file.read_text(encoding="utf-8").splitlines() if line.endswith("}")
            ]
            self.file.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
            for held in map(json.loads, whole):
                self.results[held["digest"], held["mutant"]] = held

    def survey(self, rooms: list[plans.Room]) -> None:
        """See which tests run which functions; kept until the room's files change."""
        for room in rooms:
            kept = self.folder / f"survey-{room.name}-{self.plan.digest(room)}.json"
            if kept.exists():
                self.surveys[room.name] = json.loads(kept.read_text())
                continue
            self.wait(self.workers - 1)
            say(f"{room.name}: running its tests once")
            sources = {self.plan.module(path): path for path in room.files}
            work = lambda room=room, sources=sources: trials.survey(  # noqa: E731
                self.plan.root, sources, list(room.tests)
            )
            self.start(None, room, work, limit=3600.0)
        self.wait(0)
        for room in rooms:
            red = [name for name, held in self.surveys[room.name]["tests"].items() if held.get("failed")]
            if red:  # a test that fails anyway notices nothing
                say(
                    f"{room.name}: {len(red)} tests fail on the code as it is and are left out, such as {red[0]}"
                )

    def start(self, mutant: Mutant | None, room: plans.Room, work: Any, limit: float) -> None:
        """Fork a child for the work."""
        child, pipe = trials.fork(work, self.folder / f"log-{len(self.children)}.txt", int(limit))
        self.children[child] = Running(mutant, room, pipe, time.monotonic(), PATIENCE * limit)

    def wait(self, most: int) -> None:
        """Listen until at most so many children are left."""
        while len(self.children) > most:
            pipes = {held.pipe: child for child, held in self.children.items()}
            ready, _, _ = select.select(list(pipes), [], [], 1.0)
            for pipe in ready:
                held = self.children[pipes[pipe]]
                piece = os.read(pipe, 1 << 16)
                held.heard += piece
                if not piece:
                    self.finish(pipes[pipe])
            for child, held in list(self.children.items()):
                if time.monotonic() - held.begun > held.limit:
                    os.killpg(child, signal.SIGKILL)
                    self.finish(child)

    def stop(self) -> None:
        """Leave no child behind."""
        for child in self.children:
            os.killpg(child, signal.SIGKILL)

    def finish(self, child: int) -> None:
        """Take a child's answer; one that died without any was noticed too."""
        held = self.children.pop(child)
        os.close(held.pipe)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = json.loads(held.heard) if held.heard else None
        if held.mutant is None:
            if answer is None or "tests" not in answer:
                raise SystemExit(f"{held.room.name}: its tests cannot be run; see {self.folder}/log-*.txt")
            self.surveys[held.room.name] = answer
            kept = self.folder / f"survey-{held.room.name}-{self.plan.digest(held.room)}.json"
            kept.write_text(json.dumps(answer))
        else:
            seconds = round(time.monotonic() - held.begun, 2)
            late = ended in (-signal.SIGXCPU, -signal.SIGKILL)
            lost = {"killed": True, "by": "it took too long" if late else "the process died"}
            self.record(held.room, held.mutant, answer or lost, seconds)

    def record(self, room: plans.Room, mutant: Mutant, answer: dict[str, Any], seconds: float) -> None:
        """Write a result down at once."""
        digest = self.plan.digest(room)
        held = {"room": room.name, "mutant": mutant.name, "line": mutant.line, "digest": digest, **answer}
        held["seconds"] = seconds
        self.results[digest, mutant.name] = held
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(held) + "\n")

    def run(self, queue: list[tuple[plans.Room, Mutant]], until: float) -> int:
        """Try every mutant that has no result yet; returns how many time did not suffice for."""
        for number, (room, mutant) in enumerate(queue):
            if time.monotonic() > until:
                self.wait(0)
                return len(queue) - number
            tests = affordable(trials.runs(self.surveys[room.name], mutant))
            if not tests:
                self.record(room, mutant, {"killed": False, "by": "no test runs it"}, 0.0)
                continue
            self.wait(self.workers - 1)
            path = self.plan.root / mutant.path
            work = lambda room=room, mutant=mutant, path=path, tests=tests: trials.trial(  # noqa: E731
                self.plan.root, self.plan.module(path), path, mutant, [name for name, _ in tests]
            )
            self.start(mutant, room, work, LEAST + SLACK * sum(seconds for _, seconds in tests))
            if number % 20 == 0:
                say(f"{number} of {len(queue)}")
        self.wait(0)
        return 0


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
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, default=Path(__file__).with_name("mutants.toml"))
    parser.add_argument("--room", action="append", help="only this room; may be repeated")
    parser.add_argument("--minutes", type=float, help="instead of the plan's")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--fresh", action="store_true", help="forget what was found before")
    given = parser.parse_args(words)
    plan = plans.read(given.plan)
    until = time.monotonic() + (plan.seconds if given.minutes is None else 60 * given.minutes)
    rooms = [room for room in plan.rooms if not given.room or room.name in given.room]
    samples = {room.name: plan.chosen(room) for room in rooms}
    if given.list:
        print("\n".join(one.name for room in rooms for one in samples[room.name][0]))
        return 0
    folder = plan.root / ".mutants"
    if given.fresh and folder.exists():
        for file in folder.iterdir():
            file.unlink()
    trials.load_heavy()
    runner = Runner(plan, folder, given.workers)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; run it again to go on"))
    try:
        runner.survey(rooms)
        pending = [
            (room, one)
            for room in rooms
            for one in samples[room.name][0]
            if (plan.digest(room), one.name) not in runner.results
        ]
        pending.sort(
            key=lambda pair: pair[1].rank(plan.seed)
        )  # if time runs out, every room has had its share
        left = runner.run(pending, until)
    finally:
        runner.stop()
    return report(plan, rooms, samples, runner.results, left)


if __name__ == "__main__":
    sys.exit(main())
