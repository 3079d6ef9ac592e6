"""Bad input gets one clear line: what arrived, what was wanted, what to try."""

import datetime
import decimal

import numpy as np
import pytest

import shiftgauge as sg

GOOD = [[0.9, 0.1], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probs": [[0.9, float("nan")], [0.2, 0.8]]}, "row 0, column 1 is nan"),
        ({"logits": [[0.9, 0.1], [float("inf"), 0.8]]}, "row 1, column 0 is inf"),
        ({"probs": [[0.9, 0.1], [3.0, -1.0]]}, "row 1, column 1 is -1; .*logits"),
        ({"probs": [[0.9, 0.1], [3.0, 1.0]]}, "row 1 sums to 4; .*are these logits"),
        ({"probs": [[0.9, 0.1], [0.9, 0.9]]}, "row 1 sums to 1.8; .*multi-label"),
        ({"probs": [[0.9, 0.1], [0.9, 0.102]]}, "row 1 sums to 1.002; .*tolerance"),
        ({"probs": [[0.9, 0.1], [0.5, 0.4]]}, "row 1 sums to 0.9; .*column for every class"),
        ({"probs": [[0.9, 0.05], [0.2, 0.1]]}, "row 0 sums to 0.95; .*column for every class"),
        ({"probs": [[0.9, 0.1], [0.333, 0.665]]}, "within 0.001; .*tolerance, such as 0.004"),
        ({"logits": [[0.9, 0.1], [0.2, 0.8]]}, "every row is 0 or more and sums to 1.*insist=True"),
        (
            {"logits": [[1.7e308, 0.1], [0.2, 0.8]]},
            "row 0, column 0 is 1.7e\\+308; wanted logits of a sane size",
        ),
        ({"probs": GOOD, "classes": {"a", "b"}}, "a set, which says nothing of the columns' order"),
        ({"probs": GOOD, "classes": {0: "a", 1: "b"}}, "a dict, which says nothing of the columns' order"),
        ({"probs": GOOD, "classes": ["a", datetime.date(2026, 1, 2)]}, "is a date; wanted texts"),
        ({"probs": GOOD, "classes": ["a", decimal.Decimal("1.5")]}, "is a Decimal; wanted texts"),
        ({"probs": GOOD, "classes": ["a", ("b", 1)]}, "is a tuple; wanted texts"),
        ({"probs": GOOD, "classes": [1.0, float("inf")]}, "inf is a float; wanted texts or finite"),
        ({"probs": GOOD, "classes": ["a", "\ud800"]}, "is no valid text"),
        ({"probs": GOOD, "ids": [1]}, "wanted one per row"),
        ({"probs": GOOD, "threshold": 1.5}, "threshold 1.5: wanted a fraction"),
        ({"probs": GOOD, "threshold": {2: 0.5}}, "wanted one of the two classes, 0 or 1"),
        ({"probs": GOOD, "threshold": 0.5, "predictions": [0, 1]}, "wanted one of the two"),
        ({"probs": [[0.2, 0.2, 0.6]], "threshold": 0.5}, "3 classes; it is for two"),
        ({"probs": [0.9, 0.2]}, r"shape \(2,\); wanted \(rows, classes\).*both columns"),
        ({"probs": [[0.9], [0.2]]}, "row 0 sums to 0.9; .*both columns"),
        ({"probs": np.ones((2, 2, 2))}, r"shape \(2, 2, 2\); wanted"),
        ({"probs": np.empty((0, 2))}, "arrived empty"),
        ({"probs": np.empty((2, 0))}, "arrived empty"),
        ({"probs": [["a", "b"], ["c", "d"]]}, "wanted numbers"),
        ({"probs": [[0.5, 0.5], [1.0]]}, "different lengths"),
        ({}, "neither of logits= and probs="),
        ({"probs": GOOD, "logits": GOOD}, "both of logits= and probs="),
        ({"probs": GOOD, "classes": ["a"]}, "1 names for 2 columns"),
        ({"probs": GOOD, "classes": ["a", "a"]}, "'a' stands for more than one column"),
        ({"probs": GOOD, "classes": "ab"}, "arrived as the text 'ab'"),
        ({"probs": GOOD, "weights": [1.0, -1.0]}, "row 1 is -1; .*0 or more"),
        ({"probs": GOOD, "weights": [0.0, 0.0]}, "sum to zero"),
        ({"probs": GOOD, "weights": [1.0]}, "wanted one per row"),
        ({"probs": GOOD, "weights": [1.0, float("nan")]}, "row 1 is nan"),
        ({"probs": GOOD, "weights": ["a", "b"]}, "wanted one number per row"),
        ({"probs": GOOD, "predictions": [0, 5]}, "row 1 is 5, outside the 2 classes"),
        ({"probs": GOOD, "predictions": [0]}, "1 labels for 2 rows"),
    ],
)
def test_scores(arguments, message):
    with pytest.raises(sg.InputError, match=message) as caught:
        sg.Target(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (None, None, "none arrived; wanted one true label per row"),
        ([0, 2], None, "row 1 is 2, outside the 2 classes 0 to 1"),
        ([0, -1], None, "row 1 is -1, outside"),
        ([0], None, "1 labels for 2 rows"),
        ([0.0, float("nan")], None, "row 1 is missing"),
        ([0.0, 0.5], None, "row 1 is 0.5; .*regression"),
        (["cat", "dog"], None, "arrived as names such as 'cat'; .*names of the classes"),
        ([[1, 0], [0, 1]], None, "multi-label"),
        (["cat", "dgo"], ["cat", "dog"], "row 1 is 'dgo', which is not a class.*did you mean 'dog'"),
        (["cat", None], ["cat", "dog"], "row 1 is missing"),
        (["cat", ""], ["cat", "dog"], "row 1 is missing"),
        ([0, 2], ["cat", "dog"], "row 1 is 2, outside the 2 classes"),
        ([0, 1], ["1", "2"], "row 0 is 0, which is not a class"),
        (["cat", 1], ["cat", "dog"], "row 1 is '1', which is not a class"),
        ([0.5, 1.0], ["cat", "dog"], "row 0 is 0.5, which is not a class"),
    ],
)
def test_labels(labels, classes, message):
    with pytest.raises(sg.InputError, match=message):
        sg.Source(probs=GOOD, labels=labels, classes=classes)


