"""Train networks and score every shift with them, once; scores that exist and were made alike are kept.

Shifts are the outer loop and seeds the inner one. So a set that is corrupted in memory is made once for all networks,
and a set of image files once for each of them, unless it is kept in a cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.experiments.corrupted_cache import load_cached
from shiftgauge.experiments.corruptions import frost_origin
from shiftgauge.experiments.datasets import ShiftedSet
from shiftgauge.experiments.digests import (
    check_made_by,
    code_digest,
    difference,
    digest,
    files_digest,
    software,
    weights_digest,
)
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.networks import NETWORKS, build, network_module, takes
from shiftgauge.experiments.projnorm import (
    PAPER,
    Parameters,
    ProjNormForm,
    parameters_of,
    projnorm,
    short_form,
)
from shiftgauge.experiments.recipes import SEEDS
from shiftgauge.experiments.refit import TorchRefit
from shiftgauge.experiments.scores import SOURCE, ScoreFolder
from shiftgauge.experiments.scoring import Run, score
from shiftgauge.experiments.setting import Setting
from shiftgauge.experiments.storage import check_folder, error_context
from shiftgauge.experiments.training import train

SCORING = "shiftgauge.experiments.scoring"
PROJNORM = ("shiftgauge.experiments.projnorm", "shiftgauge.experiments.refit")


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
    folders = {seed: _folder(setting, seed) for seed in seeds}
    models = {seed: trained_network(setting, seed) for seed in seeds}
    weights = {seed: weights_digest(model) for seed, model in models.items()}
    sets: list[ShiftedSet | None] = [None, *(shift for shift in all_shifts if not shift.absent)]
    expected = [{seed: made_by(setting, shift, weights[seed]) for seed in seeds} for shift in sets]
    pending = []
    for number, (shift, entry) in enumerate(zip(sets, expected, strict=True)):
        mine = [seed for i, seed in enumerate(seeds) if setting.shard.takes(i * len(sets) + number)]
        name = None if shift is None else shift.name
        pending.append(
            {
                s: entry[s]
                for s in mine
                if _must_be_made(folders[s].path(name), folders[s].made_by(name), entry[s], setting.redo)
            }
        )
    # Only after every check: a refusal must not leave a new manifest beside old scores.
    for seed, scores in folders.items():
        files = {_name(shift): entry[seed] for shift, entry in zip(sets, expected, strict=True)}
        scores.write_manifest(**_manifest(setting, seed, all_shifts, weights[seed]), made_by=files)
    done = sum(not entry for entry in pending)
    for shift, entry in zip(sets, pending, strict=True):
        if entry:
            _score(setting, shift, {seed: models[seed] for seed in entry}, folders, entry)
            done += 1
            setting.progress("shifts scored", done, len(sets), _name(shift))
    return folders


def _name(shift: ShiftedSet | None) -> str:
    return SOURCE if shift is None else shift.name


def _folder(setting: Setting, seed: int) -> ScoreFolder:
    return ScoreFolder.of(setting.runs, setting.dataset.name, setting.network, seed)


def made_by(setting: Setting, shift: ShiftedSet | None, weights: str) -> dict[str, Any]:
    """Everything that a file of scores depends on."""
    files = setting.dataset.files(setting.root) if shift is None else shift.files
    return {
        "weights": weights,
        "data": files_digest(files),
        "corruption": "" if shift is None else shift.corruption,
        "code": code_digest(setting.dataset.module, network_module(setting.network), SCORING),
        "rows": None if shift is None else setting.rows,
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


def _must_be_made(
    path: Path, present: Mapping[str, Any] | None, expected: Mapping[str, Any], redo: bool
) -> bool:
    """Whether a file does not exist (``present`` is None), or was made by something else and ``redo`` allows it."""
    if present is None:
        return True
    if redo:
        return bool(difference(present, expected))
    advice = "make it again with --redo, or choose another directory with --runs"
    check_made_by(path, present, expected, advice)
    return False


def _score(
    setting: Setting,
    shift: ShiftedSet | None,
    models: Mapping[int, Any],
    folders: Mapping[int, ScoreFolder],
    expected: Mapping[int, Mapping[str, Any]],
) -> None:
    name, kind = (None, SOURCE) if shift is None else (shift.name, shift.kind)
    with error_context(f"{setting.dataset.name}, {_name(shift)}"):
        examples = load(setting, shift)
        if len(examples):
            # A set that is corrupted in memory is made now, so that worker processes share it.
            examples.batch(np.arange(1))
        for seed, model in models.items():
            hasher = hashlib.sha256()
            stage = f"scoring {name or 'the source'}, seed {seed}"
            logits = score(model, examples, run=run_of(setting), stage=stage, hasher=hasher)
            inputs = hasher.hexdigest()[:16]
            folders[seed].write(name, logits, examples.labels, kind, expected[seed], inputs, software())


def load(setting: Setting, shift: ShiftedSet | None) -> Examples:
    """The examples of the source or of a shift, at most ``setting.rows`` of a shift."""
    if shift is None:
        return setting.dataset.validation(setting.root)
    if setting.cache is None:
        examples = shift.load()
    else:
        folder, code = setting.cache / setting.dataset.name, code_digest(setting.dataset.module)
        examples = load_cached(shift, folder, code, setting.workers, setting.progress)
    return examples if setting.rows is None else examples.take(shift.subset(setting.rows, len(examples)))


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
    start = setting.recipe.pretrained or "imagenet" if form.pretrained else None
    networks = {seed: initial_network(setting, seed, start) for seed in seeds}
    pending = _pending_projnorm(setting, networks, shifts, form)
    refits = _Refits(setting, form, networks)
    done = sum(not entry for entry in pending)
    for shift, entry in zip(shifts, pending, strict=True):
        if entry:
            examples = load(setting, shift)
            for seed, expected in entry.items():
                with error_context(f"{setting.dataset.name}, seed {seed}, {form.name} of {shift.name}"):
                    scores = _folder(setting, seed)
                    value, steps = refits.distance(seed, examples, scores.read(shift.name).predictions)
                    options = asdict(form) | {"steps": steps, "made_by": expected}
                    scores.write_projnorm(shift.name, value, form.name, **options)
            done += 1
            setting.progress(f"{form.name} of shifts", done, len(shifts), shift.name)


def _pending_projnorm(
    setting: Setting, networks: Mapping[int, Any], shifts: Sequence[ShiftedSet], form: ProjNormForm
) -> list[dict[int, dict[str, Any]]]:
    """For every shift, the seeds whose ProjNorm must be computed, with everything that it depends on."""
    common = {
        "form": asdict(form),
        "data": files_digest(setting.dataset.files(setting.root)),
        "code": code_digest(setting.dataset.module, network_module(setting.network), *PROJNORM),
        "precision": run_of(setting).scoring_dtype,
    }
    initials = {seed: weights_digest(network) for seed, network in networks.items()}
    pending = []
    for number, shift in enumerate(shifts, 1):
        entry = {}
        for i, seed in enumerate(networks):
            # Numbered as in ``collect``, where the source is number 0: a shard has the scores of its own shifts.
            if setting.shard.takes(i * (len(shifts) + 1) + number):
                scores = _folder(setting, seed)
                stamp = scores.stamp(shift.name)["made_by"]
                expected = {**common, "initial": initials[seed], "scores": digest(stamp)}
                path = scores.projnorm_path(shift.name, form.name)
                present = scores.projnorm_made_by(shift.name, form.name)
                if _must_be_made(path, present, expected, setting.redo):
                    entry[seed] = expected
        pending.append(entry)
    return pending


class _Refits:
    """ProjNorm of targets; the refit on labels is shared by targets with the same number of steps."""

    def __init__(self, setting: Setting, form: ProjNormForm, networks: Mapping[int, Any]) -> None:
        self.setting, self.form, self.networks = setting, form, networks
        dataset = setting.dataset
        self.source = (dataset.training if form.on_training else dataset.validation)(setting.root)
        self.references: dict[tuple[int, int], Parameters] = {}

    def distance(self, seed: int, examples: Examples, pseudo_labels: Any) -> tuple[float, int]:
        """(ProjNorm of the target, number of steps)."""
        form, network = self.form, self.networks[seed]
        steps = form.steps_for(len(pseudo_labels))
        run = run_of(self.setting)
        refit = TorchRefit(network, steps, form.batch, form.rate, seed=seed, run=run, cosine=form.cosine)
        initial, labelled = parameters_of(network), (self.source, self.source.labels)
        if (seed, steps) not in self.references:
            self.references[seed, steps] = refit(initial, *labelled)
        reference = self.references[seed, steps]
        return projnorm(refit, initial, labelled, (examples, pseudo_labels), reference), steps
