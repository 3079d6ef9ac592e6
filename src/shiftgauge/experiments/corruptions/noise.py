"""Noise: Gaussian, shot, impulse, speckle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.corruptions._operators import Floats, to_floats

Images = NDArray[np.uint8]


def _to_bytes(x: Floats) -> Images:
    return np.asarray(np.clip(x, 0, 1) * np.float32(255), dtype=np.float32).astype(np.uint8)


def gaussian_noise(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Add normal noise of standard deviation c."""
    noise = rng.standard_normal(images.shape, np.float32)
    return _to_bytes(to_floats(images) + np.float32(c) * noise)


def shot_noise(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Poisson counts at c photons for full brightness."""
    # A table of 256 rates: the generator's set-up per rate is shared by equal pixels.
    rates = np.arange(256) / 255 * c
    return _to_bytes((rng.poisson(rates[images]) / c).astype(np.float32))


def impulse_noise(images: Images, c: float, rng: np.random.Generator) -> Images:
    """A share c of all values becomes 0 or full, with equal chance."""
    draw = rng.random(images.shape, np.float32)
    out: Images = images.copy()
    out[draw < c / 2] = 255
    out[(draw >= c / 2) & (draw < c)] = 0
    return out


def speckle_noise(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Add normal noise proportional to the value."""
    x = to_floats(images)
    return _to_bytes(x + x * np.float32(c) * rng.standard_normal(images.shape, np.float32))
