"""Train a network by a recipe: resumable after a kill, the same bit for bit for the same seed.

Every random choice of a step is drawn from (seed, epoch, step) and the learning rate is a function of
the step, so a checkpoint holds weights, optimiser state and a step number, and nothing else.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from labelfree.errors import FileError, InputError
from labelfree.experiments._store import Progress, replacing
from labelfree.experiments.examples import Examples
from labelfree.experiments.recipes import Recipe


@dataclass(frozen=True)
class Run:
    """Where a training happens: device, mixed precision, how often to save, whom to tell."""

    checkpoint: Path | None = None
    device: str | None = None
    every_seconds: float = 60.0
    progress: Progress | None = None
    stop_after: int | None = None
    """Leave after this many steps in all, as a kill would (for tests and time limits)."""

    @property
    def on(self) -> Any:
        """The device: the one asked for, else a GPU if there is one."""
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))


def train(network: Any, examples: Examples, recipe: Recipe, seed: int, run: Run | None = None) -> Any:
    """Train ``network`` in place and return it.

    With ``run.checkpoint``, progress is saved there and a later call with the same recipe and seed goes
    on where it was; a finished checkpoint is loaded without training.
    """
    run = run or Run()
    network = network.to(run.on)
    if run.on.type == "cpu":
        network = network.to(memory_format=torch.channels_last)
    optimiser = make_optimiser(network, recipe)
    steps = len(examples) // recipe.batch or 1
    total = max(1, round(steps * recipe.epochs))
    step = _resume(run.checkpoint, network, optimiser, recipe, seed)
    scaler = torch.amp.GradScaler(run.on.type, enabled=run.on.type == "cuda")
    network.train()
    saved = time.monotonic()
    stop = total if run.stop_after is None else min(total, run.stop_after)
    order = _order(seed, step // steps, len(examples))
    while step < stop:
        epoch, within = divmod(step, steps)
        if within == 0:
            order = _order(seed, epoch, len(examples))
        for group in optimiser.param_groups:
            # The middle of the step, so that a warm-up's first step moves.
            group["lr"] = recipe.rate_at((step + 0.5) / steps)
        rows = order[within * recipe.batch : (within + 1) * recipe.batch]
        loss = _step(
            network, examples, rows, optimiser, scaler, np.random.default_rng([seed, epoch, within]), run.on
        )
        step += 1
        if run.progress and (step % 10 == 0 or step == total):
            run.progress(step, total, f"epoch {epoch + 1}, loss {float(loss):.3f}")
        if run.checkpoint and (time.monotonic() - saved > run.every_seconds or step == stop):
            _save(run.checkpoint, network, optimiser, recipe, seed, step)
            saved = time.monotonic()
    return network.eval()


def _order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(n)


def make_optimiser(network: Any, recipe: Recipe) -> Any:
    """The recipe's optimiser over all weights."""
    weights = [p for p in network.parameters() if p.requires_grad]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(
            weights, recipe.rate, recipe.momentum, weight_decay=recipe.weight_decay, nesterov=recipe.nesterov
        )
    if recipe.optimiser == "adam":
        return torch.optim.Adam(weights, recipe.rate, weight_decay=recipe.weight_decay)
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(weights, recipe.rate, weight_decay=recipe.weight_decay)
    raise InputError(f"no optimiser is called {recipe.optimiser!r}; known: sgd, adam, adamw")


def _step(
    network: Any,
    examples: Examples,
    rows: NDArray[np.int64],
    optimiser: Any,
    scaler: Any,
    rng: np.random.Generator,
    device: Any,
) -> Any:
    # Dropout draws from torch's global generator; seed it from the step and put it back afterwards.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(rng.integers(2**62)))
        inputs = to_inputs(network, examples.batch(rows, rng), device)
        labels = torch.from_numpy(examples.labels[rows].astype(np.int64)).to(device)
        with torch.autocast(device.type, enabled=device.type == "cuda"):
            loss = cross_entropy(network(inputs), labels)
        optimiser.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    return loss.detach()


def to_inputs(network: Any, batch: NDArray[np.uint8] | list[str], device: Any) -> Any:
    """What the network's forward takes: images as floats in [0, 1], texts through its own ``encode``."""
    if isinstance(batch, list):
        return network.encode(batch, device)
    # (n, H, W, 3) seen as (n, 3, H, W) is already channels-last in memory.
    return torch.from_numpy(batch).to(device).permute(0, 3, 1, 2).float().div_(255)


@torch.no_grad()  # type: ignore[untyped-decorator]
def score(
    network: Any,
    examples: Examples,
    batch: int = 500,
    device: str | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Logits (n, classes) of every example, in order."""
    run = Run(device=device)
    network = network.to(run.on).eval()
    parts = []
    for start in range(0, len(examples), batch):
        rows = np.arange(start, min(start + batch, len(examples)))
        with torch.autocast(run.on.type, enabled=run.on.type == "cuda"):
            parts.append(network(to_inputs(network, examples.batch(rows), run.on)).float().cpu().numpy())
        if progress:
            progress(int(rows[-1]) + 1, len(examples), "scoring")
    if not parts:
        raise InputError("there are no examples to score")
    return np.concatenate(parts)


def _save(path: Path, network: Any, optimiser: Any, recipe: Recipe, seed: int, step: int) -> None:
    state = {
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "step": step,
        "recipe": asdict(recipe),
        "seed": seed,
    }
    with replacing(path) as file:
        torch.save(state, file)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without unpickling arbitrary objects."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return state
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `labelfree bench train` first") from None
    except Exception as error:
        raise FileError(
            f"{path} is not a checkpoint ({type(error).__name__}); delete it to train anew"
        ) from None


def _resume(path: Path | None, network: Any, optimiser: Any, recipe: Recipe, seed: int) -> int:
    if path is None or not path.exists():
        return 0
    state = load_checkpoint(path)
    if state["recipe"] != asdict(recipe) or state["seed"] != seed:
        raise FileError(f"{path} was made by another recipe or seed; delete it or choose another directory")
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])
