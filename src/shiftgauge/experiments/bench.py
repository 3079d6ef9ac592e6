"""The commands of ``shiftgauge bench`` without printing, as far as they need no torch: each returns plain data."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from shiftgauge.errors import FileError
from shiftgauge.experiments import figures as drawing
from shiftgauge.experiments import natural, protocol, tables
from shiftgauge.experiments.datasets import DATASETS, TABLE_DATASETS, Dataset, TableDataset, dataset
from shiftgauge.experiments.digests import check_made_by
from shiftgauge.experiments.kept_scores import FOLDER as KEPT
from shiftgauge.experiments.kept_scores import keep, restore, score_files
from shiftgauge.experiments.manifest import notes_of, recipe_of, results_manifest
from shiftgauge.experiments.networks import check_network
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.recipes import recipe
from shiftgauge.experiments.scores import MANIFEST, ScoreFolder, seeds_of
from shiftgauge.experiments.setting import Setting
from shiftgauge.experiments.shards import Shard
from shiftgauge.experiments.storage import check_folder, read_mapping, read_table, write_json, write_table
from shiftgauge.methods import Estimator

ESTIMATES, BATCHES = "estimates.csv", "batches_estimates.csv"


def listing(root: Path) -> list[dict[str, Any]]:
    """Every data set: whether it is found, where it is expected, origin, licence, size, splits, absent shifts."""
    records: list[dict[str, Any]] = []
    for known in DATASETS.values():
        records.append(
            {
                **_description(known),
                "missing": known.missing(root),
                "expected": [str(root / path) for path in known.expects],
                "extras": {path: (root / path).exists() for path in known.extras},
                "absent": _absent(known, root),
                "classes": known.classes,
                "network": known.network,
                "recipe": known.recipe,
            }
        )
    nothing: dict[str, Any] = {"extras": {}, "absent": {}, "classes": None, "network": None, "recipe": None}
    for table_set in TABLE_DATASETS.values():
        places = {"missing": table_set.missing(), "expected": [f"the package {table_set.package}"]}
        records.append({**_description(table_set), **places, **nothing})
    return [record | {"found": not record["missing"]} for record in records]


def _description(known: Dataset | TableDataset) -> dict[str, str]:
    return {key: getattr(known, key) for key in ("name", "title", "origin", "licence", "size", "splits")}


def _absent(known: Dataset, root: Path) -> dict[str, str]:
    """Shifts that the tables of a data set would lack, with the reason."""
    if known.missing(root):
        return {}
    try:
        return {shift.name: shift.absent for shift in known.shifts(root) if shift.absent}
    except FileError as error:
        return {"all": str(error)}


def setting(
    name: str,
    root: Path,
    runs: Path,
    network: str | None = None,
    recipe_name: str | None = None,
    **options: Any,
) -> Setting:
    """The data set with its own network and recipe, or the given ones."""
    known, network = resolve(name, network)
    return Setting(known, network, recipe(recipe_name or known.recipe), root, runs, **options)


def resolve(name: str, network: str | None) -> tuple[Dataset, str]:
    """The data set, and the name of its own network or of the given one."""
    known = dataset(name)
    return known, check_network(network or known.network)


def marginal_of(known: Dataset, marginal: str | None) -> str:
    """The given label proportions, or those of the paper's authors."""
    return known.marginal if marginal is None else protocol.check_marginal(marginal, "--marginal")


def run(
    name: str, runs: Path, out: Path, network: str | None = None, marginal: str | None = None,
    shard: Shard | None = None, progress: Progress = silent, methods: Sequence[type[Estimator]] = (),
    keep_scores: bool = False,
) -> Path:  # fmt: skip
    """Estimates of every method on every shift, the two mild label shifts and the batch ablation, as CSV.

    methods: further estimators, for the estimates on the shifts themselves. keep_scores: keep the scores beside the
    results, for ``remake``. A shard computes its part only; the tables are written by a run without a shard, after
    merging.
    """
    known, network = resolve(name, network)
    name, marginal = known.name, marginal_of(known, marginal)
    check_folder(out)
    folder = results_folder(out, name, network)
    for seed in seeds_of(runs, name, network):
        check_results(folder, ScoreFolder.of(runs, name, network, seed).manifest.get("recipe"))
    sweeps = {ESTIMATES: protocol.estimates_sweep(marginal=marginal)}
    for scale in protocol.SCALES:
        sweeps[f"mild_label_shift_{scale}.csv"] = protocol.mild_label_shift_sweep(scale, marginal)
    sweeps[BATCHES] = protocol.batches_sweep(marginal=marginal)
    results = {file: sweep.run(runs, name, network, shard, progress) for file, sweep in sweeps.items()}
    own = [protocol.estimates_sweep(marginal=marginal, method=method) for method in methods]
    more = [sweep.run(runs, name, network, shard, progress) for sweep in own]
    results[ESTIMATES] = pd.concat([results[ESTIMATES], *more], ignore_index=True)
    # Written together at the end, so that a killed run leaves no new estimates beside an old manifest.
    if shard is None or shard.count == 1:
        for file, table in results.items():
            write_table(folder / file, table)
        write_json(folder / MANIFEST, results_manifest(runs, known, network, marginal))
        # Kept scores of an earlier run would no longer be what the estimates were made of.
        shutil.rmtree(folder / KEPT, ignore_errors=True)
        for seed in seeds_of(runs, name, network) if keep_scores else ():
            keep(ScoreFolder.of(runs, name, network, seed), folder / KEPT / f"seed{seed}.npz")
    return folder


