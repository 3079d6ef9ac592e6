"""What the verbs of ``shiftgauge bench`` do, without printing: each returns plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments import ablation, collect, protocol, resampling
from shiftgauge.experiments._store import check_folder, read_mapping, write_json
from shiftgauge.experiments.about import about_of, notes_of, recipe_of
from shiftgauge.experiments.datasets import DATASETS, Dataset, dataset
from shiftgauge.experiments.networks import need_torch
from shiftgauge.experiments.pipeline import Setting
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.projnorm import PAPER, short
from shiftgauge.experiments.provenance import difference
from shiftgauge.experiments.recipes import SEEDS, recipe
from shiftgauge.experiments.records import read_records, write_records
from shiftgauge.experiments.scores import Scores, seeds_of
from shiftgauge.experiments.shards import Shard

ESTIMATES, BATCHES, ABOUT = "estimates.csv", "batches_estimates.csv", "about.json"


def listing(root: Path) -> list[dict[str, Any]]:
    """Every known data set: found or missing, where expected, origin, licence, size, splits, absent shifts."""
    return [
        {
            "name": known.name,
            "title": known.title,
            "found": not known.missing(root),
            "missing": known.missing(root),
            "expected": [str(root / path) for path in known.expects],
            "extras": {path: (root / path).exists() for path in known.extras},
            "absent": _absent(known, root),
            "origin": known.origin,
            "licence": known.licence,
            "size": known.size,
            "classes": known.classes,
            "splits": known.splits,
            "network": known.network,
            "recipe": known.recipe,
        }
        for known in DATASETS.values()
    ]


def _absent(known: Dataset, root: Path) -> dict[str, str]:
    # Only for what is there: sets that the tables would lack, with the reason.
    if known.missing(root):
        return {}
    try:
        return {shift.name: shift.absent for shift in known.shifts(root) if shift.absent}
    except FileError as error:
        return {"all": str(error)}


def setting(
    name: str, root: Path, runs: Path, network: str | None = None, recipe_name: str | None = None, **how: Any
) -> Setting:
    """The data set with its own network and recipe, or the ones asked for."""
    known = dataset(name)
    return Setting(known, network or known.network, recipe(recipe_name or known.recipe), root, runs, **how)


def train(given: Setting, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Train one network per seed."""
    if given.dataset.score is not None:
        name = given.dataset.name
        raise InputError(f"{name} is trained while it is scored: shiftgauge bench collect {name}")
    need_torch()
    check_folder(given.runs)
    made = []
    for seed in seeds:
        given.trained(seed)
        made.append({"seed": seed, "checkpoint": str(given.checkpoint(seed))})
    return made


def collect_scores(
    given: Setting, seeds: Sequence[int] | None = None, projnorm: bool = False, projnorm_steps: int = 0
) -> list[dict[str, Any]]:
    """Score source and shifts with each seed's network (trained on the way where it was not), ProjNorm if asked.

    seeds: the paper's, where none are given.
    """
    check_folder(given.runs)
    forms = [*([PAPER] if projnorm else []), *([short(projnorm_steps)] if projnorm_steps else [])]
    if given.dataset.score is not None:
        _refuse_options(given, seeds, forms)
        found = given.dataset.score(given.root, given.runs, given.network, given.progress)
        return [{"seed": 0, "folder": str(given.runs), "shifts": sum(found.values()), "missing": {}}]
    need_torch()
    for form in forms:
        collect.check_form(given, form)
    seeds = seeds_or(seeds)
    made = collect.collect(given, seeds)
    for form in forms:
        collect.collect_projnorm(given, seeds, form)
    return [
        {"seed": s, "folder": str(at.folder), "shifts": len(at.shifts()), "missing": at.missing()}
        for s, at in made.items()
    ]


def _refuse_options(given: Setting, seeds: Sequence[int] | None, forms: Sequence[Any]) -> None:
    """What means nothing to a data set that trains and scores by itself is not silently ignored."""
    said = {
        "--seed": list(seeds or [0]) != [0],
        "--rows": given.rows,
        "--shard": given.shard.count > 1,
        "--cache": given.cache,
        "--projnorm": forms,
        "--device": given.device,
        "--precision": given.precision != "auto",
        "--workers": given.workers,
    }
    option = next((name for name, value in said.items() if value), None)
    if option:
        raise InputError(
            f"{given.dataset.name} takes no {option}: its models are trained and scored in one way; leave it out"
        )


def shares_of(known: Dataset, marginal: str | None) -> str:
    """The label shares asked for, or the ones the paper's authors take."""
    return known.marginal if marginal is None else protocol.check_shares(marginal, "--marginal")


def run(
    name: str, runs: Path, out: Path, network: str | None = None, marginal: str | None = None,
    shard: Shard | None = None, progress: Progress = silent,
) -> Path:  # fmt: skip
    """Estimates of every method on every shift, the two mild label shifts and the batch ablation, as CSV.

    A shard only works its part out; the tables are written by the run without one (after merging).
    """
    known = dataset(name)
    network, shares = network or known.network, shares_of(known, marginal)
    check_folder(out)
    folder = results_folder(out, name, network)
    places = {f"{name}/{part}" if part else name: part for part in known.collections or ("",)}
    for place in places:
        for seed in seeds_of(runs, place, network):
            check_results(folder, Scores.of(runs, place, network, seed).about.get("recipe"))
    sweeps: dict[str, Any] = {ESTIMATES: protocol.sweep(marginal=shares)}
    sweeps |= {f"mild_label_shift_{s}.csv": resampling.sweep(s, shares) for s in resampling.SCALES}
    sweeps[BATCHES] = ablation.sweep(marginal=shares)
    found = {
        file: [
            _named(name, part, row)
            for place, part in places.items()
            for row in sweep.run(runs, place, network, shard, progress)
        ]
        for file, sweep in sweeps.items()
    }
    # Written together at the end: a killed run leaves no new estimates beside an old about.json.
    if shard is None or shard.count == 1:
        for file, rows in found.items():
            write_records(folder / file, sweeps[file].kind, rows)
        write_json(folder / ABOUT, about_of(runs, known, network, shares))
    return folder


