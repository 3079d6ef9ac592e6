"""Where collected scores live, so that estimates never need the images again.

    <runs>/scores/<data set>/<network>/seed<seed>/
        about.json            data set, network, seed, recipe, every shift with origin and rows, what is missing
        source.npz            logits (n, K) float16, labels (n,)
        shifts/<name>.npz     logits (n, K) float16, labels (n,), kind (one word)
        projnorm/<name>.json  ProjNorm of the shift, where it was computed

Every file is written beside its name and renamed, so what exists is whole, and a collection that was
killed goes on where it was. Every ``.npz`` also carries ``made_by`` (digests of weights, data files and code,
and the options) and ``inputs`` (a digest of the very images or texts that were scored).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelfree.errors import FileError
from labelfree.experiments._store import read_arrays, read_json, write_arrays, write_json
from labelfree.experiments.provenance import digest


@dataclass(frozen=True)
class Recorded:
    """Logits (n, K) and labels (n,) of one set, with the kind of shift it is."""

    logits: NDArray[np.float16]
    labels: NDArray[np.int64]
    kind: str = "source"
    inputs: str = ""

    @property
    def error(self) -> float:
        """Share of rows whose largest logit is not the label's."""
        return float((self.logits.argmax(1) != self.labels).mean())


@dataclass(frozen=True)
class Scores:
    """The collected scores of one (data set, network, seed)."""

    folder: Path

    @classmethod
    def of(cls, runs: Path, dataset: str, network: str, seed: int) -> Scores:
        """The standard place below ``runs``."""
        return cls(runs / "scores" / dataset / network / f"seed{seed}")

    @property
    def about(self) -> dict[str, Any]:
        """What was collected, and how."""
        about: dict[str, Any] = read_json(self.folder / "about.json")
        return about

    def path(self, shift: str | None) -> Path:
        """File of a shift, or of the source for None."""
        return self.folder / "source.npz" if shift is None else self.folder / "shifts" / f"{shift}.npz"

    def has(self, shift: str | None) -> bool:
        """Whether it was collected."""
        return self.path(shift).exists()

    def made_by(self, shift: str | None) -> dict[str, Any] | None:
        """What made a recorded set; None if there is none, or it is not whole (it is then made again)."""
        if not self.has(shift):
            return None
        try:
            arrays = read_arrays(self.path(shift))
            recorded = self.stamp(shift)
        except (FileError, ValueError):
            return None
        return recorded if {"logits", "labels", "kind"} <= arrays.keys() else None

    def stamp(self, shift: str | None) -> dict[str, Any]:
        """What made a recorded set, without reading it whole; empty where that was not recorded."""
        held = read_arrays(self.path(shift), "made_by")
        return dict(json.loads(str(held["made_by"]))) if "made_by" in held else {}

    def check(self, shift: str | None) -> None:
        """Refuse a recorded set that something else made than ``about.json`` says."""
        told, stamp = self.about, self.stamp(shift)
        # The source is always scored whole, whatever number of rows was asked of the shifts.
        wrong = [key for key, value in stamp.items() if told.get(key, value) != value and value is not None]
        if wrong:
            raise FileError(
                f"{self.path(shift)} was made with other {', '.join(wrong)} than {self.folder / 'about.json'} says; "
                "run `labelfree bench collect` to its end, with --redo"
            )

    def write(
        self,
        shift: str | None,
        logits: NDArray[Any],
        labels: NDArray[Any],
        kind: str = "source",
        made_by: Mapping[str, Any] | None = None,
        inputs: str = "",
    ) -> None:
        """Record one set; logits beyond float16's range are refused, not clipped."""
        with np.errstate(over="ignore"):
            half = logits.astype(np.float16)
        if not np.isfinite(half).all():
            raise FileError(
                f"{self.path(shift)}: logits are not finite in float16; did the training diverge?"
            )
        write_arrays(
            self.path(shift),
            logits=half,
            labels=labels.astype(np.int64),
            kind=np.array(kind),
            made_by=np.array(json.dumps(dict(made_by or {}), sort_keys=True)),
            inputs=np.array(inputs),
        )

    def read(self, shift: str | None = None) -> Recorded:
        """Read one set."""
        arrays = read_arrays(self.path(shift))
        try:
            return Recorded(
                arrays["logits"], arrays["labels"], str(arrays["kind"]), str(arrays.get("inputs", ""))
            )
        except KeyError as error:
            raise FileError(f"{self.path(shift)} has no {error}; delete it and collect again") from None

    def shifts(self) -> list[str]:
        """Names of the collected shifts: those of ``about.json`` in their order, then any others."""
        found = {path.stem for path in (self.folder / "shifts").glob("*.npz")}
        order = [name for name in self.about.get("shifts", []) if name in found]
        return order + sorted(found - set(order))

    def missing(self) -> dict[str, str]:
        """Shifts of the data set without scores, each with the reason."""
        absent = dict(self.about.get("missing", {}))
        wanting = [name for name in self.about.get("shifts", []) if not self.has(name) and name not in absent]
        return absent | dict.fromkeys(wanting, "not scored yet")

    def describe(self, **about: Any) -> None:
        """Write ``about.json``."""
        write_json(self.folder / "about.json", about)

    def projnorm(self, shift: str, form: str = "projnorm") -> float | None:
        """ProjNorm of a shift in one of its forms, if it was computed; of other scores than these it is refused."""
        made_by = self.projnorm_made_by(shift, form)
        if made_by is None:
            return None
        path = self.folder / form / f"{shift}.json"
        if made_by and made_by.get("scores") != digest(self.stamp(shift)):
            raise FileError(
                f"{path} was computed from other scores; run `labelfree bench collect` for it with --redo, or delete it"
            )
        return float(read_json(path)["projnorm"])

    def projnorm_made_by(self, shift: str, form: str) -> dict[str, Any] | None:
        """What ProjNorm of a shift was computed from; None if it was not."""
        path = self.folder / form / f"{shift}.json"
        return dict(read_json(path).get("made_by", {})) if path.exists() else None

    def write_projnorm(self, shift: str, value: float, form: str = "projnorm", **how: Any) -> None:
        """Record ProjNorm of a shift and how it was computed."""
        write_json(self.folder / form / f"{shift}.json", {"projnorm": value, **how})


def seeds_of(runs: Path, dataset: str, network: str) -> list[int]:
    """Seeds with a collected source, ascending."""
    folder = runs / "scores" / dataset / network
    found = sorted(int(path.parent.name[4:]) for path in folder.glob("seed*/source.npz"))
    if not found:
        raise FileError(f"{folder} holds no collected scores; run `labelfree bench collect {dataset}` first")
    return found
