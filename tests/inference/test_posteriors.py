"""Soft metrics with weights and at their ends, slices by hand, and what the tables say."""

import numpy as np
import pytest
from sklearn import metrics as sk

import shiftgauge as sg
from shiftgauge.inference import metrics, slices
from shiftgauge.inference.columns import slice_numbers
from shiftgauge.inference.confusion import Metrics, soft_auc, soft_average_precision
from shiftgauge.inference.row_tables import row_table
from shiftgauge.inference.scenarios import scenarios
from shiftgauge.inference.segments import Grouping, by_slice


def test_curves_count_weights_and_ties_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    score, positive, mass = rng.integers(12, size=80) / 12, rng.random(80), rng.random(80)
    label, twice = np.tile([0, 1], 80), np.repeat(score, 2)
    weight = (np.c_[1 - positive, positive] * mass[:, None]).reshape(-1)
    assert soft_auc(score, positive, mass) == pytest.approx(
        sk.roc_auc_score(label, twice, sample_weight=weight)
    )
    expected = sk.average_precision_score(label, twice, sample_weight=weight)
    assert soft_average_precision(score, positive, mass) == pytest.approx(expected)


def test_curves_of_one_class_are_none():
    score, mass = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    assert soft_auc(score, np.ones(2), mass) is None
    assert soft_auc(score, np.zeros(2), mass) is None
    assert soft_average_precision(score, np.zeros(2), mass) is None
    assert soft_average_precision(score, np.ones(2), mass) == 1.0


def test_a_class_that_is_never_predicted_has_no_precision():
    C = np.array([[0.5, 0.0, 0.1], [0.1, 0.0, 0.1], [0.1, 0.0, 0.1]])
    found = Metrics(C, ("a", "b", "c"), 0.4, 0.3, warnings=("careful",))
    np.testing.assert_allclose(found.precision, [5 / 7, 0.0, 1 / 3])
    np.testing.assert_allclose(found.recall, [5 / 6, 0.0, 0.5])
    np.testing.assert_allclose(found.f1, [1.0 / 1.3, 0.0, 0.2 / 0.5])
    told = repr(found).splitlines()
    assert told[0] == found.heading()
    first = [line.split()[0] for line in told[1:] if not line.startswith("    ")]
    assert first == ["class", "a", "b", "c", "macro", "weighted", "!", "note:"]
    assert told[2].split() == ["a", "60%", "71%", "83%", "77%"]
    rows = found.content()["classes"]
    assert [row["predicted"] for row in rows] == pytest.approx([0.7, 0.0, 0.3])
    assert [row["share"] for row in rows] == pytest.approx([0.6, 0.2, 0.2])


def test_more_than_twenty_classes_are_cut_short():
    C = np.eye(25) / 25
    assert len(repr(Metrics(C, tuple(range(25)), 0.0, 0.0)).splitlines()) == 26  # head, averages and a note


def test_the_error_is_the_mass_off_the_diagonal(pair):
    source, target, _ = pair
    found = metrics(source, target, "cott")
    assert found.error == pytest.approx(1 - np.trace(found.confusion), abs=1e-12)
    assert found.confusion.sum() == pytest.approx(1.0)
    assert found.cost is None


def test_slices_weigh_their_rows(pair):
    source, target, _ = pair
    weights = np.random.default_rng(0).random(target.n) * 3
    met = sg.Pair(source, sg.Target(logits=target.scores, weights=weights))
    number = np.arange(target.n) % 3
    block, posterior = met.target_block, met.posterior("scot")
    wrong = block.error_probability(posterior(block))
    share = weights / weights.sum()
    cases = scenarios(met, "scot", {}, 0.9)
    sums = Grouping.of(met.target, number).sums(met.target, cases, block)
    for g, value in enumerate(by_slice(block, wrong, number, 4)[:3]):
        mine = number == g
        assert value == pytest.approx(np.average(wrong[mine], weights=weights[mine]))
        assert sums.errors[0, g] == pytest.approx(value)
        assert sums.mass[g] == pytest.approx(share[mine].sum())
        assert sums.effective[g] == pytest.approx(share[mine].sum() ** 2 / (share[mine] ** 2).sum())
        assert sums.rows[g] == mine.sum()
    assert np.isnan(by_slice(block, wrong, number, 4)[3])  # no row, no error
    np.testing.assert_array_equal(sums.drawn, number)


def test_five_rows_are_enough_and_four_are_not(pair):
    source, target, _ = pair
    group = np.array(["four"] * 4 + ["five"] * 5 + ["rest"] * (target.n - 9))
    few = {one.name: one.few for one in slices(source, target, group, "scot", replicates=20).slices}
    assert few == {"four": True, "five": False, "rest": False}


def test_missing_values_come_last_even_among_numbers():
    assert slice_numbers(np.array(["10", "", "9"], dtype=object), 3)[0] == ["9", "10", "(missing)"]
    with pytest.raises(sg.InputError, match="no columns arrived"):
        slice_numbers({}, 3)


def test_bias_correction_is_mlls_alone(pair):
    source, target, _ = pair
    found = sg.label_shares(source, target, "mlls", bias_correction=True, replicates=20)
    assert found.method == "mlls with bias correction"
    assert sg.label_shares(source, target, "rlls", replicates=20).method == "rlls"


def test_rows_follow_the_marginal_and_the_proportions(pair):
    """Their mean error probability is the answer under the same assumption."""
    source, target, _ = pair
    met = sg.Pair(source, sg.Target(logits=target.scores + np.eye(4)[0], ids=np.arange(target.n)))
    shares = np.array([0.1, 0.3, 0.3, 0.3])
    held = row_table(met, "scot", marginal=shares)
    assert held["error_probability"].mean() == pytest.approx(met.error("scot", marginal=shares), abs=1e-9)
    label = np.bincount(held["transport_label"], minlength=4) / target.n
    np.testing.assert_allclose(label, shares, atol=2 / target.n)
    np.testing.assert_array_equal(held["id"], np.arange(target.n))
    auto = row_table(met, "auto", proportions="same")
    assert auto["error_probability"].mean() == pytest.approx(met.error("auto", proportions="same"), abs=1e-9)
