"""Probabilities of exactly zero: what the source's labels say they are worth."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.calibration import Calibration, fit_calibration


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
    found = fit_calibration("temperature", sg.Source(probs=probs, labels=labels))
    assert held > 0
    assert found.zero == pytest.approx(held / cells)
    assert found.details()["zero"] == found.zero
    weights = np.where(zero[np.arange(4000), labels], 3.0, 1.0)
    heavy = fit_calibration("temperature", sg.Source(probs=probs, labels=labels, weights=weights))
    assert heavy.zero == pytest.approx(3 * held / (weights @ zero.sum(axis=1)))


def test_a_zero_stays_below_every_positive_probability():
    """Half of the smallest, where labels stand at nearly every zero."""
    probs = np.tile([[0.95, 0.05, 0.0]], (60, 1))
    source = sg.Source(probs=probs, labels=np.repeat([0, 2], [10, 50]))
    assert fit_calibration("temperature", source).zero == pytest.approx(0.025)


@pytest.mark.parametrize("calibration", ["temperature", "vector"])
def test_a_few_lost_labels_do_not_decide_how_sure_everything_is(calibration):
    """Without shift, the votes of ten: mean doubt is the error, as it is without a single zero."""
    probs, labels = votes(6000, 10)
    source = sg.Source(probs=probs[:3000], labels=labels[:3000])
    target = sg.Target(probs=probs[3000:])
    truth = np.mean(target.predictions != labels[3000:])
    found = sg.estimate(source, target, "ac", calibration=calibration)
    assert found.error == pytest.approx(truth, abs=0.04)
    assert abs(found.details["overconfidence"]) < 0.04


def test_zeros_without_a_label_count_as_almost_zero():
    probs, labels = votes(2000, 10, missed=0.0)
    found = fit_calibration("temperature", sg.Source(probs=probs, labels=labels))
    assert found.zero == 1e-12
    assert "zero" not in found.details()
    assert fit_calibration("none", sg.Source(probs=probs, labels=labels)).zero == 1e-12


def test_what_was_learned_of_zeros_is_saved_and_used_again(tmp_path):
    probs, labels = votes(2000, 10)
    source, target = sg.Source(probs=probs[:1000], labels=labels[:1000]), sg.Target(probs=probs[1000:])
    fitted = sg.methods.METHODS["ac"]().fit(source)
    fitted.save(tmp_path / "ac.json")
    assert sg.load(tmp_path / "ac.json").estimate(target).error == fitted.estimate(target).error
    kept = Calibration.from_state(fitted.calibration_.state())
    assert kept.zero == fitted.calibration_.zero > 0.0


def test_scanned_rows_and_replicates_see_the_same_zeros():
    import pyarrow as pa

    probs, labels = votes(3000, 10)
    source, whole = sg.Source(probs=probs[:1500], labels=labels[:1500]), sg.Target(probs=probs[1500:])
    scan = sg.scan(pa.table({f"prob_{j}": probs[1500:, j] for j in range(5)}))
    for method in ("ac", "scot", "cott"):
        assert sg.estimate(source, scan, method).error == pytest.approx(
            sg.estimate(source, whole, method).error, abs=1e-9
        )
    found = sg.interval(source, whole, "ac", replicates=100)
    assert found.interval.low < found.error < found.interval.high
    assert abs(found.details["bootstrap_bias"]) < 0.01


def test_confidence_that_stays_far_from_accuracy_is_said():
    """One-hot scores taken at their word: certainty, and a quarter of it wrong."""
    labels = np.arange(400) % 4
    hot = np.eye(4)[np.where(np.arange(400) % 16 < 12, labels, (labels + 1) % 4)]
    source, target = sg.Source(probs=hot, labels=labels), sg.Target(probs=hot)
    plain = sg.estimate(source, target, "ac", calibration="none")
    assert plain.error == 0.0
    assert any("lies 25 points above its accuracy" in w for w in plain.warnings)
    fitted = sg.estimate(source, target, "ac")
    assert fitted.error == pytest.approx(0.25, abs=1e-6)
    assert not any("its accuracy" in w for w in fitted.warnings)


def test_few_rows_are_no_proof_of_dishonesty():
    source = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], labels=[0, 0, 1])
    assert not any("its accuracy" in w for w in fit_calibration("none", source).warnings())


def _rounded(n, seed=0):
    """Probabilities rounded to two decimals, so that many are zero; no label stands at a zero."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(4, 0.3), n).round(2)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, np.array([rng.choice(4, p=row**0.5 / (row**0.5).sum()) for row in probs])


#: A row whose smallest positive probability is far below all others.
PRECISE = [1.0 - 1e-200, 1e-200, 0.0, 0.0]


@pytest.mark.parametrize("method", ["ac", "scot", "cbpe", "mano"])
def test_small_probabilities_that_come_late_count_the_same_in_a_scan(method, tmp_path):
    probs, labels = _rounded(1600)
    source = sg.Source(probs=probs[:800], labels=labels[:800])
    rows = np.vstack([probs[800:], [PRECISE] * 8])
    np.save(tmp_path / "a.npy", rows[:400])
    np.save(tmp_path / "b.npy", rows[400:])
    whole, scan = sg.Target(probs=rows), sg.scan(tmp_path / "*.npy", kind="probs")
    found, wanted = sg.estimate(source, scan, method), sg.estimate(source, whole, method)
    assert (found.error, found.score) == (
        pytest.approx(wanted.error, abs=1e-9),
        pytest.approx(wanted.score, abs=1e-9),
    )


@pytest.mark.parametrize("where", ["source", "target"])
@pytest.mark.parametrize("voted", [True, False])
def test_a_row_without_weight_does_not_say_what_a_zero_counts_as(where, voted):
    probs, labels = votes(1600, 10, k=4) if voted else _rounded(1600)
    rows = {"source": probs[:800], "target": probs[800:]}
    truth = {"labels": labels[:800]}
    plain = sg.estimate(sg.Source(probs=rows["source"], **truth), sg.Target(probs=rows["target"]), "ac")
    rows[where] = np.vstack([rows[where], PRECISE])
    truth["labels"] = np.append(labels[:800], 0)[: len(rows["source"])]
    weights = {name: np.ones(len(part)) for name, part in rows.items()}
    weights[where][-1] = 1e-9
    found = sg.estimate(
        sg.Source(probs=rows["source"], weights=weights["source"], **truth),
        sg.Target(probs=rows["target"], weights=weights["target"]),
        "ac",
    )
    assert found.error == pytest.approx(plain.error, abs=1e-7)


def test_more_precise_scores_have_smaller_zeros():
    """Zeros beside probabilities of 1e-30 are smaller than zeros beside rounded ones."""
    probs = np.array([[0.9, 0.1, 1e-30], [0.2, 0.8 - 1e-30, 1e-30], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    source = sg.Source(probs=probs, labels=[0, 1, 0, 0])
    assert fit_calibration("temperature", source).zero == 1e-30
    target = sg.Target(probs=[[0.5, 0.5, 0.0], [1.0, 1e-40, 0.0]])
    logs = fit_calibration("none", source).log_probs(target.scores, "probs")
    assert logs[:, 2] == pytest.approx(np.log([1e-30, 1e-40]))


def test_a_labelled_zero_beside_the_smallest_number_stays_finite():
    probs = [[1.0, 5e-324, 0.0]] * 3 + [[0.6, 0.4, 0.0]]
    source = sg.Source(probs=probs, labels=[0, 1, 2, 0])
    assert np.isfinite(fit_calibration("temperature", source).log_probs(source.scores, "probs")).all()
