"""Collected scores on disk, so that estimates never need the images again.

    <runs>/scores/<data set>/<network>/seed<seed>/
        manifest.json         what is scored, by which network and recipe, what is missing, and what every file of
                              scores must be made by
        source.npz            scores (n, K), labels (n,)
        shifts/<name>.npz     scores (n, K), labels (n,), kind of shift
        projnorm/<name>.json  ProjNorm of the shift, if it was computed

Logits are stored in float16, probabilities in float32. Every file carries a stamp: ``made_by`` (digests of weights,
data files and code, and the options), ``inputs`` (a digest of the scored images, texts or rows) and ``software``
(versions). Estimates are refused if a stamp differs from the manifest. A collection that was killed continues.
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
from shiftgauge.experiments.digests import check_made_by, digest
from shiftgauge.experiments.storage import read_arrays, read_mapping, write_arrays, write_json
from shiftgauge.samples import Source, Target

SOURCE = "source"
"""The source's name beside those of the shifts."""
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

    def path(self, shift: str | None) -> Path:
        """File of a shift, or of the source for None."""
        return self.folder / "source.npz" if shift is None else self.folder / "shifts" / f"{shift}.npz"

    def has(self, shift: str | None) -> bool:
        """Whether it was collected."""
        return self.path(shift).exists()

    def stamp(self, shift: str | None) -> dict[str, Any]:
        """``made_by``, ``inputs`` and ``software`` of a file, without reading its scores; empty if it has no stamp."""
        arrays = read_arrays(self.path(shift), "stamp")
        return dict(json.loads(str(arrays["stamp"]))) if "stamp" in arrays else {}

    def made_by(self, shift: str | None) -> dict[str, Any] | None:
        """What made a file; None if it does not exist or cannot be read, so that it is made again."""
        if not self.has(shift):
            return None
        try:
            self.read(shift)
            return dict(self.stamp(shift).get("made_by", {}))
        except (FileError, ValueError):
            return None

    def check(self, shift: str | None) -> None:
        """Refuse a file that was not made by what the manifest says."""
        expected = self.manifest.get("made_by", {}).get(shift or SOURCE, {})
        present = self.stamp(shift).get("made_by", {})
        advice = "run `shiftgauge bench collect` to its end, with --redo"
        check_made_by(self.path(shift), present, expected, advice, f" than {self.folder / MANIFEST} says")

    def write(
        self,
        shift: str | None,
        scores: NDArray[Any],
        labels: NDArray[Any],
        kind: str = SOURCE,
        made_by: Mapping[str, Any] | None = None,
        inputs: str = "",
        software: str = "",
        form: str = "logits",
    ) -> None:
        """Write one set; logits beyond float16's range are refused, not clipped."""
        with np.errstate(over="ignore"):
            stored = scores.astype(DTYPES[form])
        if not np.isfinite(stored).all():
            raise FileError(
                f"{self.path(shift)}: {form} are not finite in {stored.dtype}; did the training diverge?"
            )
        stamp = {"made_by": dict(made_by or {}), "inputs": inputs, "software": software}
        arrays: dict[str, NDArray[Any]] = {
            form: stored,
            "labels": labels.astype(np.int64),
            "kind": np.array(kind),
        }
        write_arrays(self.path(shift), **arrays, stamp=np.array(json.dumps(stamp, sort_keys=True)))

    def read(self, shift: str | None = None) -> ScoredSet:
        """Read one set."""
        arrays = read_arrays(self.path(shift))
        form = "probs" if "probs" in arrays else "logits"
        try:
            return ScoredSet(arrays[form], arrays["labels"], str(arrays["kind"]), form)
        except KeyError as error:
            raise FileError(f"{self.path(shift)} has no {error}; delete it and collect again") from None

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

    def projnorm_path(self, shift: str, form: str = "projnorm") -> Path:
        """File of a shift's ProjNorm in one of its forms."""
        return self.folder / form / f"{shift}.json"

    def projnorm_made_by(self, shift: str, form: str) -> dict[str, Any] | None:
        """What ProjNorm of a shift was computed from; None if it was not computed."""
        path = self.projnorm_path(shift, form)
        return dict(read_mapping(path).get("made_by", {})) if path.exists() else None

    def projnorm(self, shift: str, form: str = "projnorm") -> float | None:
        """ProjNorm of a shift, or None; one that was computed from other scores is refused."""
        made_by = self.projnorm_made_by(shift, form)
        if made_by is None:
            return None
        path = self.projnorm_path(shift, form)
        stamp = self.stamp(shift)["made_by"]
        if (stamp or made_by) and made_by.get("scores") != digest(stamp):
            raise FileError(
                f"{path} was computed from other scores; run `shiftgauge bench collect` with --redo, or delete it"
            )
        return float(read_mapping(path)["projnorm"])

    def write_projnorm(self, shift: str, value: float, form: str = "projnorm", **options: Any) -> None:
        """Write ProjNorm of a shift and how it was computed."""
        write_json(self.projnorm_path(shift, form), {"projnorm": value, **options})


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
