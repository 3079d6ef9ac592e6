"""How each network is trained: the paper's recipes (its appendix), and shorter ones for a CPU.

Where the paper is silent the recipes follow its authors' released code (no augmentation but RxRx1's turns,
no decay of biases in the text networks, rates of text networks falling once an epoch); docs/experiments.md
lists every difference.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from shiftgauge.errors import InputError, nearest

SEEDS = (0, 1, 10)
"""The paper's seeds."""


_LATER = ("sizes", "cut", "smoothing", "alternate")
"""What checkpoints of earlier versions do not know; unused, it stays out of a recipe's settings."""


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule, epochs, batch; ``note`` says where the paper is silent and what was chosen.

    ``schedule`` is one of ``steps`` (times ``factor`` every ``every`` epochs), ``constant``, ``cosine``
    (after ``warmup`` epochs of linear increase), ``linear`` (to zero) and ``onecycle`` (linear up for
    ``warmup`` epochs, cosine down to zero); with ``by_epoch`` the rate changes between epochs only.
    ``augment`` asks the data set for its training view. Weights whose name holds one of ``exempt`` do not
    decay. ``sizes`` shows smaller images in the first epochs, ((until epoch, pixels), ...): the whole image
    shrunk, or with ``cut`` its middle, which the training view's random shift makes a random piece; after
    the last entry images are as they come. ``smoothing`` spreads that share of every label over all
    classes. With ``alternate`` an image that was mirrored in one epoch is not in the next (Jordan, 2024,
    arXiv:2404.00498); otherwise every epoch draws anew.
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
    sizes: tuple[tuple[float, int], ...] = ()
    cut: bool = False
    smoothing: float = 0.0
    alternate: bool = False
    note: str = ""

    def settings(self) -> dict[str, Any]:
        """Everything that changes what is trained: all but the note and what came later and is unused."""
        without = {"note"} | {name for name in _LATER if not getattr(self, name)}
        return {key: value for key, value in asdict(self).items() if key not in without}

    def size_at(self, epoch: float) -> int | None:
        """Pixels a side that are shown of an image at a (fractional) epoch; None: as it comes."""
        return next((pixels for until, pixels in self.sizes if epoch < until), None)

    def size_ends(self, steps: int, step: int) -> int | None:
        """The step before which the size of ``step`` ends, with ``steps`` an epoch; None: it is the last size."""
        ends = [math.ceil(until * steps) for until, _ in self.sizes]
        return next((end for end in ends if step < end), None)

    def rate_at(self, epoch: float) -> float:
        """Learning rate at a (fractional) epoch: a pure function, so that resuming needs no scheduler state."""
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
    10,
    128,
    5e-4,
    nesterov=True,
    schedule="onecycle",
    warmup=2.5,
    augment=True,
    note="ours, for a CPU",
)

RECIPES: dict[str, Recipe] = {
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "cifar10-augmented": replace(_CIFAR, augment=True, note="ours: crops and mirrors"),
    "cifar100-augmented": replace(_CIFAR, augment=True, note="ours: crops and mirrors"),
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
    "cifar10-brief": replace(_ONE_CYCLE, epochs=4, warmup=1, augment=False, note="ours, for a busy CPU"),
    "cifar10-short": _ONE_CYCLE,
    "cifar10-one-cycle": replace(_ONE_CYCLE, epochs=16, warmup=3),
    "cifar10-growing": replace(
        _ONE_CYCLE,
        rate=0.15,
        epochs=20,
        warmup=3,
        sizes=((5, 16), (14, 24)),
        note="ours: small images first, for a CPU",
    ),
    "cifar10-pieces": replace(
        _ONE_CYCLE,
        rate=0.15,
        epochs=22,
        warmup=3,
        sizes=((15, 24),),
        cut=True,
        note="ours: pieces of images first, for a CPU",
    ),
    "cifar10-pieces-long": replace(
        _ONE_CYCLE,
        epochs=30,
        warmup=3,
        sizes=((24, 24),),
        cut=True,
        smoothing=0.1,
        alternate=True,
        note="ours: pieces of images first, soft labels, mirrors in turn, for a CPU",
    ),
}


def recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in RECIPES:
        raise InputError(f"no recipe is called {name!r}{nearest(name, RECIPES)}; known: {', '.join(RECIPES)}")
    return RECIPES[name]