def check_results(folder: Path, settings: Mapping[str, Any] | None) -> None:
    """Refuse to write over results of another recipe: nothing else would tell the two apart by name."""
    old, new = recipe_of(about(folder)), json.loads(json.dumps(settings))
    # Both ways: settings that are not used are not written.
    changed = (difference(old, new) or difference(new, old)) if old and new else ""
    if changed:
        raise FileError(
            f"{folder} holds results of a recipe with other {changed}; delete it, "
            "or choose another directory with --out"
        )


def _named(name: str, part: str, row: Any) -> Any:
    """A record of a part, under the name of its data set."""
    return replace(row, dataset=name, shift=f"{part}/{row.shift}") if part else row


def results_folder(out: Path, name: str, network: str) -> Path:
    """``<out>/<data set>/<network>``."""
    return out / name / network


def about(folder: Path) -> dict[str, Any]:
    """What a folder of results says about itself; empty where it says nothing."""
    path = folder / ABOUT
    return read_mapping(path) if path.exists() else {}


def outdated(folder: Path) -> bool:
    """Whether tables or figures in a folder of results were made before its estimates."""
    made = [path.stat().st_mtime_ns for room in ("tables", "figures") for path in (folder / room).glob("*")]
    return bool(made) and min(made) < (folder / ESTIMATES).stat().st_mtime_ns


def table(name: str, out: Path, network: str | None = None) -> list[Path]:
    """Tables of what ``run`` wrote, as Markdown, LaTeX and CSV."""
    from shiftgauge.experiments import tables

    known: Dataset = dataset(name)
    folder = results_folder(out, name, network or known.network)
    rows, told = protocol.read_rows(folder / ESTIMATES), about(folder)
    notes = notes_of(told, known.note)
    batched = read_records(folder / BATCHES, ablation.Batched)
    beside = [
        tables.correlations(rows),
        tables.thresholding(rows),
        tables.batches(batched),
        tables.shifts(rows, told),
    ]
    made = tables.main_table(_with_all(known, rows), extra=notes).write(folder / "tables")
    for also in beside:
        made += replace(also, notes=(*also.notes, *notes)).write(folder / "tables")
    for scale, beta in zip(resampling.SCALES, ("alpha q", "alpha K q"), strict=True):
        shifted = protocol.read_rows(folder / f"mild_label_shift_{scale}.csv")
        title = f"Mean absolute error under mild label shift, Dirichlet({beta}), alpha = 50"
        shifted = _with_all(known, shifted)
        made += tables.main_table(shifted, f"mild_label_shift_{scale}", title, notes).write(folder / "tables")
    return made


def _with_all(known: Dataset, rows: list[protocol.Row]) -> list[protocol.Row]:
    # A data set of several families gets a row over all of them.
    return rows + [replace(row, kind="all") for row in rows] if known.collections else rows


def figures(name: str, runs: Path, out: Path, network: str | None = None) -> list[Path]:
    """Figures of what ``run`` wrote and, where they are there, of the first seed's scores, as PNG and SVG."""
    from shiftgauge.experiments import figures as drawing

    known = dataset(name)
    network = network or known.network
    folder = results_folder(out, name, network)
    rows, told = protocol.read_rows(folder / ESTIMATES), about(folder)
    truth = {(row.shift, row.seed): row.true_error for row in rows}

    def find(shift: str) -> tuple[Scores, str]:
        part, _, rest = shift.rpartition("/") if known.collections else ("", "", shift)
        place = f"{name}/{part}" if part else name
        seed = seeds_of(runs, place, network)[0]
        scores = Scores.of(runs, place, network, seed)
        weights = told.get("seeds", {}).get(f"{part} {seed}".strip(), {}).get("weights")
        inputs = told.get("shifts", {}).get(shift, {}).get("inputs")
        found = scores.read(rest)
        # Results of earlier versions know only the error, with as many digits as their file has.
        if (
            abs(found.error - truth.get((shift, seed), -1.0)) > 1e-6
            or (weights and scores.stamp(rest).get("weights") != weights)
            or (inputs and found.inputs != inputs)
        ):
            raise FileError(
                f"{scores.path(rest)} is not what {folder / ESTIMATES} was made of; run `shiftgauge bench run` again"
            )
        return scores, rest

    shares = told.get("marginal", "source")
    return drawing.make_all(rows, find, folder / "figures", f"{known.title}, {network}", shares)


def summary(name: str, out: Path, network: str | None = None) -> list[dict[str, Any]]:
    """The main table as records, errors as fractions: method, MAE, deviation, worst, the paper's MAE."""
    from shiftgauge.experiments import tables

    folder = results_folder(out, name, network or dataset(name).network)
    return tables.main_table(_with_all(dataset(name), protocol.read_rows(folder / ESTIMATES))).data


def seeds_or(given: Sequence[int] | None) -> list[int]:
    """The seeds asked for, or the paper's."""
    return sorted(set(given)) if given else list(SEEDS)
