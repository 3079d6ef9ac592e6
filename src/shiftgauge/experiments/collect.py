"""Train networks and score every shift with them, once; scores that exist and were made alike are kept.

Shifts are the outer loop and seeds the inner one. So a set that is corrupted in memory is made once for all networks,
and a set of image files once for each of them, unless it is kept in a cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.experiments.corrupted_cache import load_cached
from shiftgauge.experiments.corruptions import frost_origin
from shiftgauge.experiments.datasets import ShiftedSet
from shiftgauge.experiments.digests import code_digest, digest, files_digest, must_be_made, weights_digest
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.networks import NETWORKS, build, network_module, takes
from shiftgauge.experiments.projnorm import (
    PAPER,
    Parameters,
    ProjNormForm,
    TorchRefit,
    parameters_of,
    projnorm,
    short_form,
)
from shiftgauge.experiments.recipes import SEEDS
from shiftgauge.experiments.scores import SOURCE, ScoreFolder
from shiftgauge.experiments.scoring import Run, score
from shiftgauge.experiments.setting import Setting
from shiftgauge.experiments.storage import check_folder, error_context
from shiftgauge.experiments.training import train

SCORING = "shiftgauge.experiments.scoring"
PROJNORM = "shiftgauge.experiments.projnorm"

MadeBy = dict[str, Any]
"""Everything that a file depends on."""


def run_of(setting: Setting, seed: int | None = None) -> Run:
    """How training and scoring are done; with a seed, also its checkpoint and the digest of the training files."""
    return Run(
        None if seed is None else setting.checkpoint(seed),
        setting.device,
        progress=setting.progress,
        precision=setting.precision,
        workers=setting.workers,
        data="" if seed is None else files_digest(setting.training_files()),
    )


def initial_network(setting: Setting, seed: int, pretrained: str | None = "") -> Any:
    """The network before training, with public weights if the recipe (or ``pretrained``) says so."""
    options: dict[str, Any] = {"max_tokens": setting.recipe.max_tokens} if setting.recipe.max_tokens else {}
    start = setting.initial_weights(pretrained)
    if start is not None:
        options["weights"] = start
    if takes(setting.network, "statistics"):
        options["statistics"] = setting.dataset.statistics
    return build(setting.network, setting.dataset.classes, seed, **options)


def trained_network(setting: Setting, seed: int) -> Any:
    """Train one network, continue its training, or load it."""
    setting.dataset.require(setting.root)
    examples = setting.dataset.training(setting.root)
    return train(initial_network(setting, seed), examples, setting.recipe, seed, run_of(setting, seed))


def train_seeds(setting: Setting, seeds: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Train one network per seed (the paper's seeds, if none are given); where the checkpoints are."""
    check_folder(setting.runs)
    records = []
    for seed in sorted_seeds(seeds):
        trained_network(setting, seed)
        records.append({"seed": seed, "checkpoint": str(setting.checkpoint(seed))})
    return records


def sorted_seeds(seeds: Sequence[int] | None) -> list[int]:
    """The given seeds, or the paper's."""
    return sorted(set(seeds)) if seeds else list(SEEDS)


def collect_scores(
    setting: Setting,
    seeds: Sequence[int] | None = None,
    paper_projnorm: bool = False,
    projnorm_steps: int = 0,
) -> list[dict[str, Any]]:
    """Score source and shifts with each seed's network, which is trained if it is not yet; ProjNorm if asked for."""
    check_folder(setting.runs)
    forms = [*([PAPER] if paper_projnorm else []), *([short_form(projnorm_steps)] if projnorm_steps else [])]
    for form in forms:
        check_form(setting, form)
    seeds = sorted_seeds(seeds)
    folders = collect(setting, seeds)
    for form in forms:
        collect_projnorm(setting, seeds, form)
    return [
        {"seed": s, "folder": str(at.folder), "shifts": len(at.shifts()), "missing": at.missing()}
        for s, at in folders.items()
    ]


