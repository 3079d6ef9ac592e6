"""How each network was trained: the paper's recipes (its appendix), and shorter ones for a CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labelfree.errors import InputError, nearest

SEEDS = (0, 1, 10)
"""The paper's seeds."""


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule, epochs, batch; ``note`` says where the paper is silent and what we chose.

    ``schedule`` is one of ``steps`` (times ``factor`` every ``every`` epochs), ``constant``, ``cosine``
    (after ``warmup`` epochs of linear increase), ``linear`` (to zero) and ``onecycle`` (linear up for
    ``warmup`` epochs, cosine down to zero).
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
    note: str = ""

    def rate_at(self, epoch: float) -> float:
        """Learning rate at a (fractional) epoch: a pure function, so that resuming needs no scheduler state."""
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
_BREEDS_SMALL = Recipe(
    "sgd", 0.1, 450, 128, 1e-4, schedule="steps", every=150, note="momentum 0.9: the paper does not say"
)
_BREEDS_LARGE = Recipe(
    "sgd", 0.1, 300, 128, 1e-4, schedule="steps", every=100, note="momentum 0.9: the paper does not say"
)
_RESNET50 = "resnet50"

RECIPES: dict[str, Recipe] = {
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "imagenet": Recipe("adam", 1e-4, 10, 64, pretrained=_RESNET50, note="head re-initialised per seed"),
    "living17": _BREEDS_SMALL,
    "nonliving26": _BREEDS_SMALL,
    "entity13": _BREEDS_LARGE,
    "entity30": _BREEDS_LARGE,
    "camelyon17": Recipe(
        "sgd", 1e-3, 5, 32, 5e-4, pretrained=_RESNET50, note="rate 1e-3 as in WILDS: the paper does not say"
    ),
    "rxrx1": Recipe("adam", 1e-4, 90, 75, 1e-5, schedule="cosine", warmup=10, pretrained=_RESNET50),
    "amazon": Recipe(
        "adamw", 1e-5, 3, 8, 1e-2, schedule="linear", max_tokens=512, pretrained="distilbert-base-uncased"
    ),
    "civilcomments": Recipe(
        "adamw", 1e-5, 5, 16, 1e-2, schedule="linear", max_tokens=300, pretrained="distilbert-base-uncased"
    ),
    "fashion-mnist": Recipe(
        "sgd", 0.2, 6, 256, 5e-4, nesterov=True, schedule="onecycle", warmup=1.5, note="ours, for a CPU"
    ),
    "cifar10-short": Recipe(
        "sgd", 0.2, 10, 128, 5e-4, nesterov=True, schedule="onecycle", warmup=2.5, note="ours, for a CPU"
    ),
}


def recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in RECIPES:
        raise InputError(f"no recipe is called {name!r}{nearest(name, RECIPES)}; known: {', '.join(RECIPES)}")
    return RECIPES[name]
