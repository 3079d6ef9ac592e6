"""Batches in order, decoded by worker processes ahead of the network.

The rows of a step are a pure function of (seed, step). So the number of workers changes nothing but the speed, and a
resumed run reads the same batches as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import InputError, ShiftgaugeError
from shiftgauge.experiments.examples import Draws, Examples, Indices

PREFETCH = 4
"""Batches that each worker reads ahead."""


@dataclass(frozen=True)
class ShuffledBatches:
    """The rows of each training step: a new order every epoch, full batches only.

    Process ``rank`` of ``ranks`` takes every ``ranks``-th row of a batch; together they take all rows.
    """

    n: int
    batch: int
    seed: int
    augment: bool = True
    rank: int = 0
    ranks: int = 1

    @property
    def steps(self) -> int:
        """Steps an epoch."""
        return self.n // self.batch or 1

    def at(self, step: int) -> tuple[Indices, Draws | None]:
        """Indices of a step and their random numbers (None without augmentation)."""
        epoch, within = divmod(step, self.steps)
        rows = _order(self.seed, epoch, self.n)[within * self.batch : (within + 1) * self.batch]
        mine = slice(self.rank, None, self.ranks)
        if not self.augment:
            return rows[mine], None
        rng = np.random.default_rng([self.seed, epoch, within])
        draws = rng.integers(0, 2**63, len(rows), np.uint64)
        return rows[mine], draws[mine]


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(n)


@dataclass(frozen=True)
class SequentialBatches:
    """Every row once, in order, for scoring."""

    n: int
    batch: int

    @property
    def steps(self) -> int:
        """Number of batches."""
        return -(-self.n // self.batch)

    def at(self, step: int) -> tuple[Indices, None]:
        """Indices of a batch."""
        return np.arange(step * self.batch, min(self.n, (step + 1) * self.batch)), None


@dataclass(frozen=True)
class _StepDataset:
    """A torch data set whose items are the inputs and labels of one step."""

    examples: Examples
    plan: ShuffledBatches | SequentialBatches

    @cached_property
    def labels(self) -> Indices:
        """Class numbers as int64."""
        return np.asarray(self.examples.labels, np.int64)

    def __getitem__(self, step: int) -> tuple[Any, NDArray[np.int64]]:
        """Inputs (an array or a list of texts; an error where they cannot be read) and labels of one step."""
        rows, draws = self.plan.at(step)
        try:
            return self.examples.batch(rows, draws), self.labels[rows]
        except ShiftgaugeError as error:
            # Returned, since an exception of a worker process would arrive as a traceback.
            return error, self.labels[rows]


def batches(
    examples: Examples,
    plan: ShuffledBatches | SequentialBatches,
    start: int,
    stop: int,
    workers: int = 0,
    pin: bool = False,
) -> Iterator[tuple[int, Any, Any]]:
    """(step, inputs, labels) from ``start`` to ``stop``, decoded in ``workers`` processes (0: in this one).

    Inputs are a tensor of bytes (b, H, W, 3) or a list of texts. The order never depends on ``workers``.
    """
    from torch import Generator
    from torch.utils.data import DataLoader

    if workers < 0:
        raise InputError(f"workers is {workers}; it must be 0 (this process) or more")
    loader = DataLoader(
        _StepDataset(examples, plan),
        batch_size=None,
        sampler=range(start, stop),
        num_workers=workers,
        prefetch_factor=PREFETCH if workers else None,
        pin_memory=pin,
        # Otherwise the loader would draw from torch's global generator.
        generator=Generator(),
    )
    for step, (inputs, labels) in zip(range(start, stop), loader, strict=True):
        if isinstance(inputs, ShiftgaugeError):
            raise inputs
        yield step, inputs, labels
