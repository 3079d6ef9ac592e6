"""Whatever a function needs of a source and a target is computed once, however many parts of it ask."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg

K = 4
BY = np.array(["x", "y"])[np.arange(500) % 2]


def samples():
    """600 + 500 rows of probabilities, some of them exactly zero, so that floors are looked for."""
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=600)
    z = 3.0 * rng.normal(size=(600, K)) + 4.0 * np.eye(K)[labels]
    z_t = 3.0 * rng.normal(size=(500, K)) + 2.0 * np.eye(K)[rng.integers(K, size=500)]
    p, p_t = (np.exp(a - a.max(axis=1, keepdims=True)) for a in (z, z_t))
    p, p_t = (np.where(a < 1e-5, 0.0, a) for a in (p, p_t))
    return (
        sg.Source(probs=p / p.sum(axis=1, keepdims=True), labels=labels),
        sg.Target(probs=p_t / p_t.sum(axis=1, keepdims=True)),
    )


FUNCTIONS = {
    "estimate": lambda s, t: sg.estimate(s, t),
    "interval": lambda s, t: sg.interval(s, t, replicates=20),
    "compare": lambda s, t: sg.compare(s, t),
    "metrics": lambda s, t: sg.metrics(s, t),
    "slices": lambda s, t: sg.slices(s, t, BY, replicates=20),
    "label_shares": lambda s, t: sg.label_shares(s, t, replicates=20),
    "doctor": lambda s, t: sg.doctor(s, t),
    "label_plan": lambda s, t: sg.label_plan(s, t),
    "ceiling": lambda s, t: sg.ceiling(s, t),
    "suitable": lambda s, t: sg.suitable(s, t),
    "report": lambda s, t: sg.report(s, t, by=BY, replicates=20),
}


class Counted(sg.methods.AC):
    """Counts how often it is fitted and read."""

    name, fits, reads = "counted", 0, 0

    async def learn(self, source):
        type(self).fits += 1

    async def read(self, target):
        type(self).reads += 1
        return await super().read(target)


def test_a_pair_fits_and_reads_a_method_once(monkeypatch):
    monkeypatch.setitem(sg.methods.METHODS, "counted", Counted)
    pair = sg.Pair(*samples())
    for _ in range(2):
        sg.estimate(pair, method="counted")
        sg.metrics(pair, method="counted")
        sg.compare(pair, methods=["ac", "counted"])
    assert (Counted.fits, Counted.reads) == (1, 1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_pair_answers_as_its_samples_do(function):
    source, target = samples()
    pair = sg.Pair(source, target)
    if function == "report":  # it names its samples
        return
    ours = FUNCTIONS[function](pair, None)
    assert ours.to_dict() == FUNCTIONS[function](source, target).to_dict()
    passes = pair.target.passes
    assert FUNCTIONS[function](pair, None).to_dict() == ours.to_dict()
    assert pair.target.passes <= passes + 2  # everything but a last reading is kept


def test_a_default_that_is_spelled_out_is_the_same_method():
    met = sg.Pair(*samples())
    assert met.estimate("cott", marginal="source") is met.estimate("cott")
    assert met.estimate("auto", proportions="unknown") is met.estimate("auto")
    assert met.estimate("cott", marginal="shrunk") is not met.estimate("cott")
    assert met.estimate("cott", marginal=[0.25] * K) is met.estimate("cott", marginal=[0.25] * K)
