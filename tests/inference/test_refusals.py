"""Numbers that functions take are checked before any work: one line."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import backtest, interval, label_shares, slices


def samples(n=300):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(2 * n, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    return sg.Source(logits=z[:n], labels=y[:n]), sg.Target(logits=z[n:])


RESAMPLING = [
    ({"level": 95}, r"level 95: wanted a fraction .* did you mean 0.95\?"),
    ({"replicates": 0}, "replicates 0: wanted 20 or more"),
    ({"replicates": 10**11}, "replicates 100000000000: wanted 100,000 or fewer, better 200"),
    ({"seed": -1}, "seed -1: wanted 0 or more"),
]


@pytest.mark.parametrize(("wrong", "line"), RESAMPLING)
def test_resampling(wrong, line):
    source, target = samples()
    for call in (
        lambda: interval(source, target, "ac", **wrong),
        lambda: label_shares(source, target, **wrong),
        lambda: slices(source, target, ["a", "b"] * 150, **wrong),
    ):
        with pytest.raises(InputError, match=line):
            call()


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"repeats": 0}, "repeats 0: wanted 1"),
        ({"repeats": 10**9}, "10,000 or fewer"),
        ({"replicates": 5}, "replicates 5"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_backtest(wrong, line):
    with pytest.raises(InputError, match=line):
        backtest(samples()[0], **wrong)


def test_percentages_are_named():
    with pytest.raises(InputError, match="are these percentages"):
        sg.Target(probs=[[20.0, 80.0], [55.0, 45.0]])


def test_arrays_are_not_samples():
    source, target = samples()
    for verb, call in {
        "metrics": sg.metrics,
        "doctor": sg.doctor,
        "shift_test": sg.shift_test,
        "label_shares": sg.label_shares,
        "slices": lambda source, target: slices(source, target, ["a", "b"] * 150),
    }.items():
        with pytest.raises(InputError, match=rf"{verb}: arrived ndarray; wanted shiftgauge.Source\("):
            call(source.scores, target)
        with pytest.raises(InputError, match=rf"{verb}: arrived Source; wanted shiftgauge.Target\("):
            call(source, source)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda s, t: sg.compare(s, t, ["ac"], marginal="mine"),
            "marginal 'mine' is not known",
        ),  # AC reads none
        (lambda s, t: sg.shift_test(s, t, seed=-1), "seed -1: wanted 0"),
        (
            lambda s, t: backtest(s, by=["a", ["b"] * s.n], repeats=1),
            "rows have different lengths",
        ),
    ],
)
def test_what_nothing_would_read_is_refused_too(call, line):
    with pytest.raises(InputError, match=line):
        call(*samples())


def test_progress_says_whether_an_interval_is_on_its_way():
    for wanted, said in ((False, "ac"), (True, "ac, with its interval")):
        heard = []
        sg.compare(*samples(), ["ac"], interval=wanted, replicates=20, progress=heard.append)
        assert heard == ["calibration", said]
