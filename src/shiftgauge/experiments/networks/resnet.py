"""Residual networks (He et al., 2016): ResNet-18 and -50, with CIFAR stems too, and the small ResNet-20.

Parameter names of ResNet-18 and -50 are those of the public weights, which therefore load unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from shiftgauge.experiments.networks._parts import Head, enlarged, initialise, load_body, normalisation


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class _Residual(nn.Module):  # type: ignore[misc]
    """Common part of both blocks: the shortcut, projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        """Branch plus shortcut."""
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(self.branch(x) + shortcut)


class Basic(_Residual):
    """Two 3 x 3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, width, stride)
        self.conv1, self.bn1 = _convolution(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _convolution(width, width, 3), nn.BatchNorm2d(width)

    def branch(self, x: Any) -> Any:
        """The residual branch."""
        return self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))


class Bottleneck(_Residual):
    """1 x 1, 3 x 3 (strided), 1 x 1 to four times the width."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, 4 * width, stride)
        self.conv1, self.bn1 = _convolution(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _convolution(width, 4 * width, 1), nn.BatchNorm2d(4 * width)

    def branch(self, x: Any) -> Any:
        """The residual branch."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.bn3(self.conv3(x))


class ResNet(nn.Module):  # type: ignore[misc]
    """Stem, stages of residual blocks, global average, linear head."""

    def __init__(
        self,
        block: type[Basic] | type[Bottleneck],
        depths: list[int],
        widths: list[int],
        classes: int,
        stem: str,
        first: Any,
    ) -> None:
        super().__init__()
        cifar = stem == "cifar"
        self.normalise = first
        self.conv1 = _convolution(3, widths[0], 3) if cifar else _convolution(3, widths[0], 7, 2)
        self.bn1, self.relu = nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if cifar else nn.MaxPool2d(3, stride=2, padding=1)
        channels, self.stages = widths[0], len(depths)
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            blocks = []
            for i in range(depth):
                blocks.append(block(channels, width, 2 if stage and i == 0 else 1))
                channels = width * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), Head(channels, classes)

    def forward(self, x: Any) -> Any:
        """Images (n, 3, H, W) in [0, 1] to logits (n, classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(self.normalise(x)))))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(self.avgpool(x).flatten(1))


_WIDTHS = [64, 128, 256, 512]
_DEPTHS: dict[type[Basic] | type[Bottleneck], list[int]] = {Basic: [2, 2, 2, 2], Bottleneck: [3, 4, 6, 3]}


def _small_images(block: type[Basic] | type[Bottleneck], classes: int) -> Any:
    return initialise(ResNet(block, _DEPTHS[block], _WIDTHS, classes, "cifar", normalisation("cifar")))


def _large_images(
    block: type[Basic] | type[Bottleneck], classes: int, first: Any, weights: Path | None
) -> Any:
    network = initialise(ResNet(block, _DEPTHS[block], _WIDTHS, classes, "imagenet", first))
    return network if weights is None else load_body(network, weights, "fc")


def resnet20(classes: int) -> Any:
    """ResNet-20 for 32 x 32 images: three stages of three basic blocks (projection shortcuts)."""
    return initialise(ResNet(Basic, [3, 3, 3], [16, 32, 64], classes, "cifar", normalisation("cifar")))


def resnet18(classes: int, weights: Path | None = None, statistics: str = "imagenet") -> Any:
    """ResNet-18 with the ImageNet stem; ``weights`` loads everything but the head."""
    return _large_images(Basic, classes, normalisation(statistics), weights)


def resnet18_cifar(classes: int) -> Any:
    """ResNet-18 with a 3 x 3 stem and no pooling."""
    return _small_images(Basic, classes)


def resnet18_224(classes: int, weights: Path | None = None) -> Any:
    """ResNet-18 on images enlarged to 224, as the authors train on CIFAR."""
    return _large_images(Basic, classes, enlarged(weights), weights)


def resnet50(classes: int, weights: Path | None = None, statistics: str = "imagenet") -> Any:
    """ResNet-50 with the ImageNet stem; ``weights`` loads everything but the head."""
    return _large_images(Bottleneck, classes, normalisation(statistics), weights)


def resnet50_cifar(classes: int) -> Any:
    """ResNet-50 with a 3 x 3 stem and no pooling."""
    return _small_images(Bottleneck, classes)


def resnet50_224(classes: int, weights: Path | None = None) -> Any:
    """ResNet-50 on images enlarged to 224, as the authors train on CIFAR."""
    return _large_images(Bottleneck, classes, enlarged(weights), weights)
