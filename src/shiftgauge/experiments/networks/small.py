"""A small convolutional network for 32 x 32 images on a machine without a GPU."""

from __future__ import annotations

from typing import Any

from torch import nn

from shiftgauge.experiments.networks._parts import Head, Normalise, initialise


def _block(inputs: int, outputs: int, stride: int = 1) -> list[Any]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def small(classes: int) -> Any:
    """Four 3 x 3 convolutions (16, 32, 64, 64 channels), global average, one linear layer."""
    return initialise(
        nn.Sequential(
            Normalise((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
            *_block(3, 16, stride=2),
            *_block(16, 32),
            nn.MaxPool2d(2),
            *_block(32, 64),
            nn.MaxPool2d(2),
            *_block(64, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            Head(64, classes),
        )
    )
