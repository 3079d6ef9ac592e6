"""Which rooms are broken, which tests should notice, how many mutants are tried, and what was accepted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.mutants import Mutant, mutants

try:
    import tomllib
except ImportError:  # Python 3.10; pytest brings it there
    import tomli as tomllib


@dataclass(frozen=True)
class Room:
    """Files that are broken, and tests that should notice."""

    name: str
    files: tuple[Path, ...]
    tests: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class Plan:
    """What scripts/mutants.toml says."""

    root: Path
    rooms: tuple[Room, ...]
    seed: int
    goal: float
    seconds: float
    accepted: dict[str, str]

    def chosen(self, room: Room) -> tuple[list[Mutant], int]:
        """The room's sample, drawn by the seed, and how many mutants there are."""
        found: list[Mutant] = []
        for path in room.files:
            where = path.relative_to(self.root).as_posix()
            found += mutants(where, path.read_text(encoding="utf-8"))
        ranked = sorted(found, key=lambda one: one.rank(self.seed))
        return _by_turns(ranked)[: room.limit], len(found)

    def module(self, path: Path) -> str:
        """The name a source file is imported by."""
        parts = path.relative_to(self.root / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def digest(self, room: Room) -> str:
        """Of everything that a result of the room depends on: its sources and its tests."""
        held = hashlib.sha256()
        names = [self.root / one for one in room.tests]
        texts = [file for one in names for file in ([one] if one.is_file() else sorted(one.rglob("*.py")))]
        for file in (*room.files, *texts, *sorted((self.root / "tests").glob("conftest.py"))):
            held.update(file.read_bytes())
        return held.hexdigest()[:16]


def _by_turns(ranked: list[Mutant]) -> list[Mutant]:
    """Every kind of change in turn, so that the rare ones, such as a lost weight or order, are all tried."""
    turn: dict[str, int] = {}
    keyed = []
    for place, one in enumerate(ranked):
        turn[one.kind] = turn.get(one.kind, -1) + 1
        keyed.append((turn[one.kind], place, one))
    return [one for _, _, one in sorted(keyed, key=lambda triple: triple[:2])]


def read(file: Path) -> Plan:
    """Read the plan; the root is the folder above its own."""
    root = file.resolve().parent.parent
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    accepted = {one["mutant"]: one["reason"] for one in told.get("accepted", [])}
    empty = [name for name, reason in accepted.items() if not reason.strip()]
    if empty:
        raise SystemExit(f"{file.name}: accepted without a reason: {empty[0]}")
    rooms = tuple(_room(root, one, told.get("skip", [])) for one in told["room"])
    return Plan(root, rooms, told["seed"], told["goal"], 60.0 * told["minutes"], accepted)


def _room(root: Path, told: dict[str, Any], skip: list[str]) -> Room:
    files = [
        file
        for name in told["sources"]
        for file in ([root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py")))
        if not any(f"/{one}/" in f"/{file.relative_to(root).as_posix()}/" for one in skip)
    ]
    missing = [name for name in (*told["sources"], *told["tests"]) if not (root / name).exists()]
    if missing:
        raise SystemExit(f"room {told['name']}: {missing[0]} is not there; the rooms stand in mutants.toml")
    return Room(told["name"], tuple(files), tuple(told["tests"]), told["mutants"])
