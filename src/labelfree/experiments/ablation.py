"""COT and COTT in batches of 10,000 drawn with replacement, as the paper computes them, against the whole target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labelfree.experiments._store import Progress
from labelfree.experiments.protocol import Panel
from labelfree.experiments.scores import Scores, seeds_of

METHODS = ("cot", "cott")


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


def batch_rows(n: int, rng: np.random.Generator, size: int = 10_000) -> list[NDArray[np.int64]]:
    """ceil(n / size) batches of min(n, size) rows, each drawn with replacement."""
    return [rng.integers(0, n, min(n, size)) for _ in range(-(-n // size))]


def run_batches(
    runs: Path,
    dataset: str,
    network: str,
    size: int = 10_000,
    kinds: tuple[str, ...] = ("synthetic", "natural", "same", "novel"),
    progress: Progress | None = None,
) -> list[Batched]:
    """Both ways on every shift of every seed."""
    found: list[Batched] = []
    for seed in seeds_of(runs, dataset, network):
        scores = Scores.of(runs, dataset, network, seed)
        panel = Panel(scores.read(), methods=METHODS)
        names = scores.shifts()
        for number, shift in enumerate(names):
            target = scores.read(shift)
            if target.kind not in kinds:
                continue
            whole = panel.estimate(target.logits)
            batches = batch_rows(len(target.labels), np.random.default_rng([seed, number]), size)
            parts = [panel.estimate(target.logits[rows]) for rows in batches]
            found += [
                Batched(
                    dataset, network, seed, shift, target.kind, method, target.error,
                    whole[method][0], float(np.mean([part[method][0] for part in parts])),
                )
                for method in METHODS
            ]  # fmt: skip
            if progress:
                progress(number + 1, len(names), f"seed {seed}, {shift}")
    return found
