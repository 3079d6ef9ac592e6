"""Whatever a verb needs of a source and a target is computed once, however many parts of it ask."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.methods import pair, shift, view
from shiftgauge.methods.base import Estimator
from shiftgauge.transport import Problem

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


VERBS = {
    "estimate": lambda s, t: sg.estimate(s, t),
    "interval": lambda s, t: sg.interval(s, t, replicates=20),
    "compare": lambda s, t: sg.compare(s, t),
    "metrics": lambda s, t: sg.metrics(s, t),
    "slices": lambda s, t: sg.slices(s, t, BY, replicates=20),
    "label_shares": lambda s, t: sg.label_shares(s, t, replicates=20),
    "doctor": lambda s, t: sg.doctor(s, t),
    "budget": lambda s, t: sg.budget(s, t, count=50),
    "ceiling": lambda s, t: sg.ceiling(s, t),
    "suitable": lambda s, t: sg.suitable(s, t),
    "report": lambda s, t: sg.report(s, t, by=BY, replicates=20),
}


@pytest.fixture
def done(monkeypatch):
    """Counts how often each piece of work was done, by what it was done to."""
    counts: Counter[tuple] = Counter()

    def counted(owner, name, key):
        work = getattr(owner, name)

        def call(*args, **options):
            counts[(name, *key(*args))] += 1
            return work(*args, **options)

        monkeypatch.setattr(owner, name, call)

    counted(pair, "fit_calibration", lambda name, source: (name,))
    counted(sg.Target, "aligned", lambda target, *rest: ())
    counted(shift, "j_test_of_shares", lambda *rest: ())
    counted(view.Exact, "hard", lambda solver, seen, marginal: (id(seen), marginal.tobytes()))
    counted(view.Exact, "soft", lambda solver, seen, marginal: (id(seen), marginal.tobytes()))
    counted(Problem, "__init__", lambda *rest: ("our own matrix, checked",))
    counted(Estimator, "fit_view", lambda method, seen: (repr(method), id(seen)))
    counted(Estimator, "estimate_view", lambda method, seen: (repr(method), id(seen)))
    held = []  # a view that is thrown away leaves its id to the next one
    made = view.View.__init__

    def kept(self, *args, **options):
        held.append(self)
        made(self, *args, **options)

    monkeypatch.setattr(view.View, "__init__", kept)
    return counts


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_computed_twice(verb, done):
    VERBS[verb](*samples())
    assert done[("fit_calibration", "temperature")] == 1
    assert [work for work, times in done.items() if times > 1] == []
    assert ("__init__", "our own matrix, checked") not in done


def test_auto_and_the_doubts_share_one_shift_test(done):
    sg.compare(*samples(), ["scot", "auto", "label-shift"])
    assert done[("j_test_of_shares",)] == 1


def test_a_default_that_is_spelled_out_is_the_same_method():
    met = sg.Pair(*samples())
    assert met.estimate("cott", marginal="source") is met.estimate("cott")
    assert met.estimate("auto", proportions="unknown") is met.estimate("auto")
    assert met.estimate("cott", marginal="shrunk") is not met.estimate("cott")
    assert met.estimate("cott", marginal=[0.25] * K) is met.estimate("cott", marginal=[0.25] * K)
