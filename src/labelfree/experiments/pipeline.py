"""Train and collect one (data set, network, seed): what the commands call, and scripts may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelfree.experiments._store import Progress
from labelfree.experiments.datasets import Dataset
from labelfree.experiments.recipes import Recipe


def checkpoint_path(runs: Path, dataset: str, network: str, seed: int) -> Path:
    """``runs/checkpoints/<data set>/<network>/seed<seed>.pt``."""
    return runs / "checkpoints" / dataset / network / f"seed{seed}.pt"


def make_network(dataset: Dataset, network: str, recipe: Recipe, seed: int, root: Path) -> Any:
    """A fresh network for a data set; where the recipe says so, on public weights under ``root/weights``."""
    from labelfree.experiments.networks import build

    options: dict[str, Any] = {}
    if recipe.max_tokens:
        options["max_tokens"] = recipe.max_tokens
    if recipe.pretrained and network in ("resnet18", "resnet50"):
        options["weights"] = root / "weights" / f"{network}.pth"
    if dataset.name == "rxrx1" and network == "resnet50":
        options["standardise"] = True
    if recipe.pretrained and network == "distilbert":
        local = root / "weights" / recipe.pretrained
        options["weights"] = local if local.exists() else recipe.pretrained
    return build(network, dataset.classes, seed, **options)


def train_network(
    dataset: Dataset,
    network: str,
    recipe: Recipe,
    seed: int,
    root: Path,
    runs: Path,
    device: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Train (or go on training, or just load) one network."""
    from labelfree.experiments.training import Run, train

    dataset.require(root)
    path = checkpoint_path(runs, dataset.name, network, seed)
    model = make_network(dataset, network, recipe, seed, root)
    run = Run(checkpoint=path, device=device, progress=progress)
    return train(model, dataset.training(root), recipe, seed, run)
