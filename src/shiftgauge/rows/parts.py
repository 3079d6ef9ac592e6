"""Parts of the rows, and the engines that apply a task to each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shiftgauge.rows.blocks import Block
from shiftgauge.rows.threads import ordered_map

#: The name of the column of labels, as class numbers.
LABELS = "\0labels"
#: About how many scores a block has: a few milliseconds of work for one thread.
BLOCK_ENTRIES = 1 << 19


class Part(Protocol):
    """Some of the rows, wherever they are; it can be sent to another process, which reads it there."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows from the first to the last, with the further columns asked for."""
        ...


Task = Callable[[Part, int], Any]


class Engine(Protocol):
    """Applies a task to all parts: threads of this process, or a cluster (`shiftgauge.engines`).

    Attributes:
        keeps_order: whether rows have the numbers that their owner gives them; partitions of Spark do not.
    """

    keeps_order: bool

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """Return the sum of `task(part, start)` over all parts, in their order, whichever was computed first.

        `done` is called with the number of rows of each part as its result arrives.
        """
        ...


class Threads:
    """Threads of this process, only a few parts ahead, so that memory does not grow with rows.

    Args:
        threads: how many; one per processor if None.
    """

    keeps_order = True

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """Return the sum of the task's results in the order of the parts."""
        results = ordered_map(lambda pair: task(*pair), list(zip(parts, starts, strict=True)), self.threads)
        return sum_in_order(results, parts, done)


def sum_in_order(results: Iterator[Any], parts: Sequence[Part], done: Callable[[int], None]) -> Any:
    """Return the sum of results that arrive in the order of the parts."""
    total: Any = None
    for part, result in zip(parts, results, strict=True):
        total = result if total is None else total + result
        done(part.rows)
    return total


@dataclass(frozen=True)
class ArrayPart:
    """A block in memory."""

    block: Block

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.block.where

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.block)

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield the block itself."""
        yield self.block
