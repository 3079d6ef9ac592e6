"""The score, room by room, and the mutants that nobody noticed."""

from __future__ import annotations

from typing import Any

from mutation.mutants import Mutant
from mutation.plan import Plan, Room


def report(
    plan: Plan,
    rooms: list[Room],
    samples: dict[str, tuple[list[Mutant], int]],
    results: dict[str, dict[str, Any]],
) -> int:
    """Print the table and the survivors; the exit code says whether the goal is reached."""
    print(f"{'room':<16}{'mutants':>8}{'tried':>7}{'killed':>8}{'survived':>9}{'accepted':>9}{'score':>8}")
    scores: dict[str, list[int]] = {}
    totals, survivors, left = [0, 0, 0, 0, 0], [], 0
    for room in rooms:
        chosen, of = samples[room.name]
        held = [results[one.name] for one in chosen if plan.holds(room, one, results.get(one.name))]
        left += len(chosen) - len(held)
        alive = [one for one in held if not one["killed"]]
        accepted = [one for one in alive if one["mutant"] in plan.accepted]
        survivors += [one for one in alive if one["mutant"] not in plan.accepted]
        row = [of, len(held), len(held) - len(alive), len(alive) - len(accepted), len(accepted)]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        scores[room.name] = row
        print(_line(room.name, row))
    print(_line("all", totals))
    if survivors:
        print("\nsurvived:")
    for one in sorted(survivors, key=lambda one: one["mutant"]):
        note = f"  ({one['by']})" if one["by"] else ""
        print(f"  line {one['line']:<4} {one['mutant']}{note}")
    known = {one.name for room in rooms for one in samples[room.name][0]}
    for name in plan.accepted:
        if name not in known and any(
            name.startswith(f"{p.relative_to(plan.root)}:") for r in rooms for p in r.files
        ):
            print(f"accepted, but not in the sample any more: {name}")
    if left:
        print(f"\ntime was up: {left} mutants were not tried; run it again to go on")
    low = [name for name, row in scores.items() if _score(row) < plan.goal]
    said = f"not reached by {', '.join(low)}" if low else "reached by every room"
    print(f"\nscore {100 * _score(totals):.1f}%, goal {100 * plan.goal:.0f}% {said}")
    return 1 if low else 0


def _score(row: list[int]) -> float:
    _, _, killed, survived, _ = row
    return killed / (killed + survived) if killed + survived else 1.0


def _line(name: str, row: list[int]) -> str:
    of, tried, killed, survived, accepted = row
    return f"{name:<16}{of:>8}{tried:>7}{killed:>8}{survived:>9}{accepted:>9}{100 * _score(row):>7.1f}%"
