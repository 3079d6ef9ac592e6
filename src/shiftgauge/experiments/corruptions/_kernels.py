"""Compiled loops over pixels: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def shuffle_pixels(images: NDArray[np.uint8], moves: NDArray[np.int8], reach: int) -> None:
    """Glass blur's walk, in place: each pixel takes a near pixel's colour, from the last to the first.

    ``moves`` (n, steps, 2) are the displacements (dx, dy). The published loop means to swap two pixels,
    but its two sides are views of one array, so both end with the neighbour's colour; so do ours.
    """
    n, height, width, channels = images.shape
    for i in prange(n):
        step = 0
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                hh, ww = h + moves[i, step, 1], w + moves[i, step, 0]
                for c in range(channels):
                    images[i, h, w, c] = images[i, hh, ww, c]
                step += 1


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def blur_along(
    planes: NDArray[np.float32], kernel: NDArray[np.float32], dy: NDArray[np.int64], dx: NDArray[np.int64]
) -> Any:
    """Sum of shifted copies: plane i moves along (dy[i, k], dx[i, k]) with weight kernel[k]; edges repeat."""
    n, channels, height, width = planes.shape
    out = np.zeros_like(planes)
    for i in prange(n):
        for k in range(len(kernel)):
            for h in range(height):
                hh = min(max(h + dy[i, k], 0), height - 1)
                for w in range(width):
                    ww = min(max(w + dx[i, k], 0), width - 1)
                    for c in range(channels):
                        out[i, c, h, w] += kernel[k] * planes[i, c, hh, ww]
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mirror(index: int, size: int) -> int:
    # d c b a | a b c d | d c b a
    period = 2 * size
    index = index % period
    return index if index < size else period - 1 - index


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def displace(images: NDArray[np.float32], dy: NDArray[np.float32], dx: NDArray[np.float32]) -> Any:
    """Bilinear look-up at (h + dy, w + dx), mirrored at the edges; images (n, H, W, C)."""
    n, height, width, channels = images.shape
    out = np.empty_like(images)
    for i in prange(n):
        for h in range(height):
            for w in range(width):
                y, x = h + dy[i, h, w], w + dx[i, h, w]
                top, left = int(np.floor(y)), int(np.floor(x))
                b, a = y - top, x - left
                h0, h1 = _mirror(top, height), _mirror(top + 1, height)
                w0, w1 = _mirror(left, width), _mirror(left + 1, width)
                for c in range(channels):
                    upper = (1 - a) * images[i, h0, w0, c] + a * images[i, h0, w1, c]
                    lower = (1 - a) * images[i, h1, w0, c] + a * images[i, h1, w1, c]
                    out[i, h, w, c] = (1 - b) * upper + b * lower
    return out


@njit(cache=True, parallel=True)  # type: ignore[untyped-decorator]
def filter_planes(
    planes: NDArray[np.float32], rows: NDArray[np.float32], columns: NDArray[np.float32]
) -> Any:
    """``rows @ plane @ columns.T`` for planes (n, H, W), with the same bits on every processor.

    BLAS adds up in another order on each kind of processor. The orders here are those of OpenBLAS with AVX-512, which
    made the recorded results: one term after the other on the left, 16 partial sums on the right. A product is added
    in double precision and rounded once.
    """
    out = np.empty_like(planes)
    for i in prange(len(planes)):
        _times_transposed(_times(rows, planes[i]), columns, out[i])
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def _times(rows: NDArray[np.float32], plane: NDArray[np.float32]) -> Any:
    height, width = plane.shape
    out = np.zeros((height, width), np.float32)
    for h in range(height):
        for k in range(height):
            if rows[h, k] != 0:
                for w in range(width):
                    out[h, w] = np.float32(np.float64(rows[h, k]) * plane[k, w] + out[h, w])
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def _times_transposed(
    left: NDArray[np.float32], columns: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    height, width = left.shape
    sums = np.empty((16, height), np.float32)
    for w in range(width):
        sums[:] = 0
        for k in range(width):
            if columns[w, k] != 0:
                for h in range(height):
                    sums[k % 16, h] = np.float32(np.float64(columns[w, k]) * left[h, k] + sums[k % 16, h])
        for half in (8, 4, 2, 1):
            for m in range(half):
                for h in range(height):
                    sums[m, h] = sums[2 * m, h] + sums[2 * m + 1, h]
        out[:, w] = sums[0]
