"""ProjNorm (Yu et al., 2022): how far pseudo-labels of the target pull a network away.

From one set of initial weights, one network is trained on source labels and another on the target's
pseudo-labels, for the same number of steps; ProjNorm is the norm of the difference of their weights.
It is a score: it follows the error, it does not estimate it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import InputError

Parameters = Mapping[str, NDArray[Any]]
Refit = Callable[[Parameters, Any, NDArray[np.int64]], Parameters]
"""``refit(initial, inputs, labels) -> parameters``: train from ``initial``; any framework can provide it."""


def projnorm(
    refit: Refit,
    initial: Parameters,
    source: tuple[Any, NDArray[np.int64]],
    target: tuple[Any, NDArray[np.int64]],
    reference: Parameters | None = None,
) -> float:
    """Euclidean norm of theta_reference - theta_target.

    source: inputs and labels; target: inputs and pseudo-labels. ``reference`` is the result of
    ``refit(initial, *source)`` where it is known already, so that many targets share it.
    """
    if reference is None:
        reference = refit(initial, *source)
    return distance(reference, refit(initial, *target))


def distance(a: Parameters, b: Parameters) -> float:
    """Norm of the difference of two sets of named arrays.

    >>> distance({"w": np.array([0.0, 3.0])}, {"w": np.array([4.0, 3.0])})
    4.0
    """
    if a.keys() != b.keys():
        different = sorted(a.keys() ^ b.keys())
        raise InputError(f"the two networks do not have the same weights: {different[0]} is in one only")
    squares = [
        float(np.sum((np.asarray(a[key], np.float64) - np.asarray(b[key], np.float64)) ** 2)) for key in a
    ]
    return float(np.sqrt(sum(squares)))


class TorchRefit:
    """``refit`` for a torch module: ``steps`` of SGD, batches and dropout drawn from ``seed`` alone.

    inputs are an ``Examples`` (its own labels are not looked at). The rows are gone through in one shuffled
    order after another, as the paper's authors do; the same seed gives the same orders for source and
    target, as far as their sizes agree. ``cosine`` lets the rate fall to zero.
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
        """Train a copy from ``initial`` and return its trained weights (buffers are no weights)."""
        import copy

        import torch
        from torch.nn.functional import cross_entropy

        from shiftgauge.experiments.training import Run, to_inputs

        device = Run(device=self.device).on
        model = copy.deepcopy(self.network).to(device)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(torch.from_numpy(np.asarray(initial[name])))
        optimiser = torch.optim.SGD(model.parameters(), self.rate, self.momentum)
        model.train()
        order = _batches(len(labels), self.batch, self.seed)
        # Dropout draws from torch's global generator; every refit seeds it and puts it back.
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
    """Batches of one order of range(n) after another, without end; the last of an order is what is left of it."""
    if not n:
        raise InputError("there are no examples to refit a network on")
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(n)
        yield from (order[start : start + batch] for start in range(0, n, batch))


@dataclass(frozen=True)
class Form:
    """How ProjNorm is computed. ``name`` is the method's name in the tables.

    ``steps`` is a number, or None for a tenth of the target's rows (1,000 for CIFAR). The reference is trained
    on labels of the training set (``on_training``), or of the reserved one.
    """

    name: str
    steps: int | None
    rate: float
    cosine: bool
    pretrained: bool
    on_training: bool
    batch: int = 64

    def steps_for(self, rows: int) -> int:
        """Steps for a target of so many rows."""
        return self.steps if self.steps is not None else max(1, rows // 10)


PAPER = Form("projnorm", None, 1e-3, cosine=True, pretrained=True, on_training=True)
"""As the paper's authors run it: from ImageNet weights, rate 0.001 with a cosine, batches of 64, n / 10 steps."""


def short(steps: int) -> Form:
    """Ours: a few steps from the seed's initial weights, on the reserved set; needs no public weights."""
    return Form("projnorm-short", steps, 0.05, cosine=False, pretrained=False, on_training=False)


def parameters_of(network: Any) -> dict[str, NDArray[Any]]:
    """A torch module's weights as named numpy arrays."""
    return {name: weight.detach().cpu().numpy().copy() for name, weight in network.named_parameters()}
