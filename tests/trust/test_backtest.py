"""The backtest: made shifts are what they say, and the report is deterministic."""

from __future__ import annotations

import numpy as np
import pytest

import labelfree as lf
from labelfree.errors import InputError
from labelfree.trust import backtest
from labelfree.trust.shifts import made_shifts

from .conftest import scores


@pytest.fixture(scope="module")
def source():
    z, y = scores(np.random.default_rng(0), 2000)
    return lf.Source(logits=z, labels=y)


def test_made_shifts_are_what_they_say(source):
    made = {(s.kind, s.strength): s for s in made_shifts(source, np.arange(2000) % 2, seed=1)}
    assert {kind for kind, _ in made} == {
        "none",
        "class proportions",
        "sub-population",
        "lower confidence",
        "sharper scores",
        "noisier scores",
        "class confusion",
    }
    z = source.scores - source.scores.max(1, keepdims=True)
    sharp = made["sharper scores", "x 2.5"]
    np.testing.assert_allclose(sharp.logits, 2.5 * z[sharp.rows])
    low = made["lower confidence", "power 1.5"]
    p = np.exp(z)
    confidence = (p / p.sum(1, keepdims=True)).max(1)
    assert confidence[low.rows].mean() < confidence.mean() - 0.05
    assert (made["sub-population", "group 1"].rows % 2 == 1).all()
    confused = np.bincount(made["class confusion", "share 0.8"].labels, minlength=4)
    assert np.sort(confused)[-2:].sum() / confused.sum() == pytest.approx(0.8, abs=0.01)
    for shift in made.values():
        assert np.array_equal(shift.labels, source.labels[shift.rows])


def test_truths_misses_and_recommendation(source):
    methods = ("ac", "scot", "label-shift")
    found = backtest(source, methods=methods, groups=["a", "b"] * 1000, times=np.arange(2000), repeats=1)
    again = backtest(source, methods=methods, groups=["a", "b"] * 1000, times=np.arange(2000), repeats=1)
    assert found.to_json() == again.to_json()
    assert {t.kind for t in found.trials} >= {"time", "sub-population", "class proportions"}
    table = {(row["kind"], row["method"]): row for row in found.table()}
    assert table["class proportions", "label-shift"]["mean_miss"] < 0.06
    assert table["class proportions", "scot"]["mean_miss"] > 0.08
    kinds = {row["kind"] for row in found.table()}
    means = {m: np.mean([table[k, m]["mean_miss"] for k in kinds]) for m in methods}
    assert found.recommended == min(means, key=means.get)
    assert 0.0 < found.sureness <= 1.0


def test_intervals_are_checked_when_asked(source):
    found = backtest(source, methods=("ac",), repeats=1, replicates=30)
    none = next(row for row in found.table() if row["kind"] == "none")
    assert none["coverage"] is not None


def test_too_few_rows_and_scores_are_refused(source):
    with pytest.raises(InputError, match="at least 240"):
        backtest(lf.Source(logits=source.scores[:100], labels=source.labels[:100]))
    with pytest.raises(InputError, match="a score"):
        backtest(source, methods=("entropy",))


def test_groups_too_small_to_be_tried_are_named():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(600, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    groups = ["large"] * 590 + ["small"] * 10
    found = backtest(lf.Source(logits=z, labels=y), methods=["ac"], groups=groups, repeats=1)
    assert any("1 of 2 groups" in line and "small" in line for line in found.warnings)
    assert {trial.strength for trial in found.trials if trial.kind == "sub-population"} >= {"group large"}
    whole = backtest(lf.Source(logits=z, labels=y), methods=["ac"], groups=["a"] * 600, repeats=1)
    assert not any("groups" in line for line in whole.warnings)
