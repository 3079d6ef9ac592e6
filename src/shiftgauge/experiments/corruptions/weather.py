"""Weather: snow, frost, fog, spatter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.corruptions._operators import Floats, smooth, to_images, to_planes, zoom
from shiftgauge.experiments.corruptions.blur import along, need_cv2
from shiftgauge.experiments.corruptions.textures import textures

Images = NDArray[np.uint8]


def fog(images: Images, c: tuple[float, float], rng: np.random.Generator) -> Images:
    """Add c[0] times a plasma fractal of decay c[1]; keep each image's maximum."""
    planes = to_planes(images)
    height, width = planes.shape[-2:]
    brightest = planes.max(axis=(1, 2, 3), keepdims=True)
    clouds = plasma(len(images), 2 ** int(np.ceil(np.log2(max(height, width)))), c[1], rng)
    planes = planes + np.float32(c[0]) * clouds[:, None, :height, :width]
    return to_images(planes * brightest / (brightest + np.float32(c[0])))


def plasma(n: int, size: int, decay: float, rng: np.random.Generator) -> Floats:
    """n height maps in [0, 1] by the diamond-square algorithm on a torus; ``size`` is a power of two."""
    maps = np.zeros((n, size, size))
    step, amplitude = size, 100.0
    while step >= 2:
        half = step // 2
        corners = maps[:, ::step, ::step]
        square = corners + np.roll(corners, -1, 1)
        square = square + np.roll(square, -1, 2)
        maps[:, half::step, half::step] = _midpoints(square, amplitude, rng)
        middles = maps[:, half::step, half::step]
        across = middles + np.roll(middles, 1, 1) + corners + np.roll(corners, -1, 2)
        maps[:, ::step, half::step] = _midpoints(across, amplitude, rng)
        down = middles + np.roll(middles, 1, 2) + corners + np.roll(corners, -1, 1)
        maps[:, half::step, ::step] = _midpoints(down, amplitude, rng)
        step, amplitude = half, amplitude / decay
    maps -= maps.min(axis=(1, 2), keepdims=True)
    return np.asarray(maps / maps.max(axis=(1, 2), keepdims=True)).astype(np.float32)


def _midpoints(total: NDArray[np.float64], amplitude: float, rng: np.random.Generator) -> NDArray[np.float64]:
    # The published code multiplies by the amplitude and draws in it too: amplitude squared.
    return total / 4 + amplitude * rng.uniform(-amplitude, amplitude, total.shape)


def frost(images: Images, c: tuple[float, float], rng: np.random.Generator) -> Images:
    """c[0] times the image plus c[1] times a random window of a frost texture."""
    n, height, width, _ = images.shape
    sheets = textures(small=max(height, width) <= 64)
    which = rng.integers(0, len(sheets), size=(n,))
    place = rng.random((n, 2))
    out = np.empty_like(images)
    for i in range(n):
        sheet, (u, v) = sheets[int(which[i])], place[i]
        top, left = int(u * (sheet.shape[0] - height)), int(v * (sheet.shape[1] - width))
        window = sheet[top : top + height, left : left + width].astype(np.float32)
        out[i] = np.clip(c[0] * images[i] + c[1] * window, 0, 255)
    return out


def snow(images: Images, c: tuple[float, ...], rng: np.random.Generator) -> Images:
    """Whiten by 1 - c[6] and add flakes: normal noise (c[0], c[1]), enlarged c[2], cut at c[3], blown (c[4], c[5])."""
    planes = to_planes(images)
    n, _, height, width = planes.shape
    flakes = (c[0] + c[1] * rng.standard_normal((n, 1, height, width))).astype(np.float32)
    flakes = zoom(flakes, c[2])
    flakes[flakes < c[3]] = 0
    flakes = np.floor(np.clip(flakes, 0, 1) * np.float32(255))
    flakes = np.rint(along(flakes, c[4], c[5], np.asarray(rng.uniform(-135, -45, size=n)))) / np.float32(255)
    grey = luminance(planes)
    keep = np.float32(c[6])
    planes = keep * planes + (1 - keep) * np.maximum(planes, grey * np.float32(1.5) + np.float32(0.5))
    return to_images(planes + flakes + flakes[..., ::-1, ::-1])


def luminance(planes: Floats) -> Floats:
    """0.299 red + 0.587 green + 0.114 blue, (n, 3, H, W) to (n, 1, H, W), with the same bits on every processor.

    As in ``filter_planes``, a product is added in double precision and rounded once.
    """
    red, green, blue = (planes[:, c : c + 1].astype(np.float64) for c in range(3))
    grey = (green * np.float32(0.587)).astype(np.float32)
    grey = (red * np.float32(0.299) + grey).astype(np.float32)
    return np.asarray((blue * np.float32(0.114) + grey).astype(np.float32))


def spatter(images: Images, c: tuple[float, ...], rng: np.random.Generator) -> Images:
    """Drops of water (c[5] = 0) or mud (1): normal noise (c[0], c[1]), blurred c[2], cut at c[3]."""
    n, height, width, _ = images.shape
    liquid = (c[0] + c[1] * rng.standard_normal((n, height, width))).astype(np.float32)
    liquid = smooth(liquid, c[2])
    liquid[liquid < c[3]] = 0
    return _mud(images, liquid, c) if c[5] else _water(images, liquid, c[4])


def _mud(images: Images, liquid: Floats, c: tuple[float, ...]) -> Images:
    cover = smooth((liquid > c[3]).astype(np.float32), c[4])
    cover[cover < 0.8] = 0
    brown = np.array([63, 42, 20], np.float32)[:, None, None] / np.float32(255)
    cover = cover[:, None]
    return to_images(to_planes(images) * (1 - cover) + brown * cover)


def _water(images: Images, liquid: Floats, strength: float) -> Images:
    cv2 = need_cv2()
    bytes_ = (liquid * 255).astype(np.uint8)
    cover = np.stack([_drops(cv2, layer) for layer in bytes_])
    peak = cover.max(axis=(1, 2), keepdims=True)
    # The published code divides by zero where no drop formed; such an image stays as it is.
    cover = np.divide(cover, peak, out=np.zeros_like(cover), where=peak > 0) * np.float32(strength)
    turquoise = np.array([175, 238, 238], np.float32)[:, None, None] / np.float32(255)
    return to_images(to_planes(images) + cover[:, None] * turquoise)


def _drops(cv2: Any, layer: NDArray[np.uint8]) -> Floats:
    edges = 255 - cv2.Canny(layer, 50, 150)
    distance = cv2.distanceTransform(edges, cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    distance = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    relief = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    distance = cv2.blur(cv2.filter2D(distance, cv2.CV_8U, relief), (3, 3))
    drops: Floats = layer * distance.astype(np.float32)
    return drops
