"""Files and a runner for the command's tests: the command runs in this process, as `shiftgauge` would."""

import json

import numpy as np
import pytest

from shiftgauge.cli.app import run


class Ran:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def shiftgauge(capfd):
    """Run the command with these words; returns its exit code, stdout and stderr."""

    def call(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return call


@pytest.fixture
def files(tmp_path, scores):
    """SOURCE and TARGET as .npz, with labels in both."""
    np.savez(tmp_path / "s.npz", logits=scores["logits"], labels=scores["labels"])
    np.savez(tmp_path / "t.npz", logits=scores["shifted"], labels=scores["truth"])
    return tmp_path / "s.npz", tmp_path / "t.npz"
