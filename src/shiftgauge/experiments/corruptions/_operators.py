"""Separable linear operators on batches of images: blur and zoom as small matrices.

Filtering along one axis is a matrix of the axis' length, so a whole batch is two matrix products.
Planes have shape (..., H, W).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.corruptions._kernels import filter_planes

Floats = NDArray[np.float32]


def to_floats(images: NDArray[np.uint8]) -> Floats:
    """uint8 images to float32 in [0, 1], shape unchanged."""
    return np.asarray(np.divide(images, np.float32(255), dtype=np.float32))


def to_planes(images: NDArray[np.uint8]) -> Floats:
    """uint8 (n, H, W, C) to float32 planes (n, C, H, W) in [0, 1]."""
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32)
    planes /= np.float32(255)
    return planes


def to_images(planes: Floats) -> NDArray[np.uint8]:
    """Planes in [0, 1] to uint8 (n, H, W, C), clipped and truncated as the published code does."""
    scaled = np.clip(planes, 0, 1) * np.float32(255)
    return np.ascontiguousarray(scaled.astype(np.uint8).transpose(0, 2, 3, 1))


def apply(planes: Floats, rows: Floats, columns: Floats) -> Floats:
    """``rows @ plane @ columns.T`` for every plane."""
    flat = np.ascontiguousarray(planes.reshape(-1, *planes.shape[-2:]))
    return np.asarray(filter_planes(flat, rows, columns).reshape(planes.shape))


def smooth(planes: Floats, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> Floats:
    """Gaussian blur of every plane."""
    height, width = planes.shape[-2:]
    return apply(planes, _gaussian(height, sigma, mode, truncate), _gaussian(width, sigma, mode, truncate))


@lru_cache(maxsize=64)
def _gaussian(size: int, sigma: float, mode: str, truncate: float) -> Floats:
    from scipy.ndimage import gaussian_filter1d

    identity = np.eye(size)
    matrix = (
        gaussian_filter1d(identity, sigma, axis=0, mode=mode, truncate=truncate) if sigma > 0 else identity
    )
    return np.ascontiguousarray(matrix, dtype=np.float32)


def zoom(planes: Floats, factor: float) -> Floats:
    """Enlarge the middle of square planes by ``factor``, bilinear, size kept."""
    matrix = _zoom(planes.shape[-1], factor)
    return apply(planes, matrix, matrix)


@lru_cache(maxsize=256)
def _zoom(size: int, factor: float) -> Floats:
    # Crop ceil(size / factor), stretch the end points onto each other, trim to size.
    crop = int(np.ceil(size / factor))
    first = (size - crop) // 2
    enlarged = round(crop * factor)
    trim = (enlarged - size) // 2
    position = np.arange(trim, trim + size) * ((crop - 1) / max(enlarged - 1, 1))
    low = np.minimum(position.astype(int), crop - 1)
    high = np.minimum(low + 1, crop - 1)
    share = position - low
    matrix = np.zeros((size, size))
    matrix[np.arange(size), first + low] += 1 - share
    matrix[np.arange(size), first + high] += share
    return matrix.astype(np.float32)
