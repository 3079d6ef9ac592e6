"""Where collected scores live, so that estimates never need the images again.

    <runs>/scores/<data set>/<network>/seed<seed>/
        about.json            data set, network, seed, recipe, origin of the frost textures, version
        source.npz            logits (n, K) float16, labels (n,)
        shifts/<name>.npz     logits (n, K) float16, labels (n,), kind (one word)
        projnorm/<name>.json  ProjNorm of the shift, where it was computed

Every file is written beside its name and renamed, so what exists is whole, and a collection that was
killed goes on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelfree.errors import FileError
from labelfree.experiments._store import read_arrays, read_json, write_arrays, write_json


@dataclass(frozen=True)
class Recorded:
    """Logits (n, K) and labels (n,) of one set, with the kind of shift it is."""

    logits: NDArray[np.float16]
    labels: NDArray[np.int64]
    kind: str = "source"

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

    def write(
        self, shift: str | None, logits: NDArray[Any], labels: NDArray[Any], kind: str = "source"
    ) -> None:
        """Record one set; logits beyond float16's range are refused, not clipped."""
        with np.errstate(over="ignore"):
            half = logits.astype(np.float16)
        if not np.isfinite(half).all():
            raise FileError(
                f"{self.path(shift)}: logits are not finite in float16; did the training diverge?"
            )
        write_arrays(self.path(shift), logits=half, labels=labels.astype(np.int64), kind=np.array(kind))

    def read(self, shift: str | None = None) -> Recorded:
        """Read one set."""
        arrays = read_arrays(self.path(shift))
        try:
            return Recorded(arrays["logits"], arrays["labels"], str(arrays["kind"]))
        except KeyError as error:
            raise FileError(f"{self.path(shift)} has no {error}; delete it and collect again") from None

    def shifts(self) -> list[str]:
        """Names of the collected shifts: those of ``about.json`` in their order, then any others."""
        found = {path.stem for path in (self.folder / "shifts").glob("*.npz")}
        order = [name for name in self.about.get("shifts", []) if name in found]
        return order + sorted(found - set(order))

    def describe(self, **about: Any) -> None:
        """Write ``about.json``."""
        write_json(self.folder / "about.json", about)

    def projnorm(self, shift: str) -> float | None:
        """ProjNorm of a shift, if it was computed."""
        path = self.folder / "projnorm" / f"{shift}.json"
        return float(read_json(path)["projnorm"]) if path.exists() else None

    def write_projnorm(self, shift: str, value: float, **how: Any) -> None:
        """Record ProjNorm of a shift."""
        write_json(self.folder / "projnorm" / f"{shift}.json", {"projnorm": value, **how})


def seeds_of(runs: Path, dataset: str, network: str) -> list[int]:
    """Seeds with a collected source, ascending."""
    folder = runs / "scores" / dataset / network
    found = sorted(int(path.parent.name[4:]) for path in folder.glob("seed*/source.npz"))
    if not found:
        raise FileError(f"{folder} holds no collected scores; run `labelfree bench collect {dataset}` first")
    return found
