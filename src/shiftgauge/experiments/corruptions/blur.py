"""Blur: Gaussian, defocus, glass, motion, zoom."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import optional
from shiftgauge.experiments.corruptions._kernels import blur_along, shuffle_pixels
from shiftgauge.experiments.corruptions._operators import Floats, smooth, to_images, to_planes, zoom

Images = NDArray[np.uint8]


def gaussian_blur(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Gaussian of standard deviation c pixels."""
    return to_images(smooth(to_planes(images), c))


def defocus_blur(images: Images, c: tuple[float, float], rng: np.random.Generator) -> Images:
    """A disk of radius c[0], its edge softened by a Gaussian of c[1]; mirrored edges."""
    cv2 = need_cv2()
    kernel = disk(*c)
    unit = np.divide(images, np.float32(255), dtype=np.float32)
    blurred = np.stack([cv2.filter2D(image, -1, kernel) for image in unit])
    return np.asarray(np.clip(blurred, 0, 1) * np.float32(255)).astype(np.uint8)


def disk(radius: float, softness: float) -> Floats:
    """The defocus kernel, odd-sized, sum 1."""
    cv2 = need_cv2()
    reach = 8 if radius <= 8 else int(radius)
    grid = np.arange(-reach, reach + 1)
    inside = (grid[:, None] ** 2 + grid[None, :] ** 2 <= radius**2).astype(np.float32)
    size = (3, 3) if radius <= 8 else (5, 5)
    kernel: Floats = cv2.GaussianBlur(inside / inside.sum(), size, softness)
    return kernel


def glass_blur(images: Images, c: tuple[float, int, int], rng: np.random.Generator) -> Images:
    """Blur by c[0], replace every pixel by one at most c[1] away, c[2] times, blur again."""
    sigma, reach, times = c
    x = to_images(smooth(to_planes(images), sigma))
    steps = (x.shape[1] - 2 * reach) * (x.shape[2] - 2 * reach)
    for _ in range(times):
        # The published draw excludes its upper end: -reach .. reach - 1.
        moves = rng.integers(-reach, reach, size=(len(x), steps, 2), dtype=np.int8)
        shuffle_pixels(x, moves, reach)
    return to_images(smooth(to_planes(x), sigma))


def motion_blur(images: Images, c: tuple[float, float], rng: np.random.Generator) -> Images:
    """One-sided Gaussian of c[1] over 2 c[0] + 1 pixels, in a direction of -45 to 45 degrees per image."""
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32)
    moved = along(planes, c[0], c[1], rng.uniform(-45, 45, len(images)))
    return np.ascontiguousarray(np.clip(np.rint(moved), 0, 255).astype(np.uint8).transpose(0, 2, 3, 1))


def along(planes: Floats, radius: float, sigma: float, degrees: NDArray[np.float64]) -> Floats:
    """ImageMagick's motion blur: planes (n, C, H, W), one direction per image, edges repeated."""
    width = 2 * int(np.ceil(radius)) + 1
    kernel = np.exp(-(np.arange(width) ** 2) / (2 * sigma**2))
    radians = np.deg2rad(degrees)[:, None]
    dx = np.ceil(np.arange(width) * np.cos(radians) - 0.5).astype(np.int64)
    dy = np.ceil(np.arange(width) * np.sin(radians) - 0.5).astype(np.int64)
    moved: Floats = blur_along(planes, (kernel / kernel.sum()).astype(np.float32), dy, dx)
    return moved


def zoom_blur(images: Images, c: NDArray[np.float64], rng: np.random.Generator) -> Images:
    """Mean of the image and its enlargements by the factors c."""
    planes = to_planes(images)
    total = planes.copy()
    for factor in c:
        total += zoom(planes, float(factor))
    return to_images(total / np.float32(len(c) + 1))


def need_cv2() -> Any:
    """OpenCV, or an error that names the extra."""
    purpose = "each of defocus blur, elastic transform, frost and spatter"
    return optional("cv2", extra="experiments", purpose=purpose)
