"""Refit a torch network for ProjNorm."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from shiftgauge.errors import InputError
from shiftgauge.experiments.projnorm import Parameters, parameters_of
from shiftgauge.experiments.scoring import Run, to_inputs


class TorchRefit:
    """``refit`` for a torch module: ``steps`` of SGD, batches and dropout drawn from ``seed`` alone.

    The inputs are ``Examples``, whose own labels are ignored. Epochs are shuffled anew, as in the paper's code; the
    same seed gives the same orders for source and target of equal size. With ``cosine`` the rate falls to zero.
    ``run`` gives device and precision: float32 unless another one is chosen, as in scoring.
    """

    def __init__(
        self,
        network: Any,
        steps: int = 100,
        batch: int = 64,
        rate: float = 0.05,
        momentum: float = 0.9,
        seed: int = 0,
        run: Run | None = None,
        cosine: bool = False,
    ) -> None:
        self.network, self.steps, self.batch = network, steps, batch
        self.rate, self.momentum, self.seed, self.cosine = rate, momentum, seed, cosine
        self.run = run or Run()

    def rate_at(self, step: int) -> float:
        """Learning rate of a step (from 0)."""
        return self.rate * (1 + math.cos(math.pi * step / self.steps)) / 2 if self.cosine else self.rate

    def __call__(
        self, initial: Parameters, inputs: Any, labels: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """Train a copy from ``initial`` and return its trained weights, without buffers."""
        device, precision = self.run.torch_device, self.run.scoring_dtype
        model = copy.deepcopy(self.network).to(device, memory_format=torch.channels_last)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(torch.from_numpy(np.asarray(initial[name])))
        optimiser = torch.optim.SGD(model.parameters(), self.rate, self.momentum)
        scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
        model.train()
        order = _batches(len(labels), self.batch, self.seed)
        # Dropout draws from torch's global generator: every refit seeds it and restores it.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            for step, rows in zip(range(self.steps), order, strict=False):
                optimiser.param_groups[0]["lr"] = self.rate_at(step)
                with self.run.autocast(precision):
                    outputs = model(to_inputs(model, inputs.batch(rows), device))
                    wanted = torch.from_numpy(labels[rows].astype(np.int64)).to(device)
                    loss = cross_entropy(outputs.float(), wanted)
                optimiser.zero_grad(set_to_none=True)
                scaler.scale(loss).backward()
                scaler.step(optimiser)
                scaler.update()
        return parameters_of(model)


def _batches(n: int, batch: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Batches of endless shuffled epochs of range(n); the last batch of an epoch may be smaller."""
    if not n:
        raise InputError("there are no examples to refit a network on")
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(n)
        yield from (order[start : start + batch] for start in range(0, n, batch))
