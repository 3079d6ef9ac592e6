"""Metrics from soft labels, against scikit-learn on rows split by their posteriors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import metrics
from shiftgauge.methods.posterior import row_posterior
from shiftgauge.rows import run

from .conftest import scores


def posterior(source, target):
    pair = sg.Pair(source, target)
    block = pair.target_block
    return block, run(row_posterior(pair.fitted("scot", marginal="source"), pair.target))(block)


def split(view, r):
    """Each row K times, once per possible label, weighted by its posterior."""
    n, k = r.shape
    return np.tile(np.arange(k), n), np.repeat(view.predictions, k), (r * view.row_share[:, None]).reshape(-1)


def test_everything_agrees_with_scikit_learn(pair):
    source, target, _ = pair
    found = metrics(source, target, "scot", cost=np.arange(16).reshape(4, 4))
    view, r = posterior(source, target)
    truth, said, weight = split(view, r)
    matrix = sk.confusion_matrix(truth, said, sample_weight=weight)
    np.testing.assert_allclose(found.confusion, matrix, atol=1e-9)
    precision, recall, f1, _ = sk.precision_recall_fscore_support(truth, said, sample_weight=weight)
    np.testing.assert_allclose(found.precision, precision, atol=1e-9)
    np.testing.assert_allclose(found.recall, recall, atol=1e-9)
    np.testing.assert_allclose(found.f1, f1, atol=1e-9)
    assert found.kappa == pytest.approx(sk.cohen_kappa_score(truth, said, sample_weight=weight))
    for average in ("macro", "weighted", "micro"):
        expected = sk.precision_recall_fscore_support(truth, said, sample_weight=weight, average=average)
        for value, name in zip(expected, ("precision", "recall", "f1"), strict=False):
            assert found.averages()[name][average] == pytest.approx(value)
    assert found.cost == pytest.approx((matrix * np.arange(16).reshape(4, 4)).sum())
    assert found.error == pytest.approx(sg.estimate(source, target, method="scot").error, abs=1e-9)
    assert found.cott_error == pytest.approx(sg.estimate(source, target, method="cott").error)


def test_two_classes_have_auc_and_average_precision():
    rng = np.random.default_rng(1)
    z, y = scores(rng, 800, k=2)
    z[::7] = z[0]  # ties
    source, target = sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:])
    found = metrics(source, target, "scot")
    view, r = posterior(source, target)
    label, score = np.tile([0, 1], 400), np.repeat(view.probs[:, 1], 2)
    weight = (r * view.row_share[:, None]).reshape(-1)
    assert found.roc_auc == pytest.approx(sk.roc_auc_score(label, score, sample_weight=weight))
    expected = sk.average_precision_score(label, score, sample_weight=weight)
    assert found.average_precision == pytest.approx(expected)


def test_estimates_come_near_the_truth(pair):
    source, target, labels = pair
    found = metrics(source, target, "scot")
    truth = sk.confusion_matrix(labels, target.predictions) / target.n
    assert np.abs(found.confusion - truth).max() < 0.02
    assert np.abs(found.recall - sk.recall_score(labels, target.predictions, average=None)).max() < 0.08


def test_a_cost_of_another_shape_is_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match=r"\(4, 4\)"):
        metrics(source, target, cost=[[0, 1], [1, 0]])


def test_a_cost_that_is_not_a_number_is_named(pair):
    source, target, _ = pair
    cost = 1.0 - np.eye(4)
    cost[2, 3] = np.nan
    with pytest.raises(InputError, match="row 2, column 3 is nan"):
        metrics(source, target, cost=cost)


def test_warnings_are_those_of_the_estimates():
    """A class without source labels, and COTT's threshold, which two rows without errors do not tell."""
    rng = np.random.default_rng(2)
    z, _ = scores(rng, 300)
    source, target = sg.Source(logits=z[:2], labels=z[:2].argmax(1)), sg.Target(logits=z[2:])
    found = metrics(source, target, "scot")
    scot, cott = (sg.estimate(source, target, method=name).warnings for name in ("scot", "cott"))
    assert any("no source label is" in warning for warning in found.warnings)
    assert found.warnings[: len(scot)] == scot
    assert set(found.warnings[len(scot) :]) == {f"COTT: {w}" for w in set(cott) - set(scot)}
    assert found.to_dict()["warnings"] == list(found.warnings)
    assert f"! {found.warnings[0]}" in repr(found)


def test_warnings_are_none_where_there_is_nothing_to_warn_of(pair):
    assert metrics(*pair[:2]).warnings == ()
