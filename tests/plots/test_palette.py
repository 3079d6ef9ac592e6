"""The palette stays apart for people with each common form of colour blindness."""

import itertools

import numpy as np
import pytest

from shiftgauge.plots.style import MARKERS, PALETTE

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def seen(colour, matrix):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return lab(np.clip(np.asarray(matrix) @ linear, 0, 1))


def lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_source_and_target_differ_for_everyone(sight):
    """The two colours that carry a figure's meaning alone are far apart: 10 is plain to see, 2.3 just noticeable."""
    blue, orange = (seen(colour, SIGHT[sight]) for colour in PALETTE[:2])
    assert np.linalg.norm(blue - orange) > 40


@pytest.mark.parametrize("sight", SIGHT)
def test_all_six_are_distinguishable(sight):
    for a, b in itertools.combinations(PALETTE, 2):
        assert np.linalg.norm(seen(a, SIGHT[sight]) - seen(b, SIGHT[sight])) > 8


def test_shapes_differ_where_colours_do():
    assert len(set(MARKERS)) == len(PALETTE)
