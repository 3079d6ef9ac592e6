"""What one pass does to a part: check its rows once, apply every step to every block, and keep a digest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError
from shiftgauge.rows.blocks import Array, Block, Calibrates, Floats, Indices
from shiftgauge.rows.parts import Part
from shiftgauge.rows.threads import check_stopped

#: The largest row weight; sums of squares of weights below it stay finite.
LARGEST_WEIGHT = 1e100


class Totals(tuple[Any, ...]):
    """Several results that add up entry by entry.

    >>> Totals((1, 2.5)) + Totals((2, 0.5))
    (3, 3.0)
    """

    def __add__(self, other: Any) -> Totals:
        return Totals(a + b for a, b in zip(self, other, strict=True))


@dataclass(frozen=True)
class RowBuffer:
    """Rows that a step returns: arrays of equal length, joined end to end when buffers are added."""

    pieces: tuple[tuple[Array, ...], ...]

    @classmethod
    def of(cls, *columns: Array) -> RowBuffer:
        """A buffer of the rows of one block."""
        return cls((columns,))

    def __add__(self, other: RowBuffer) -> RowBuffer:
        return RowBuffer(self.pieces + other.pieces)

    def joined(self) -> tuple[Array, ...]:
        """Return each column as one array."""
        return tuple(np.concatenate(column) for column in zip(*self.pieces, strict=True))


@dataclass(frozen=True)
class RowSummary:
    """What the first pass finds out about the rows; summaries of several blocks add up.

    Attributes:
        rows: how many.
        correction: the largest |row sum - 1| (0 for logits).
        decimals: to how many the probabilities are rounded, if that alone explains the correction.
        zeros: whether a probability is exactly zero.
        changed_decisions: in how many rows the deployed decision is not the largest score.
        like_probabilities: whether every row of logits looks like probabilities.
        mass, square: the sum of the weights, and of their squares.
    """

    rows: int
    correction: float = 0.0
    decimals: int | None = None
    zeros: bool = False
    changed_decisions: int = 0
    like_probabilities: bool = False
    mass: float = 0.0
    square: float = 0.0

    def __add__(self, other: RowSummary) -> RowSummary:
        decimals = [d for d in (self.decimals, other.decimals) if d is not None]
        return RowSummary(
            self.rows + other.rows,
            max(self.correction, other.correction),
            max(decimals, default=None),
            self.zeros or other.zeros,
            self.changed_decisions + other.changed_decisions,
            self.like_probabilities and other.like_probabilities,
            self.mass + other.mass,
            self.square + other.square,
        )


class PartDigests(dict[int, int]):
    """Digests of parts, by the number of their first row."""

    def __add__(self, other: PartDigests) -> PartDigests:
        self.update(other)
        return self


@dataclass(frozen=True)
class PassTask:
    """What a pass does to one part; it may be sent to another process.

    Attributes:
        steps: functions of a block, with their further arguments; their results add up.
        kind, tolerance, insist: what the scores are, and how strictly they are checked.
        calibration: through which the steps see the rows, or None.
        order: (K,) the columns in the order of the source's classes, or None.
        columns: further columns to read.
        who: `"target"` or `"source"`, for messages.
        check: whether rows are checked and summarised; once is enough.
    """

    steps: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]
    kind: str
    tolerance: float | None = None
    insist: bool = False
    calibration: Calibrates | None = None
    order: Indices | None = None
    columns: tuple[str, ...] = ()
    who: str = "target"
    check: bool = False

    def __call__(self, part: Part, start: int) -> Totals:
        """The digest of the part, its summary if rows are checked, and the sum of every step."""
        total: Totals | None = None
        digest = 0
        for raw, block in read_part(part, start, self.order, self.calibration, self.kind, self.columns):
            summary = (
                summarise(block, self.kind, self.tolerance, self.insist, self.who)
                if self.check
                else RowSummary(len(block))
            )
            here = Totals((summary, *(step(block, *args) for step, args in self.steps)))
            total = here if total is None else total + here
            digest ^= _digest(raw, block.start - start)
        assert total is not None  # parts without rows are left out
        return Totals((PartDigests({start: digest}), *total))


def read_part(
    part: Part,
    start: int,
    order: Indices | None,
    calibration: Calibrates | None,
    kind: str,
    columns: Sequence[str] = (),
) -> Iterator[tuple[Block, Block]]:
    """Yield every block of a part as it was stored, and calibrated with its classes in order.

    A part that gives more or fewer rows than it announced is refused.
    """
    seen = 0
    for raw in part.read(columns):
        check_stopped()
        if seen + len(raw) > part.rows:
            seen += len(raw)
            break
        if len(raw):
            ordered = raw if order is None else raw.in_class_order(order)
            yield raw, ordered.calibrated(calibration, kind, start + seen)
            seen += len(raw)
    if seen != part.rows:
        raise FileError(
            f"{part.name}: other than {part.rows:,} rows were read, which it had before; "
            "did it change? start again when it is whole"
        )


def _digest(block: Block, seen: int) -> int:
    """A cheap digest of the block's scores: the sum of their bits, and the place of the block."""
    flat = np.ascontiguousarray(block.scores).reshape(-1).view(np.uint8)
    whole = len(flat) // 8 * 8
    with np.errstate(over="ignore"):
        bits = int(flat[:whole].view(np.uint64).sum(dtype=np.uint64)) + int(flat[whole:].sum(dtype=np.uint64))
    return hash((bits & 0xFFFFFFFFFFFFFFFF, seen))


def summarise(
    block: Block, kind: str, tolerance: float | None, insist: bool, who: str = "target"
) -> RowSummary:
    """Check the rows of a block and summarise them; messages name the file and the row in it."""
    with row_location(block.where, block.first):
        checked = validation.check_scores(block.scores, kind, who, tolerance, insist=True)
        weights = None if block.weights is None else _check_weights(block.weights, who)
    changed = 0
    if block.decisions is not None:
        changed = round(validation.decided_share(block.scores, block.decisions) * len(block))
    n = float(len(block))
    return RowSummary(
        rows=len(block),
        correction=checked.correction,
        decimals=checked.decimals,
        zeros=kind == "probs" and float(block.scores.min()) == 0.0,
        changed_decisions=changed,
        like_probabilities=kind == "logits" and not insist and validation.like_probabilities(block.scores),
        mass=n if weights is None else float(weights.sum()),
        square=n if weights is None else float(weights @ weights),
    )


def _check_weights(values: Floats, who: str) -> Floats:
    bad = ~((values >= 0.0) & (values <= LARGEST_WEIGHT))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{who} weights: row {row} is {values[row]:g}; wanted weights from 0 to {LARGEST_WEIGHT:g}"
        )
    return values


@contextmanager
def row_location(where: str, first: int) -> Iterator[None]:
    """Name the file, and the row's number in it, in errors about rows that begin at its row `first`."""
    try:
        yield
    except InputError as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(f"{where}: {renumbered(str(problem), lambda row: row + first)}") from None


def renumbered(text: str, number: Callable[[int], int]) -> str:
    """A message about a row, with the number that the row has elsewhere."""
    return re.sub(r"\brow (\d+)", lambda match: f"row {number(int(match[1]))}", text, count=1)


def weighted_sum(weights: Floats, values: npt.NDArray[Any]) -> Any:
    """sum_i w_i v_i of (b,) or (b, m) values, always in the same order.

    A product by BLAS may be split among threads, and would then depend on how many there are.
    """
    return np.einsum("i,i...->...", weights, values)
