"""ImageNet (Russakovsky et al., 2015) with ImageNet-C, ImageNet-V2 (three sets) and ImageNet-Sketch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from labelfree.errors import FileError
from labelfree.experiments.corruptions import NAMES
from labelfree.experiments.datasets._folders import images_of, list_images
from labelfree.experiments.datasets._generated import describe
from labelfree.experiments.datasets._hierarchy import ORIGIN, read_numbers
from labelfree.experiments.datasets.base import Dataset, Shift, found, reserve
from labelfree.experiments.examples import FileImages, Shifted

TRAIN, VAL = "imagenet/train", "imagenet/val"
CORRUPTED, SKETCH = "ImageNet-C", "sketch"
TARS = ("blur", "digital", "extra", "noise", "weather")
INFO = "breeds/dataset_class_info.json"
CLASSES = 1000
V2 = {
    "v2_matched_frequency": "imagenetv2-matched-frequency-format-val",
    "v2_threshold": "imagenetv2-threshold0.7-format-val",
    "v2_top_images": "imagenetv2-top-images-format-val",
}
RESERVED = 50_000


def class_numbers(root: Path) -> dict[str, int]:
    """WordNet number -> class number.

    From BREEDS' ``dataset_class_info.json`` where it is there; otherwise the sorted folders are the classes,
    which is right only if all 1,000 are present: a part of them is refused, not counted.
    """
    if (root / INFO).exists():
        return read_numbers(root / INFO)
    names = list(list_images(root / VAL))
    if len(names) != CLASSES:
        raise FileError(
            f"{root / VAL} holds {len(names)} of {CLASSES} class folders, so a folder's place does not tell its class; "
            f"put dataset_class_info.json of {ORIGIN} at {root / INFO}"
        )
    return {name: number for number, name in enumerate(names)}


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
    numbers = class_numbers(root)
    told = found(root, (INFO,))
    sets = [Shift("clean", "clean", partial(_read, root / VAL, numbers, False), (root / VAL, *told))]
    sets += corrupted_folders(root, numbers, "synthetic", told)
    # The folders of V2 carry class numbers, not WordNet numbers.
    plain = {str(number): number for number in numbers.values()}
    places = [(name, root / folder, plain) for name, folder in V2.items()]
    for name, folder, class_of in [*places, ("sketch", root / SKETCH, numbers)]:
        absent = "" if folder.is_dir() else f"{folder} is not there"
        sets.append(
            Shift(name, "natural", partial(_read, folder, class_of, False), (folder, *told), absent=absent)
        )
    return sets


def corrupted_folders(
    root: Path, class_of: dict[str, int], kind: str, told: tuple[Path, ...], prefix: str = ""
) -> list[Shift]:
    """The 95 (corruption, severity) folders of ImageNet-C, seen through ``class_of``; the absent ones say so.

    ``told`` are the files that decide ``class_of``. Without the published folder the same corruptions are
    made here, batch by batch (all 95, without the published files' JPEG compression).
    """
    return [
        _corrupted(root, class_of, name, severity, f"{prefix}{name}_{severity}", kind, told)
        for name in NAMES
        for severity in range(1, 6)
    ]


def _corrupted(
    root: Path, class_of: dict[str, int], name: str, severity: int, label: str, kind: str, told: tuple[Path, ...]
) -> Shift:  # fmt: skip
    top = root / CORRUPTED
    if not top.exists():
        made = partial(_made, root / VAL, class_of, name, severity)
        return Shift(label, kind, made, (root / VAL, *told), describe(name, severity, "imagenet"))
    # The five archives may have been unpacked in place or each in a folder of its own name.
    places = [top / name / str(severity), *(top / tar / name / str(severity) for tar in TARS)]
    at = next((place for place in places if place.is_dir()), None)
    absent = "" if at else f"{places[0]} is not there"
    place = at or places[0]
    return Shift(label, kind, partial(_read, place, class_of, True), (place, *told), absent=absent)


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
    classes=CLASSES,
    expects=(TRAIN, VAL),
    reads=(INFO,),
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
    marginal="uniform",
)
