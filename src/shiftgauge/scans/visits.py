"""What is done to one part in a pass: steps, the first look at its rows, and a digest of what was seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge._threads import check_stopped
from shiftgauge.errors import FileError, InputError
from shiftgauge.scans.parts import Chunk, Part

#: No row weighs more; sums of squares of what is below it stay finite.
HEAVIEST = 1e100


@dataclass(frozen=True)
class Opening:
    """What the first look at the rows finds; looks at several chunks add up.

    Attributes:
        rows: how many.
        correction: the largest |row sum - 1| (0 for logits).
        decimals: to how many the probabilities are rounded, where that alone explains the correction.
        zeros: whether a probability is exactly zero.
        decided: in how many rows the deployed decision is not the largest score.
        alike: whether every row looks like probabilities.
        mass, square: the sum of the weights, and of their squares.
    """

    rows: int
    correction: float = 0.0
    decimals: int | None = None
    zeros: bool = False
    decided: int = 0
    alike: bool = False
    mass: float = 0.0
    square: float = 0.0

    def __add__(self, other: Opening) -> Opening:
        rounded = [d for d in (self.decimals, other.decimals) if d is not None]
        return Opening(
            self.rows + other.rows,
            max(self.correction, other.correction),
            max(rounded, default=None),
            self.zeros or other.zeros,
            self.decided + other.decided,
            self.alike and other.alike,
            self.mass + other.mass,
            self.square + other.square,
        )


class Total(tuple[Any, ...]):
    """Several results, which add up one by one.

    >>> Total((1, 2.5)) + Total((2, 0.5))
    (3, 3.0)
    """

    def __add__(self, other: Any) -> Total:
        return Total(a + b for a, b in zip(self, other, strict=True))


@dataclass(frozen=True)
class Visit:
    """What is done to one part in a pass: every step to every chunk, and a digest of what was seen.

    Attributes:
        steps: functions of a chunk and the number of its first row; what they return adds up.
        kind, tolerance, insist: what the scores are, and how strictly they are looked at.
        order: (K,) the columns in the order of the source's classes, or None.
        columns: other columns to read.
        who: whose rows they are, for messages: the target's or the source's.
        opening: whether rows are checked; once is enough.
    """

    steps: tuple[Callable[[Chunk, int], Any], ...]
    kind: str
    tolerance: float | None = None
    insist: bool = False
    order: npt.NDArray[np.intp] | None = None
    columns: tuple[str, ...] = ()
    who: str = "target"
    opening: bool = False

    def __call__(self, part: Part, start: int) -> Total:
        """The sums of this part, the first look if it was asked for, and its digest."""
        total: Total | None = None
        digest = 0
        for raw, chunk, seen in whole_part(part, self.order, self.columns):
            look = Opening(len(chunk))
            if self.opening:
                look = opened(chunk, self.kind, self.tolerance, self.insist, self.who)
            here = Total((look, *(step(chunk, start + seen) for step in self.steps)))
            total = here if total is None else total + here
            digest ^= _digest(raw, seen)
        assert total is not None  # a part without rows is no part of a scan
        return Total((Digests({start: digest}), *total))


def whole_part(
    part: Part, order: npt.NDArray[np.intp] | None, columns: Sequence[str] = ()
) -> Iterator[tuple[Chunk, Chunk, int]]:
    """Every chunk of a part: as it was stored, with its classes in order, and how many rows came before it.

    A part that gives more or fewer rows than it has is refused, so that nothing is made of some of its rows.
    """
    seen = 0
    for raw in part.read(columns):
        check_stopped()
        if seen + len(raw) > part.rows:
            seen += len(raw)
            break
        if len(raw):
            yield raw, raw if order is None else raw.in_order(order), seen
            seen += len(raw)
    if seen != part.rows:
        raise FileError(
            f"{part.name}: other than {part.rows:,} rows were read, which it had before; "
            "did it change? start again when it is whole"
        )


class Digests(dict[int, int]):
    """Digests of parts, by the number of their first row."""

    def __add__(self, other: Digests) -> Digests:
        self.update(other)
        return self


def _digest(chunk: Chunk, seen: int) -> int:
    """A cheap digest of the chunk's scores: the sum of their bits, and where it stands."""
    flat = np.ascontiguousarray(chunk.scores).reshape(-1).view(np.uint8)
    whole = len(flat) // 8 * 8
    with np.errstate(over="ignore"):
        bits = int(flat[:whole].view(np.uint64).sum(dtype=np.uint64)) + int(flat[whole:].sum(dtype=np.uint64))
    return hash((bits & 0xFFFFFFFFFFFFFFFF, seen))


def opened(chunk: Chunk, kind: str, tolerance: float | None, insist: bool, who: str = "target") -> Opening:
    """Check the rows of a chunk; what is wrong is said with their file and number in it."""
    with rows_of(chunk.where, chunk.first):
        checked = validation.check_scores(chunk.scores, kind, who, tolerance, insist=True)
        weights = None if chunk.weights is None else _weights(chunk.weights, who)
    decided = 0
    if chunk.predictions is not None:
        decided = round(validation.decided_share(chunk.scores, chunk.predictions) * len(chunk))
    n = float(len(chunk))
    return Opening(
        rows=len(chunk),
        correction=checked.correction,
        decimals=checked.decimals,
        zeros=kind == "probs" and float(chunk.scores.min()) == 0.0,
        decided=decided,
        alike=kind == "logits" and not insist and validation.like_probabilities(chunk.scores),
        mass=n if weights is None else float(weights.sum()),
        square=n if weights is None else float(weights @ weights),
    )


def _weights(values: npt.NDArray[np.float64], who: str) -> npt.NDArray[np.float64]:
    bad = ~((values >= 0.0) & (values <= HEAVIEST))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{who} weights: row {row} is {values[row]:g}; wanted weights from 0 to {HEAVIEST:g}"
        )
    return values


class rows_of:  # noqa: N801 (reads as a word in `with rows_of(where, first)`)
    """Say of a file, and of the row in it, what is said of rows that begin at its row `first`."""

    def __init__(self, where: str, first: int) -> None:
        self.where, self.first = where, first

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        if isinstance(problem, InputError) and not isinstance(problem, FileError):
            raise FileError(f"{self.where}: {renumbered(str(problem), self._number)}") from None

    def _number(self, row: int) -> int:
        return row + self.first


def renumbered(text: str, number: Callable[[int], int]) -> str:
    """A message about a row, with the number that the row has elsewhere."""
    return re.sub(r"\brow (\d+)", lambda found: f"row {number(int(found[1]))}", text, count=1)
