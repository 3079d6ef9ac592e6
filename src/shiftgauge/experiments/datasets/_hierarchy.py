"""The class hierarchy behind BREEDS, and its splits of superclasses into two subpopulations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError, InputError

FILES = ("class_hierarchy.txt", "dataset_class_info.json")
ROOT = "n00001740"
SPLITS = ("good", "rand")
ORIGIN = "https://github.com/MadryLab/BREEDS-Benchmarks, folder imagenet_class_hierarchy/modified"


@dataclass(frozen=True)
class BreedsSplit:
    """Superclasses (WordNet numbers, sorted) and the ImageNet class numbers of each one's two halves."""

    superclasses: list[str]
    source: list[list[int]]
    target: list[list[int]]


@dataclass(frozen=True)
class Hierarchy:
    """A directed graph whose leaves are ImageNet classes; nodes that lead to no class are cut away."""

    children: dict[str, list[str]]
    numbers: dict[str, int]

    @cached_property
    def levels(self) -> dict[str, int]:
        """Node -> length of the longest path from the root."""
        depth: dict[str, int] = {}
        front = [(ROOT, 0)]
        while front:
            node, level = front.pop()
            if level > depth.get(node, -1):
                depth[node] = level
                front += [(child, level + 1) for child in self.children.get(node, [])]
        return depth

    def below(self, node: str) -> set[str]:
        """The node and all its descendants."""
        nodes, front = {node}, [node]
        while front:
            new = set(self.children.get(front.pop(), [])) - nodes
            nodes |= new
            front += new
        return nodes

    def leaves(self, node: str) -> list[str]:
        """The ImageNet classes at or below a node, sorted; what is below a class is ignored."""
        found, front = set(), [node]
        while front:
            here = front.pop()
            if here in self.numbers:
                found.add(here)
            if here not in self.numbers or here == node:
                front += self.children.get(here, [])
        return sorted(found)

    def split(
        self, level: int, subclasses: int, ancestor: str | None = None, how: str = "good", seed: int = 2
    ) -> BreedsSplit:
        """Superclasses at a level, each with two disjoint halves of ``subclasses`` classes.

        ``good`` spreads similar classes over both halves, as the paper's authors do; ``rand`` draws them at
        random from one legacy generator over the sorted superclasses. Both follow the reference
        implementation class by class.
        """
        if how not in SPLITS:
            raise InputError(f"no BREEDS split is called {how!r}; known: {', '.join(SPLITS)}")
        allowed = self.below(ancestor) if ancestor else None
        nodes = sorted(
            n for n, depth in self.levels.items() if depth == level and (not allowed or n in allowed)
        )
        superclasses = [node for node in nodes if len(self.leaves(node)) >= subclasses]
        rng, half = np.random.RandomState(seed), subclasses // 2
        source, target = [], []
        for node in superclasses:
            old, new = self._spread(node, half) if how == "good" else self._drawn(node, half, rng)
            source.append([self.numbers[leaf] for leaf in old])
            target.append([self.numbers[leaf] for leaf in new])
        return BreedsSplit(superclasses, source, target)

    def _spread(self, node: str, half: int) -> tuple[list[str], list[str]]:
        # The children with most classes first; each gives half its classes to either side while there is room.
        groups = sorted((self.leaves(child) for child in self._children(node)), key=lambda group: -len(group))
        old: list[str] = []
        new: list[str] = []
        for group in groups:
            room = half - len(old), half - len(new)
            cut = min(len(group) // 2, room[0]) if len(group) > 1 else int(room[0] > 0)
            old += group[:cut]
            new += group[cut : cut + room[1]]
        return old, new

    def _drawn(self, node: str, half: int, rng: np.random.RandomState) -> tuple[list[str], list[str]]:
        # A class below two children counts twice, as in the reference.
        pool = sorted(leaf for child in self._children(node) for leaf in self.leaves(child))
        drawn = [str(leaf) for leaf in rng.choice(pool, 2 * half, replace=False)]
        return drawn[:half], drawn[half:]

    def _children(self, node: str) -> list[str]:
        # Go down while there is one child.
        children = self.children.get(node, [])
        while len(children) == 1:
            children = self.children.get(children[0], [])
        return children


def read_hierarchy(folder: Path) -> Hierarchy:
    """Read the published files."""
    for name in FILES:
        if not (folder / name).exists():
            raise FileError(f"{folder / name} does not exist; get {', '.join(FILES)} from {ORIGIN}")
    try:
        numbers = read_numbers(folder / FILES[1])
        edges = [line.split() for line in (folder / FILES[0]).read_text().splitlines() if line.strip()]
        pairs = [(parent, child) for parent, child in edges]
    except (ValueError, TypeError) as error:
        raise FileError(f"{folder} does not hold the hierarchy files of {ORIGIN} ({error})") from None
    return Hierarchy(_leading_to(pairs, set(numbers)), numbers)


def read_numbers(path: Path) -> dict[str, int]:
    """WordNet number -> ImageNet class number, from ``dataset_class_info.json``."""
    try:
        return {str(wordnet): int(number) for number, wordnet, _ in json.loads(path.read_text())}
    except (ValueError, TypeError) as error:
        raise FileError(f"{path} is not dataset_class_info.json of {ORIGIN} ({error})") from None


def _leading_to(edges: list[tuple[str, str]], leaves: set[str]) -> dict[str, list[str]]:
    parents: dict[str, set[str]] = {}
    for parent, child in edges:
        parents.setdefault(child, set()).add(parent)
    children: dict[str, set[str]] = {}
    front, visited = [leaf for leaf in leaves if leaf in parents], set(leaves)
    while front:
        child = front.pop()
        for parent in parents.get(child, ()):
            children.setdefault(parent, set()).add(child)
            if parent not in visited:
                visited.add(parent)
                front.append(parent)
    return {parent: sorted(group) for parent, group in children.items()}
