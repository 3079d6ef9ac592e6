"""Mild label shift: targets resampled to class shares drawn from a Dirichlet distribution.

The paper's text draws shares from Dirichlet(alpha q) with alpha = 50; its authors' code uses
alpha K q, which for many classes is the only mild one. Both are offered (``scale``), the text is the
default, and the tables show both.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labelfree.experiments._store import Progress
from labelfree.experiments.protocol import Panel, Row, pseudo_label_shift
from labelfree.experiments.scores import Recorded, Scores, seeds_of
from labelfree.labelshift import dirichlet_shares, resample_to

ALPHA = 50.0
SCALES = ("text", "code")


def shifted_rows(
    labels: NDArray[np.int64], classes: int, rng: np.random.Generator, scale: str = "text"
) -> NDArray[np.int64]:
    """Rows of a resampled target: shares from Dirichlet(50 q), then rows without replacement."""
    marginal = np.bincount(labels, minlength=classes) / len(labels)
    shares = dirichlet_shares(marginal, ALPHA, scale=scale, seed=rng)
    return resample_to(labels, shares, seed=rng).astype(np.int64)


def run_mild(
    runs: Path, dataset: str, network: str, scale: str = "text", progress: Progress | None = None
) -> list[Row]:
    """Every method on every shift, each resampled once per seed."""
    seeds = seeds_of(runs, dataset, network)
    collected = [Scores.of(runs, dataset, network, seed) for seed in seeds]
    rows: list[Row] = []
    for index, (seed, scores) in enumerate(zip(seeds, collected, strict=True)):
        panel = Panel(scores.read())
        other = collected[(index + 1) % len(seeds)] if len(seeds) > 1 else None
        names = scores.shifts()
        for number, shift in enumerate(names):
            full = scores.read(shift)
            rng = np.random.default_rng([seed, number, SCALES.index(scale)])
            kept = shifted_rows(full.labels, full.logits.shape[1], rng, scale=scale)
            target = Recorded(full.logits[kept], full.labels[kept], full.kind)
            second = (
                other.read(shift).logits[kept].argmax(1) if other is not None and other.has(shift) else None
            )
            rows += [
                Row(
                    dataset, network, seed, shift, full.kind, len(kept), target.error,
                    pseudo_label_shift(target), method, value, score,
                )
                for method, (value, score) in panel.estimate(target.logits, second).items()
            ]  # fmt: skip
            if progress:
                progress(index * len(names) + number + 1, len(seeds) * len(names), f"seed {seed}, {shift}")
    return rows
