"""What the trust room is told in numbers is checked at its door: one line, before any work."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import backtest, budget, interval, label_shares, slices, with_labels


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
        ({"margin": 2}, r"margin 2: .* did you mean 0.02\?"),
        ({"level": 1.0}, "level 1"),
        ({"seed": -3}, "seed -3"),
        ({"margin": "a lot"}, "margin 'a lot': wanted a number"),
        ({"level": None}, "level None: wanted a number"),
        ({"count": "50"}, "count '50': wanted a whole number"),
        ({"count": 2.5}, r"count 2\.5: wanted"),
        ({"count": float("nan")}, "count nan: wanted a whole number"),
        ({"count": -3}, "count -3: wanted"),
        ({"count": 3}, "count 3: wanted between 25"),
    ],
)
def test_budget(wrong, line):
    with pytest.raises(InputError, match=line):
        budget(*samples(), **wrong)


def test_budget_of_arrays():
    source, target = samples()
    for given in ((source, source), (target, target), (np.ones((3, 3)), target)):
        with pytest.raises(InputError, match=r"budget: arrived .*; wanted shiftgauge\.(Source|Target)\("):
            budget(*given)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"level": 95}, r"level 95: .* did you mean 0.95\?"),
        ({"level": "high"}, "level 'high': wanted a number"),
        ({"level": float("nan")}, "level nan"),
        ({"weight": "banana"}, "weight 'banana': wanted a number such as 1.0, or 'fitted'"),
        ({"weight": None}, "weight None"),
        ({"weight": float("inf")}, "weight inf"),
        ({"labels": [0, 1, 2]}, "labels: arrived as list; wanted a mapping"),
        ({"target": samples()[0]}, r"arrived Plan and Source; wanted the plan .* shiftgauge\.Target"),
    ],
)
def test_with_labels(wrong, line):
    source, target = samples()
    plan = budget(source, target, count=50)
    given = {"target": target, "labels": dict.fromkeys(plan.rows.tolist(), 0), **wrong}
    with pytest.raises(InputError, match=line):
        with_labels(plan, **given)


def test_weights_of_any_number_type():
    source, target = samples()
    plan = budget(source, target, count=50)
    labels = dict.fromkeys(plan.rows, 0)
    plain = with_labels(plan, target, labels, weight=1.0)
    assert with_labels(plan, target, labels, weight=np.float32(1)) == plain
    assert with_labels(plan, target, labels, weight=np.int64(1)) == plain


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
