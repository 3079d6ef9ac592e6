"""Batches in order, decoded by worker processes ahead of the network that waits for them.

What a step reads is a pure function of (seed, step), so the number of workers changes the speed and nothing
else, and a resumed run reads what the uninterrupted one would have read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import InputError, ShiftgaugeError
from shiftgauge.experiments.examples import Draws, Examples, Rows, mirrored

PREFETCH = 4
"""Batches that each worker reads ahead."""


@dataclass(frozen=True)
class Plan:
    """Which rows each training step sees: a new order every epoch, whole batches only.

    With ``alternate`` a row that was mirrored in one epoch is not in the next, whatever the rest of its draw.
    ``rank`` of ``ranks`` takes every ``ranks``-th row of a batch: together the processes see the whole one.
    """

    n: int
    batch: int
    seed: int
    augment: bool = True
    alternate: bool = False
    rank: int = 0
    ranks: int = 1

    @property
    def steps(self) -> int:
        """Steps an epoch."""
        return self.n // self.batch or 1

    def at(self, step: int) -> tuple[Rows, Draws | None]:
        """Rows of a step and their random numbers (none without augmentation)."""
        epoch, within = divmod(step, self.steps)
        rows = _order(self.seed, epoch, self.n)[within * self.batch : (within + 1) * self.batch]
        mine = slice(self.rank, None, self.ranks)
        if not self.augment:
            return rows[mine], None
        rng = np.random.default_rng([self.seed, epoch, within])
        draws = rng.integers(0, 2**63, len(rows), np.uint64)
        if self.alternate:
            draws = mirrored(draws, (_sides(self.seed, self.n)[rows] + epoch) % 2 == 1)
        return rows[mine], draws[mine]


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(n)


@lru_cache(maxsize=1)
def _sides(seed: int, n: int) -> NDArray[np.int64]:
    """0 or 1 a row: those that are mirrored in the odd epochs, and in the even ones."""
    # No epoch has this number, so the stream is neither an epoch's order nor a step's draws.
    return np.random.default_rng([seed, 2**32 - 1]).integers(0, 2, n)


@dataclass(frozen=True)
class InOrder:
    """Every row once, as it stands, for scoring."""

    n: int
    batch: int

    @property
    def steps(self) -> int:
        """How many batches that takes."""
        return -(-self.n // self.batch)

    def at(self, step: int) -> tuple[Rows, None]:
        """Rows of a batch."""
        return np.arange(step * self.batch, min(self.n, (step + 1) * self.batch)), None


@dataclass(frozen=True)
class _Feed:
    """What a torch loader asks for: the inputs and labels of one step."""

    examples: Examples
    plan: Plan | InOrder

    @cached_property
    def labels(self) -> Rows:
        """Class numbers as torch wants them."""
        return np.asarray(self.examples.labels, np.int64)

    def __getitem__(self, step: int) -> tuple[Any, NDArray[np.int64]]:
        """Inputs (an array or a list of texts; an error where they cannot be read) and labels of one step."""
        rows, draws = self.plan.at(step)
        try:
            return self.examples.batch(rows, draws), self.labels[rows]
        except ShiftgaugeError as error:
            # Handed on: what a worker process raises arrives as a traceback.
            return error, self.labels[rows]


def batches(
    examples: Examples, plan: Plan | InOrder, start: int, stop: int, workers: int = 0, pin: bool = False
) -> Iterator[tuple[int, Any, Any]]:
    """(step, inputs, labels) from ``start`` to ``stop``, decoded in ``workers`` processes (0: in this one).

    Inputs are a tensor of bytes (b, H, W, 3) or a list of texts. The order never depends on ``workers``.
    """
    from torch import Generator
    from torch.utils.data import DataLoader

    if workers < 0:
        raise InputError(f"workers is {workers}; it must be 0 (this process) or more")
    loader = DataLoader(
        _Feed(examples, plan),
        batch_size=None,
        sampler=range(start, stop),
        num_workers=workers,
        prefetch_factor=PREFETCH if workers else None,
        pin_memory=pin,
        # Otherwise the loader would take a number from torch's global generator.
        generator=Generator(),
    )
    for step, (inputs, labels) in zip(range(start, stop), loader, strict=True):
        if isinstance(inputs, ShiftgaugeError):
            raise inputs
        yield step, inputs, labels
