#!/usr/bin/env python3
"""Make src/shiftgauge/data/demo.npz, the recorded predictions behind ``shiftgauge demo``.

    python scripts/make_demo_data.py --data DIR [--runs DIR] [--out FILE]

DIR holds ``fashion-mnist/`` with the four IDX files (Debian: ``apt-get install dataset-fashion-mnist``,
then link /usr/share/datasets/fashion-mnist). Needs ``pip install 'shiftgauge[experiments]'``; about
five minutes on one core.

How the file was made: the project's small convolutional network (four convolutions, 61 thousand
weights) was trained twice, with seeds 0 and 1, by the recipe "fashion-mnist" (six epochs) on 50,000 of
the 60,000 training images. The validation rows are the first 5,000 of the other 10,000, which no network
saw. The target is the first 4,000 test images, as they are and under the named shifts below; all shifts
are those of ``shiftgauge.experiments.corruptions`` (constants and severity as listed) but the translation.
Shifts were chosen by kind and by true error alone, and stand in the order of the first network's error.
Logits are those of seed 0 in float16, ``second`` are the predictions of seed 1.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from shiftgauge.experiments.bench import setting
from shiftgauge.experiments.collect import trained_network
from shiftgauge.experiments.corruptions import corrupt
from shiftgauge.experiments.examples import ArrayImages
from shiftgauge.experiments.progress import lines
from shiftgauge.experiments.scoring import score
from shiftgauge.experiments.storage import write_arrays

VALIDATION, TARGET = 5_000, 4_000
CLASSES = (
    "T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
# name in the demo -> corruption, severity, constants
SHIFTS = {
    "jpeg": ("jpeg_compression", 2, "imagenet"),
    "pixelate": ("pixelate", 2, "imagenet"),
    "mild_noise": ("gaussian_noise", 3, "cifar"),
    "zoom_blur": ("zoom_blur", 4, "imagenet"),
    "gaussian_blur": ("gaussian_blur", 5, "cifar"),
    "motion_blur": ("motion_blur", 5, "cifar"),
    "spatter": ("spatter", 3, "cifar"),
    "salt_and_pepper": ("impulse_noise", 5, "cifar"),
    "brightness": ("brightness", 1, "cifar"),
    "glass_blur": ("glass_blur", 3, "imagenet"),
    "strong_noise": ("gaussian_noise", 3, "imagenet"),
    "low_contrast": ("contrast", 2, "cifar"),
}
STEP = 5


def translate(images: np.ndarray) -> np.ndarray:
    """Move every image STEP pixels right and down, black coming in."""
    return np.pad(images, ((0, 0), (STEP, 0), (STEP, 0), (0, 0)))[:, : images.shape[1], : images.shape[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory that holds fashion-mnist/")
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "shiftgauge-demo")
    parser.add_argument("--out", type=Path, default=Path("src/shiftgauge/data/demo.npz"))
    given = parser.parse_args()

    run = setting("fashion-mnist", given.data, given.runs, progress=lines())
    fashion, networks = run.dataset, [trained_network(run, seed) for seed in (0, 1)]
    reserved = fashion.validation(given.data)
    validation = ArrayImages(reserved.pixels[:VALIDATION], reserved.labels[:VALIDATION])
    test = fashion.shifts(given.data)[0].load()
    images, labels = test.batch(np.arange(TARGET)), test.labels[:TARGET]

    targets = {"clean": images, "translation": translate(images)}
    targets |= {
        name: corrupt(images, what, how, constants=which) for name, (what, how, which) in SHIFTS.items()
    }
    scores = {
        name: [score(network, ArrayImages(pixels, labels)) for network in networks]
        for name, pixels in targets.items()
    }
    errors = {name: float((first.argmax(1) != labels).mean()) for name, (first, _) in scores.items()}
    order = sorted(errors, key=lambda name: errors[name])

    arrays = {
        "val_logits": score(networks[0], validation).astype(np.float16),
        "val_labels": validation.labels.astype(np.uint8),
        "classes": np.array(CLASSES),
        "labels": labels.astype(np.uint8),
        "shifts": np.array(order),
    }
    for name in order:
        first, second = scores[name]
        arrays[f"{name}_logits"] = first.astype(np.float16)
        arrays[f"{name}_second"] = second.argmax(1).astype(np.uint8)
        differ = (first.argmax(1) != second.argmax(1)).mean()
        print(f"{name:16s} true error {errors[name]:6.1%}   disagreement {differ:6.1%}")
    write_arrays(given.out, **arrays)
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.2f} MB, {len(order)} target sets")


if __name__ == "__main__":
    main()