def collect(setting: Setting, seeds: Sequence[int]) -> dict[int, ScoreFolder]:
    """Write the scores of the source and of every shift for each seed's network; returns the folders.

    Scores that other weights, data, code or options made are refused, or made again with ``redo``.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun is for `shiftgauge bench train`; scoring is split with --shard i/n")
    setting.dataset.require(setting.root)
    all_shifts = list(setting.dataset.shifts(setting.root))
    sets = [_source(setting), *(shift for shift in all_shifts if not shift.absent)]
    names = [each.name for each in sets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{setting.dataset.name} has two sets called {twice!r} (the source is called {SOURCE!r}); rename one"
        )
    folders = {seed: _folder(setting, seed) for seed in seeds}
    models = {seed: trained_network(setting, seed) for seed in seeds}
    weights = {seed: weights_digest(model) for seed, model in models.items()}
    expected = {seed: {each.name: made_by(setting, each, weights[seed]) for each in sets} for seed in seeds}
    pending = _pending(setting, folders, names, expected)
    # Only after every check: a refusal must not leave a new manifest beside old scores.
    for seed, scores in folders.items():
        manifest = _manifest(setting, seed, all_shifts, weights[seed])
        scores.write_manifest(**manifest, made_by=expected[seed])
    for each, entry in _one_by_one(setting, "shifts scored", sets, pending):
        with error_context(f"{setting.dataset.name}, {each.name}"):
            examples = load(setting, each)
            if len(examples):
                # A set that is corrupted in memory is made now, so that worker processes share it.
                examples.batch(np.arange(1))
            for seed in entry:
                hasher = hashlib.sha256()
                stage = f"scoring {each.name}, seed {seed}"
                logits = score(models[seed], examples, run=run_of(setting), stage=stage, hasher=hasher)
                inputs = hasher.hexdigest()[:16]
                folders[seed].write(each.name, logits, examples.labels, each.kind, entry[seed], inputs)
    return folders


def _source(setting: Setting) -> ShiftedSet:
    """The source, as a set like the shifted ones."""
    dataset, root = setting.dataset, setting.root
    return ShiftedSet(SOURCE, SOURCE, partial(dataset.validation, root), dataset.files(root))


def _pending(
    setting: Setting,
    folders: Mapping[int, ScoreFolder],
    names: Sequence[str],
    expected: Mapping[int, Mapping[str, MadeBy]],
    first: int = 0,
) -> list[dict[int, MadeBy]]:
    """For every file, the seeds of this shard for which it must be made.

    The files are numbered from ``first``, and the source is number 0, so that a shard has the ProjNorm of its shifts.
    """
    units = first + len(names)
    return [
        {
            seed: expected[seed][name]
            for i, (seed, scores) in enumerate(folders.items())
            if setting.shard.takes(i * units + number)
            and must_be_made(scores.path(name), scores.made_by(name), expected[seed][name], setting.redo)
        }
        for number, name in enumerate(names, first)
    ]


def _one_by_one(
    setting: Setting, stage: str, sets: Sequence[ShiftedSet], pending: Sequence[dict[int, MadeBy]]
) -> Iterator[tuple[ShiftedSet, dict[int, MadeBy]]]:
    """Every set with something to make, and its seeds; progress is reported after each."""
    done = sum(not entry for entry in pending)
    for each, entry in zip(sets, pending, strict=True):
        if entry:
            yield each, entry
            done += 1
            setting.progress(stage, done, len(sets), each.name)


def _folder(setting: Setting, seed: int) -> ScoreFolder:
    return ScoreFolder.of(setting.runs, setting.dataset.name, setting.network, seed)


def made_by(setting: Setting, each: ShiftedSet, weights: str) -> MadeBy:
    """Everything that the scores of a set depend on."""
    return {
        "weights": weights,
        "data": files_digest(each.files),
        "corruption": each.corruption,
        "code": code_digest(setting.dataset.module, network_module(setting.network), SCORING),
        "rows": None if each.name == SOURCE else setting.rows,
        "precision": run_of(setting).scoring_dtype,
    }


def _manifest(setting: Setting, seed: int, shifts: Sequence[ShiftedSet], weights: str) -> dict[str, Any]:
    start = setting.initial_weights()
    return {
        "dataset": setting.dataset.name,
        "network": setting.network,
        "seed": seed,
        "recipe": setting.recipe.settings(),
        "start": files_digest([start]) if isinstance(start, Path) else start,
        "weights": weights,
        "frost": frost_origin(),
        "rows": setting.rows,
        "precision": run_of(setting).scoring_dtype,
        "shifts": [shift.name for shift in shifts],
        "origins": {shift.name: shift.origin for shift in shifts if not shift.absent},
        # Without the directory of this machine: parts of a run on several machines must agree.
        "missing": {s.name: s.absent.replace(f"{setting.root}/", "") for s in shifts if s.absent},
    }


def load(setting: Setting, each: ShiftedSet) -> Examples:
    """The examples of a set, at most ``setting.rows`` of a shift."""
    if setting.cache is None:
        examples = each.load()
    else:
        folder, code = setting.cache / setting.dataset.name, code_digest(setting.dataset.module)
        examples = load_cached(each, folder, code, setting.workers, setting.progress)
    if setting.rows is None or each.name == SOURCE:
        return examples
    return examples.take(each.subset(setting.rows, len(examples)))


def check_form(setting: Setting, form: ProjNormForm) -> None:
    """Refuse a form of ProjNorm that the network cannot have, before anything is trained for it."""
    if form.pretrained and NETWORKS[setting.network].weights is None:
        raise InputError(
            f"the paper's ProjNorm starts from public ImageNet weights and {setting.network} has none; choose another "
            "--network, or our short form with --projnorm-steps"
        )


def collect_projnorm(setting: Setting, seeds: Sequence[int], form: ProjNormForm) -> None:
    """Write ProjNorm of every scored shift: refitted on labels and on the pseudo-labels of the collected scores."""
    check_form(setting, form)
    shifts = [shift for shift in setting.dataset.shifts(setting.root) if not shift.absent]
    names = [f"{form.name}/{shift.name}" for shift in shifts]
    folders = {seed: _folder(setting, seed) for seed in seeds}
    start = setting.recipe.pretrained or "imagenet" if form.pretrained else None
    networks = {seed: initial_network(setting, seed, start) for seed in seeds}
    common = {
        "form": asdict(form),
        "data": files_digest(setting.dataset.files(setting.root)),
        "code": code_digest(setting.dataset.module, network_module(setting.network), PROJNORM),
        "precision": run_of(setting).scoring_dtype,
    }
    expected = {}
    for seed, scores in folders.items():
        initial, scored = weights_digest(networks[seed]), scores.manifest["made_by"]
        expected[seed] = {
            name: common | {"initial": initial, "scores": digest(scored[shift.name])}
            for name, shift in zip(names, shifts, strict=True)
        }
    pending = _pending(setting, folders, names, expected, first=1)
    source = (setting.dataset.training if form.on_training else setting.dataset.validation)(setting.root)
    references: dict[tuple[int, int], Parameters] = {}
    for shift, entry in _one_by_one(setting, f"{form.name} of shifts", shifts, pending):
        examples = load(setting, shift)
        for seed in entry:
            with error_context(f"{setting.dataset.name}, seed {seed}, {form.name} of {shift.name}"):
                pseudo_labels = folders[seed].read(shift.name).predictions
                steps, network = form.steps_for(len(pseudo_labels)), networks[seed]
                refit = TorchRefit(
                    network, steps, form.batch, form.rate, seed=seed, run=run_of(setting), cosine=form.cosine
                )
                weights, labelled = parameters_of(network), (source, source.labels)
                # The refit on labels is shared by targets with the same number of steps.
                if (seed, steps) not in references:
                    references[seed, steps] = refit(weights, *labelled)
                value = projnorm(refit, weights, labelled, (examples, pseudo_labels), references[seed, steps])
                folders[seed].write_projnorm(f"{form.name}/{shift.name}", value, steps, entry[seed])
