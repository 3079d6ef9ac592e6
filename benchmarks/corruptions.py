"""All 95 corruptions of 10,000 images of 32 x 32, against the budget of five minutes, and glass blur against the
pixel-by-pixel loop of the published script.

    python benchmarks/corruptions.py [--quick] [--images 10000]
"""

from __future__ import annotations

import json
import os
import time

import numpy as np
from _options import parser_of

from shiftgauge.experiments.corruptions import CONSTANTS, NAMES, corrupt


def published_glass_blur(
    image: np.ndarray, c: tuple[float, int, int], rng: np.random.Generator
) -> np.ndarray:
    """One image at a time, one pixel at a time, as the published script works."""
    from scipy.ndimage import gaussian_filter

    sigma, reach, times = c
    x = np.uint8(gaussian_filter(image / 255.0, (sigma, sigma, 0), mode="nearest") * 255)
    for _ in range(times):
        for h in range(32 - reach, reach, -1):
            for w in range(32 - reach, reach, -1):
                dx, dy = rng.integers(-reach, reach, size=(2,))
                x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
    return np.clip(gaussian_filter(x / 255.0, (sigma, sigma, 0), mode="nearest"), 0, 1) * 255


def main() -> None:
    parser = parser_of(__doc__, "200 images", numbers=False)
    parser.add_argument("--images", type=int, default=10_000)
    given = parser.parse_args()
    if given.quick:
        given.images = 200
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (given.images, 32, 32, 3), dtype=np.uint8)
    for name in NAMES:  # compile, load textures
        corrupt(images[:8], name, 1)

    wall, cpu, slowest = time.perf_counter(), time.process_time(), {}
    for name in NAMES:
        begun = time.perf_counter()
        for severity in range(1, 6):
            corrupt(images, name, severity)
        slowest[name] = time.perf_counter() - begun
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu

    sample = images[:200]
    constants = CONSTANTS["cifar"]["glass_blur"][4]
    begun = time.perf_counter()
    for image in sample:
        published_glass_blur(image, constants, rng)
    loop = (time.perf_counter() - begun) / len(sample)
    begun = time.perf_counter()
    corrupt(images, "glass_blur", 5)
    ours = (time.perf_counter() - begun) / len(images)

    print(
        f"95 corruptions of {given.images} images: {wall:.0f} s wall, {cpu:.0f} s CPU, {os.cpu_count()} cores"
    )
    for name, seconds in sorted(slowest.items(), key=lambda item: -item[1]):
        print(f"  {name:18s} {seconds:6.1f} s for five severities")
    print(f"glass blur, severity 5: {1e6 * ours:.0f} us an image, the published loop {1e6 * loop:.0f} us")
    print(f"  that is {loop / ours:.0f} times faster")
    print(json.dumps({"seconds": wall, "cpu_seconds": cpu, "budget": 300, "glass_ratio": loop / ours}))


if __name__ == "__main__":
    main()
