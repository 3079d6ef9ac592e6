"""The 19 common corruptions at 5 severities (Hendrycks and Dietterich, 2019), for whole batches, seeded.

``corrupt(images, "fog", 3)`` shifts any uint8 image set (n, H, W, 3). The constants are the published
ones; the random numbers are our own, so single images differ from CIFAR-10-C and ImageNet-C while their
distributions agree. Frost uses the published photographs where the package ``imagecorruptions`` is
installed, and procedural textures otherwise; ``frost_origin()`` says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import InputError, nearest
from shiftgauge.experiments.corruptions import blur, digital, noise, weather
from shiftgauge.experiments.corruptions.constants import CIFAR, IMAGENET, Constants
from shiftgauge.experiments.corruptions.textures import origin as frost_origin

__all__ = ["CONSTANTS", "CORRUPTIONS", "NAMES", "corrupt", "frost_origin"]

Corruption = Callable[[NDArray[np.uint8], Any, np.random.Generator], NDArray[np.uint8]]

CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": digital.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": weather.spatter,
    "saturate": digital.saturate,
}
NAMES = tuple(CORRUPTIONS)
CONSTANTS: dict[str, Constants] = {"cifar": CIFAR, "imagenet": IMAGENET}

# Pixels per chunk: bounds the memory of the float copies to some hundred megabytes.
_CHUNK = 1_000_000


def chunk_rows(images: NDArray[np.uint8]) -> int:
    """How many images share a generator: the first chunks of a set are those of the whole set."""
    return max(1, _CHUNK // max(1, int(images.shape[1]) * int(images.shape[2])))


def corrupt(
    images: NDArray[np.uint8],
    name: str,
    severity: int,
    *,
    constants: str = "cifar",
    seed: int | tuple[int, ...] = 0,
) -> NDArray[np.uint8]:
    """Corrupt a batch; the same arguments give the same images.

    images: uint8 (n, H, W, 3); zoom blur and snow want square ones. severity: 1 to 5.

    >>> corrupt(np.full((2, 32, 32, 3), 128, np.uint8), "contrast", 5).mean()
    np.float64(128.0)
    """
    if name not in CORRUPTIONS:
        raise InputError(f"no corruption is called {name!r}{nearest(name, NAMES)}; known: {', '.join(NAMES)}")
    if severity not in (1, 2, 3, 4, 5):
        raise InputError(f"severity is {severity!r}; it must be 1, 2, 3, 4 or 5")
    if constants not in CONSTANTS:
        raise InputError(f"constants are {constants!r}; they must be 'cifar' or 'imagenet'")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise InputError(
            f"images must be uint8 of shape (n, height, width, 3); these are {images.dtype} of shape {images.shape}"
        )
    c = CONSTANTS[constants][name][severity - 1]
    entropy = [*np.atleast_1d(seed).tolist(), NAMES.index(name), severity]
    rows = chunk_rows(images)
    out = np.empty_like(images)
    for chunk, start in enumerate(range(0, len(images), rows)):
        part = slice(start, start + rows)
        out[part] = CORRUPTIONS[name](images[part], c, np.random.default_rng([*entropy, chunk]))
    return out
