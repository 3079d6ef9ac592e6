"""One (data set, network, recipe) with its directories and options: the argument of every stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from shiftgauge.errors import InputError
from shiftgauge.experiments.datasets import Dataset
from shiftgauge.experiments.networks import NETWORKS, check_network, need_torch
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.recipes import Recipe
from shiftgauge.experiments.shards import Shard


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or does not see."""
    torch = need_torch()
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"--device is {name!r}; it must be one like cpu, cuda or cuda:1") from None
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise InputError(
            f"--device is {name!r}, and torch sees {count} GPUs here; wanted cpu, or leave it out"
        )


@dataclass(frozen=True)
class Setting:
    """What is run (data set, network, recipe), in which directories (root of the data, runs), and how.

    ``rows`` limits the rows of every shifted set, for machines without a GPU. ``cache`` is a directory for
    corrupted sets. ``redo`` replaces scores that were made by something else.
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
        """Refuse a data set, network and recipe that do not fit, and an unknown device, before anything is read."""
        name, network, texts = self.dataset.name, check_network(self.network), self.dataset.text
        if texts != NETWORKS[network].text:
            content = "texts" if texts else "images"
            wanted = ", ".join(other for other, known in NETWORKS.items() if known.text == texts)
            raise InputError(
                f"{name} holds {content}, and {network} reads none; choose one of --network {wanted}"
            )
        if self.recipe.max_tokens and not texts:
            raise InputError(f"{name} holds images, and the recipe is one for texts; choose another --recipe")
        if self.recipe.pretrained and not texts and NETWORKS[network].weights is None:
            able = [other for other, known in NETWORKS.items() if known.weights]
            raise InputError(
                f"the recipe starts from public {self.recipe.pretrained} weights, and {network} has none; "
                f"choose one of --network {', '.join(able)}, or another --recipe"
            )
        if self.device is not None:
            check_device(self.device)

    def checkpoint(self, seed: int) -> Path:
        """``runs/checkpoints/<data set>/<network>/seed<seed>.pt``."""
        return self.runs / "checkpoints" / self.dataset.name / self.network / f"seed{seed}.pt"

    def training_files(self) -> list[Path]:
        """The files that training reads: those of the data set and the public weights, if it starts from some."""
        start = self.initial_weights()
        return [*self.dataset.files(self.root), *([start] if isinstance(start, Path) else [])]

    def initial_weights(self, pretrained: str | None = "") -> Path | str | None:
        """Public weights to start from: a path below ``root/weights``, the name of a hub, or None for random ones.

        pretrained: which ones; if it is left out, those of the recipe.
        """
        name = self.recipe.pretrained if pretrained == "" else pretrained
        if not name:
            return None
        if NETWORKS[self.network].text:
            local = self.root / "weights" / name
            return local if local.exists() else name
        file = NETWORKS[self.network].weights
        return None if file is None else self.root / "weights" / file
