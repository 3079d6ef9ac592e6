#!/usr/bin/env python3
"""Do the tests notice when the code is broken? Prints the score and who survived: make mutate

    python scripts/mutate.py [--room NAME] [--minutes M] [--workers N] [--list] [--fresh]

What is broken, how often, and what is accepted stands in scripts/mutants.toml. Results are kept in .mutants/ as they
come: a run that was killed goes on where it was. A kill holds while the broken file and the test that noticed stay the
same; a survivor is tried again whenever a file of its room changes. Exit code 1 if a room is below the goal.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation import plan as plans
from mutation import trial as trials
from mutation.runner import Runner
from mutation.table import report


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
        for number, room in enumerate(rooms):  # each has its share of the time that is left
            sizes = [len(runner.pending(one, samples[one.name][0])) for one in rooms[number:]]
            now = time.monotonic()
            runner.room(room, samples[room.name][0], now + (until - now) * sizes[0] / max(1, sum(sizes)))
    finally:
        runner.stop()
    return report(plan, rooms, samples, runner.results)


if __name__ == "__main__":
    sys.exit(main())
