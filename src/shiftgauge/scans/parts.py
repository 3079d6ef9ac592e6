"""Parts of a scan, chunks of a part, and who carries work to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shiftgauge._threads import in_turn
from shiftgauge.samples import Target

#: A column to ask for: the labels, as class numbers.
LABELS = "\0labels"
#: Entries of a chunk, about: enough for a thread to work on for milliseconds.
ENTRIES = 1 << 19


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of a part, as they were stored.

    Attributes:
        scores: (b, K) logits or probabilities, floating, C order.
        where, first: the file that they stand in, and the number of the first of them there.
        predictions: (b,) the deployed decisions as class numbers; None where the largest score decides.
        weights: (b,) row weights, or None.
        second: (b,) a second model's predictions, or None.
        ids: (b,) what rows are known by, or None.
        labels: (b,) where they were asked for (`LABELS`): class numbers, K more where a label is a column's number
            beside class names, and -1 where there is none.
        columns: (b,) other columns that were asked for, by name.
        known: what the steps of one pass share, by key.
    """

    scores: npt.NDArray[Any]
    where: str = "target"
    first: int = 0
    predictions: npt.NDArray[np.intp] | None = None
    weights: npt.NDArray[np.float64] | None = None
    second: npt.NDArray[np.intp] | None = None
    ids: npt.NDArray[Any] | None = None
    labels: npt.NDArray[np.intp] | None = None
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.scores)

    def in_order(self, order: npt.NDArray[np.intp]) -> Chunk:
        """The same rows with their classes in another order."""
        place = np.argsort(order)
        return replace(
            self,
            scores=np.ascontiguousarray(self.scores[:, order]),
            predictions=None if self.predictions is None else place[self.predictions],
            second=None if self.second is None else place[self.second],
            known={},
        )


class Part(Protocol):
    """Some of the rows, wherever they are; it travels to whoever reads it."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows from the first to the last; `columns` are other columns to bring along."""
        ...


Task = Callable[[Part, int], Any]


class Engine(Protocol):
    """Who carries a task to the parts."""

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of `task(part, start)` over all parts, in their order, whoever worked on them.

        `done` is told how many rows of each part have been read, as its result arrives.
        """
        ...


class Threads:
    """Threads of this process. Only as many results are waited for as there are threads, so that memory is flat."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of the task's results in the order of the parts."""
        results = in_turn(lambda pair: task(*pair), list(zip(parts, starts, strict=True)), self.threads)
        return summed(results, parts, done)


def summed(results: Iterator[Any], parts: Sequence[Part], done: Callable[[int], None]) -> Any:
    """The sum of the results, which come in the order of the parts."""
    total: Any = None
    for part, result in zip(parts, results, strict=True):
        total = result if total is None else total + result
        done(part.rows)
    return total


@dataclass(frozen=True)
class Held:
    """Some rows of a target that is in memory, as a part.

    Attributes:
        target: all rows.
        start, rows: where these begin, and how many they are.
        name: for messages.
    """

    target: Target
    start: int
    rows: int
    name: str = "target"

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """One chunk that shares the target's arrays."""
        at, held = slice(self.start, self.start + self.rows), self.target
        yield Chunk(
            held.scores[at],
            self.name,
            self.start,
            held.predictions[at],
            None if held.weights is None else held.weights[at],
            None if held.second is None else held.second[at],
            None if held.ids is None else held.ids[at],
        )
