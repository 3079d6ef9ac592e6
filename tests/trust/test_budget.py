"""The label budget: unbiased whatever the shift, intervals that hold, every stratum sampled."""

from __future__ import annotations

import numpy as np
import pytest

import labelfree as lf
from labelfree.errors import InputError
from labelfree.trust import budget, with_labels


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(3000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    crooked = z[1000:] + np.array([2.0, 0.0, 0.0])  # the model is wrong here in a way that no score shows
    source = lf.Source(logits=z[:1000], labels=y[:1000])
    return source, lf.Target(logits=crooked), y[1000:]


def answers(source, target, truth, seeds, **options):
    out = []
    for seed in seeds:
        plan = budget(source, target, labels=120, seed=seed)
        got = with_labels(plan, target, {int(i): int(truth[i]) for i in plan.rows}, **options)
        out.append((got.error, got.interval.low, got.interval.high))
    return np.array(out)


def test_unbiased_and_covering_under_a_shift_the_scores_do_not_show(data):
    source, target, truth = data
    error = np.mean(target.predictions != truth)
    found = answers(source, target, truth, range(150))
    standard_error = found[:, 0].std() / np.sqrt(len(found))
    assert abs(found[:, 0].mean() - error) < 3.5 * standard_error
    assert np.mean((found[:, 1] <= error) & (error <= found[:, 2])) >= 0.91


def test_any_fixed_weight_is_unbiased_and_a_wrong_formula_would_not_be(data):
    source, target, truth = data
    error = np.mean(target.predictions != truth)
    for weight in (0.0, 0.5):
        found = answers(source, target, truth, range(60), weight=weight)
        assert abs(found[:, 0].mean() - error) < 3.5 * found[:, 0].std() / np.sqrt(60)


def test_forgetting_the_inclusion_probabilities_would_be_seen():
    rng = np.random.default_rng(4)
    z = 6 * rng.normal(size=(4000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target, truth = lf.Source(logits=z[:1000], labels=y[:1000]), lf.Target(logits=z[1000:]), y[1000:]
    error = np.mean(target.predictions != truth)
    plans = [budget(source, target, labels=200, seed=seed) for seed in range(40)]
    naive = np.mean([np.mean(target.predictions[p.rows] != truth[p.rows]) for p in plans])
    ours = answers(source, target, truth, range(40))[:, 0]
    assert naive - error > 5 * 0.35 / np.sqrt(200 * 40)
    assert abs(ours.mean() - error) < 3.5 * ours.std() / np.sqrt(40)


def test_with_no_errors_seen_the_interval_is_still_open(data):
    source, target, _ = data
    plan = budget(source, target, labels=100)
    got = with_labels(plan, target, {int(i): int(target.predictions[i]) for i in plan.rows}, weight=0.0)
    assert got.observed_errors == 0
    assert got.error == 0.0
    assert got.interval.high >= 3.0 / 100  # rule of three


def test_zero_error_truth_is_covered():
    rng = np.random.default_rng(1)
    z = 2 * rng.normal(size=(1500, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target = lf.Source(logits=z[:500], labels=y[:500]), lf.Target(logits=z[500:])
    truth = target.predictions.copy()
    rare = rng.random(1000) < 0.01
    truth[rare] = (truth[rare] + 1) % 3
    error = np.mean(rare)
    found = answers(source, target, truth, range(80), weight=0.0)
    assert np.mean((found[:, 1] <= error) & (error <= found[:, 2])) >= 0.92


def test_every_stratum_is_sampled_at_the_written_probability(data):
    source, target, _ = data
    plan = budget(source, target, margin=0.05)
    counts, picked = np.bincount(plan.stratum), np.bincount(plan.stratum[plan.rows])
    assert (picked >= 5).all()
    np.testing.assert_allclose(plan.inclusion, (picked / counts)[plan.stratum[plan.rows]])
    hits = np.zeros(target.n)
    for seed in range(200):
        hits[budget(source, target, margin=0.05, seed=seed).rows] += 1
    expected = (picked / counts)[plan.stratum]
    assert np.abs(hits / 200 - expected).max() < 6 * np.sqrt(0.25 / 200)


def test_the_margin_is_reached_when_scot_is_right():
    rng = np.random.default_rng(2)
    z = 2 * rng.normal(size=(9000, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target = lf.Source(logits=z[:3000], labels=y[:3000]), lf.Target(logits=z[3000:])
    plan = budget(source, target, margin=0.03)
    got = with_labels(plan, target, {int(i): int(y[3000 + i]) for i in plan.rows})
    assert (got.interval.high - got.interval.low) / 2 < 0.036
    assert len(plan.rows) < plan.plain
    assert got.saved > 0


def test_missing_and_strange_labels(data):
    source, target, truth = data
    plan = budget(source, target, labels=100)
    some = {int(i): int(truth[i]) for i in plan.rows}
    dropped = int(plan.rows[0])
    del some[dropped]
    got = with_labels(plan, target, some)
    assert got.missing == (dropped,)
    assert any("never labelled" in w for w in got.warnings)
    other = next(i for i in range(target.n) if i not in set(plan.rows.tolist()))
    with pytest.raises(InputError, match="not picked"):
        with_labels(plan, target, {**some, other: 0})
    with pytest.raises(InputError, match=r"did you mean 0\.02"):
        budget(source, target, margin=2)
