"""Networks by name. A new network needs its file and one line here.

Images enter as floats in [0, 1], shape (n, 3, H, W); every image network normalises inside.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import resolve_name
from typing import Any

from shiftgauge.errors import InputError, MissingDependencyError, how_to_install, nearest
from shiftgauge.experiments.imports import import_object


@dataclass(frozen=True)
class Network:
    """A network: its module (one of this package begins with a dot), and a function ``(classes, **options)`` there.

    ``weights`` is the file of public ImageNet weights that it can start from, if any. ``text`` says that it reads
    texts; other networks read images.
    """

    module: str
    function: str
    weights: str | None = None
    text: bool = False


# Imported on demand, since torch is heavy and optional.
NETWORKS: dict[str, Network] = {
    "small": Network(".small", "small"),
    "resnet20": Network(".resnet", "resnet20"),
    "resnet18": Network(".resnet", "resnet18", weights="resnet18.pth"),
    "resnet18-cifar": Network(".resnet", "resnet18_cifar"),
    "resnet18-224": Network(".resnet", "resnet18_224", weights="resnet18.pth"),
    "resnet50": Network(".resnet", "resnet50", weights="resnet50.pth"),
    "resnet50-cifar": Network(".resnet", "resnet50_cifar"),
    "resnet50-224": Network(".resnet", "resnet50_224", weights="resnet50.pth"),
    "vgg11": Network(".vgg", "vgg11", weights="vgg11.pth"),
    "vgg11-bn": Network(".vgg", "vgg11_bn", weights="vgg11-bn.pth"),
    "vgg11-cifar": Network(".vgg", "vgg11_cifar"),
    "vgg11-224": Network(".vgg", "vgg11_224", weights="vgg11.pth"),
    "distilbert": Network(".distilbert", "distilbert", text=True),
}


def check_network(name: str) -> str:
    """The name of a network that is known, or of the function that ``my_module:my_network`` names."""
    if ":" in name:
        function = import_object(name, "--network")
        if not inspect.isroutine(function):
            raise InputError(
                f"--network is {name!r}, which is a {type(function).__name__} and not a function"
            )
        own = Network(function.__module__, function.__name__)
        if NETWORKS.setdefault(own.function, own) != own:
            raise InputError(f"--network is {name!r}, and another network has that name; rename the function")
        return own.function
    if name not in NETWORKS:
        raise InputError(
            f"no network is called {name!r}{nearest(name, NETWORKS)}; known: {', '.join(NETWORKS)}; "
            "your own is given as my_module:my_network"
        )
    return name


def need_torch() -> Any:
    """The module torch, or an error that names the extra."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(f"networks need torch; {how_to_install('experiments')}") from None
    return torch


def network_module(name: str) -> str:
    """The module that a network is defined in.

    >>> network_module("resnet20")
    'shiftgauge.experiments.networks.resnet'
    """
    return resolve_name(NETWORKS[check_network(name)].module, __name__)


def _function(name: str) -> Callable[..., Any]:
    make: Callable[..., Any] = getattr(import_module(network_module(name)), NETWORKS[name].function)
    return make


def takes(name: str, option: str) -> bool:
    """Whether the function that makes a network has this parameter."""
    return option in inspect.signature(_function(name)).parameters


def build(name: str, classes: int, seed: int = 0, **options: Any) -> Any:
    """Make a network with weights drawn from ``seed``; torch's global generator is left as it was."""
    torch = need_torch()
    make = _function(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(classes, **options)
