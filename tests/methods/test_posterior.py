"""The posterior behind an answer: its mean error probability is the answer, by one factor on the odds of all rows."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.methods.posterior import recalibrate_to, row_posterior
from shiftgauge.rows import Rows, run
from shiftgauge.transport import soft_transport

METHODS = ("auto", "ac", "doc", "im", "atc-ne", "cot", "cott", "scot", "label-shift")


@pytest.fixture(scope="module")
def pair(source, target):
    return sg.Pair(source, target)


@pytest.mark.parametrize("method", METHODS)
def test_the_mean_error_probability_is_the_answer(pair, method):
    rows = pair.target_block
    r = pair.posterior(method)(rows)
    np.testing.assert_allclose(r.sum(axis=1), 1.0, atol=1e-9)
    assert r.min() >= 0.0
    assert rows.error_probability(r).mean() == pytest.approx(pair.error(method), abs=1e-9)


def test_the_posterior_of_each_method(pair):
    rows = pair.target_block
    own = {
        name: run(row_posterior(pair.fitted(name), pair.target))(rows)
        for name in ("doc", "cott", "label-shift")
    }
    np.testing.assert_array_equal(own["doc"], rows.probs)
    plan = run(row_posterior(pair.fitted("scot", marginal="source"), pair.target))(rows)
    np.testing.assert_array_equal(own["cott"], plan)
    np.testing.assert_allclose(pair.posterior("scot")(rows), plan, atol=1e-9)  # its answer is its plan's own
    # label-shift is SCOT at the MLLS marginal (METHODS.md, fact 8)
    mlls = run(soft_transport(pair.target, pair.label_shares.shares)).posterior(rows)
    np.testing.assert_allclose(own["label-shift"], mlls, atol=1e-5)


def recalibrated(probs, error, block_rows=None, **more):
    """The rows, and their posteriors after the mean error probability was brought to `error`."""
    rows = Rows.of(sg.Target(probs=probs, **more), block_rows)
    posterior = run(recalibrate_to(error, lambda block: block.probs, rows))
    block = run(rows.collect())
    return block, posterior(block)


def test_the_odds_of_every_row_are_multiplied_by_one_factor(pair):
    rows, r = recalibrated(pair.target_block.probs, 0.3)
    odds = [rows.error_probability(p) / (1.0 - rows.error_probability(p)) for p in (rows.probs, r)]
    factor = odds[1] / odds[0]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-6)
    others = np.ones_like(r, dtype=bool)
    others[np.arange(len(rows)), rows.predictions] = False
    shares = [np.where(others, p, 0.0) / rows.error_probability(p)[:, None] for p in (rows.probs, r)]
    np.testing.assert_allclose(*shares, atol=1e-9)


def test_rows_count_by_weight(source, scores):
    weights = np.linspace(0.0, 1.0, len(scores["shifted"]))
    pair = sg.Pair(source, sg.Target(scores["shifted"], weights=weights))
    rows = pair.target_block
    wrong = rows.error_probability(pair.posterior("cott")(rows))
    assert float(weights @ wrong / weights.sum()) == pytest.approx(pair.error("cott"), abs=1e-9)
    assert wrong.mean() != pytest.approx(pair.error("cott"), abs=1e-3)


def test_certain_rows_stay_and_an_error_out_of_reach_goes_to_the_end():
    for error, expected in ((0.25, [0.0, 0.5]), (0.9, [0.0, 1.0])):
        rows, r = recalibrated([[1.0, 0.0], [0.6, 0.4]], error)
        assert rows.error_probability(r).tolist() == pytest.approx(expected)


def test_a_certain_mistake_stays_one():
    """If no factor makes the error small enough, all rows but the certain ones are right."""
    rows, r = recalibrated([[0.0, 1.0], [0.6, 0.4]], 0.1, predictions=[0, 0])
    assert rows.error_probability(r).tolist() == pytest.approx([1.0, 0.0])


def test_auto_is_the_mean_of_its_parts(demo):
    mixed = np.concatenate([demo["clean_logits"], demo["jpeg_logits"]])
    pair = sg.Pair(sg.Source(demo["val_logits"], demo["val_labels"]), sg.Target(mixed))
    parts, rows = pair.parts("auto"), pair.target_block
    assert len(parts) > 1
    assert sum(weight for weight, _ in parts) == pytest.approx(1.0)
    mean = sum(weight * run(row_posterior(part, pair.target))(rows) for weight, part in parts)
    expected = run(recalibrate_to(pair.error("auto"), lambda block: mean, pair.target))
    np.testing.assert_allclose(pair.posterior("auto")(rows), expected(rows), atol=1e-12)
