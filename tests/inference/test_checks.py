"""Each check at its limits, with small samples whose findings can be counted."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.inference import doctor
from shiftgauge.inference.checks import (
    CHECKS,
    Check,
    correction,
    disagreement,
    marginal,
    number_rows,
    overconfidence,
    saturation,
    size,
    temperature,
    unseen,
)
from shiftgauge.inference.diagnosis import Diagnosis, shown
from shiftgauge.methods import Pair

from .conftest import scores


@pytest.fixture(scope="module")
def samples():
    z, y = scores(np.random.default_rng(1), 800)
    return sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:])


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def test_negative_zero_is_the_same_score():
    left = sg.Source(logits=[[0.0, 1.0], [2.0, 1.0]], labels=[1, 0])
    right = sg.Target(logits=np.array([[-0.0, 1.0], [5.0, 1.0]], dtype=np.float32))
    own, other = number_rows(left, right)
    assert own[0] == other[0]
    assert len({*own, *other}) == 3


def test_the_scarcer_sample_decides_how_much_noise_there_is(samples):
    """0.8 times the typical distance of label shares from their expectation: sqrt((K - 1) / (K n))."""
    source, target = samples
    k = source.k
    few, little = (
        sg.Target(logits=target.scores[:50]),
        sg.Source(logits=source.scores[:60], labels=source.labels[:60]),
    )
    for pair, n in ((Pair(source, few), 50), (Pair(little, target), 60), (Pair(source, target), 400)):
        assert size(pair).value["possible_bias"] == pytest.approx(0.8 * np.sqrt((k - 1) / (k * n)))


@pytest.mark.parametrize(
    ("left", "right", "status"),
    [(0.0, 0.0, "ok"), (0.04, 0.0, "ok"), (0.06, 0.0, "caution"), (0.0, 0.06, "caution"), (0.0, 0.95, "stop"),
     (0.95, 0.0, "stop"), (0.85, 0.85, "caution")],
)  # fmt: skip
def test_certain_rows_are_counted_on_either_side(samples, left, right, status):
    """Probabilities of exactly 1, in so many of the rows."""
    source, target = samples

    def certain(z, share):
        p, some = softmax(z), int(share * len(z))
        p[:some] = np.eye(p.shape[1])[p[:some].argmax(1)]
        return p

    pair = Pair(
        sg.Source(probs=certain(source.scores, left), labels=source.labels),
        sg.Target(probs=certain(target.scores, right)),
    )
    found = saturation(pair)
    assert found.value == {"source": pytest.approx(left), "target": pytest.approx(right)}
    assert found.status == status
    assert ("as given or by the softmax" in found.meaning) == (left + right > 0)
    assert ("pass logits instead" in found.advice) == (status != "ok")


def test_confidence_beyond_accuracy_is_the_difference(samples):
    source, target = samples
    found = overconfidence(Pair(source, target))
    confidence = softmax(source.scores).max(axis=1).mean()
    assert found.value["confidence"] == pytest.approx(confidence)
    assert found.value["accuracy"] == pytest.approx(1 - source.error)
    assert f"({100 * (confidence - 1 + source.error):+.1f} points)" in found.meaning


def test_classes_that_cannot_be_judged_are_named(samples):
    source, target = samples
    assert unseen(Pair(source, target)).meaning == "every class has source labels and target predictions"
    kept = source.labels != 2
    poor = sg.Source(logits=source.scores[kept], labels=source.labels[kept])
    never = sg.Target(logits=target.scores[target.scores.argmax(1) != 1])
    found = unseen(Pair(poor, never))
    assert found.meaning == "no source label is 2; nothing in the target is predicted as 1"
    assert found.value == {"without_labels": 1, "never_predicted": 1}
    assert (found.status, bool(found.advice)) == ("caution", True)


def test_spreads_are_from_the_least_to_the_largest(samples):
    source, target = samples
    pair = Pair(source, sg.Target(logits=target.scores + np.eye(source.k)[0]))
    for check in (disagreement, marginal):
        held = dict(check(pair).value)
        spread = held.pop("spread")
        assert spread == max(held.values()) - min(held.values()) > 0.0


def test_temperatures_and_row_sums(samples):
    source, target = samples
    assert temperature(Pair(source, target, "none")).value is None
    assert temperature(Pair(source, target)).value == pytest.approx(1.0, abs=0.9)
    p = softmax(source.scores).round(3)
    worst = correction(Pair(sg.Source(probs=p, labels=source.labels), target))
    assert worst.value == pytest.approx(np.abs(p.sum(axis=1) - 1).max(), abs=1e-12)
    assert correction(Pair(source, target)).meaning == "no row had to be renormalised"


def test_progress_names_the_steps_and_bad_options_are_refused_first(samples):
    steps = []
    found = doctor(*samples, progress=steps.append)
    assert steps == [f"checking {check.__name__.replace('_', ' ')}" for check in CHECKS]
    assert len(found.checks) == len(CHECKS)
    steps.clear()
    with pytest.raises(sg.InputError, match="proportions"):
        doctor(*samples, proportions="more", progress=steps.append)
    assert steps == []


def test_the_sentence_of_each_diagnosis(samples):
    whole = doctor(*samples)

    def diagnosis(**levels):
        made = tuple(Check(name, level, None, "", "do") for name, level in {"range": "ok", **levels}.items())
        return Diagnosis(made, whole.shift_test)

    assert diagnosis(a="ok").sentence == "ok: no check says stop"
    assert diagnosis(a="caution").sentence == "ok: no check says stop; caution: a"
    graded = diagnosis(**{"range": "caution", "a": "ok", "b": "caution"})
    assert graded.sentence == "caution: take an estimate with care; see range, b"
    assert diagnosis(a="stop", b="caution").sentence == "stop: do not rely on an estimate; see a"
    worst = diagnosis(a="caution", b="stop")
    assert [check.name for check in worst.ranked] == ["b", "a", "range"]
    assert [check.advice for check in worst.ranked] == [
        "do",
        "do",
        "",
    ]  # where all is well nothing needs doing
    assert repr(worst).count("-> do") == 2


def test_values_as_text():
    assert shown(None) == ""
    assert shown({"a_b": 0.12345, "c": 3}) == "a b 0.123, c 3"
    assert shown(0.5) == "0.5"
