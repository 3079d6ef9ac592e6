"""Calibrated synthetic scores: the model's reported logits are 1.5 times those of the true posterior."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg


def scores(rng, n, k=4, tilt=0.0, spread=2.0):
    z = spread * rng.normal(size=(n, k))
    z[:, 0] += tilt
    labels = (z + rng.gumbel(size=z.shape)).argmax(1)
    return 1.5 * z, labels


@pytest.fixture(scope="session")
def pair():
    """A source, a target without shift, and the target's labels."""
    rng = np.random.default_rng(0)
    z, y = scores(rng, 1500)
    z_t, y_t = scores(rng, 1200)
    return sg.Source(logits=z, labels=y), sg.Target(logits=z_t), y_t
