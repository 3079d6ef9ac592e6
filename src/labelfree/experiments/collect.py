"""Score every shift with a trained network, once; what is there already is not scored again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from labelfree._version import __version__
from labelfree.experiments._store import Progress
from labelfree.experiments.datasets import Dataset
from labelfree.experiments.recipes import Recipe
from labelfree.experiments.scores import Scores


def collect(
    dataset: Dataset,
    network: str,
    model: Any,
    recipe: Recipe,
    seed: int,
    root: Path,
    runs: Path,
    device: str | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Write the scores of the source and of every shift; returns where they are."""
    from labelfree.experiments.corruptions import frost_origin
    from labelfree.experiments.training import score

    dataset.require(root)
    scores, shifts = Scores.of(runs, dataset.name, network, seed), list(dataset.shifts(root))
    scores.describe(
        dataset=dataset.name,
        network=network,
        seed=seed,
        recipe=asdict(recipe),
        frost=frost_origin(),
        version=__version__,
        shifts=[shift.name for shift in shifts],
    )
    for done, shift in enumerate([None, *shifts]):
        name = None if shift is None else shift.name
        if not scores.has(name):
            examples = dataset.validation(root) if shift is None else shift.load()
            logits = score(model, examples, device=device)
            scores.write(name, logits, examples.labels, "source" if shift is None else shift.kind)
        if progress:
            progress(done + 1, len(shifts) + 1, name or "source")
    return scores
