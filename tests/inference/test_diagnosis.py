"""The doctor finds what was planted, and nothing where nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import shiftgauge as sg
from shiftgauge.inference import doctor
from shiftgauge.inference.checks import grade, overconfidence, size
from shiftgauge.methods import Pair

from .conftest import scores


@pytest.fixture(scope="module")
def healthy():
    rng = np.random.default_rng(0)
    z, y = scores(rng, 4000)
    z_t, _ = scores(rng, 4000)
    return z, y, z_t


def test_a_healthy_case_is_ok(healthy):
    z, y, z_t = healthy
    found = doctor(sg.Source(logits=z, labels=y), sg.Target(logits=z_t))
    assert found.status == "ok", found
    assert {"status", "checks"} <= set(json.loads(found.to_json()))


def test_shuffled_labels_stop(healthy):
    z, y, z_t = healthy
    wrong = np.random.default_rng(1).permutation(y)
    found = doctor(sg.Source(logits=z, labels=wrong), sg.Target(logits=z_t))
    assert found["temperature"].status == "stop"
    assert found["source confidence"].status == "stop"
    assert found.status == "stop"


def test_a_source_without_errors_stops(healthy):
    z, _, z_t = healthy
    found = doctor(sg.Source(logits=z, labels=z.argmax(1)), sg.Target(logits=z_t))
    assert found["source errors"].status == "stop"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("duplicate rows", lambda z: np.repeat(z[:2000], 2, axis=0)),
        ("rows", lambda z: z[:100]),
        ("which shift", lambda z: z + 3 * np.random.default_rng(2).normal(size=z.shape)),
        ("predicted classes", lambda z: z + np.array([4.0, 0, 0, 0])),
        ("methods disagree", lambda z: z + np.array([4.0, 0, 0, 0])),
        ("class proportions matter", lambda z: z + np.array([4.0, 0, 0, 0])),
        ("classes", lambda z: z - np.array([99.0, 0, 0, 0])),
    ],
)
def test_planted_trouble_is_found(healthy, name, change):
    z, y, z_t = healthy
    found = doctor(sg.Source(logits=z, labels=y), sg.Target(logits=change(z_t)))
    assert found[name].status != "ok"
    assert found[name].advice


def rounded(z, sharpness):
    p = np.exp(sharpness * (z - z.max(1, keepdims=True)))
    p = np.round(p / p.sum(1, keepdims=True), 1)
    return p / p.sum(1, keepdims=True)


def test_saturated_probabilities_are_found(healthy):
    z, y, z_t = healthy
    found = doctor(sg.Source(probs=rounded(z, 6), labels=y), sg.Target(probs=rounded(z_t, 6)))
    assert found["saturated scores"].status != "ok"


def test_ties_at_the_threshold_are_found():
    """Half the rows are (.6, .4), and half of those must go to the second class: which ones is a toss."""
    probs = np.repeat([[0.9, 0.1], [0.6, 0.4]], 200, axis=0)
    labels = np.repeat([0, 0, 1], [200, 100, 100])
    found = doctor(sg.Source(probs=probs, labels=labels), sg.Target(probs=probs), calibration="none")
    assert found["ties at the threshold"].value == pytest.approx(0.5)
    assert found["ties at the threshold"].status == "stop"


def test_duplicates_in_the_source_are_found(healthy):
    z, y, z_t = healthy
    found = doctor(
        sg.Source(logits=np.repeat(z[:2000], 2, 0), labels=np.repeat(y[:2000], 2)), sg.Target(logits=z_t)
    )
    assert found["duplicate rows"].status == "caution"
    assert found["duplicate rows"].value == {"source": pytest.approx(0.5), "target": 0.0}
    assert "groups=" in found["duplicate rows"].advice
    assert "50.0% of source" in found["duplicate rows"].meaning


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_target_that_is_the_source_is_found(healthy, dtype):
    z, y, z_t = healthy
    order = np.random.default_rng(0).permutation(len(z))
    source = sg.Source(logits=z, labels=y)
    found = doctor(source, sg.Target(logits=z[order].astype(dtype)))
    assert found["shared rows"].status == "caution"
    assert found["shared rows"].value == 1.0
    assert found["duplicate rows"].value["target"] == 0.0
    half = doctor(source, sg.Target(logits=np.concatenate([z[:1000], z_t[:3000]])))
    assert half["shared rows"].value == pytest.approx(0.25)


def test_logits_and_probabilities_are_never_the_same_row():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    found = doctor(sg.Source(probs=p, labels=p.argmax(1)), sg.Target(logits=p, insist=True))
    assert found["shared rows"].value == 0.0


def test_saturated_logits_are_found(healthy):
    z, y, z_t = healthy
    found = doctor(sg.Source(logits=1e6 * z, labels=y), sg.Target(logits=z_t))
    assert found["saturated scores"].value == {"source": pytest.approx(1.0, abs=0.01), "target": 0.0}
    assert found["saturated scores"].status == "caution"
    assert "probabilities" not in found["saturated scores"].advice


def test_the_whole_shift_test_and_its_bounds_are_there(healthy):
    z, y, z_t = healthy
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t + np.array([1.0, 0, 0, 0]))
    found = doctor(source, target)
    alone = sg.shift_test(source, target)
    assert {"schema": 1, **json.loads(found.to_json())["shift_test"]} == json.loads(alone.to_json())
    ends = found["range"].value
    farthest = max(ends["high"] - ends["error"], ends["error"] - ends["low"])
    assert found["range"].meaning == (
        f"{100 * ends['low']:.1f}% to {100 * ends['high']:.1f}% (90%), "
        f"up to {100 * farthest:.0f} points from auto's {100 * ends['error']:.1f}%"
    )
    said = found["predicted classes"].meaning
    assert f"at least {100 * alone.scot_bound:.1f}%" in said


def test_the_status_is_that_of_auto():
    """No difference beyond noise by `explained`, though the two-sample p-value happens to be small."""
    rng = np.random.default_rng(112)
    z = rng.normal(size=(150, 4)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=rng.normal(size=(150, 4)) * 2)
    found = sg.shift_test(source, target)
    assert found.test.difference_p <= 0.05
    assert found.kind == sg.estimate(source, target, method="auto").details["shift"] == "none"
    assert doctor(source, target)["which shift"].status == "ok"


@pytest.mark.parametrize(
    ("value", "status"), [(0.0999, "ok"), (0.1, "caution"), (0.3999, "caution"), (0.4, "stop")]
)
def test_a_limit_that_is_reached_counts_as_exceeded(value, status):
    assert grade(value, 0.1, 0.4) == status


@pytest.mark.parametrize(("rows", "status"), [(29, "stop"), (30, "caution"), (2000, "ok")])
def test_fewer_than_thirty_rows_stop(healthy, rows, status):
    z, y, z_t = healthy
    found = size(Pair(sg.Source(logits=z[:rows], labels=y[:rows]), sg.Target(logits=z_t)))
    assert found.status == status
    assert bool(found.advice) == (status != "ok")


def test_heavy_rows_count_so_often_where_confidence_meets_accuracy(healthy):
    """Only the wrong rows weigh: the accuracy is 0, and the confidence is that of those rows."""
    z, y, z_t = healthy
    wrong = z.argmax(1) != y
    source = sg.Source(logits=z, labels=y, weights=wrong.astype(float))
    found = overconfidence(Pair(source, sg.Target(logits=z_t), "none"))
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    assert found.value["confidence"] == pytest.approx(p[wrong].max(1).mean())
    assert found.value["accuracy"] == pytest.approx(0.0, abs=1e-12)
    assert found.status == "stop"


def test_the_worst_comes_first_and_the_sentence_names_it(healthy):
    z, _, z_t = healthy
    found = doctor(sg.Source(logits=z[:200], labels=z[:200].argmax(1)), sg.Target(logits=z_t))
    ranks = [["stop", "caution", "ok"].index(check.status) for check in found.ranked]
    assert ranks == sorted(ranks)
    assert {0, 1, 2} == set(ranks)
    assert [c.name for c in found.checks] != [c.name for c in found.ranked]
    assert found.sentence.startswith("stop: do not rely on an estimate; see ")
    assert "source errors" in found.sentence
    assert " ".join(repr(found).split()).startswith(found.sentence)
    page = found._repr_html_()
    assert page.index(">stop</td>") < page.index(">caution</td>") < page.index(">ok</td>")
    assert page.count('style="color: ') == len(found.checks)
    assert json.loads(found.to_json())["sentence"] == found.sentence


def test_findings_carry_their_numbers(healthy):
    z, y, z_t = healthy
    sharp = np.where(np.arange(4000)[:, None] % 4 == 0, 90 * z, z)
    found = doctor(
        sg.Source(logits=np.repeat(sharp[:1000], 2, 0), labels=np.repeat(y[:1000], 2)),
        sg.Target(logits=np.concatenate([z_t, sharp[:1000]])),
    )
    for name in ("saturated scores", "duplicate rows"):
        assert f"{100 * found[name].value['source']:.1f}% of source" in found[name].meaning
    assert f"{100 * found['shared rows'].value:.1f}% of target rows" in found["shared rows"].meaning


@pytest.mark.parametrize(
    ("rows", "errors", "status"), [(1000, 20, "ok"), (5000, 20, "caution"), (200, 9, "caution")]
)
def test_few_errors_by_share_or_by_number_are_worth_a_word(rows, errors, status):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(rows, 3)) * 2
    labels = z.argmax(1)
    labels[:errors] = (labels[:errors] + 1) % 3
    from shiftgauge.inference.checks import leakage

    assert leakage(sg.Pair(sg.Source(z, labels), sg.Target(z))).status == status


def digits_model(make):
    """Scores of a model of scikit-learn's digits on rows it has not seen, as a source and a target."""
    X, y = load_digits(return_X_y=True)
    model = make().fit(X[:600], y[:600])
    probs = model.predict_proba(X[600:])
    return sg.Source(probs=probs[:600], labels=y[600:1200]), sg.Target(probs=probs[600:])


