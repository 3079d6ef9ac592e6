"""ImageNet (Russakovsky et al., 2015) with ImageNet-C, ImageNet-V2 (three sets) and ImageNet-Sketch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from labelfree.experiments.corruptions import NAMES
from labelfree.experiments.datasets._folders import images_of, list_images
from labelfree.experiments.datasets.base import Dataset, Shift, reserve
from labelfree.experiments.examples import FileImages, Shifted

TRAIN, VAL = "imagenet/train", "imagenet/val"
CORRUPTED, SKETCH = "ImageNet-C", "sketch"
V2 = {
    "v2_matched_frequency": "imagenetv2-matched-frequency-format-val",
    "v2_threshold": "imagenetv2-threshold0.7-format-val",
    "v2_top_images": "imagenetv2-top-images-format-val",
}
RESERVED = 50_000


def class_numbers(root: Path) -> dict[str, int]:
    """WordNet number -> class number: the order of the validation folders."""
    return {name: number for number, name in enumerate(list_images(root / VAL))}


def split_training(root: Path) -> tuple[FileImages, FileImages]:
    """(images to train on, reserved images) of the training folders."""
    images = images_of(list_images(root / TRAIN), class_numbers(root))
    kept, reserved = reserve(len(images), min(RESERVED, len(images) // 5))
    return images.take(kept), images.take(reserved)


def training(root: Path) -> FileImages:
    """All but the reserved training images."""
    return split_training(root)[0]


def validation(root: Path) -> FileImages:
    """The reserved training images."""
    return split_training(root)[1]


def shifts(root: Path) -> list[Shift]:
    """The official validation set (clean), and every shifted set that is present."""
    found = [Shift("clean", "clean", lambda: images_of(list_images(root / VAL), class_numbers(root)))]
    found += corrupted_folders(root, class_numbers(root), "synthetic")
    for name, folder in V2.items():
        if (root / folder).is_dir():
            # These folders carry class numbers, not WordNet numbers.
            numbers = {str(number): number for number in range(1000)}
            found.append(Shift(name, "natural", partial(_read, root / folder, numbers, False)))
    if (root / SKETCH).is_dir():
        found.append(Shift("sketch", "natural", partial(_read, root / SKETCH, class_numbers(root), False)))
    return found


def corrupted_folders(root: Path, class_of: dict[str, int], kind: str, prefix: str = "") -> list[Shift]:
    """The (corruption, severity) folders of ImageNet-C that are present, seen through ``class_of``.

    Without the published folder the same corruptions are made here, batch by batch (all 95, without the
    published files' JPEG compression).
    """
    found = []
    for name in NAMES:
        for severity in range(1, 6):
            folder = root / CORRUPTED / name / str(severity)
            label = f"{prefix}{name}_{severity}"
            if folder.is_dir():
                found.append(Shift(label, kind, partial(_read, folder, class_of, True)))
            elif not (root / CORRUPTED).exists():
                found.append(Shift(label, kind, partial(_made, root / VAL, class_of, name, severity)))
    return found


def _made(folder: Path, class_of: dict[str, int], name: str, severity: int) -> Shifted:
    return Shifted(_read(folder, class_of, False), name, severity, "imagenet")


def _read(folder: Path, class_of: dict[str, int], ready: bool) -> FileImages:
    return images_of(list_images(folder), class_of, ready=ready)


def relabel(images: FileImages, class_of: dict[int, int]) -> FileImages:
    """Keep the images whose class number is a key, with the value as the new label."""
    rows = np.flatnonzero(np.isin(images.labels, list(class_of)))
    kept = images.take(rows)
    labels = np.array([class_of[int(label)] for label in kept.labels], np.int64)
    return replace(kept, labels=labels)


DATASET = Dataset(
    name="imagenet",
    title="ImageNet",
    classes=1000,
    expects=(TRAIN, VAL),
    extras=(CORRUPTED, *V2.values(), SKETCH),
    origin="https://image-net.org; ImageNet-C: https://zenodo.org/record/2235448; "
    "ImageNet-V2: https://github.com/modestyachts/ImageNetV2; Sketch: https://github.com/HaohanWang/ImageNet-Sketch",
    licence="research only (ImageNet); CC BY 4.0 (ImageNet-C); MIT (V2 and Sketch code; images vary)",
    size="150 GB; ImageNet-C 75 GB; V2 4 GB; Sketch 8 GB",
    splits="source: 50,000 training images; synthetic: ImageNet-C; natural: three ImageNet-V2 sets and Sketch",
    network="resnet50",
    recipe="imagenet",
    training=training,
    validation=validation,
    shifts=shifts,
)
