"""How each network is trained: the recipes of the paper's appendix, and shorter ones for a CPU.

Where the paper does not say, the recipes follow its authors' code: no augmentation except rotations for RxRx1, no
weight decay of biases in text networks, one change of rate per epoch in text networks.
docs/explanation/paper-differences.md lists every difference.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from shiftgauge.errors import InputError, nearest

SEEDS = (0, 1, 10)
"""The paper's seeds."""


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule, epochs, batch; ``note`` says what was chosen where the paper does not say.

    ``schedule`` is one of ``steps`` (times ``factor`` every ``every`` epochs), ``constant``, ``cosine``
    (after ``warmup`` epochs of linear increase), ``linear`` (to zero) and ``onecycle`` (linear up for
    ``warmup`` epochs, cosine down to zero); with ``by_epoch`` the rate changes between epochs only.
    ``augment`` uses the data set's augmented images in training. Weights whose name contains one of ``exempt``
    do not decay.
    """

    optimiser: str
    rate: float
    epochs: float
    batch: int
    weight_decay: float = 0.0
    momentum: float = 0.9
    nesterov: bool = False
    schedule: str = "constant"
    every: int = 0
    factor: float = 0.1
    warmup: float = 0.0
    max_tokens: int | None = None
    pretrained: str | None = None
    augment: bool = False
    by_epoch: bool = False
    exempt: tuple[str, ...] = ()
    note: str = ""

    def settings(self) -> dict[str, Any]:
        """Everything that changes the trained network: all fields but the note."""
        return {key: value for key, value in asdict(self).items() if key != "note"}

    def rate_at(self, epoch: float) -> float:
        """Learning rate at a (fractional) epoch; a pure function, so resuming needs no scheduler state."""
        epoch = math.floor(epoch) if self.by_epoch else epoch
        if self.schedule == "steps":
            return self.rate * self.factor ** math.floor(epoch / self.every)
        if self.schedule == "constant":
            return self.rate
        if epoch < self.warmup:
            return self.rate * epoch / self.warmup
        progress = (epoch - self.warmup) / max(self.epochs - self.warmup, 1e-9)
        if self.schedule == "linear":
            return self.rate * max(0.0, 1 - progress)
        if self.schedule in ("cosine", "onecycle"):
            return self.rate * (1 + math.cos(math.pi * min(progress, 1.0))) / 2
        raise InputError(
            f"no schedule is called {self.schedule!r}; known: steps, constant, linear, cosine, onecycle"
        )


_CIFAR = Recipe("sgd", 0.1, 300, 200, 5e-4, schedule="steps", every=100)
_MOMENTUM = "momentum 0.9 as in the authors' code: the paper does not say"
_BREEDS_SMALL = Recipe("sgd", 0.1, 450, 128, 1e-4, schedule="steps", every=150, note=_MOMENTUM)
_BREEDS_LARGE = Recipe("sgd", 0.1, 300, 128, 1e-4, schedule="steps", every=100, note=_MOMENTUM)
_TEXT = Recipe(
    "adamw", 1e-5, 3, 8, 1e-2, schedule="linear", by_epoch=True, exempt=("bias", "LayerNorm.weight"),
    max_tokens=512, pretrained="distilbert-base-uncased",
)  # fmt: skip
_PRETRAINED = Recipe(
    "sgd", 1e-3, 20, 64, schedule="cosine", pretrained="imagenet", note="for the correlation table"
)
_ONE_CYCLE = Recipe(
    "sgd",
    0.2,
    8,
    128,
    5e-4,
    nesterov=True,
    schedule="onecycle",
    warmup=2,
    augment=True,
    note="ours, for a CPU",
)

RECIPES: dict[str, Recipe] = {
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "cifar10-augmented": replace(_CIFAR, augment=True, note="ours: crops and mirrors"),
    "cifar10-pretrained": _PRETRAINED,
    "cifar100-pretrained": replace(_PRETRAINED, epochs=40),
    "imagenet": Recipe("adam", 1e-4, 10, 64, pretrained="imagenet", note="head re-initialised per seed"),
    "living17": _BREEDS_SMALL,
    "nonliving26": _BREEDS_SMALL,
    "entity13": _BREEDS_LARGE,
    "entity30": _BREEDS_LARGE,
    "camelyon17": Recipe(
        "sgd", 1e-3, 5, 32, 5e-4, pretrained="imagenet", note="rate as in the authors' code: not in the paper"
    ),
    "rxrx1": Recipe(
        "adam",
        1e-4,
        90,
        75,
        1e-5,
        schedule="cosine",
        warmup=10,
        pretrained="imagenet",
        augment=True,
        note="quarter turns and mirrors, as WILDS",
    ),
    "amazon": _TEXT,
    "civilcomments": replace(_TEXT, epochs=5, batch=16, max_tokens=300),
    "fashion-mnist": replace(_ONE_CYCLE, epochs=6, batch=256, warmup=1.5),
    "cifar10-short": _ONE_CYCLE,
    "cifar10-five-epochs": replace(
        _ONE_CYCLE, epochs=5, warmup=1.5, note="ours: a ResNet-18 in an hour of a CPU"
    ),
}


def recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in RECIPES:
        raise InputError(f"no recipe is called {name!r}{nearest(name, RECIPES)}; known: {', '.join(RECIPES)}")
    return RECIPES[name]
