"""All rows of a problem, or a sample of them, read in chunks by several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge._threads import cores
from shiftgauge.transport._units import Units, row_unit
from shiftgauge.transport.problem import Problem

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Entries of the matrix per kernel call: a few milliseconds, so that an interrupt is heard soon.
CHUNK = 1 << 20


class Crew:
    """The threads of one solve. Kernels release the interpreter lock, so plain threads share the cores."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads or cores()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def map(self, task: Callable[[int, int], Any], spans: list[tuple[int, int]]) -> Iterator[Any]:
        """Yield task(lo, hi) for every span, in order, whoever works on it."""
        if self.threads == 1 or len(spans) == 1:
            return (task(lo, hi) for lo, hi in spans)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads)
        return self._pool.map(lambda span: task(*span), spans)


def spans(length: int, step: int) -> list[tuple[int, int]]:
    """Cut 0..length into pieces of at most `step`.

    >>> spans(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(lo, min(lo + step, length)) for lo in range(0, length, step)]


@dataclass(frozen=True)
class Rows:
    """A sample of one row out of every `step`; the whole problem when step is 1.

    Attributes:
        P: (n, K) the scores as kernels read them: float16 as its bits.
        weights: (n,) row masses, empty if all are equal.
        unit: units per weight.
        class_mass: (K,) q.
        crew: the threads that read them.
        step: one row out of so many.
        python: the exact solver's kernels as Python runs them, where it does (see `_prepare`).
    """

    P: npt.NDArray[Any]
    weights: Floats
    unit: float
    class_mass: Floats
    crew: Crew
    step: int = 1
    python: Any = None

    @property
    def kernels(self) -> Any:
        """The exact solver's kernels: compiled, or as Python runs them."""
        from shiftgauge.transport import _kernels

        return self.python or _kernels

    @property
    def items(self) -> int:
        """How many rows the sample has."""
        return len(self.P) // self.step

    def sample(self, step: int) -> Rows:
        """One row out of every `step` of all rows."""
        return replace(self, step=step)

    def best_classes(self, u: Units, assigned: Indices, margin: npt.NDArray[np.float32]) -> Units:
        """Assign every row to its best class at prices u; return the units that each class receives."""
        kernels = self.kernels

        def task(lo: int, hi: int) -> Units:
            held = np.zeros(len(u), np.int64)
            kernels.best_classes(
                self.P, self.step, lo, hi, self.weights, self.unit, u, self.class_mass, assigned, margin, held
            )
            return held

        held = np.zeros(len(u), np.int64)
        for part in self.crew.map(task, spans(self.items, max(1, CHUNK // len(u)))):
            held += part
        return held

    def rows(self, items: Indices) -> npt.NDArray[np.int64]:
        """The rows that items of the sample mean."""
        return rows_of(items, self.step)

    def units(self, rows: npt.NDArray[np.int64]) -> Units:
        """The units that rows have."""
        if self.weights.size == 0:
            return np.full(len(rows), int(self.unit), np.int64)
        return np.rint(self.weights[rows] * self.unit).astype(np.int64)


def rows_of(items: Indices, step: int) -> npt.NDArray[np.int64]:
    """The rows that items of a sample mean, as `row_of` of the kernels says it.

    >>> rows_of(np.arange(3), 10)
    array([ 4, 11, 26])
    """
    if step == 1:
        return items.astype(np.int64, copy=False)
    place = ((items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    return np.asarray(items * step + (place % np.uint64(step)).astype(np.int64), np.int64)


def all_rows(problem: Problem, crew: Crew) -> Rows:
    """The whole problem as kernels read it."""
    probs = problem.probs
    P = probs.view(np.uint16) if probs.dtype == np.float16 else probs
    weights = np.empty(0) if problem.row_mass is None else problem.row_mass
    weights.flags.writeable = False  # a type of its own to the compiler: masses given are frozen too
    unit = row_unit(float(problem.n) if problem.row_mass is None else 1.0)
    return Rows(P, weights, unit, problem.class_mass, crew)
