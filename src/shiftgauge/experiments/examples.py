"""Labelled examples in batches: images in memory, images in files, texts.

Training and scoring use ``labels``, ``len`` and ``batch(rows, draws)``. ``draws`` holds one random number per row and
requests augmented images; without it they are not augmented. The augmentation of a row depends on its own number
only, so several processes that share a batch get the same images as one process. An odd number gives the mirror image
of the even number before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments.corruptions import corrupt

Pixels = NDArray[np.uint8]
Indices = NDArray[np.int64]
Draws = NDArray[np.uint64]


class Examples(Protocol):
    """What training and scoring need of a data set."""

    @property
    def labels(self) -> Indices:
        """Class numbers, shape (n,)."""

    def __len__(self) -> int:
        """Number of examples."""

    def batch(self, rows: Indices, draws: Draws | None = None) -> Pixels | list[str]:
        """The inputs of ``rows``: images (b, H, W, 3) or texts; augmented where ``draws`` (b,) are given."""

    def take(self, rows: Indices) -> Examples:
        """Only these rows."""


@dataclass(frozen=True)
class ArrayImages:
    """Images in memory, uint8 (n, H, W, 3); augmentation pads by ``pad``, crops and mirrors."""

    pixels: Pixels
    labels: Indices
    pad: int = 4
    mirror: bool = True

    def __post_init__(self) -> None:
        """Check the shapes."""
        if self.pixels.ndim != 4 or self.pixels.shape[3] != 3 or self.pixels.dtype != np.uint8:
            raise InputError(
                f"images must be uint8 of shape (n, height, width, 3); these are {self.pixels.dtype} "
                f"of shape {self.pixels.shape}"
            )
        if len(self.pixels) != len(self.labels):
            raise InputError(f"{len(self.pixels)} images came with {len(self.labels)} labels")

    def __len__(self) -> int:
        """Number of images."""
        return len(self.labels)

    def batch(self, rows: Indices, draws: Draws | None = None) -> Pixels:
        """The images of ``rows``."""
        images = self.pixels[rows]
        return images if draws is None else crop_and_mirror(images, draws, self.pad, self.mirror)

    def take(self, rows: Indices) -> ArrayImages:
        """Only these rows."""
        return replace(self, pixels=self.pixels[rows], labels=self.labels[rows])


def crop_and_mirror(images: Pixels, draws: Draws, pad: int, mirror: bool) -> Pixels:
    """Pad with zeros, crop a random window of the old size, mirror half of the images at random.

    One gather for the whole batch: mirroring and window positions are digits of the rows' numbers.
    """
    n, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    places = np.uint64(2 * pad + 1)
    rest = draws // np.uint64(2)
    top, left = (rest % places).astype(np.int64), (rest // places % places).astype(np.int64)
    columns = left[:, None] + np.arange(width)
    if mirror:
        flip = draws % np.uint64(2) == 1
        columns[flip] = columns[flip, ::-1]
    lines = top[:, None] + np.arange(height)
    return np.asarray(padded[np.arange(n)[:, None, None], lines[:, :, None], columns[:, None, :]])


@dataclass(frozen=True)
class FileImages:
    """Images in files. Without augmentation: shorter side to ``size * 8 / 7``, then the middle ``size`` square.

    With ``ready`` the files are used in their own size, as those of WILDS. ``augment`` is ``crop`` (random resized
    crop, area 0.08 to 1, aspect 3/4 to 4/3, and mirror), ``turn`` (quarter turns and mirror) or ``none``.
    """

    paths: Sequence[Path]
    labels: Indices
    size: int = 224
    ready: bool = False
    augment: str = "crop"

    def __len__(self) -> int:
        """Number of images."""
        return len(self.labels)

    def batch(self, rows: Indices, draws: Draws | None = None) -> Pixels:
        """The images of ``rows``, read now."""
        numbers = [None] * len(rows) if draws is None else [int(draw) for draw in draws]
        return np.stack([self._read(self.paths[row], draw) for row, draw in zip(rows, numbers, strict=True)])

    def take(self, rows: Indices) -> FileImages:
        """Only these rows."""
        return replace(self, paths=[self.paths[row] for row in rows], labels=self.labels[rows])

    def _read(self, path: Path, draw: int | None) -> Pixels:
        from PIL import Image

        try:
            with Image.open(path) as file:
                image = file.convert("RGB")
        except OSError as error:
            raise FileError(f"{path} is not a readable image ({error}); download it again") from None
        if draw is None or self.augment == "none":
            return np.asarray(image) if self.ready else middle(image, self.size)
        rng = np.random.default_rng(draw // 2)
        if self.augment == "crop":
            box = _random_box(image.size, rng)
            pixels = np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box))
        else:
            pixels = np.asarray(image) if self.ready else middle(image, self.size)
            pixels = np.rot90(pixels, int(rng.integers(4)))
        return pixels[:, ::-1] if draw % 2 else pixels


def middle(image: Any, size: int) -> Pixels:
    """The shorter side of a PIL image to ``size * 8 / 7``, then its middle ``size`` square."""
    # Sizes, filter and rounding are torchvision's Resize and CenterCrop, which the authors use.
    from PIL import Image

    short, shorter = size * 8 // 7, min(image.size)
    wanted = [short if side == shorter else int(short * side / shorter) for side in image.size]
    image = image.resize((wanted[0], wanted[1]), Image.Resampling.BILINEAR)
    left, top = round((image.width - size) / 2), round((image.height - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def _random_box(size: tuple[int, int], rng: np.random.Generator) -> tuple[float, float, float, float]:
    width, height = size
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        aspect = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = float(np.sqrt(area * aspect)), float(np.sqrt(area / aspect))
        if w <= width and h <= height:
            left, top = rng.uniform(0, width - w), rng.uniform(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


@dataclass(frozen=True)
class Texts:
    """Texts in memory; there is no augmentation."""

    texts: Sequence[str]
    labels: Indices

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.labels)

    def batch(self, rows: Indices, draws: Draws | None = None) -> list[str]:
        """The texts of ``rows``."""
        return [self.texts[row] for row in rows]

    def take(self, rows: Indices) -> Texts:
        """Only these rows."""
        return Texts([self.texts[row] for row in rows], self.labels[rows])


@dataclass(frozen=True)
class CorruptedFiles:
    """An image set that is corrupted image by image, for sets that do not fit in memory.

    The noise of an image is drawn from (seed, its row in the whole set), so it does not depend on the batch or the
    part of the set. ``size`` crops the middle of the corrupted image as that of a file. ``numbers`` are the rows of
    the whole set in this part (None: all).
    """

    base: Examples
    corruption: str
    severity: int
    constants: str = "imagenet"
    seed: int = 0
    size: int | None = None
    numbers: Indices | None = None

    @property
    def labels(self) -> Indices:
        """The base set's labels."""
        return self.base.labels

    def __len__(self) -> int:
        """Number of images."""
        return len(self.base)

    def batch(self, rows: Indices, draws: Draws | None = None) -> Pixels:
        """The corrupted images of ``rows``."""
        images = self.base.batch(rows, draws)
        if isinstance(images, list):
            raise InputError("corruptions are for images; this set holds texts")
        numbers = rows if self.numbers is None else self.numbers[rows]
        return np.stack(
            [self._corrupted(image, int(row)) for image, row in zip(images, numbers, strict=True)]
        )

    def take(self, rows: Indices) -> CorruptedFiles:
        """Only these rows."""
        numbers = rows if self.numbers is None else self.numbers[rows]
        return replace(self, base=self.base.take(rows), numbers=numbers)

    def _corrupted(self, image: Pixels, number: int) -> Pixels:
        from PIL import Image

        key = (self.seed, number)
        corrupted = corrupt(image[None], self.corruption, self.severity, constants=self.constants, seed=key)[
            0
        ]
        return corrupted if self.size is None else middle(Image.fromarray(corrupted), self.size)
