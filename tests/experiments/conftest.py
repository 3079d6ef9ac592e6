"""A tiny Fashion-MNIST with two corruptions, and a network that is trained in a moment."""

import pytest

from . import layouts


@pytest.fixture
def setting(tmp_path, monkeypatch):
    """Twelve units: the source, the clean set and ten corrupted ones; of the latter three change nothing."""
    pytest.importorskip("torch")
    pytest.importorskip("cv2")
    from shiftgauge.experiments import bench
    from shiftgauge.experiments.datasets import _generated
    from shiftgauge.experiments.recipes import RECIPES, Recipe

    monkeypatch.setitem(RECIPES, "fashion-mnist", Recipe("sgd", 0.05, 2, 20, schedule="constant"))
    monkeypatch.setattr(_generated, "NAMES", ("contrast", "saturate"))
    layouts.fashion(tmp_path)
    return bench.setting("fashion-mnist", tmp_path, tmp_path / "runs")
