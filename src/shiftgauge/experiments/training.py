"""Train a network by a recipe: resumable after a kill, and bit for bit the same for the same seed.

The rows, dropout and learning rate of a step are functions of (seed, step). A checkpoint therefore holds weights,
the states of optimiser and gradient scaler, a step number, and the settings it belongs to.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from shiftgauge.errors import InputError
from shiftgauge.experiments.checkpoints import resume, save_checkpoint
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.loading import ShuffledBatches, batches
from shiftgauge.experiments.parallel import Group, unwrap
from shiftgauge.experiments.recipes import Recipe
from shiftgauge.experiments.scoring import Run, to_inputs


def train(network: Any, examples: Examples, recipe: Recipe, seed: int, run: Run | None = None) -> Any:
    """Train ``network`` in place and return it.

    With ``run.checkpoint``, progress is saved there, and a later call with the same recipe, seed and precision
    continues from it; a finished checkpoint is loaded without training. Under ``torchrun`` the processes share
    every batch.
    """
    run = run or Run()
    device = run.torch_device
    group = Group.join(run.device)
    group.check(recipe.batch)
    network = network.to(device, memory_format=torch.channels_last)
    optimiser = make_optimiser(network, recipe)
    scaler = torch.amp.GradScaler(device.type, enabled=run.training_dtype == "float16")
    settings = {
        "recipe": recipe.settings(),
        "seed": seed,
        "precision": run.training_dtype,
        "data": run.data,
    }
    start = resume(run.checkpoint, network, optimiser, scaler, settings)
    network = group.wrap(network, device).train()
    plan = ShuffledBatches(len(examples), recipe.batch, seed, recipe.augment, group.rank, group.size)
    total = max(1, round(plan.steps * recipe.epochs))
    stop = total if run.stop_after is None else min(total, run.stop_after)
    saved_at = time.monotonic()
    for step, inputs, labels in batches(examples, plan, start, stop, run.workers, device.type == "cuda"):
        for weights in optimiser.param_groups:
            # The middle of the step, so that the first step of a warm-up has a positive rate.
            weights["lr"] = recipe.rate_at((step + 0.5) / plan.steps)
        dropout_seed = [seed, *divmod(step, plan.steps), group.rank, 1]
        loss = _step(network, inputs, labels, optimiser, scaler, run, dropout_seed)
        if run.on_step:
            run.on_step(step, group.mean(loss))
        done = step + 1
        if group.first and (done % 10 == 0 or done == stop):
            text = f"epoch {step // plan.steps + 1}, loss {float(loss):.3f}"
            run.progress(f"training, seed {seed}", done, total, text)
        due = time.monotonic() - saved_at > run.every_seconds or done == stop
        if group.first and run.checkpoint and due:
            save_checkpoint(run.checkpoint, unwrap(network), optimiser, scaler, done, settings)
            saved_at = time.monotonic()
    group.wait()
    return unwrap(network).eval()


def make_optimiser(network: Any, recipe: Recipe) -> Any:
    """The recipe's optimiser over all weights; weights that the recipe exempts do not decay."""
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
    network: Any, inputs: Any, labels: Any, optimiser: Any, scaler: Any, run: Run, dropout_seed: list[int]
) -> Any:
    device = run.torch_device
    # Dropout draws from torch's global generator: seed it from the step and restore it afterwards.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(np.random.default_rng(dropout_seed).integers(2**62)))
        with run.autocast(run.training_dtype):
            outputs = network(to_inputs(unwrap(network), inputs, device))
            loss = cross_entropy(outputs.float(), labels.to(device, non_blocking=True))
        optimiser.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    return loss.detach()
