"""Which rooms are broken, which tests should notice, how many mutants are tried, and what was accepted."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import cache
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
    warm: str = ""  # module:function, called once before the first trial of a room

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
        return _digest(*room.files, *(file for one in self.test_files(room) for file in self.read_with(one)))

    def test_files(self, room: Room) -> list[Path]:
        """The room's test files."""
        names = [self.root / one for one in room.tests]
        return [
            file for one in names for file in ([one] if one.is_file() else sorted(one.rglob("test_*.py")))
        ]

    def read_with(self, file: Path) -> list[Path]:
        """A test file and what stands beside and above it that is no test."""
        above = [folder for folder in file.parents if folder.is_relative_to(self.root / "tests")]
        return [file, *(one for folder in above for one in sorted(folder.glob("[!t_]*.py")))]

    def survey_keys(self, room: Room) -> dict[str, str]:
        """Every test file of a room with the digest of what a survey of it rests on."""
        return {
            file.relative_to(self.root).as_posix(): _digest(*room.files, *self.read_with(file))
            for file in self.test_files(room)
        }

    def marks(self, room: Room, mutant: Mutant, answer: dict[str, Any]) -> dict[str, str]:
        """What an answer rests on: the room as it is; for a kill also the broken file and the test that noticed."""
        killer = _test(self.root, answer["by"]) if answer["killed"] else ""
        return {"digest": self.digest(room), "source": _digest(self.root / mutant.path), "killer": killer}

    def holds(self, room: Room, mutant: Mutant, held: dict[str, Any] | None) -> bool:
        """Whether an answer of before is one of now; a kill stays one while its file and its killer are the same."""
        if held is None:
            return False
        now = self.marks(room, mutant, held)
        same = bool(now["killer"]) and all(held.get(key) == now[key] for key in ("source", "killer"))
        return same or held["digest"] == now["digest"]


def _digest(*files: Path) -> str:
    held = hashlib.sha256()
    for file in files:
        held.update(_text(file, file.stat().st_mtime_ns).encode())
    return held.hexdigest()[:16]


@cache
def _text(file: Path, _: int) -> str:
    return file.read_text(encoding="utf-8")


def _test(root: Path, name: str) -> str:
    """The digest of one test's own text; nothing if there is no such test."""
    file, _, inside = name.partition("::")
    if not inside or not (root / file).is_file():
        return ""
    found = _tests(root / file, (root / file).stat().st_mtime_ns)
    return found.get(inside.split("[")[0].split("::")[-1], "")


@cache
def _tests(file: Path, time: int) -> dict[str, str]:
    walk = ast.walk(ast.parse(_text(file, time)))
    found = {one.name: ast.dump(one) for one in walk if isinstance(one, ast.FunctionDef)}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in found.items()}


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
    rooms = tuple(_room(root, one, [*told.get("skip", []), *one.get("skip", [])]) for one in told["room"])
    return Plan(
        root, rooms, told["seed"], told["goal"], 60.0 * told["minutes"], accepted, told.get("warm", "")
    )


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