@pytest.mark.parametrize(
    ("make", "sign"),
    [
        (lambda: RandomForestClassifier(100, random_state=0), "soft labels"),
        (lambda: KNeighborsClassifier(5), "the model votes"),
        (lambda: LogisticRegression(C=0.01, max_iter=2000), None),
    ],
)
def test_votes_are_seen_from_the_source_alone(make, sign):
    check = sg.doctor(*digits_model(make))["soft labels or votes"]
    assert check.status == ("ok" if sign is None else "caution")
    assert (sign or "no sign") in check.meaning


def test_training_on_soft_labels_is_seen_from_the_source_alone():
    """Softmax regression by gradient descent on labels of 0.91 and 0.01: its confidences stay below its accuracy."""
    X, y = load_digits(return_X_y=True)
    X = np.hstack([X / 16.0, np.ones((len(X), 1))])

    def doctor(smoothing):
        wanted = np.eye(10)[y[:600]] * (1.0 - smoothing) + smoothing / 10
        W = np.zeros((X.shape[1], 10))
        for _ in range(3000):
            p = softmax(X[:600] @ W, axis=1)
            W -= 1.0 * X[:600].T @ (p - wanted) / 600
        z = X[600:] @ W
        source, target = sg.Source(logits=z[:600], labels=y[600:1200]), sg.Target(logits=z[600:])
        return sg.doctor(source, target)["soft labels or votes"]

    assert doctor(0.0).status == "ok"
    soft = doctor(0.1)
    assert soft.status == "caution"
    assert "label smoothing" in soft.meaning
    assert soft.value["confidence_minus_accuracy"] < -0.05
