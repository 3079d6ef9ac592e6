"""Layers and initialisation that the image networks share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftgauge.errors import FileError, InputError

# Channel means and standard deviations of the training images, as commonly published.
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
# The deviations of the paper's authors (and of the ATC code) for CIFAR: other numbers, widely copied.
AUTHORS_CIFAR_STD = (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Those of the BREEDS images, as the ATC code and the paper's authors use them.
BREEDS_MEAN, BREEDS_STD = (0.4717, 0.4499, 0.3837), (0.2600, 0.2516, 0.2575)


class Normalise(nn.Module):  # type: ignore[misc]
    """(x - mean) / std by channel; not part of the state, so that public weights load unchanged."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("scale", 1 / torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def forward(self, x: Any) -> Any:
        """Shape (n, 3, H, W) in and out."""
        return (x - self.mean) * self.scale


class Standardise(nn.Module):  # type: ignore[misc]
    """Zero mean and unit variance of each image's channels, as WILDS does for microscopy."""

    def forward(self, x: Any) -> Any:
        """Shape (n, 3, H, W) in and out."""
        mean, std = x.mean(dim=(2, 3), keepdim=True), x.std(dim=(2, 3), keepdim=True)
        return (x - mean) / std.clamp_min(1e-6)


class Resize(nn.Module):  # type: ignore[misc]
    """Bilinear enlargement on the device, as in the authors' code for 32 x 32 images and ImageNet networks."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Any) -> Any:
        """Shape (n, 3, H, W) to (n, 3, size, size)."""
        return nn.functional.interpolate(x, size=(self.size, self.size), mode="bilinear", align_corners=False)


class Head(nn.Linear):  # type: ignore[misc]
    """The last layer, in single precision even where the others are not: bfloat16 logits have many ties."""

    def forward(self, x: Any) -> Any:
        """Features (n, d) to logits (n, classes)."""
        if x.dtype not in (torch.float16, torch.bfloat16):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


def enlarged(weights: Path | None) -> Any:
    """First layers for CIFAR as in the authors' code: images enlarged to 224 pixels, then normalised.

    By ImageNet's statistics for public weights, otherwise by their own for CIFAR.
    """
    return nn.Sequential(Resize(224), normalisation("imagenet" if weights else "authors-cifar"))


def normalisation(statistics: str) -> Any:
    """The first layer: normalisation by ``statistics``, without weights."""
    known: dict[str, Any] = {
        "image": Standardise,
        "cifar": lambda: Normalise(CIFAR_MEAN, CIFAR_STD),
        "authors-cifar": lambda: Normalise(CIFAR_MEAN, AUTHORS_CIFAR_STD),
        "imagenet": lambda: Normalise(IMAGENET_MEAN, IMAGENET_STD),
        "breeds": lambda: Normalise(BREEDS_MEAN, BREEDS_STD),
    }
    if statistics not in known:
        raise InputError(f"statistics are {statistics!r}; they must be one of {', '.join(known)}")
    return known[statistics]()


def initialise(network: Any) -> Any:
    """Initial weights as torchvision draws them; returns the network.

    Convolutions after He with zero biases, ones and zeros of batch normalisation, small normal weights of
    VGG's hidden linear layers. The last layer keeps torch's default: the paper's authors replace it.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear) and not isinstance(module, Head):
            nn.init.normal_(module.weight, std=0.01)
            nn.init.zeros_(module.bias)
    return network


def load_body(network: Any, weights: Path, head: str) -> Any:
    """Load public weights into everything but the head, which keeps its seeded initial weights.

    This is how the paper makes several ImageNet networks from one set of weights.
    """
    try:
        state = torch.load(weights, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FileError(
            f"{weights} does not exist; put the public ImageNet weights (a torch state dict) there"
        ) from None
    except Exception as error:
        raise FileError(f"{weights} is not a torch state dict ({type(error).__name__})") from None
    body = {key: value for key, value in state.items() if not key.startswith(f"{head}.")}
    missing, unexpected = network.load_state_dict(body, strict=False)
    wrong = [key for key in missing if not key.startswith(f"{head}.")] + list(unexpected)
    if wrong:
        raise FileError(f"{weights} does not fit this network: {wrong[0]} and {len(wrong) - 1} more differ")
    return network
