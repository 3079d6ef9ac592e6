"""Frost textures: the published photographs from an installed package, or procedural ones, and which."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.corruptions.blur import need_cv2

# The published code lists six files and draws among the first five.
FILES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")


def folder() -> Path | None:
    """Where the package ``imagecorruptions`` keeps the photographs, if it is installed (it is not imported)."""
    spec = find_spec("imagecorruptions")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / "frost"
    return found if all((found / name).exists() for name in FILES) else None


def origin() -> str:
    """``photographs`` or ``procedural``: written beside every collected result."""
    return "procedural" if folder() is None else "photographs"


@lru_cache(maxsize=4)
def textures(small: bool) -> tuple[NDArray[np.uint8], ...]:
    """Five RGB textures; ``small`` shrinks them to a fifth, as for 32 x 32 images."""
    where = folder()
    if where is None:
        return tuple(procedural(seed, 200 if small else 1000) for seed in range(5))
    cv2 = need_cv2()
    images = [cv2.imread(str(where / name)) for name in FILES]
    if small:
        images = [cv2.resize(image, (0, 0), fx=0.2, fy=0.2) for image in images]
    return tuple(np.ascontiguousarray(image[..., ::-1]) for image in images)


def procedural(seed: int, size: int) -> NDArray[np.uint8]:
    """Bluish-white crystals: ridges of several octaves of smooth noise. An imitation, not the photographs."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng([7919, seed])
    ridges = np.zeros((size, size))
    for octave in range(5):
        noise = gaussian_filter(rng.standard_normal((size, size)), size / 25 / 2**octave, mode="wrap")
        ridges += (1 - np.abs(noise) / (2 * noise.std())).clip(0) ** 2 / 1.6**octave
    value = (ridges - ridges.min()) / np.ptp(ridges)
    tint = np.array([0.82, 0.92, 1.0]) * value[..., None] ** 0.8
    return np.asarray(255 * tint.clip(0, 1)).astype(np.uint8)
