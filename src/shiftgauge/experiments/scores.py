"""Collected scores on disk, so that estimates never need the images again.

    <runs>/scores/<data set>/<network>/seed<seed>/
        manifest.json         what is scored, by which network and recipe, what is missing, and what every file of
                              scores must be made by
        source.npz            scores (n, K), labels (n,)
        shifts/<name>.npz     scores (n, K), labels (n,), kind of shift
        projnorm/<name>.npz   ProjNorm of the shift, if it was computed (``projnorm-short`` for our short form)

A file is called ``source``, by the name of its shift, or ``projnorm/<name>``. Logits are stored in float16,
probabilities in float32. Every file carries a stamp: ``made_by`` (digests of weights, data files and code, and the
options), ``inputs`` (a digest of the scored images, texts or rows) and ``software`` (versions). Estimates are refused
if a stamp differs from the manifest. A collection that was killed continues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.digests import check_made_by, digest, software
from shiftgauge.experiments.storage import read_arrays, read_mapping, write_arrays, write_json
from shiftgauge.samples import Source, Target

SOURCE = "source"
"""The source's name beside those of the shifts."""
PROJNORM_FORMS = ("projnorm", "projnorm-short")
"""ProjNorm as in the paper, and our short form: a few steps from the initial weights."""
MANIFEST = "manifest.json"
DTYPES = {"logits": np.float16, "probs": np.float32}


@dataclass(frozen=True)
class ScoredSet:
    """Scores (n, K) and labels (n,) of one set; ``form`` is ``logits`` or ``probs``."""

    scores: NDArray[Any]
    labels: NDArray[np.int64]
    kind: str = SOURCE
    form: str = "logits"

    @property
    def predictions(self) -> NDArray[np.int64]:
        """The class with the largest score of each row."""
        return np.asarray(self.scores.argmax(1), np.int64)

    @property
    def error(self) -> float:
        """Fraction of rows whose prediction is not the label."""
        return float((self.predictions != self.labels).mean())

    def take(self, rows: NDArray[np.int64]) -> ScoredSet:
        """Only these rows."""
        return ScoredSet(self.scores[rows], self.labels[rows], self.kind, self.form)

    def source(self) -> Source:
        """As a source: scores with labels."""
        scores: dict[str, Any] = {self.form: self.scores}
        return Source(**scores, labels=self.labels)

    def target(self, second: NDArray[Any] | None = None) -> Target:
        """As a target, without labels; ``second`` are predictions of another network."""
        scores: dict[str, Any] = {self.form: self.scores}
        return Target(**scores, second=second)