def remake(out: Path, progress: Progress = silent) -> list[Path]:
    """Make everything anew that the results keep the scores of, and the natural tables from their estimates.

    Returns the folders of these results.
    """
    folders = sorted({path.parent.parent for path in out.glob(f"*/*/{KEPT}/*.npz")})
    natural_estimates = out / natural.FOLDER / ESTIMATES
    if not folders and not natural_estimates.exists():
        raise FileError(
            f"{out} keeps no scores of any data set; run `shiftgauge bench run NAME --keep-scores` first"
        )
    for folder in folders:
        name, network = folder.parent.name, folder.name
        with tempfile.TemporaryDirectory() as runs:
            for seed, path in score_files(folder):
                restore(path, ScoreFolder.of(Path(runs), name, network, seed))
            marginal = manifest(folder).get("marginal")
            run(name, Path(runs), out, network, marginal, progress=progress, keep_scores=True)
            table(name, out, network)
            figures(name, Path(runs), out, network)
    if natural_estimates.exists():
        natural.remake(out)
        folders.append(natural_estimates.parent)
    return folders


def check_results(folder: Path, settings: Mapping[str, Any] | None) -> None:
    """Refuse to overwrite results of another recipe: their folder has the same name."""
    old, new = recipe_of(manifest(folder)), json.loads(json.dumps(settings))
    # In both directions, since a recipe may lack settings that the other has.
    advice = "delete it, or choose another directory with --results"
    for one, other in ((old, new), (new, old)) if old and new else ():
        check_made_by(folder, one, other, advice)


def results_folder(out: Path, name: str, network: str) -> Path:
    """``<out>/<data set>/<network>``."""
    return out / name / network


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of results; empty if there is none."""
    path = folder / MANIFEST
    return read_mapping(path) if path.exists() else {}


def outdated(folder: Path) -> bool:
    """Whether tables or figures in a folder of results are older than its estimates."""
    times = [path.stat().st_mtime_ns for kind in ("tables", "figures") for path in (folder / kind).glob("*")]
    return bool(times) and min(times) < (folder / ESTIMATES).stat().st_mtime_ns


def table(name: str, out: Path, network: str | None = None) -> list[Path]:
    """Tables of the results of ``run``, as Markdown, LaTeX and CSV."""
    known, network = resolve(name, network)
    folder = results_folder(out, known.name, network)
    estimates, facts = read_table(folder / ESTIMATES, protocol.ESTIMATES), manifest(folder)
    notes = notes_of(facts, known.note)
    written = [tables.main_table(estimates, extra=notes)]
    for other in (
        tables.correlations(estimates),
        tables.thresholding(estimates),
        tables.batches(read_table(folder / BATCHES, protocol.BATCHES)),
        tables.shifts(estimates, facts),
    ):
        written.append(replace(other, notes=(*other.notes, *notes)))
    for scale, beta in zip(protocol.SCALES, ("alpha q", "alpha K q"), strict=True):
        resampled = read_table(folder / f"mild_label_shift_{scale}.csv", protocol.ESTIMATES)
        title = f"Mean absolute error under mild label shift, Dirichlet({beta}), alpha = 50"
        written.append(tables.main_table(resampled, f"mild_label_shift_{scale}", title, notes))
    return [path for each in written for path in each.write(folder / "tables")]


def figures(name: str, runs: Path, out: Path, network: str | None = None) -> list[Path]:
    """Figures of the results of ``run`` and of the first seed's scores, as PNG and SVG."""
    known, network = resolve(name, network)
    name = known.name
    folder = results_folder(out, name, network)
    estimates, facts = read_table(folder / ESTIMATES, protocol.ESTIMATES), manifest(folder)
    seed = seeds_of(runs, name, network)[0]
    scores = ScoreFolder.of(runs, name, network, seed)
    first = estimates[estimates.seed == seed].drop_duplicates("shift").set_index("shift").true_error
    weights = facts.get("seeds", {}).get(str(seed), {}).get("weights")

    def check(shift: str) -> None:
        stamp = scores.stamp(shift)
        inputs = facts.get("shifts", {}).get(shift, {}).get("inputs")
        same_error = abs(scores.read(shift).error - first.get(shift, -1.0)) <= 1e-6
        same_weights = not weights or stamp["made_by"].get("weights") == weights
        if not (same_error and same_weights and inputs in (None, "", stamp["inputs"])):
            raise FileError(
                f"{scores.path(shift)} is not what {folder / ESTIMATES} was made of; run `shiftgauge bench run` again"
            )

    marginal = facts.get("marginal", "source")
    title = f"{known.title}, {network}"
    return drawing.make_all(estimates, scores, check, folder / "figures", title, marginal)


def summary(name: str, out: Path, network: str | None = None) -> list[dict[str, Any]]:
    """The main table as records, errors as fractions: method, MAE, deviation, worst, the paper's MAE."""
    known, network = resolve(name, network)
    folder = results_folder(out, known.name, network)
    return tables.main_table(read_table(folder / ESTIMATES, protocol.ESTIMATES)).data
