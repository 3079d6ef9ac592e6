"""Train a network by a recipe: resumable after a kill, the same bit for bit for the same seed.

What a step reads, its dropout and its learning rate are functions of (seed, step), so a checkpoint holds
weights, the states of optimiser and gradient scaler, a step number, and what they must belong to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy, interpolate

from shiftgauge.errors import InputError
from shiftgauge.experiments.checkpoints import load_checkpoint, resume, save_checkpoint
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.loading import InOrder, Plan, batches
from shiftgauge.experiments.parallel import Group, unwrapped
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.recipes import Recipe

__all__ = ["PRECISIONS", "Run", "load_checkpoint", "make_optimiser", "score", "to_inputs", "train"]

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Run:
    """Where a training happens: device, precision, worker processes, how often to save, whom to tell.

    ``precision`` ``auto`` trains in float16 with a gradient scaler on a GPU, as the paper's authors do, and
    in float32 elsewhere; it scores in float32 everywhere, as they do. Another precision is for both.
    ``watch`` hears the loss of every step.
    """

    checkpoint: Path | None = None
    device: str | None = None
    every_seconds: float = 60.0
    progress: Progress = silent
    precision: str = "auto"
    workers: int = 0
    data: str = ""
    """Digest of the files trained on; a checkpoint of others is refused."""
    stop_after: int | None = None
    """Leave after this many steps in all, as a kill would (for tests and time limits)."""
    watch: Callable[[int, float], None] | None = None

    @property
    def on(self) -> Any:
        """The device: the one asked for, else a GPU if there is one; of several processes each has its own GPU."""
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type != "cuda":
            return device
        if device.index is None:
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError(
                f"--device is {self.device!r}, one GPU for all processes of torchrun; say cuda, or leave it out"
            )
        return device

    @property
    def dtype(self) -> Any:
        """The type of activations in training."""
        if self.precision not in PRECISIONS:
            raise InputError(f"precision is {self.precision!r}; it must be one of {', '.join(PRECISIONS)}")
        automatic = "float16" if self.on.type == "cuda" else "float32"
        name = automatic if self.precision == "auto" else self.precision
        if name == "float16" and self.on.type != "cuda":
            raise InputError("float16 needs a GPU; on a CPU choose float32 or bfloat16")
        return getattr(torch, name)

    @property
    def said_dtype(self) -> str:
        """The type of activations in training by its name: what ``auto`` came to on this device."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def scored_dtype(self) -> str:
        """The type of activations in scoring by its name: float32 unless another one was asked for."""
        return "float32" if self.precision == "auto" else self.said_dtype

    def autocast(self, name: str) -> Any:
        """Mixed precision of the type called ``name``; none for float32."""
        return torch.autocast(self.on.type, dtype=getattr(torch, name), enabled=name != "float32")


def train(network: Any, examples: Examples, recipe: Recipe, seed: int, run: Run | None = None) -> Any:
    """Train ``network`` in place and return it.

    With ``run.checkpoint``, progress is saved there and a later call with the same recipe, seed and
    precision goes on where it was; a finished checkpoint is loaded without training. Under ``torchrun``
    the processes share every batch.
    """
    run = run or Run()
    group = Group.joined(run.device)
    group.check(recipe.batch)
    network = network.to(run.on, memory_format=torch.channels_last)
    optimiser = make_optimiser(network, recipe)
    scaler = torch.amp.GradScaler(run.on.type, enabled=run.dtype == torch.float16)
    told = {"recipe": recipe.settings(), "seed": seed, "precision": str(run.dtype), "data": run.data}
    start = resume(run.checkpoint, network, optimiser, scaler, told)
    network = group.wrap(network, run.on).train()
    plan = Plan(len(examples), recipe.batch, seed, recipe.augment, recipe.alternate, group.rank, group.size)
    total = max(1, round(plan.steps * recipe.epochs))
    stop = total if run.stop_after is None else min(total, run.stop_after)
    saved = time.monotonic()
    for step, inputs, labels in batches(examples, plan, start, stop, run.workers, run.on.type == "cuda"):
        for weights in optimiser.param_groups:
            # The middle of the step, so that a warm-up's first step moves.
            weights["lr"] = recipe.rate_at((step + 0.5) / plan.steps)
        dropout = [seed, *divmod(step, plan.steps), group.rank, 1]
        pixels = recipe.size_at(step / plan.steps)
        shown = partial(_smaller, pixels=pixels, cut=recipe.cut)
        loss = _step(network, inputs, labels, optimiser, scaler, run, dropout, shown, recipe.smoothing)
        if run.watch:
            run.watch(step, group.mean(loss))
        done = step + 1
        # A stage for each size: a step of another size takes another time.
        ends = min(total, recipe.size_ends(plan.steps, step) or total)
        if group.first and (done % 10 == 0 or done in (stop, ends)):
            said = f"epoch {step // plan.steps + 1}, loss {float(loss):.3f}"
            stage = f"training, seed {seed}" + (f", {pixels} pixels" if pixels else "")
            run.progress(stage, done, ends, said)
        if group.first and run.checkpoint and (time.monotonic() - saved > run.every_seconds or done == stop):
            save_checkpoint(run.checkpoint, unwrapped(network), optimiser, scaler, done, told)
            saved = time.monotonic()
    group.wait()
    return unwrapped(network).eval()


