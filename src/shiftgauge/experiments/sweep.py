"""Compute something for every collected shift of every seed, once: a run that was killed continues.

    <runs>/estimates/<data set>/<network>/<name>/seed<seed>/<shift>.json    the records of one shift, and ``made_by``:
                                                                            a digest of all that they depend on

The units of a sweep are independent, so shards on several machines give the same files as one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.digests import check_made_by, code_digest, digest, files_digest
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.scores import SOURCE, ScoredSet, ScoreFolder, seeds_of
from shiftgauge.experiments.shards import Shard
from shiftgauge.experiments.storage import error_context, read_mapping, write_json

Record = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """One shift of one seed; ``other`` are the scores of the next seed, for GDE."""

    dataset: str
    network: str
    seed: int
    shift: str
    scores: ScoreFolder
    other: ScoreFolder | None

    def target(self) -> ScoredSet:
        """The scores of the shift."""
        return self.scores.read(self.shift)

    def second(self) -> NDArray[np.int64] | None:
        """The predictions of the next seed's network on the same rows, if it has scored them."""
        return None if self._second_scores is None else self._second_scores.read(self.shift).predictions

    @property
    def _second_scores(self) -> ScoreFolder | None:
        return self.other if self.other is not None and self.shift in self.other.shifts() else None

    def generator(self, *more: int) -> np.random.Generator:
        """Random numbers of this unit: they do not depend on which other shifts exist."""
        return np.random.default_rng([self.seed, int(digest(self.shift), 16), *more])

    def files(self) -> str:
        """Digest of the files that this unit's records depend on."""
        names = (SOURCE, self.shift, *self.scores.projnorms(self.shift))
        paths = [self.scores.path(name) for name in names]
        if self._second_scores is not None:
            paths.append(self._second_scores.path(self.shift))
        return files_digest(paths)


def units(runs: Path, dataset: str, network: str) -> list[Unit]:
    """Every collected shift of every seed, seed by seed."""
    seeds = seeds_of(runs, dataset, network)
    folders = [ScoreFolder.of(runs, dataset, network, seed) for seed in seeds]
    result = []
    for index, (seed, scores) in enumerate(zip(seeds, folders, strict=True)):
        other = folders[(index + 1) % len(seeds)] if len(seeds) > 1 else None
        scores.check(SOURCE)
        for shift in scores.shifts():
            scores.check(shift)
            result.append(Unit(dataset, network, seed, shift, scores, other))
    _check_same_sets(folders)
    return result


def _check_same_sets(folders: Sequence[ScoreFolder]) -> None:
    """Refuse seeds with different recipes, sources or images, since a row of a table averages over seeds."""
    first: dict[str, tuple[ScoreFolder, dict[str, Any]]] = {}
    for scores in folders:
        recipe = {"recipe": scores.manifest.get("recipe")}
        for shift in (SOURCE, *scores.shifts()):
            stamp = scores.stamp(shift)
            # Weights differ between seeds; a change of code that matters changes the inputs.
            made_by = {k: v for k, v in stamp["made_by"].items() if k not in ("weights", "code")}
            facts = recipe | made_by | {"inputs": stamp["inputs"]}
            other, before = first.setdefault(shift, (scores, facts))
            than = f" than {other.path(shift)}, and one table would hold both"
            advice = "collect all seeds alike with --redo, or choose another directory with --runs"
            check_made_by(scores.path(shift), before, facts, advice, than)


@dataclass(frozen=True)
class Sweep:
    """Records with these ``columns`` for every unit, computed by ``work(prepared, unit)``.

    ``prepare`` makes ``prepared`` from a seed's source, once per seed. ``code`` are modules whose code, and
    ``options`` settings, the records depend on: stored records that something else made are computed again.
    """

    name: str
    columns: Mapping[str, str]
    prepare: Callable[[ScoredSet], Any]
    work: Callable[[Any, Unit], list[Record]]
    options: Mapping[str, Any]
    code: tuple[str, ...]

    def run(
        self, runs: Path, dataset: str, network: str, shard: Shard | None = None, progress: Progress = silent
    ) -> pd.DataFrame:
        """The records of every unit of this shard, in order; stored records are read, not computed."""
        mine = [u for i, u in enumerate(units(runs, dataset, network)) if (shard or Shard()).takes(i)]
        made_by = [digest(unit.files(), dict(self.options), code_digest(*self.code)) for unit in mine]
        results = [self._stored(self.path(runs, unit), of) for unit, of in zip(mine, made_by, strict=True)]
        # Stored records are counted before the first report, so that they do not count as speed.
        done, prepared = sum(stored is not None for stored in results), dict[int, Any]()
        for index, unit in enumerate(mine):
            if results[index] is not None:
                continue
            with error_context(f"{dataset}, seed {unit.seed}, {unit.shift}"):
                if unit.seed not in prepared:
                    prepared = {unit.seed: self.prepare(unit.scores.read())}
                records = results[index] = self.work(prepared[unit.seed], unit)
            write_json(self.path(runs, unit), {"made_by": made_by[index], "records": records})
            done += 1
            progress(self.name, done, len(mine), f"seed {unit.seed}, {unit.shift}")
        return self.table([record for stored in results for record in stored or ()])

    def table(self, records: Sequence[Record]) -> pd.DataFrame:
        """Records as a table with the sweep's columns."""
        return pd.DataFrame(list(records), columns=list(self.columns)).astype(dict(self.columns))

    def path(self, runs: Path, unit: Unit) -> Path:
        """Where a unit's records are stored."""
        folder = runs / "estimates" / unit.dataset / unit.network / self.name
        return folder / f"seed{unit.seed}" / f"{unit.shift}.json"

    def _stored(self, path: Path, made_by: str) -> list[Record] | None:
        try:
            content = read_mapping(path)
            return list(content["records"]) if content["made_by"] == made_by else None
        except (FileError, KeyError, TypeError):
            return None
