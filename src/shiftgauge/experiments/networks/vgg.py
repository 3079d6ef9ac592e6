"""VGG-11 (Simonyan and Zisserman, 2015), plain and with batch normalisation.

Parameter names are those of torchvision's ``vgg11`` and ``vgg11_bn``, whose published weights load unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from shiftgauge.experiments.networks._parts import Head, enlarged, initialise, load_body, normalisation

# Channels of the convolutions; None is a 2 x 2 maximum.
_PLAN = [64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None]


def _features(normed: bool) -> Any:
    layers: list[Any] = []
    channels = 3
    for width in _PLAN:
        if width is None:
            layers.append(nn.MaxPool2d(2))
            continue
        layers.append(nn.Conv2d(channels, width, 3, padding=1))
        layers += [nn.BatchNorm2d(width)] if normed else []
        layers.append(nn.ReLU(inplace=True))
        channels = width
    return nn.Sequential(*layers)


class VGG(nn.Module):  # type: ignore[misc]
    """Convolutions, an average to 7 x 7, three linear layers with dropout."""

    def __init__(self, classes: int, normed: bool, first: Any) -> None:
        super().__init__()
        self.normalise, self.features, self.avgpool = first, _features(normed), nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            Head(4096, classes),
        )

    def forward(self, x: Any) -> Any:
        """Images (n, 3, H, W) in [0, 1] to logits (n, classes)."""
        return self.classifier(self.avgpool(self.features(self.normalise(x))).flatten(1))


def _vgg(classes: int, normed: bool, first: Any, weights: Path | None) -> Any:
    network = initialise(VGG(classes, normed, first))
    return network if weights is None else load_body(network, weights, "classifier.6")


def vgg11(classes: int, weights: Path | None = None, statistics: str = "imagenet") -> Any:
    """VGG-11 for 224 x 224 images; ``weights`` loads everything but the last layer."""
    return _vgg(classes, False, normalisation(statistics), weights)


def vgg11_bn(classes: int, weights: Path | None = None, statistics: str = "imagenet") -> Any:
    """VGG-11 with batch normalisation for 224 x 224 images."""
    return _vgg(classes, True, normalisation(statistics), weights)


def vgg11_224(classes: int, weights: Path | None = None) -> Any:
    """VGG-11 on images enlarged to 224, as the authors train on CIFAR."""
    return _vgg(classes, False, enlarged(weights), weights)


def vgg11_cifar(classes: int) -> Any:
    """VGG-11 with batch normalisation for 32 x 32 images: the convolutions and one linear layer (ours)."""
    return initialise(
        nn.Sequential(normalisation("cifar"), *_features(True), nn.Flatten(), Head(512, classes))
    )