def make_optimiser(network: Any, recipe: Recipe) -> Any:
    """The recipe's optimiser over all weights; those the recipe exempts do not decay."""
    named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    exempt = [p for name, p in named if any(part in name for part in recipe.exempt)]
    decaying = [p for name, p in named if not any(part in name for part in recipe.exempt)]
    groups = [{"params": decaying, "weight_decay": recipe.weight_decay}]
    groups += [{"params": exempt, "weight_decay": 0.0}] if exempt else []
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(groups, recipe.rate, recipe.momentum, nesterov=recipe.nesterov)
    if recipe.optimiser == "adam":
        return torch.optim.Adam(groups, recipe.rate)
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(groups, recipe.rate)
    raise InputError(f"no optimiser is called {recipe.optimiser!r}; known: sgd, adam, adamw")


def _step(
    network: Any, inputs: Any, labels: Any, optimiser: Any, scaler: Any, run: Run, dropout: list[int],
    shown: Callable[[Any], Any], smoothing: float,
) -> Any:  # fmt: skip
    # Dropout draws from torch's global generator; seed it from the step and put it back afterwards.
    with torch.random.fork_rng(devices=[run.on] if run.on.type == "cuda" else []):
        torch.manual_seed(int(np.random.default_rng(dropout).integers(2**62)))
        with run.autocast(run.said_dtype):
            outputs = network(shown(to_inputs(unwrapped(network), inputs, run.on)))
            wanted = labels.to(run.on, non_blocking=True)
            loss = cross_entropy(outputs.float(), wanted, label_smoothing=smoothing)
        optimiser.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    return loss.detach()


def _smaller(inputs: Any, pixels: int | None, cut: bool) -> Any:
    """Images shrunk to ``pixels`` a side, or cut down to their middle; as they came where that is None."""
    if pixels is None:
        return inputs
    if not cut:
        return interpolate(inputs, (pixels, pixels), mode="bilinear", antialias=True)
    top, left = ((side - pixels) // 2 for side in inputs.shape[2:])
    return inputs[:, :, top : top + pixels, left : left + pixels]


def to_inputs(network: Any, batch: Any, device: Any) -> Any:
    """What the network's forward takes: images as floats in [0, 1], texts through its own ``encode``.

    batch: bytes (n, H, W, 3), as a tensor or an array, or a list of texts.
    """
    if isinstance(batch, list):
        return network.encode(batch, device)
    pixels = torch.from_numpy(batch) if isinstance(batch, np.ndarray) else batch
    # (n, H, W, 3) seen as (n, 3, H, W) is already channels-last in memory.
    return pixels.to(device, non_blocking=True).permute(0, 3, 1, 2).float().div_(255)


@torch.no_grad()  # type: ignore[untyped-decorator]
def score(
    network: Any,
    examples: Examples,
    batch: int = 500,
    run: Run | None = None,
    stage: str = "scoring",
    seen: Any = None,
) -> NDArray[np.float32]:
    """Logits (n, classes) of every example, in order; ``seen`` (a hash) is fed the inputs themselves."""
    run = run or Run()
    if not len(examples):
        raise InputError("there are no examples to score")
    network = network.to(run.on, memory_format=torch.channels_last).eval()
    parts, plan = [], InOrder(len(examples), batch)
    for step, inputs, _ in batches(examples, plan, 0, plan.steps, run.workers, run.on.type == "cuda"):
        if seen is not None:
            seen.update("\0".join(inputs).encode() if isinstance(inputs, list) else inputs.numpy().tobytes())
        with run.autocast(run.scored_dtype):
            parts.append(network(to_inputs(network, inputs, run.on)).float().cpu().numpy())
        run.progress(stage, min((step + 1) * batch, len(examples)), len(examples), "rows")
    return np.concatenate(parts)
