"""ProjNorm (Yu et al., 2022): how far training on the target's pseudo-labels moves the weights of a network.

From one set of initial weights, one network is trained on source labels and another on the target's
pseudo-labels, for the same number of steps; ProjNorm is the norm of the difference of their weights.
It is a score: it increases with the error and does not estimate it. ``projnorm`` takes the training of any framework;
``TorchRefit`` is that of torch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from shiftgauge.errors import InputError
from shiftgauge.experiments.scoring import Run, to_inputs

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

    source: inputs and labels; target: inputs and pseudo-labels; reference: ``refit(initial, *source)``, if it is
    known already, so that many targets share it.
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


@dataclass(frozen=True)
class ProjNormForm:
    """How ProjNorm is computed. ``name`` is the method's name in the tables.

    ``steps`` is a number, or None for a tenth of the target's rows (1,000 for CIFAR). The reference is trained on
    the labels of the training set (``on_training``) or of the validation set.
    """

    name: str
    steps: int | None
    rate: float
    cosine: bool
    pretrained: bool
    on_training: bool
    batch: int = 64

    def steps_for(self, rows: int) -> int:
        """Number of steps for a target of this many rows."""
        return self.steps if self.steps is not None else max(1, rows // 10)


PAPER = ProjNormForm("projnorm", None, 1e-3, cosine=True, pretrained=True, on_training=True)
"""As in the paper's code: from ImageNet weights, rate 0.001 with a cosine schedule, batches of 64, n / 10 steps."""


def short_form(steps: int) -> ProjNormForm:
    """Our short form: a few steps from the seed's initial weights, on the validation set, without public weights."""
    return ProjNormForm("projnorm-short", steps, 0.05, cosine=False, pretrained=False, on_training=False)


def parameters_of(network: Any) -> dict[str, NDArray[Any]]:
    """A torch module's weights as named numpy arrays."""
    return {name: weight.detach().cpu().numpy().copy() for name, weight in network.named_parameters()}


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
        seed: int = 0,
        run: Run | None = None,
        cosine: bool = False,
    ) -> None:
        self.network, self.steps, self.batch = network, steps, batch
        self.rate, self.seed, self.cosine = rate, seed, cosine
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
        optimiser = torch.optim.SGD(model.parameters(), self.rate, momentum=0.9)
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
