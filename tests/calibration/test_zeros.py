"""Probabilities of exactly zero: what the source's labels say they are worth."""

import numpy as np
import pytest

import labelfree as lf
from labelfree.calibration import Calibration, fit_calibration


def votes(n, voters, seed=0, k=5, missed=0.02):
    """Shares of votes for k classes; now and then the label is a class that nobody voted for."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.15), n)
    probs = np.array([rng.multinomial(voters, row) for row in p]) / voters
    labels = np.array([rng.choice(k, p=row) for row in probs])
    lost = np.flatnonzero((rng.random(n) < missed) & (probs == 0.0).any(axis=1))
    labels[lost] = (probs[lost] == 0.0).argmax(axis=1)
    return probs, labels


def test_a_zero_counts_as_the_share_of_zeros_that_hold_a_label():
    probs, labels = votes(4000, 10)
    zero = probs == 0.0
    held, cells = zero[np.arange(4000), labels].sum(), zero.sum()
    found = fit_calibration("temperature", lf.Source(probs=probs, labels=labels))
    assert held > 0
    assert found.zero == pytest.approx(held / cells)
    assert found.details()["zero"] == found.zero
    weights = np.where(zero[np.arange(4000), labels], 3.0, 1.0)
    heavy = fit_calibration("temperature", lf.Source(probs=probs, labels=labels, weights=weights))
    assert heavy.zero == pytest.approx(3 * held / (weights @ zero.sum(axis=1)))


def test_a_zero_stays_below_every_positive_probability():
    """Half of the smallest, where labels stand at nearly every zero."""
    probs = np.tile([[0.95, 0.05, 0.0]], (60, 1))
    source = lf.Source(probs=probs, labels=np.repeat([0, 2], [10, 50]))
    assert fit_calibration("temperature", source).zero == pytest.approx(0.025)


@pytest.mark.parametrize("calibration", ["temperature", "vector"])
def test_a_few_lost_labels_do_not_decide_how_sure_everything_is(calibration):
    """Without shift, the votes of ten: mean doubt is the error, as it is without a single zero."""
    probs, labels = votes(6000, 10)
    source = lf.Source(probs=probs[:3000], labels=labels[:3000])
    target = lf.Target(probs=probs[3000:])
    truth = np.mean(target.predictions != labels[3000:])
    found = lf.estimate(source, target, "ac", calibration=calibration)
    assert found.error == pytest.approx(truth, abs=0.04)
    assert abs(found.details["overconfidence"]) < 0.04


def test_zeros_without_a_label_count_as_next_to_nothing():
    probs, labels = votes(2000, 10, missed=0.0)
    found = fit_calibration("temperature", lf.Source(probs=probs, labels=labels))
    assert found.zero == 0.0
    assert "zero" not in found.details()
    assert fit_calibration("none", lf.Source(probs=probs, labels=labels)).zero == 0.0


def test_what_was_learned_of_zeros_is_saved_and_used_again(tmp_path):
    probs, labels = votes(2000, 10)
    source, target = lf.Source(probs=probs[:1000], labels=labels[:1000]), lf.Target(probs=probs[1000:])
    fitted = lf.METHODS["ac"]().fit(source)
    fitted.save(tmp_path / "ac.json")
    assert lf.load(tmp_path / "ac.json").estimate(target).error == fitted.estimate(target).error
    kept = Calibration.from_state(fitted.calibration_.state())
    assert kept.zero == fitted.calibration_.zero > 0.0


def test_scanned_rows_and_replicates_see_the_same_zeros():
    import pyarrow as pa

    probs, labels = votes(3000, 10)
    source, whole = lf.Source(probs=probs[:1500], labels=labels[:1500]), lf.Target(probs=probs[1500:])
    scan = lf.scan(pa.table({f"prob_{j}": probs[1500:, j] for j in range(5)}))
    for method in ("ac", "scot", "cott"):
        assert lf.estimate(source, scan, method).error == pytest.approx(
            lf.estimate(source, whole, method).error, abs=1e-9
        )
    found = lf.interval(source, whole, "ac", replicates=100)
    assert found.interval.low < found.error < found.interval.high
    assert abs(found.details["bootstrap_bias"]) < 0.01


def test_confidence_that_stays_far_from_accuracy_is_said():
    """One-hot scores taken at their word: certainty, and a quarter of it wrong."""
    labels = np.arange(400) % 4
    hot = np.eye(4)[np.where(np.arange(400) % 16 < 12, labels, (labels + 1) % 4)]
    source, target = lf.Source(probs=hot, labels=labels), lf.Target(probs=hot)
    plain = lf.estimate(source, target, "ac", calibration="none")
    assert plain.error == 0.0
    assert any("lies 25 points above its accuracy" in w for w in plain.warnings)
    fitted = lf.estimate(source, target, "ac")
    assert fitted.error == pytest.approx(0.25, abs=1e-6)
    assert not any("its accuracy" in w for w in fitted.warnings)


def test_few_rows_are_no_proof_of_dishonesty():
    source = lf.Source(probs=[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], labels=[0, 0, 1])
    assert not any("its accuracy" in w for w in fit_calibration("none", source).warnings())
