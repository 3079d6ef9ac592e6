"""What the tests share."""

import signal
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import shiftgauge as sg

settings.register_profile(
    "project", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("project")

# A shell starts background jobs with Ctrl-C ignored, and the processes that tests start would inherit that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Tests that ask for one of these fixtures need what its marker names.
MARKERS = {"chromium": "browser", "cluster": "postgres", "setting": "torch", "spark": "spark"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        for fixture, marker in MARKERS.items():
            if fixture in item.fixturenames:
                item.add_marker(marker)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts and blocks of a few hundred rows, so that small data is cut often."""
    monkeypatch.setattr("shiftgauge.io.parts.PART_SCORES", 3 * 500)
    monkeypatch.setattr("shiftgauge.io.layout.BATCH_SCORES", 3 * 100)
    monkeypatch.setattr("shiftgauge.io.layout.BATCH_ROWS", 100)


@pytest.fixture(scope="session")
def scores():
    """An overconfident model of 5 classes on 600 labelled rows and on 800 shifted ones."""
    rng = np.random.default_rng(7)
    labels = rng.choice(5, 600, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    logits = 2.0 * rng.normal(size=(600, 5)) + 3.0 * np.eye(5)[labels]
    truth = rng.choice(5, 800, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    shifted = 2.0 * rng.normal(size=(800, 5)) + 2.0 * np.eye(5)[truth] + [1.0, 0, 0, 0, -0.5]
    return {"logits": logits, "labels": labels, "shifted": shifted, "truth": truth}


@pytest.fixture(scope="session")
def source(scores):
    return sg.Source(logits=scores["logits"], labels=scores["labels"])


@pytest.fixture(scope="session")
def target(scores):
    return sg.Target(logits=scores["shifted"])


@pytest.fixture(scope="session")
def demo():
    """The recorded predictions that ship with the package."""
    from importlib import resources

    with resources.files("shiftgauge").joinpath("data/demo.npz").open("rb") as file:
        return dict(np.load(file, allow_pickle=False))
