"""ImageNet (Russakovsky et al., 2015) with ImageNet-C, ImageNet-V2 (three sets) and ImageNet-Sketch."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError
from shiftgauge.experiments.corruptions import NAMES
from shiftgauge.experiments.datasets._folders import list_images, read_images
from shiftgauge.experiments.datasets._generated import describe
from shiftgauge.experiments.datasets._hierarchy import ORIGIN, read_numbers
from shiftgauge.experiments.datasets.base import Dataset, ShiftedSet, existing, reserve
from shiftgauge.experiments.examples import CorruptedFiles, FileImages

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
RESERVED = 50
"""Training images of every class that are reserved for validation: 50,000 of 1,000 classes."""


def class_numbers(root: Path) -> dict[str, int]:
    """WordNet number -> class number.

    From ``dataset_class_info.json`` of BREEDS if it exists; otherwise the sorted folders are the classes, and all 1,000
    must be present.
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


def split_training(root: Path, class_of: dict[str, int]) -> tuple[FileImages, FileImages]:
    """(images to train on, reserved images) of the training folders that ``class_of`` names.

    The reserved images of a class do not depend on the other folders; of a class with less than 250 images a fifth is
    reserved.
    """
    images = read_images(root / TRAIN, class_of)
    reserved, start = np.zeros(len(images), bool), 0
    for name, group in groupby(path.parent.name for path in images.paths):
        n = len(list(group))
        reserved[start + reserve(n, min(RESERVED, n // 5), [*name.encode()])[1]] = True
        start += n
    return images.take(np.flatnonzero(~reserved)), images.take(np.flatnonzero(reserved))


def training(root: Path) -> FileImages:
    """All but the reserved training images."""
    return split_training(root, class_numbers(root))[0]


def validation(root: Path) -> FileImages:
    """The reserved training images."""
    return split_training(root, class_numbers(root))[1]


def shifts(root: Path) -> list[ShiftedSet]:
    """The official validation set (clean), and every shifted set that is present."""
    numbers = class_numbers(root)
    class_files = existing(root, (INFO,))
    sets = [
        ShiftedSet("clean", "clean", partial(read_images, root / VAL, numbers), (root / VAL, *class_files))
    ]
    sets += corrupted_folders(root, numbers, "synthetic", class_files)
    for name, folder in [*((name, root / place) for name, place in V2.items()), ("sketch", root / SKETCH)]:
        absent = "" if folder.is_dir() else f"{folder} is missing"
        read = partial(_by_number, folder, numbers) if name in V2 else partial(read_images, folder, numbers)
        sets.append(ShiftedSet(name, "natural", read, (folder, *class_files), absent=absent))
    return sets


def _by_number(folder: Path, numbers: dict[str, int]) -> FileImages:
    """ImageNet-V2, whose folders carry class numbers; the authors' set-up renames them to WordNet numbers."""
    renamed = any(name in numbers for name in list_images(folder))
    return read_images(folder, numbers if renamed else {str(number): number for number in numbers.values()})


def corrupted_folders(
    root: Path, class_of: dict[str, int], kind: str, class_files: tuple[Path, ...], prefix: str = ""
) -> list[ShiftedSet]:
    """The 95 (corruption, severity) folders of ImageNet-C with the classes ``class_of``; missing ones say so.

    ``class_files`` are the files that decide ``class_of``. Without the published folder the same corruptions are
    made here, batch by batch (all 95, without the published files' JPEG compression).
    """
    return [
        _corrupted(root, class_of, name, severity, f"{prefix}{name}_{severity}", kind, class_files)
        for name in NAMES
        for severity in range(1, 6)
    ]


def _corrupted(
    root: Path, class_of: dict[str, int], name: str, severity: int, label: str, kind: str, class_files: tuple[Path, ...]
) -> ShiftedSet:  # fmt: skip
    top = root / CORRUPTED
    if not top.exists():
        load = partial(_corrupted_here, root / VAL, class_of, name, severity)
        return ShiftedSet(label, kind, load, (root / VAL, *class_files), describe(name, severity, "imagenet"))
    # The five archives may have been unpacked in place or each in a folder of its own name.
    places = [top / name / str(severity), *(top / tar / name / str(severity) for tar in TARS)]
    at = next((place for place in places if place.is_dir()), None)
    absent = "" if at else f"{places[0]} is missing"
    place = at or places[0]
    return ShiftedSet(
        label, kind, partial(read_images, place, class_of), (place, *class_files), absent=absent
    )


def _corrupted_here(folder: Path, class_of: dict[str, int], name: str, severity: int) -> CorruptedFiles:
    # The published files hold the middle of an image, corrupted, and are resized and cut as any other file.
    base = read_images(folder, class_of)
    return CorruptedFiles(base, name, severity, "imagenet", size=base.size)


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
