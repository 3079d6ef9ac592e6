"""Score every shift with trained networks, once; what is there already and was made alike is not scored again.

Shifts are the outer loop and seeds the inner one: a set that is corrupted in memory is made once for all
networks, one of image files for each of them (unless it is kept in a cache).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge._version import __version__
from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments._store import naming
from shiftgauge.experiments.datasets import Shift
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.networks import public_weights
from shiftgauge.experiments.pipeline import Setting
from shiftgauge.experiments.projnorm import Form, Parameters, TorchRefit, parameters_of, projnorm
from shiftgauge.experiments.provenance import (
    code_digest,
    difference,
    digest,
    files_digest,
    software,
    weights_digest,
)  # fmt: skip
from shiftgauge.experiments.scores import SOURCE, Scores
from shiftgauge.experiments.sets import cached


def collect(setting: Setting, seeds: Sequence[int]) -> dict[int, Scores]:
    """Write the scores of the source and of every shift for each seed's network; returns where they are.

    Scores that other weights, data, code or options made are refused (or made again with ``redo``).
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun is for `shiftgauge bench train`; scoring is split with --shard i/n")
    setting.dataset.require(setting.root)
    every = list(setting.dataset.shifts(setting.root))
    present = [shift for shift in every if not shift.absent]
    places = {seed: _place(setting, seed) for seed in seeds}
    models = {seed: setting.trained(seed) for seed in seeds}
    weights = {seed: weights_digest(model) for seed, model in models.items()}
    units = [None, *present]
    wanted = [{seed: made_by(setting, shift, weights[seed]) for seed in seeds} for shift in units]
    todo = []
    for number, (shift, made) in enumerate(zip(units, wanted, strict=True)):
        mine = [seed for i, seed in enumerate(seeds) if setting.shard.takes(i * len(units) + number)]
        todo.append({s: made[s] for s in mine if _wanting(places[s], shift, made[s], setting.redo)})
    # Only now, when nothing was refused: a refusal must not leave a new about.json over old scores.
    for seed, scores in places.items():
        files = {_name(shift): made[seed] for shift, made in zip(units, wanted, strict=True)}
        scores.describe(**_about(setting, seed, every, weights[seed]), made_by=files)
    done = sum(not wanting for wanting in todo)
    for shift, wanting in zip(units, todo, strict=True):
        if wanting:
            _score(setting, shift, {seed: models[seed] for seed in wanting}, places, wanting)
            done += 1
            setting.progress("shifts scored", done, len(units), _name(shift))
    return places


def _name(shift: Shift | None) -> str:
    return SOURCE if shift is None else shift.name


def _place(setting: Setting, seed: int) -> Scores:
    return Scores.of(setting.runs, setting.dataset.name, setting.network, seed)


def made_by(setting: Setting, shift: Shift | None, weights: str) -> dict[str, Any]:
    """What a file of scores is made by: nothing that could change a score may be missing here."""
    files = setting.dataset.files(setting.root) if shift is None else shift.files
    return {
        "weights": weights,
        "data": files_digest(files),
        "made": "" if shift is None else shift.made,
        "code": code_digest(),
        "rows": None if shift is None else setting.rows,
        "precision": setting.run().scored_dtype,
    }


def _about(setting: Setting, seed: int, every: Sequence[Shift], weights: str) -> dict[str, Any]:
    from shiftgauge.experiments.corruptions import frost_origin

    return {
        "dataset": setting.dataset.name,
        "network": setting.network,
        "seed": seed,
        "recipe": setting.recipe.settings(),
        "frost": frost_origin(),
        "version": __version__,
        "shifts": [shift.name for shift in every],
        "origins": {shift.name: shift.origin for shift in every if not shift.absent},
        # Without the directory of this machine: parts of a run on several must agree.
        "missing": {s.name: s.absent.replace(f"{setting.root}/", "") for s in every if s.absent},
        "rows": setting.rows,
        "precision": setting.run().scored_dtype,
        "weights": weights,
        "start": files_digest([start]) if isinstance(start := setting.start(), Path) else start,
        "code": code_digest(),
        "note": setting.dataset.note,
    }


def _wanting(scores: Scores, shift: Shift | None, wanted: Mapping[str, Any], redo: bool) -> bool:
    name = None if shift is None else shift.name
    return _changed(scores.path(name), scores.made_by(name), wanted, redo)


def _changed(path: Path, found: Mapping[str, Any] | None, wanted: Mapping[str, Any], redo: bool) -> bool:
    """Whether a file must be made: it is not there (None), or something else made it and ``redo`` allows it."""
    if found is None:
        return True
    changed = difference(found, wanted)
    if changed and not redo:
        raise FileError(
            f"{path} was made with other {changed}; make it again with --redo, "
            "or choose another directory with --runs"
        )
    return bool(changed)


