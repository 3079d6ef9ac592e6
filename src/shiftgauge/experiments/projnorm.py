"""ProjNorm (Yu et al., 2022): how far training on the target's pseudo-labels moves the weights of a network.

From one set of initial weights, one network is trained on source labels and another on the target's
pseudo-labels, for the same number of steps; ProjNorm is the norm of the difference of their weights.
It is a score: it increases with the error and does not estimate it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