@dataclass(frozen=True)
class ScoreFolder:
    """The collected scores of one (data set, network, seed)."""

    folder: Path

    @classmethod
    def of(cls, runs: Path, dataset: str, network: str, seed: int) -> ScoreFolder:
        """The folder below ``runs``."""
        return cls(runs / "scores" / dataset / network / f"seed{seed}")

    @property
    def manifest(self) -> dict[str, Any]:
        """What was collected, and how."""
        try:
            return read_mapping(self.folder / MANIFEST)
        except FileError as error:
            raise FileError(f"{error}; run `shiftgauge bench collect` again, which writes it anew") from None

    def write_manifest(self, **entries: Any) -> None:
        """Write ``manifest.json``."""
        write_json(self.folder / MANIFEST, entries)

    def path(self, name: str = SOURCE) -> Path:
        """The file called ``name``."""
        inside = name if name == SOURCE or "/" in name else f"shifts/{name}"
        return self.folder / f"{inside}.npz"

    def has(self, name: str) -> bool:
        """Whether it was collected."""
        return self.path(name).exists()

    def stamp(self, name: str = SOURCE) -> dict[str, Any]:
        """``made_by``, ``inputs`` and ``software`` of a file, without reading its scores; empty if it has no stamp."""
        stamp = read_arrays(self.path(name), "stamp").get("stamp", "{}")
        return {"made_by": {}, "inputs": "", "software": ""} | dict(json.loads(str(stamp)))

    def made_by(self, name: str = SOURCE) -> dict[str, Any] | None:
        """What made a file; None if it does not exist or cannot be read, so that it is made again."""
        try:
            read_arrays(self.path(name))  # all of them: a file that is damaged anywhere is made again
            return dict(self.stamp(name)["made_by"])
        except (FileError, ValueError):
            return None

    def check(self, name: str) -> None:
        """Refuse a file that was not made by what the manifest says."""
        expected = self.manifest.get("made_by", {}).get(name, {})
        advice = "run `shiftgauge bench collect` to its end, with --redo"
        than = f" than {self.folder / MANIFEST} says"
        check_made_by(self.path(name), self.stamp(name)["made_by"], expected, advice, than)

    def write(
        self,
        name: str,
        scores: NDArray[Any],
        labels: NDArray[Any],
        kind: str = SOURCE,
        made_by: Mapping[str, Any] | None = None,
        inputs: str = "",
        form: str = "logits",
    ) -> None:
        """Write one set; logits beyond float16's range are refused, not clipped."""
        with np.errstate(over="ignore"):
            stored = scores.astype(DTYPES[form])
        if not np.isfinite(stored).all():
            raise FileError(
                f"{self.path(name)}: {form} are not finite in {stored.dtype}; did the training diverge?"
            )
        arrays: dict[str, NDArray[Any]] = {
            form: stored,
            "labels": labels.astype(np.int64),
            "kind": np.array(kind),
        }
        self._write(name, arrays, made_by, inputs)

    def _write(
        self, name: str, arrays: Mapping[str, NDArray[Any]], made_by: Mapping[str, Any] | None, inputs: str
    ) -> None:
        stamp = {"made_by": dict(made_by or {}), "inputs": inputs, "software": software()}
        write_arrays(self.path(name), **arrays, stamp=np.array(json.dumps(stamp, sort_keys=True)))

    def read(self, name: str = SOURCE) -> ScoredSet:
        """Read one set."""
        arrays = read_arrays(self.path(name))
        form = "probs" if "probs" in arrays else "logits"
        try:
            return ScoredSet(arrays[form], arrays["labels"], str(arrays["kind"]), form)
        except KeyError as error:
            raise FileError(f"{self.path(name)} has no {error}; delete it and collect again") from None

    def shifts(self) -> list[str]:
        """Names of the collected shifts, in the manifest's order.

        Files that the manifest does not name, or names as missing, are ignored: they belong to an earlier state of
        the data.
        """
        manifest = self.manifest
        return [
            name for name in manifest["shifts"] if name not in manifest.get("missing", {}) and self.has(name)
        ]

    def missing(self) -> dict[str, str]:
        """Shifts of the data set without scores, each with the reason."""
        manifest = self.manifest
        absent = dict(manifest.get("missing", {}))
        pending = [name for name in manifest["shifts"] if not self.has(name) and name not in absent]
        return absent | dict.fromkeys(pending, "not scored yet")

    def projnorms(self, shift: str) -> list[str]:
        """The files of a shift's ProjNorm, in the forms that were computed."""
        return [name for form in PROJNORM_FORMS if self.has(name := f"{form}/{shift}")]

    def projnorm(self, name: str) -> float:
        """The ProjNorm in a file; one that was computed from other scores than those beside it is refused."""
        expected = {"scores": digest(self.stamp(name.partition("/")[2])["made_by"])}
        advice = "run `shiftgauge bench collect` with --redo, or delete it"
        check_made_by(self.path(name), self.stamp(name)["made_by"], expected, advice)
        return float(read_arrays(self.path(name), "projnorm")["projnorm"])

    def write_projnorm(self, name: str, value: float, steps: int, made_by: Mapping[str, Any]) -> None:
        """Write ProjNorm of a shift, after so many steps."""
        self._write(name, {"projnorm": np.array(value), "steps": np.array(steps)}, made_by, "")


def seeds_of(runs: Path, dataset: str, network: str) -> list[int]:
    """Seeds with a collected source, ascending."""
    seeds = _seeds(runs, dataset, network, "source.npz")
    if not seeds:
        folder = runs / "scores" / dataset / network
        others = sorted(path.name for path in folder.parent.glob("*") if any(path.glob("seed*/source.npz")))
        hint = f" (there are scores of {', '.join(others)})" if others else ""
        raise FileError(
            f"{folder} holds no collected scores{hint}; "
            f"run `shiftgauge bench collect {dataset.split('/')[0]} --network {network}` first"
        )
    return seeds


def seeds_without_source(runs: Path, dataset: str, network: str) -> list[int]:
    """Seeds whose collection has begun and has no source yet: they are in no table, and the tables say so."""
    begun = _seeds(runs, dataset, network, MANIFEST)
    return sorted(set(begun) - set(_seeds(runs, dataset, network, "source.npz")))


def _seeds(runs: Path, dataset: str, network: str, file: str) -> list[int]:
    paths = (runs / "scores" / dataset / network).glob(f"seed*/{file}")
    names = [re.fullmatch(r"seed(\d+)", path.parent.name) for path in paths]
    return sorted(int(name[1]) for name in names if name)