def _score(
    setting: Setting,
    shift: Shift | None,
    models: Mapping[int, Any],
    places: Mapping[int, Scores],
    wanted: Mapping[int, Mapping[str, Any]],
) -> None:
    from shiftgauge.experiments.training import score

    name, kind = (None, SOURCE) if shift is None else (shift.name, shift.kind)
    with naming(f"{setting.dataset.name}, {_name(shift)}"):
        examples = load(setting, shift)
        if len(examples):
            # A set that is made in memory is made now: worker processes share it and do not make it again.
            examples.batch(np.arange(1))
        for seed, model in models.items():
            seen = hashlib.sha256()
            stage = f"scoring {name or 'the source'}, seed {seed}"
            logits = score(model, examples, run=setting.run(), stage=stage, seen=seen)
            inputs = seen.hexdigest()[:16]
            places[seed].write(name, logits, examples.labels, kind, wanted[seed], inputs, software())


def load(setting: Setting, shift: Shift | None) -> Examples:
    """The examples of the source or of a shift, only some of its rows where that was asked for."""
    if shift is None:
        return setting.dataset.validation(setting.root)
    examples = _kept(setting, shift)
    return examples if setting.rows is None else examples.take(shift.some(setting.rows, len(examples)))


def _kept(setting: Setting, shift: Shift) -> Examples:
    if setting.cache is None:
        return shift.load()
    return cached(shift, setting.cache / setting.dataset.name, setting.workers, setting.progress)


def check_form(setting: Setting, form: Form) -> None:
    """Refuse a form of ProjNorm that the network cannot have, before anything is trained for it."""
    if form.pretrained and public_weights(setting.network) is None:
        raise InputError(
            f"the paper's ProjNorm starts from public ImageNet weights and {setting.network} has none; choose another "
            "--network, or our short form with --projnorm-steps"
        )


def collect_projnorm(setting: Setting, seeds: Sequence[int], form: Form) -> None:
    """Write ProjNorm of every scored shift: refitted on labels and on the pseudo-labels of the collected scores."""
    check_form(setting, form)
    source = (setting.dataset.training if form.on_training else setting.dataset.validation)(setting.root)
    shifts = [shift for shift in setting.dataset.shifts(setting.root) if not shift.absent]
    start = setting.recipe.pretrained or "imagenet" if form.pretrained else None
    networks = {seed: setting.fresh(seed, start) for seed in seeds}
    common = {
        "form": asdict(form),
        "data": files_digest(setting.dataset.files(setting.root)),
        "code": code_digest("projnorm.py"),
    }
    initials = {seed: weights_digest(network) for seed, network in networks.items()}
    todo = []
    for number, shift in enumerate(shifts, 1):
        # The units of ``collect``, the source being number 0: a shard has the scores of its own shifts only.
        mine = [s for i, s in enumerate(seeds) if setting.shard.takes(i * (len(shifts) + 1) + number)]
        wanted = {
            s: {**common, "initial": initials[s], "scores": digest(_place(setting, s).stamp(shift.name))}
            for s in mine
        }
        todo.append({s: w for s, w in wanted.items() if _wanting_projnorm(setting, s, shift.name, w)})
    references: dict[tuple[int, int], Parameters] = {}
    done = sum(not wanting for wanting in todo)
    for shift, wanting in zip(shifts, todo, strict=True):
        examples = load(setting, shift) if wanting else None
        for seed, made in wanting.items():
            assert examples is not None
            with naming(f"{setting.dataset.name}, seed {seed}, {form.name} of {shift.name}"):
                scores, network = _place(setting, seed), networks[seed]
                pseudo = scores.read(shift.name).logits.argmax(1)
                steps = form.steps_for(len(pseudo))
                refit = TorchRefit(
                    network,
                    steps,
                    form.batch,
                    form.rate,
                    seed=seed,
                    device=setting.device,
                    cosine=form.cosine,
                )
                initial = parameters_of(network)
                if (seed, steps) not in references:
                    references[seed, steps] = refit(initial, source, source.labels)
                reference = references[seed, steps]
                value = projnorm(refit, initial, (source, source.labels), (examples, pseudo), reference)
                scores.write_projnorm(
                    shift.name, value, form.name, **asdict(form) | {"steps": steps, "made_by": made}
                )
        if wanting:
            done += 1
            setting.progress(f"{form.name} of shifts", done, len(shifts), shift.name)


def _wanting_projnorm(setting: Setting, seed: int, shift: str, wanted: Mapping[str, Any]) -> bool:
    scores, form = _place(setting, seed), str(wanted["form"]["name"])
    path = scores.folder / form / f"{shift}.json"
    return _changed(path, scores.projnorm_made_by(shift, form), wanted, setting.redo)
