"""Checkpoints: written completely or not at all, and refused by a run with other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from shiftgauge.errors import FileError
from shiftgauge.experiments.digests import check_made_by
from shiftgauge.experiments.storage import replacing

PARTS = {"network", "optimiser", "scaler", "step"}
"""Keys of a checkpoint beside its settings."""


def save_checkpoint(
    path: Path, network: Any, optimiser: Any, scaler: Any, step: int, settings: dict[str, Any]
) -> None:
    """Write the state after ``step`` steps; a later run must have the same ``settings``."""
    state = {
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "scaler": scaler.state_dict(),
        "step": step,
        **settings,
    }
    with replacing(path) as file:
        torch.save(state, file)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without unpickling arbitrary objects."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or not state.keys() >= PARTS:
            raise TypeError
        return state
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `shiftgauge bench train` first") from None
    except Exception as error:
        raise FileError(
            f"{path} is not a checkpoint ({type(error).__name__}); delete it to train anew"
        ) from None


def resume(path: Path | None, network: Any, optimiser: Any, scaler: Any, settings: dict[str, Any]) -> int:
    """Load a checkpoint into network, optimiser and scaler; the number of steps done, 0 without a file."""
    if path is None or not path.exists():
        return 0
    state = load_checkpoint(path)
    check_made_by(path, _flat(state), _flat(settings), "delete it, or choose another directory with --runs")
    try:
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        scaler.load_state_dict(state["scaler"])
    except (RuntimeError, ValueError, KeyError, TypeError):
        raise FileError(
            f"{path} is a checkpoint of another network; delete it, or choose another directory with --runs"
        ) from None
    return int(state["step"])


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with those of the recipe beside them, so that a refusal names the one that differs."""
    return {**settings, **settings.get("recipe", {}), "recipe": None}
