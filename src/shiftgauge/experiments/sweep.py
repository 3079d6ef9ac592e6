"""Every collected shift of every seed, each worked out once and kept: what was killed goes on where it was.

    <runs>/estimates/<data set>/<network>/<what>/seed<seed>/<shift>.json    the records of one shift and what made them

The units of a sweep are independent, so shards of it on several machines give the files that one machine would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments._store import naming, read_json, write_json
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.provenance import difference, digest, files_digest, method_digest
from shiftgauge.experiments.scores import Recorded, Scores, seeds_of
from shiftgauge.experiments.shards import Shard

R = TypeVar("R")


@dataclass(frozen=True)
class Unit:
    """One shift of one seed; ``other`` are the next seed's scores (for GDE)."""

    dataset: str
    network: str
    seed: int
    shift: str
    scores: Scores
    other: Scores | None

    def target(self) -> Recorded:
        """The recorded scores."""
        return self.scores.read(self.shift)

    def second(self) -> NDArray[np.int64] | None:
        """The other network's predictions on the same rows, where it has been scored."""
        if self._beside is None:
            return None
        return np.asarray(self._beside.read(self.shift).logits.argmax(1), np.int64)

    @property
    def _beside(self) -> Scores | None:
        """The next seed's scores, if this shift counts among them."""
        return self.other if self.other is not None and self.shift in self.other.shifts() else None

    def generator(self, *more: int) -> np.random.Generator:
        """Random numbers of this unit alone: the same whatever other shifts are there."""
        return np.random.default_rng([self.seed, int(digest(self.shift), 16), *more])

    def key(self) -> str:
        """Digest of the files this unit's answer depends on."""
        paths = [self.scores.path(None), self.scores.path(self.shift)]
        if self._beside is not None:
            paths.append(self._beside.path(self.shift))
        projnorm = sorted(self.scores.folder.glob(f"projnorm*/{self.shift}.json"))
        return files_digest([*paths, *projnorm])


def units(runs: Path, dataset: str, network: str) -> list[Unit]:
    """Every collected shift of every seed, seed by seed."""
    seeds = seeds_of(runs, dataset, network)
    collected = [Scores.of(runs, dataset, network, seed) for seed in seeds]
    found = []
    for index, (seed, scores) in enumerate(zip(seeds, collected, strict=True)):
        other = collected[(index + 1) % len(seeds)] if len(seeds) > 1 else None
        scores.check(None)
        for shift in scores.shifts():
            scores.check(shift)
            found.append(Unit(dataset, network, seed, shift, scores, other))
    _check_alike(collected)
    return found


def _check_alike(collected: Sequence[Scores]) -> None:
    """Refuse seeds of other recipes, sources or images under one name: a row of a table averages over them."""
    first: dict[str | None, tuple[Scores, dict[str, Any]]] = {}
    for scores in collected:
        recipe = {"recipe": scores.about.get("recipe")}
        for shift in (None, *scores.shifts()):
            # Weights differ from seed to seed; of code the images tell what it changed.
            stamp = {k: v for k, v in scores.stamp(shift).items() if k not in ("weights", "code")}
            seen = recipe | stamp | scores.inputs(shift)
            other, before = first.setdefault(shift, (scores, seen))
            changed = difference(before, seen)
            if changed:
                raise FileError(
                    f"{scores.path(shift)} was made with other {changed} than {other.path(shift)}, and one table "
                    "would hold both; collect all seeds alike with --redo, or choose another directory with --runs"
                )


@dataclass(frozen=True)
class Sweep(Generic[R]):
    """What is worked out of every unit: records of ``kind`` by ``work(source, unit)``.

    ``prepare`` turns a seed's source into what ``work`` needs, once a seed. ``options`` belong to the digest
    of the answers: with others the kept ones do not count.
    """

    what: str
    kind: type[R]
    prepare: Callable[[Recorded], Any]
    work: Callable[[Any, Unit], list[R]]
    options: Mapping[str, Any]

    def run(
        self, runs: Path, dataset: str, network: str, shard: Shard | None = None, progress: Progress = silent
    ) -> list[R]:
        """The records of every unit of this shard, in order; those already there are read, not made."""
        mine = [u for i, u in enumerate(units(runs, dataset, network)) if (shard or Shard()).takes(i)]
        keys = [digest(unit.key(), dict(self.options), method_digest()) for unit in mine]
        found = [self._kept(self.path(runs, unit), key) for unit, key in zip(mine, keys, strict=True)]
        # What was kept is done before the first report, so that it does not count as speed.
        done, prepared = sum(kept is not None for kept in found), dict[int, Any]()
        for place, (unit, key) in enumerate(zip(mine, keys, strict=True)):
            if found[place] is not None:
                continue
            with naming(f"{dataset}, seed {unit.seed}, {unit.shift}"):
                if unit.seed not in prepared:
                    prepared = {unit.seed: self.prepare(unit.scores.read())}
                made = found[place] = self.work(prepared[unit.seed], unit)
            write_json(self.path(runs, unit), {"key": key, "records": [asdict(record) for record in made]})  # type: ignore[call-overload]
            done += 1
            progress(self.what, done, len(mine), f"seed {unit.seed}, {unit.shift}")
        return [record for kept in found for record in kept or ()]

    def path(self, runs: Path, unit: Unit) -> Path:
        """Where a unit's answer is kept."""
        return (
            runs
            / "estimates"
            / unit.dataset
            / unit.network
            / self.what
            / f"seed{unit.seed}"
            / f"{unit.shift}.json"
        )

    def _kept(self, path: Path, key: str) -> list[R] | None:
        if not path.exists():
            return None
        try:
            held = read_json(path)
            return [self.kind(**record) for record in held["records"]] if held["key"] == key else None
        except (FileError, KeyError, TypeError):
            return None
