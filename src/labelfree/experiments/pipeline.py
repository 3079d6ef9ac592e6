"""One (data set, network, recipe), where its files are and how it is run: what every stage is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labelfree.errors import InputError
from labelfree.experiments.datasets import Dataset
from labelfree.experiments.networks import public_weights
from labelfree.experiments.progress import Progress, silent
from labelfree.experiments.provenance import files_digest
from labelfree.experiments.recipes import Recipe
from labelfree.experiments.shards import Shard


def check_device(name: str) -> None:
    """One clear line for a device that torch does not know or does not see."""
    import torch

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

    ``rows`` keeps the first so many rows of every shifted set, for machines without a GPU. ``cache`` is a
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
        """Refuse a device that is not here before anything is read."""
        if self.device is not None:
            check_device(self.device)

    def checkpoint(self, seed: int) -> Path:
        """``runs/checkpoints/<data set>/<network>/seed<seed>.pt``."""
        return self.runs / "checkpoints" / self.dataset.name / self.network / f"seed{seed}.pt"

    def run(self, seed: int | None = None) -> Any:
        """How training and scoring happen; with a seed, where its checkpoint is."""
        from labelfree.experiments.training import Run

        path = None if seed is None else self.checkpoint(seed)
        data = "" if seed is None else files_digest(self.dataset.files(self.root))
        return Run(
            path,
            self.device,
            progress=self.progress,
            precision=self.precision,
            workers=self.workers,
            data=data,
        )

    def fresh(self, seed: int, pretrained: str | None = "") -> Any:
        """The network before training, on public weights below ``root/weights`` where the recipe says so."""
        from labelfree.experiments.networks import build

        start = self.recipe.pretrained if pretrained == "" else pretrained
        options: dict[str, Any] = {"max_tokens": self.recipe.max_tokens} if self.recipe.max_tokens else {}
        file = public_weights(self.network)
        if start and file:
            options["weights"] = self.root / "weights" / file
        if file and not self.network.endswith("-224"):
            options["statistics"] = self.dataset.statistics
        if start and self.network == "distilbert":
            local = self.root / "weights" / start
            options["weights"] = local if local.exists() else start
        return build(self.network, self.dataset.classes, seed, **options)

    def trained(self, seed: int) -> Any:
        """Train (or go on training, or just load) one network."""
        from labelfree.experiments.training import train

        self.dataset.require(self.root)
        return train(self.fresh(seed), self.dataset.training(self.root), self.recipe, seed, self.run(seed))
