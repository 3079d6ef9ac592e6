"""VGG-11 with batch normalisation (Simonyan and Zisserman, 2015)."""

from __future__ import annotations

from typing import Any

from torch import nn

from labelfree.experiments.networks._parts import (
    CIFAR_MEAN,
    CIFAR_STD,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Normalise,
    initialise,
)

# Channels of the convolutions; None is a 2 x 2 maximum.
_PLAN = [64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None]


def _features() -> list[Any]:
    layers: list[Any] = []
    channels = 3
    for width in _PLAN:
        if width is None:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
    return layers


def vgg11_cifar(classes: int) -> Any:
    """VGG-11 for 32 x 32 images: the convolutions and one linear layer."""
    return initialise(
        nn.Sequential(Normalise(CIFAR_MEAN, CIFAR_STD), *_features(), nn.Flatten(), nn.Linear(512, classes))
    )


def vgg11(classes: int) -> Any:
    """VGG-11 for 224 x 224 images: the convolutions and three linear layers with dropout."""
    head = [
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(512 * 49, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, classes),
    ]
    return initialise(nn.Sequential(Normalise(IMAGENET_MEAN, IMAGENET_STD), *_features(), *head))
