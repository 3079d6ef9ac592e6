"""COT and COTT in batches of 10,000 drawn with replacement, as the paper computes them, against the whole target.

The paper takes batches only where a target has more than 10,000 rows; so does this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.protocol import Panel
from shiftgauge.experiments.scores import Recorded
from shiftgauge.experiments.sweep import Sweep, Unit

METHODS = ("cot", "cott")
SIZE = 10_000


@dataclass(frozen=True)
class Batched:
    """One shift: the exact estimate on the whole target and the mean over batches."""

    dataset: str
    network: str
    seed: int
    shift: str
    kind: str
    method: str
    true_error: float
    whole: float
    batched: float


def batch_rows(n: int, rng: np.random.Generator, size: int = SIZE) -> list[NDArray[np.int64]]:
    """ceil(n / size) batches of ``size`` rows, each drawn with replacement; none for a target that fits in one."""
    return [rng.integers(0, n, size) for _ in range(-(-n // size))] if n > size else []


def sweep(size: int = SIZE, marginal: str = "source") -> Sweep[Batched]:
    """Both ways on every shift that has more rows than a batch."""

    def work(panel: Panel, unit: Unit) -> list[Batched]:
        target = unit.target()
        batches = batch_rows(len(target.labels), unit.generator(), size)
        if not batches:
            return []
        whole = panel.estimate(target.logits)
        parts = [panel.estimate(target.logits[rows]) for rows in batches]
        return [
            Batched(
                unit.dataset, unit.network, unit.seed, unit.shift, target.kind, method, target.error,
                whole[method][0], float(np.mean([part[method][0] for part in parts])),
            )
            for method in METHODS
        ]  # fmt: skip

    def prepare(source: Recorded) -> Panel:
        return Panel(source, methods=METHODS, marginal=marginal)

    return Sweep("batches", Batched, prepare, work, {"size": size, "marginal": marginal})
