"""One (data set, network, recipe), where its files are and how it is run: what every stage is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftgauge.errors import InputError
from shiftgauge.experiments.datasets import Dataset
from shiftgauge.experiments.networks import NETWORKS, TEXT, check_network, need_torch, public_weights
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.provenance import files_digest
from shiftgauge.experiments.recipes import Recipe
from shiftgauge.experiments.shards import Shard


def check_device(name: str) -> None:
    """One clear line for a device that torch does not know or does not see."""
    torch = need_torch()
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"--device is {name!r}; it must be one like cpu, cuda or cuda:1") from None
    seen = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= seen:
        raise InputError(
            f"--device is {name!r}, and torch sees {seen} GPUs here; wanted cpu, or leave it out"
        )


@dataclass(frozen=True)
class Setting:
    """What is run (data set, network, recipe), on which files (root, runs), and how.

    ``rows`` keeps so many rows of every shifted set, for machines without a GPU. ``cache`` is a
    directory for corrupted sets. ``redo`` makes scores again that something else made.
    """

    dataset: Dataset
    network: str
    recipe: Recipe
    root: Path
    runs: Path
    device: str | None = None
    precision: str = "auto"
    workers: int = 0
    rows: int | None = None
    shard: Shard = field(default_factory=Shard)
    cache: Path | None = None
    redo: bool = False
    progress: Progress = silent

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, and a device that is not here, before anything is read."""
        if self.dataset.score is None:
            self._check_parts()
        if self.device is not None:
            check_device(self.device)

    def _check_parts(self) -> None:
        """Data set, network and recipe must fit: texts or images, and weights where the recipe starts from some."""
        name, network, texts = self.dataset.name, check_network(self.network), self.dataset.text
        if texts != (network in TEXT):
            held, wanted = ("texts", TEXT) if texts else ("images", [n for n in NETWORKS if n not in TEXT])
            raise InputError(
                f"{name} holds {held}, and {network} reads none; choose one of --network {', '.join(wanted)}"
            )
        if self.recipe.max_tokens and not texts:
            raise InputError(f"{name} holds images, and the recipe is one for texts; choose another --recipe")
        if self.recipe.pretrained and not texts and public_weights(network) is None:
            able = [n for n in NETWORKS if public_weights(n)]
            raise InputError(
                f"the recipe starts from public {self.recipe.pretrained} weights, and {network} has none; "
                f"choose one of --network {', '.join(able)}, or another --recipe"
            )

    def checkpoint(self, seed: int) -> Path:
        """``runs/checkpoints/<data set>/<network>/seed<seed>.pt``."""
        return self.runs / "checkpoints" / self.dataset.name / self.network / f"seed{seed}.pt"

    def run(self, seed: int | None = None) -> Any:
        """How training and scoring happen; with a seed, where its checkpoint is."""
        from shiftgauge.experiments.training import Run

        path = None if seed is None else self.checkpoint(seed)
        data = "" if seed is None else files_digest(self._trained_from())
        return Run(
            path,
            self.device,
            progress=self.progress,
            precision=self.precision,
            workers=self.workers,
            data=data,
        )

    def _trained_from(self) -> list[Path]:
        """The files that training reads: the data set's and, where it starts from some, the public weights."""
        start = self.start()
        return [*self.dataset.files(self.root), *([start] if isinstance(start, Path) else [])]

    def start(self, pretrained: str | None = "") -> Path | str | None:
        """Public weights that are started from: a path below ``root/weights``, a hub's name, None for random ones.

        pretrained: which ones; where it is left out, those of the recipe.
        """
        named = self.recipe.pretrained if pretrained == "" else pretrained
        if not named:
            return None
        if self.network in TEXT:
            local = self.root / "weights" / named
            return local if local.exists() else named
        file = public_weights(self.network)
        return None if file is None else self.root / "weights" / file

    def fresh(self, seed: int, pretrained: str | None = "") -> Any:
        """The network before training, on public weights where the recipe (or ``pretrained``) says so."""
        from shiftgauge.experiments.networks import build

        options: dict[str, Any] = {"max_tokens": self.recipe.max_tokens} if self.recipe.max_tokens else {}
        start = self.start(pretrained)
        if start is not None:
            options["weights"] = start
        if public_weights(self.network) and not self.network.endswith("-224"):
            options["statistics"] = self.dataset.statistics
        return build(self.network, self.dataset.classes, seed, **options)

    def trained(self, seed: int) -> Any:
        """Train (or go on training, or just load) one network."""
        from shiftgauge.experiments.training import train

        self.dataset.require(self.root)
        return train(self.fresh(seed), self.dataset.training(self.root), self.recipe, seed, self.run(seed))