def test_different_classes_in_source_and_target():
    source = sg.Source(probs=GOOD, labels=[0, 1])
    with pytest.raises(sg.InputError, match="3 classes, but the source has 2"):
        sg.estimate(source, sg.Target(probs=[[0.5, 0.3, 0.2]]))
    named = sg.Source(probs=GOOD, labels=["cat", "dog"], classes=["cat", "dog"])
    with pytest.raises(sg.InputError, match="no column for the source's class 'dog'; did you mean 'dogs'"):
        sg.estimate(named, sg.Target(probs=GOOD, classes=["cat", "dogs"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, t: sg.estimate(s, t, method="cot2"), "'cot2' is not known; did you mean 'cot'"),
        (
            lambda s, t: sg.estimate(s, t, method="ac", marginal="shrunk"),
            "ac takes no marginal=; cot, cott, scot",
        ),
        (
            lambda s, t: sg.estimate(s, t, "cott", marginal="sorce"),
            "'sorce' is not known.*did you mean 'source'",
        ),
        (
            lambda s, t: sg.estimate(s, t, "cott", marginal=[0.5, 0.6]),
            "sum to 1.1; wanted shares that sum to 1",
        ),
        (lambda s, t: sg.estimate(s, t, "cott", marginal=[1.5, -0.5]), "class 1 is -0.5"),
        (lambda s, t: sg.estimate(s, t, "cott", marginal=[1.0]), "wanted one mass per class"),
        (lambda s, t: sg.estimate(s, t, "cott", marginal={0: 1.0}), "class 1 has no mass"),
        (lambda s, t: sg.estimate(s, t, method="gde"), "needs a second model"),
        (lambda s, t: sg.methods.COTT().fit(t), "wanted shiftgauge.Source"),
        (lambda s, t: sg.methods.COTT().fit(s).estimate(s), "wanted shiftgauge.Target"),
        (lambda s, t: sg.methods.COTT().estimate(t), "not fitted"),
        (lambda s, t: sg.compare(t, s), "wanted shiftgauge.Source"),
        (lambda s, t: sg.compare(s, t, []), "no methods named"),
        (lambda s, t: sg.compare(s, t, truth=[0]), "truth: 1 labels for 2 rows"),
        (
            lambda s, t: sg.Target(probs=GOOD, second=[[1.0, 2.0, 3.0]] * 2),
            "wanted the same rows and classes",
        ),
        (lambda s, t: sg.Target(probs=GOOD, second=[0, 7]), "outside the 2 classes"),
    ],
)
def test_calls(call, message):
    source, target = sg.Source(probs=GOOD, labels=[0, 0]), sg.Target(probs=GOOD)
    with pytest.raises(sg.ShiftgaugeError, match=message):
        call(source, target)


def test_a_class_never_seen_is_legal_and_said():
    source = sg.Source(probs=[[0.8, 0.1, 0.1], [0.3, 0.6, 0.1]], labels=[0, 0])
    estimate = sg.estimate(source, sg.Target(probs=[[0.2, 0.2, 0.6]]), method="cot", calibration="none")
    assert estimate.error == pytest.approx(0.8)
    assert any("no source label is 1, 2" in w for w in estimate.warnings)
    assert any("one row" in w for w in estimate.warnings)


def test_a_tolerance_is_taken_at_its_word():
    probs = np.array([[0.9, 0.1], [0.2, 0.8003]])
    with pytest.raises(sg.InputError, match="tolerance"):
        sg.Target(probs=probs)
    target = sg.Target(probs=probs, tolerance=1e-3)
    estimate = sg.estimate(sg.Source(probs=GOOD, labels=[0, 0]), target, method="ac", calibration="none")
    assert estimate.details["largest_correction"] == pytest.approx(0.0003)
    assert estimate.error == pytest.approx((0.1 + 0.2 / 1.0003) / 2)


@pytest.mark.parametrize(("dtype", "off"), [("f2", 5e-3), ("f4", 5e-5), ("f8", 5e-7)])
def test_tolerance_follows_the_precision(dtype, off):
    probs = np.array([[0.5 + off, 0.5]], dtype=dtype)
    sg.Target(probs=probs)
    with pytest.raises(sg.InputError, match="sums to"):
        sg.Target(probs=np.array([[0.5 + 40 * off, 0.5]], dtype=dtype))


def test_fit_and_estimate_name_what_arrived():
    with pytest.raises(sg.InputError, match=r"fit: arrived ndarray; wanted shiftgauge\.Source\("):
        sg.methods.AC().fit(np.ones((3, 2)) / 2)
    fitted = sg.methods.AC().fit(sg.Source(probs=[[0.9, 0.1], [0.2, 0.8]], labels=[0, 1]))
    with pytest.raises(sg.InputError, match=r"estimate: arrived list; wanted shiftgauge\.Target\("):
        fitted.estimate([[0.5, 0.5]])
