"""Digital: brightness, contrast, saturation, JPEG, pixelation, elastic deformation."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from shiftgauge.experiments.corruptions._kernels import displace
from shiftgauge.experiments.corruptions._operators import Floats, smooth, to_floats
from shiftgauge.experiments.corruptions.blur import need_cv2

Images = NDArray[np.uint8]


def _to_bytes(x: Floats) -> Images:
    # Half a thousandth of a grey level: float32 rounding must not lose a level where nothing changed.
    levels = np.clip(x, 0, 1) * np.float32(255) + np.float32(5e-4)
    return np.asarray(np.clip(levels, 0, 255)).astype(np.uint8)


def contrast(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Shrink every value towards its channel's mean in the image by the factor c."""
    x = to_floats(images)
    mean = x.mean(axis=(1, 2), keepdims=True)
    return _to_bytes((x - mean) * np.float32(c) + mean)


def brightness(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Add c to the value of HSV. At fixed hue and saturation that scales the colour by new over old value."""
    x = to_floats(images)
    value = x.max(axis=3, keepdims=True)
    new = np.minimum(value + np.float32(c), 1)
    ratio = np.divide(new, value, out=np.zeros_like(value), where=value > 0)
    # Black has no colour to scale: it becomes grey of the new value.
    return _to_bytes(np.where(value > 0, x * ratio, new))


def saturate(images: Images, c: tuple[float, float], rng: np.random.Generator) -> Images:
    """Saturation of HSV times c[0] plus c[1]; at fixed hue and value that scales the distance to the maximum.

    Grey has hue 0 by convention, so c[1] > 0 tints it red, as in the published code.
    """
    x = to_floats(images)
    value = x.max(axis=3, keepdims=True)
    gap = value - x
    widest = gap.max(axis=3, keepdims=True)
    old = np.divide(widest, value, out=np.zeros_like(value), where=value > 0)
    new = np.clip(old * np.float32(c[0]) + np.float32(c[1]), 0, 1)
    ratio = np.divide(new, old, out=np.zeros_like(old), where=old > 0)
    red = new * value * np.array([0, 1, 1], np.float32)
    return _to_bytes(value - np.where(old > 0, gap * ratio, red))


def jpeg_compression(images: Images, c: int, rng: np.random.Generator) -> Images:
    """Encode and decode as JPEG of quality c."""
    from PIL import Image

    out = np.empty_like(images)
    for i, image in enumerate(images):
        buffer = BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=c)
        out[i] = np.asarray(Image.open(buffer))
    return out


def pixelate(images: Images, c: float, rng: np.random.Generator) -> Images:
    """Shrink to the share c of the size by box averages, and back."""
    from PIL import Image

    _, height, width, _ = images.shape
    small, full = (int(width * c), int(height * c)), (width, height)
    box = Image.Resampling.BOX
    return np.stack([np.asarray(Image.fromarray(i).resize(small, box).resize(full, box)) for i in images])


def elastic_transform(images: Images, c: tuple[float, float, float], rng: np.random.Generator) -> Images:
    """A random affine map (corners move up to c[2]), then a displacement of c[0] smoothed by c[1]."""
    n, height, width, _ = images.shape
    warped = _affine(to_floats(images), c[2], rng)
    fields = rng.uniform(-1, 1, size=(2, n, height, width)).astype(np.float32)
    dx, dy = smooth(fields, c[1], mode="reflect", truncate=3.0) * np.float32(c[0])
    return _to_bytes(displace(warped, dy, dx))


def _affine(x: Floats, reach: float, rng: np.random.Generator) -> Floats:
    cv2 = need_cv2()
    n, height, width, _ = x.shape
    centre, side = np.array([height // 2, width // 2], np.float32), min(height, width) // 3
    corners = np.array([centre + side, [centre[0] + side, centre[1] - side], centre - side], np.float32)
    moved = corners + rng.uniform(-reach, reach, size=(n, 3, 2)).astype(np.float32)
    return np.stack(
        [
            cv2.warpAffine(
                image, cv2.getAffineTransform(corners, to), (width, height), borderMode=cv2.BORDER_REFLECT_101
            )
            for image, to in zip(x, moved, strict=True)
        ]
    )
