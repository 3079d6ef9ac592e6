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
    """

    def __init__(
        self,
        network: Any,
        steps: int = 100,
        batch: int = 64,
        rate: float = 0.05,
        momentum: float = 0.9,
        seed: int = 0,
        device: str | None = None,
        cosine: bool = False,
    ) -> None:
        self.network, self.steps, self.batch = network, steps, batch
        self.rate, self.momentum, self.seed, self.device = rate, momentum, seed, device
        self.cosine = cosine

    def rate_at(self, step: int) -> float:
        """Learning rate of a step (from 0)."""
        return self.rate * (1 + math.cos(math.pi * step / self.steps)) / 2 if self.cosine else self.rate

    def __call__(
        self, initial: Parameters, inputs: Any, labels: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """Train a copy from ``initial`` and return its trained weights, without buffers."""
        device = Run(device=self.device).torch_device
        model = copy.deepcopy(self.network).to(device)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(torch.from_numpy(np.asarray(initial[name])))
        optimiser = torch.optim.SGD(model.parameters(), self.rate, self.momentum)
        model.train()
        order = _batches(len(labels), self.batch, self.seed)
        # Dropout draws from torch's global generator: every refit seeds it and restores it.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            for step, rows in zip(range(self.steps), order, strict=False):
                optimiser.param_groups[0]["lr"] = self.rate_at(step)
                outputs = model(to_inputs(model, inputs.batch(rows), device))
                loss = cross_entropy(outputs, torch.from_numpy(labels[rows].astype(np.int64)).to(device))
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
        return parameters_of(model)


def _batches(n: int, batch: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Batches of endless shuffled epochs of range(n); the last batch of an epoch may be smaller."""
    if not n:
        raise InputError("there are no examples to refit a network on")
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(n)
        yield from (order[start : start + batch] for start in range(0, n, batch))
