"""Rows in blocks: the one way in which drivers read data that need not fit into memory.

A driver never sees all rows. It hands a *step* and some *state* to `Blocks.reduce`, which computes
`step(block, *state)` for every block, wherever the block is, and returns the sum in the order of the blocks. State
is K or K x K numbers and small tables; what comes back is as small, or the few rows that an exact search needs.
Steps are functions of modules or frozen dataclasses, so that they can be sent to other processes; what they return
adds up with `+` (`Total`, `Pile`). Since sums are made in the order of the blocks, nothing depends on which worker
was first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge._threads import cores
from shiftgauge.transport._rows import Floats, Indices, spans
from shiftgauge.transport.entropic import TINY

S = TypeVar("S")

#: Entries of a block when an array in memory is cut: enough for a thread to work on for milliseconds.
ENTRIES = 1 << 19


@dataclass(frozen=True)
class Block:
    """Some consecutive rows, calibrated.

    Attributes:
        probs: (b, K) probabilities; float16, float32 or float64 in C order, read in place.
        start: how many rows stand before this block.
        mass: (b,) non-negative row masses on any scale, the same for all blocks; None if all rows weigh the same.
        predictions: (b,) the deployed predictions; None where nobody asks for them.
        logs: gives (b, K) finite log-probabilities up to a constant per row, for where probabilities underflow;
            None means the logarithms of probs.
    """

    probs: npt.NDArray[Any]
    start: int
    mass: Floats | None = None
    predictions: Indices | None = None
    logs: Callable[[], Floats] | None = None

    def __len__(self) -> int:
        return len(self.probs)

    def part(self, lo: int, hi: int) -> Block:
        """The rows lo..hi of this block, as a block that shares them."""
        mass = None if self.mass is None else self.mass[lo:hi]
        predictions = None if self.predictions is None else self.predictions[lo:hi]
        logs = None if self.logs is None else lambda: self.log_probs[lo:hi]
        return Block(self.probs[lo:hi], self.start + lo, mass, predictions, logs)

    @cached_property
    def weights(self) -> Floats:
        """(b,) the masses, ones if none were given."""
        return np.ones(len(self)) if self.mass is None else self.mass

    @cached_property
    def log_probs(self) -> Floats:
        """(b, K) finite log-probabilities, up to a constant per row."""
        return np.log(np.maximum(self.probs, TINY, dtype=np.float64)) if self.logs is None else self.logs()


class Blocks(Protocol):
    """All rows, in blocks whose order is fixed.

    Attributes:
        n: the number of rows of all blocks together.
        k: the number of classes.
        passes: how often all rows were read so far; every `reduce` is one pass.

    Blocks may be empty, and the same rows may be cut in any way: a driver's result does not depend on it.
    """

    n: int
    k: int
    passes: int

    def reduce(self, step: Callable[..., S], *state: Any) -> S:
        """Return the sum of step(block, *state) over all blocks, in their order."""
        ...


@dataclass(frozen=True)
class Pile:
    """Rows that a step brings home: arrays of equal length, laid end to end when piles are added."""

    parts: tuple[tuple[npt.NDArray[Any], ...], ...]

    def __add__(self, other: Pile) -> Pile:
        return Pile(self.parts + other.parts)

    def joined(self) -> tuple[npt.NDArray[Any], ...]:
        """Each array as a whole."""
        return tuple(np.concatenate(column) for column in zip(*self.parts, strict=True))


class Threads:
    """Blocks of this process, read by several threads: in memory, or loaded anew in each pass.

    Args:
        parts: blocks, or functions that return one; at least one.
        n: the number of rows of all of them.
        k: the number of classes.
        threads: all cores if None.

    >>> blocks = cut(np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), [1])
    >>> blocks.reduce(len), blocks.passes
    (3, 1)
    """

    def __init__(
        self, parts: Sequence[Block | Callable[[], Block]], n: int, k: int, threads: int | None = None
    ) -> None:
        self.parts, self.n, self.k, self.threads = parts, n, k, threads or cores()
        self.passes = 0

    def reduce(self, step: Callable[..., S], *state: Any) -> S:
        """Return the sum of step(block, *state) over all blocks, in their order."""
        self.passes += 1

        def run(part: Block | Callable[[], Block]) -> S:
            return step(part if isinstance(part, Block) else part(), *state)

        if self.threads == 1 or len(self.parts) == 1:
            return reduce(operator.add, map(run, self.parts))
        with ThreadPoolExecutor(self.threads) as pool:
            return reduce(operator.add, pool.map(run, self.parts))


def cut(
    probs: npt.NDArray[Any],
    at: Sequence[int] | None = None,
    *,
    mass: Floats | None = None,
    predictions: Indices | None = None,
    logs: Floats | None = None,
    threads: int | None = None,
) -> Threads:
    """An array in memory as blocks that share it.

    Args:
        probs: (n, K).
        at: where to cut, rising; by default into blocks that threads can share.
        mass, predictions: (n,) and (n,) as in `Block`.
        logs: (n, K) finite log-probabilities.
        threads: all cores if None.
    """
    n, k = probs.shape
    ends = spans(n, max(1, ENTRIES // k)) if at is None else list(zip([0, *at], [*at, n], strict=True))

    whole = Block(probs, 0, mass, predictions, None if logs is None else lambda: logs)
    parts = [whole.part(lo, hi) for lo, hi in ends]
    return Threads(parts, n, k, threads)
