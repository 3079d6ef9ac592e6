#!/usr/bin/env python3
"""Decoding images in worker processes ahead of the network, against a plain loop in the same process.

    python benchmarks/image_input.py [--images 2000] [--workers 2] [--size 500 375] [--quick]

Writes a folder of random JPEG files the size of ImageNet's, reads all of them in batches of 64 as training does
(random resized crop to 224 and mirror), once with the plain loop and once with workers, and prints images a second
and the ratio. Afterwards the images of both ways are read once more and compared byte by byte.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

import numpy as np
from _options import parser_of
from PIL import Image

from shiftgauge.experiments.examples import FileImages
from shiftgauge.experiments.loading import ShuffledBatches, batches


def write_images(folder: Path, count: int, size: tuple[int, int]) -> FileImages:
    rng = np.random.default_rng(0)
    paths = []
    for number in range(count):
        # Smooth noise compresses as photographs do, to about a hundred kilobytes.
        small = rng.integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
        grain = rng.normal(0, 12, (size[1], size[0], 3))
        large = np.asarray(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC), float) + grain
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(np.clip(large, 0, 255).astype(np.uint8)).save(paths[-1], quality=90)
    return FileImages(paths, np.arange(count) % 10)


def measure(images: FileImages, workers: int) -> float:
    plan = ShuffledBatches(len(images), 64, seed=0)
    began = time.perf_counter()
    for _, pixels, _ in batches(images, plan, 0, plan.steps, workers):
        pixels[:, ::16, ::16].sum()
    return 64 * plan.steps / (time.perf_counter() - began)


def every_byte(images: FileImages, workers: int) -> str:
    plan, seen = ShuffledBatches(len(images), 64, seed=0), hashlib.sha256()
    for _, pixels, _ in batches(images, plan, 0, plan.steps, workers):
        seen.update(np.ascontiguousarray(pixels))
    return seen.hexdigest()


def main() -> None:
    parser = parser_of(__doc__, "256 images")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, nargs=2, default=(500, 375))
    given = parser.parse_args()
    given.images = 256 if given.quick else given.images
    with tempfile.TemporaryDirectory() as folder:
        images = write_images(Path(folder), given.images, tuple(given.size))
        plain, ahead = measure(images, 0), measure(images, given.workers)
        assert every_byte(images, 0) == every_byte(images, given.workers), "workers changed the images"
    print(f"plain loop          {plain:8.1f} images/s")
    print(f"{given.workers} workers           {ahead:8.1f} images/s")
    print(f"ratio               {ahead / plain:8.2f}")


if __name__ == "__main__":
    main()
