"""Where collected scores live, so that estimates never need the images again.

    <runs>/scores/<data set>/<network>/seed<seed>/
        about.json            data set, network, seed, recipe, every shift with origin, what is missing, and what
                              every file of scores must have been made by
        source.npz            logits (n, K) float16, labels (n,)
        shifts/<name>.npz     logits (n, K) float16, labels (n,), kind (one word)
        projnorm/<name>.json  ProjNorm of the shift, where it was computed

Every file is written beside its name and renamed, so what exists is whole, and a collection that was
killed goes on where it was. Every ``.npz`` also carries ``made_by`` (digests of weights, data files and code,
and the options), ``inputs`` (a digest of the very images or texts that were scored) and ``software`` (versions).
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
from shiftgauge.experiments._store import read_arrays, read_mapping, write_arrays, write_json
from shiftgauge.experiments.provenance import difference, digest

SOURCE = "source"
"""The source's name beside those of the shifts."""


@dataclass(frozen=True)
class Recorded:
    """Logits (n, K) and labels (n,) of one set, with the kind of shift it is."""

    logits: NDArray[np.float16]
    labels: NDArray[np.int64]
    kind: str = "source"
    inputs: str = ""
    software: str = ""

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
        path = self.folder / "about.json"
        try:
            return read_mapping(path)
        except FileError as error:
            raise FileError(f"{error}; run `shiftgauge bench collect` again, which writes it anew") from None

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

    def inputs(self, shift: str | None) -> dict[str, str]:
        """``{"inputs": digest}`` of what was scored; empty where that was not recorded."""
        held = str(read_arrays(self.path(shift), "inputs").get("inputs", ""))
        return {"inputs": held} if held else {}

    def check(self, shift: str | None) -> None:
        """Refuse a recorded set that something else made than ``about.json`` says."""
        told, stamp = self.about, self.stamp(shift)
        if "made_by" in told:
            wanted = told["made_by"].get(shift or SOURCE, {})
        else:
            # Written by an earlier version, or recorded elsewhere: only what it says in common can be held against it.
            wanted = {key: told[key] for key in stamp if key in told and (shift, key) != (None, "rows")}
        wrong = difference(stamp, wanted)
        if wrong:
            raise FileError(
                f"{self.path(shift)} was made with other {wrong} than {self.folder / 'about.json'} says; "
                "run `shiftgauge bench collect` to its end, with --redo"
            )

    def write(
        self,
        shift: str | None,
        logits: NDArray[Any],
        labels: NDArray[Any],
        kind: str = "source",
        made_by: Mapping[str, Any] | None = None,
        inputs: str = "",
        software: str = "",
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
            software=np.array(software),
        )

    def read(self, shift: str | None = None) -> Recorded:
        """Read one set."""
        arrays = read_arrays(self.path(shift))
        try:
            said = [str(arrays[key]) if key in arrays else "" for key in ("inputs", "software")]
            return Recorded(arrays["logits"], arrays["labels"], str(arrays["kind"]), *said)
        except KeyError as error:
            raise FileError(f"{self.path(shift)} has no {error}; delete it and collect again") from None

    def shifts(self) -> list[str]:
        """Names of the collected shifts, in the order of ``about.json``.

        A file that it does not name, or names as missing, belongs to an earlier state of the data and does not count;
        where it names none, all files do.
        """
        about = self.about
        every = about.get("shifts") or sorted(path.stem for path in (self.folder / "shifts").glob("*.npz"))
        return [name for name in every if name not in about.get("missing", {}) and self.has(name)]

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
        stamp = self.stamp(shift)
        if (stamp or made_by) and made_by.get("scores") != digest(stamp):
            raise FileError(
                f"{path} was computed from other scores; run `shiftgauge bench collect` with --redo, or delete it"
            )
        return float(read_mapping(path)["projnorm"])

    def projnorm_made_by(self, shift: str, form: str) -> dict[str, Any] | None:
        """What ProjNorm of a shift was computed from; None if it was not."""
        path = self.folder / form / f"{shift}.json"
        return dict(read_mapping(path).get("made_by", {})) if path.exists() else None

    def write_projnorm(self, shift: str, value: float, form: str = "projnorm", **how: Any) -> None:
        """Record ProjNorm of a shift and how it was computed."""
        write_json(self.folder / form / f"{shift}.json", {"projnorm": value, **how})


def seeds_of(runs: Path, dataset: str, network: str) -> list[int]:
    """Seeds with a collected source, ascending."""
    found = _seeds(runs, dataset, network, "source.npz")
    if not found:
        folder = runs / "scores" / dataset / network
        others = sorted(path.name for path in folder.parent.glob("*") if any(path.glob("seed*/source.npz")))
        beside = f" (there are scores of {', '.join(others)})" if others else ""
        raise FileError(
            f"{folder} holds no collected scores{beside}; "
            f"run `shiftgauge bench collect {dataset.split('/')[0]} --network {network}` first"
        )
    return found


def seeds_without_source(runs: Path, dataset: str, network: str) -> list[int]:
    """Seeds whose collection was begun and has no source: they are in no table, which must be said."""
    begun = _seeds(runs, dataset, network, "about.json")
    return sorted(set(begun) - set(_seeds(runs, dataset, network, "source.npz")))


def _seeds(runs: Path, dataset: str, network: str, file: str) -> list[int]:
    places = (runs / "scores" / dataset / network).glob(f"seed*/{file}")
    names = [re.fullmatch(r"seed(\d+)", path.parent.name) for path in places]
    return sorted(int(name[1]) for name in names if name)
