"""Networks by name. A new network needs its file and one line here.

Images enter as floats in [0, 1], shape (n, 3, H, W); every image network normalises inside.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from shiftgauge.errors import InputError, MissingDependencyError, nearest

# name -> (module, function, description). Imported on demand, since torch is heavy and optional.
NETWORKS: dict[str, tuple[str, str, str]] = {
    "small": ("small", "small", "four convolutions, 70 thousand weights; for 32 x 32 images and a CPU"),
    "resnet20": ("resnet", "resnet20", "ResNet-20 for 32 x 32 images"),
    "resnet18": ("resnet", "resnet18", "ResNet-18, ImageNet stem"),
    "resnet18-cifar": ("resnet", "resnet18_cifar", "ResNet-18, 3 x 3 stem without pooling"),
    "resnet50": ("resnet", "resnet50", "ResNet-50, ImageNet stem; takes the public weights"),
    "resnet50-cifar": ("resnet", "resnet50_cifar", "ResNet-50, 3 x 3 stem without pooling"),
    "vgg11": ("vgg", "vgg11", "VGG-11 as torchvision's; takes the public weights"),
    "vgg11-bn": (
        "vgg",
        "vgg11_bn",
        "VGG-11 with batch normalisation as torchvision's; takes the public weights",
    ),
    "vgg11-cifar": ("vgg", "vgg11_cifar", "VGG-11 with batch normalisation and one linear layer"),
    "resnet18-224": (
        "resnet",
        "resnet18_224",
        "ResNet-18 on images enlarged to 224, as the authors on CIFAR",
    ),
    "resnet50-224": (
        "resnet",
        "resnet50_224",
        "ResNet-50 on images enlarged to 224, as the authors on CIFAR",
    ),
    "vgg11-224": ("vgg", "vgg11_224", "VGG-11 on images enlarged to 224, as the authors on CIFAR"),
    "distilbert": ("distilbert", "distilbert", "DistilBERT-base-uncased for text, through transformers"),
}


TEXT = ("distilbert",)
"""The networks that read texts; the others read images."""


def check_network(name: str) -> str:
    """``name``, if there is such a network."""
    if name not in NETWORKS:
        raise InputError(
            f"no network is called {name!r}{nearest(name, NETWORKS)}; known: {', '.join(NETWORKS)}"
        )
    return name


def need_torch() -> Any:
    """The module torch, or an error that names the extra."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("networks need torch; pip install 'shiftgauge[experiments]'") from None
    return torch


def network_module(name: str) -> str:
    """The module that a network is defined in.

    >>> network_module("resnet20")
    'shiftgauge.experiments.networks.resnet'
    """
    return f"{__name__}.{NETWORKS[check_network(name)][0]}"


def build(name: str, classes: int, seed: int = 0, **options: Any) -> Any:
    """Make a network with weights drawn from ``seed``; torch's global generator is left as it was."""
    torch = need_torch()
    make: Callable[..., Any] = getattr(import_module(network_module(name)), NETWORKS[name][1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(classes, **options)


def public_weights(name: str) -> str | None:
    """File name of the public ImageNet weights a network can start from, or None.

    >>> public_weights("resnet18-224"), public_weights("small")
    ('resnet18.pth', None)
    """
    base = name.removesuffix("-224")
    return f"{base}.pth" if base in ("resnet18", "resnet50", "vgg11", "vgg11-bn") else None
