"""Score every shift with trained networks, once; what is there already is not scored again.

Shifts are the outer loop and seeds the inner one: a corrupted set is made once for all networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from labelfree._version import __version__
from labelfree.experiments._store import Progress
from labelfree.experiments.datasets import Dataset
from labelfree.experiments.projnorm import Parameters, TorchRefit, parameters_of, projnorm
from labelfree.experiments.recipes import Recipe
from labelfree.experiments.scores import Scores


def collect(
    dataset: Dataset,
    network: str,
    models: Mapping[int, Any],
    recipe: Recipe,
    root: Path,
    runs: Path,
    device: str | None = None,
    progress: Progress | None = None,
    rows: int | None = None,
) -> dict[int, Scores]:
    """Write the scores of the source and of every shift for each seed's network; returns where they are.

    ``rows`` keeps the first so many rows of every shifted set, for machines without a GPU.
    """
    from labelfree.experiments.corruptions import frost_origin
    from labelfree.experiments.training import score

    dataset.require(root)
    shifts = list(dataset.shifts(root))
    places = {seed: Scores.of(runs, dataset.name, network, seed) for seed in models}
    for seed, scores in places.items():
        scores.describe(
            dataset=dataset.name,
            network=network,
            seed=seed,
            recipe=asdict(recipe),
            frost=frost_origin(),
            version=__version__,
            shifts=[shift.name for shift in shifts],
            rows=rows,
        )
    for done, shift in enumerate([None, *shifts]):
        name, kind = ("source", "source") if shift is None else (shift.name, shift.kind)
        wanting = [seed for seed, scores in places.items() if not scores.has(None if shift is None else name)]
        if wanting:
            examples = dataset.validation(root) if shift is None else shift.load()
            if shift is not None and rows is not None:
                examples = examples.take(np.arange(min(rows, len(examples))))
            for seed in wanting:
                logits = score(models[seed], examples, device=device)
                places[seed].write(None if shift is None else name, logits, examples.labels, kind)
        if progress:
            progress(done + 1, len(shifts) + 1, f"scoring {name}")
    return places


def collect_projnorm(
    dataset: Dataset,
    network: str,
    initial: Mapping[int, Any],
    root: Path,
    runs: Path,
    steps: int = 100,
    device: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Write ProjNorm of every shift: ``steps`` steps from the initial weights, on labels and on pseudo-labels.

    ``initial`` are the untrained networks; the pseudo-labels are those of the collected scores.
    """
    source, shifts = dataset.validation(root), list(dataset.shifts(root))
    refits = {
        seed: TorchRefit(model, steps=steps, seed=seed, device=device) for seed, model in initial.items()
    }
    references: dict[int, Parameters] = {}
    for done, shift in enumerate(shifts):
        places = {seed: Scores.of(runs, dataset.name, network, seed) for seed in initial}
        wanting = [seed for seed, scores in places.items() if scores.projnorm(shift.name) is None]
        if not wanting:
            continue
        examples = shift.load()
        for seed in wanting:
            start = parameters_of(initial[seed])
            if seed not in references:
                references[seed] = refits[seed](start, source, source.labels)
            pseudo = places[seed].read(shift.name).logits.argmax(1)
            examples = examples.take(np.arange(len(pseudo)))
            value = projnorm(
                refits[seed], start, (source, source.labels), (examples, pseudo), references[seed]
            )
            places[seed].write_projnorm(shift.name, value, steps=steps)
        if progress:
            progress(done + 1, len(shifts), f"ProjNorm of {shift.name}")
