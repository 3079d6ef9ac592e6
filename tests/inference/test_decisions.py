"""The range, the ceiling, the critic, suitability, ranking and grades."""

from __future__ import annotations

import json

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference.critic import discrepancy


def sample(seed, n=3000, k=3, scale=2.0, tilt=0.0, noise=0.0):
    rng = np.random.default_rng(seed)
    z = scale * rng.normal(size=(n, k))
    z[:, 0] += tilt
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    return z + noise * rng.normal(size=z.shape), y


@pytest.fixture(scope="module")
def quiet():
    z, y = sample(0)
    z_t, y_t = sample(1)
    return sg.Source(logits=z, labels=y), sg.Target(logits=z_t), y_t


def test_no_shift_gets_a_narrow_ceiling_above_the_truth(quiet):
    source, target, y = quiet
    truth = np.mean(target.predictions != y)
    found = sg.ceiling(source, target)
    assert truth <= found.value <= truth + 0.12
    assert found.value == pytest.approx(found.largest_error + found.margin + found.sampling)
    assert found.error <= found.largest_error
    assert json.loads(found.to_json())["value"] == found.value
    assert "at most" in found.sentence()


def test_the_ceiling_is_the_upper_end_of_the_range(quiet):
    source, target, _ = quiet
    high = sg.estimate(source, target).range.high
    assert sg.ceiling(source, target).value == high
    assert sg.ceiling(source, target, level=0.99).value > high > sg.ceiling(source, target, level=0.8).value


def test_the_critic_sees_what_moved_and_nothing_else(quiet):
    source, target, _ = quiet
    pair = sg.Pair(source, target)
    same = discrepancy(pair.source, pair.target)
    assert same.value < 0.06
    moved, _ = sample(2, tilt=5.0)
    other = pair.with_target(sg.Target(logits=moved))
    assert discrepancy(pair.source, other.target).value > same.value + 0.1


def test_the_critic_is_at_its_minimum():
    """The loss in other words, minimised by scipy from another start and without our gradient."""
    from scipy.optimize import minimize

    from shiftgauge.inference.critic import fit_critic

    rng = np.random.default_rng(0)
    z, y = sample(0, n=150)
    source = sg.Source(logits=z, labels=y, weights=rng.uniform(0.2, 3.0, 150))
    target = sg.Target(logits=sample(1, n=120, tilt=1.0)[0], weights=rng.uniform(0.2, 3.0, 120))
    pair = sg.Pair(source, target)
    left, right = pair.source_block, pair.target_block

    def loss(flat):
        s, t = left_z @ flat.reshape(4, 3), right_z @ flat.reshape(4, 3)
        agree = np.logaddexp.reduce(s, axis=1) - s[np.arange(len(s)), left.predictions]
        mine = t[np.arange(len(t)), right.predictions]
        others = np.stack([np.delete(row, j) for row, j in zip(t, right.predictions, strict=True)])
        return left.row_share @ agree + right.row_share @ np.logaddexp(0, mine - others.mean(axis=1))

    left_z, right_z = (
        np.column_stack([logs - logs.mean(axis=1, keepdims=True), np.ones(len(logs))])
        for logs in (np.maximum(np.log(view.probs), -12.0) for view in (left, right))
    )
    found = fit_critic(left, right).ravel()
    best = minimize(loss, np.zeros(12), method="BFGS", options={"maxiter": 300})
    assert loss(found) == pytest.approx(best.fun, abs=1e-4)
    assert loss(found) < loss(np.vstack([np.eye(3), np.zeros((1, 3))]).ravel()) - 0.01  # the start is none


def test_the_critics_noise_by_hand(quiet):
    """Hoeffding's term of the paper: sqrt((n_s + 4 n_t) log(1 / delta) / (2 n_s n_t))."""
    source, target, _ = quiet
    pair = sg.Pair(source, target)
    found = discrepancy(pair.source, pair.target, level=0.9)
    assert found.noise == pytest.approx(np.sqrt((3000 + 4 * 3000) * np.log(10) / (2 * 3000 * 3000)))


def test_suitability_in_three_words(quiet):
    source, target, _ = quiet
    assert sg.suitable(source, target, 0.15).decision == "suitable"
    assert sg.suitable(source, target, 0.001).decision == "cannot say"
    broken, _ = sample(3, scale=0.05)
    found = sg.suitable(source, sg.Target(logits=broken), 0.01)
    assert found.decision == "not suitable"
    assert found.low > found.limit == pytest.approx(source.error + 0.01)
    assert "limit" in found.sentence()
    assert json.loads(found.to_json())["decision"] == "not suitable"


def test_a_higher_level_never_says_more(quiet):
    source, target, _ = quiet
    words = [sg.suitable(source, target, 0.06, level=level).decision for level in (0.5, 0.8, 0.95, 0.99)]
    assert words == sorted(words, reverse=True)  # "suitable" first, then "cannot say"
    assert set(words) == {"suitable", "cannot say"}


def test_rank_finds_the_better_of_two_that_differ(quiet):
    source, target, _ = quiet
    rng = np.random.default_rng(5)
    worse = tuple(np.asarray(s.scores) + 2.5 * rng.normal(size=s.scores.shape) for s in (source, target))
    models = {
        "noisy": (sg.Source(logits=worse[0], labels=source.labels), sg.Target(logits=worse[1])),
        "plain": (source, target),
    }
    found = sg.rank(models)
    assert found.best == "plain"
    assert [m.name for m in found.models] == ["plain", "noisy"]
    assert 0.75 < found.sure <= 0.85
    first = found.models[0]
    assert first.expected == pytest.approx((first.error + first.source_error) / 2)
    assert "such an order was right" in found.sentence()
    assert "<table>" in found._repr_html_()


def test_rank_is_not_sure_of_equals(quiet):
    source, target, _ = quiet
    assert sg.rank({"a": (source, target), "b": (source, target)}).sure == 0.5


def test_a_wide_range_warns(quiet):
    source, _, _ = quiet
    broken, _ = sample(3, scale=0.3, tilt=2.0)
    found = sg.estimate(source, sg.Target(logits=broken), method="auto")
    assert found.details["grade"] == "stop"
    assert any("do not act on the number alone" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, t: sg.ceiling(s, t, level=1.0), "level is 1.0"),
        (lambda s, t: sg.ceiling(t, t), "wanted shiftgauge.Source"),
        (lambda s, t: sg.suitable(s, t, 1.5), r"margin .*0\.05"),
        (lambda s, t: sg.suitable(s, t, level=0.2), "level is 0.2"),
        (lambda s, t: sg.rank({"a": (s, t)}), "at least two"),
        (lambda s, t: sg.rank({"a": (s, t), "b": s}), r"wanted \(source, target\)"),
        (lambda s, t: sg.ceiling(s, t, proportions="equal"), "proportions 'equal'"),
    ],
)
def test_bad_input_gets_one_clear_line(quiet, call, words):
    source, target, _ = quiet
    with pytest.raises(InputError, match=words):
        call(source, target)


def weighing_nothing(sample, extra, labels=None):
    """The sample with rows of noise between its own that weigh nothing."""
    rng = np.random.default_rng(9)
    z = np.asarray(sample.scores)
    n, k = z.shape
    place = np.sort(rng.choice(n + extra, n, replace=False))
    scores = 9.0 * rng.normal(size=(n + extra, k))
    scores[place] = z
    weights = np.zeros(n + extra)
    weights[place] = 1.0
    if labels is None:
        return sg.Target(logits=scores, weights=weights)
    own = rng.integers(k, size=n + extra)
    own[place] = labels
    return sg.Source(logits=scores, labels=own, weights=weights)


@pytest.fixture(scope="module")
def small():
    """Few rows, so that sampling decides how sure a ranking is; the target has other proportions."""
    z, y = sample(10, n=80)
    z_t, _ = sample(11, n=60, tilt=0.5, noise=1.0)
    return sg.Source(logits=z, labels=y), sg.Target(logits=z_t)


@pytest.fixture(scope="module")
def noisier(small):
    """A second model on the same rows."""
    rng = np.random.default_rng(12)
    z, z_t = (np.asarray(s.scores) + 0.6 * rng.normal(size=s.scores.shape) for s in small)
    return sg.Source(logits=z, labels=small[0].labels), sg.Target(logits=z_t)


def test_rows_that_weigh_nothing_decide_nothing(small, noisier):
    heavy, heavy_noisier = (
        (weighing_nothing(s, 100, s.labels), weighing_nothing(t, 90)) for s, t in (small, noisier)
    )
    bare, laden = sg.ceiling(*small), sg.ceiling(*heavy)
    for name in ("value", "error", "margin", "sampling", "critic_bound"):
        assert getattr(laden, name) == pytest.approx(getattr(bare, name), abs=1e-6), name
    assert laden.critic.source == pytest.approx(bare.critic.source)
    bare, laden = (sg.rank({"a": a, "b": b}) for a, b in ((small, noisier), (heavy, heavy_noisier)))
    assert laden.sure == pytest.approx(bare.sure, abs=1e-6)


def test_how_sure_by_hand(small, noisier):
    """The normal probability of the sign: rows of the target are paired, errors of the source independent."""
    from scipy.stats import norm

    models = {"plain": small, "noisier": noisier}
    found = sg.rank(models)
    first, second = found.models
    doubt = [1.0 - sg.Pair(*models[m.name]).target_block.confidence for m in (first, second)]
    smoothed = (80 * first.error + 1) / 82
    noise = np.sqrt((doubt[0] - doubt[1]).var() / 60 + 2 * smoothed * (1 - smoothed) / 80)
    assert found.sure == pytest.approx(norm.cdf((second.expected - first.expected) / noise), abs=1e-6)
    assert 0.65 < found.sure < 0.75  # of such a difference 0.8 was measured, where rows were many


def test_the_critics_bound_is_the_papers(quiet):
    source, target, _ = quiet
    found = sg.ceiling(source, target, level=0.9)
    assert found.critic.noise == pytest.approx(np.sqrt((3000 + 4 * 3000) * np.log(10) / (2 * 3000 * 3000)))
    assert found.critic_bound == pytest.approx(source.error + found.critic.value + found.critic.noise)


def test_a_limit_that_is_met_is_not_exceeded(quiet):
    """The upper end within the limit is suitable; the floor beyond it is not."""
    source, target, _ = quiet
    found = sg.suitable(source, target)
    at_high, at_low = found.high - source.error, found.low - source.error
    assert sg.suitable(source, target, at_high + 1e-12).decision == "suitable"
    assert sg.suitable(source, target, at_high - 1e-6).decision == "cannot say"
    assert (found.low, found.high) == (
        sg.estimate(source, target).range.low,
        sg.estimate(source, target).range.high,
    )
    if at_low > 0.0:
        assert sg.suitable(source, target, at_low - 1e-6).decision == "not suitable"


@pytest.mark.parametrize(
    "options", [{"calibration": "none"}, {"proportions": "same"}, {"proportions": "changed"}]
)
def test_what_is_known_reaches_every_decision(quiet, options):
    source, _, _ = quiet
    z, _ = sample(3, scale=0.7, tilt=1.0)
    target = sg.Target(logits=3.0 * z)
    plain, told = (sg.estimate(source, target, **more).error for more in ({}, options))
    assert abs(plain - told) > 1e-4
    assert sg.ceiling(source, target, **options).error == told
    assert sg.suitable(source, target, **options).error == told
    ranking = sg.rank({"a": (source, target), "b": (source, target)}, **options)
    assert ranking.models[0].error == told


def test_one_class_leaves_a_critic_nothing_to_say():
    ones = np.ones((40, 1))
    found = sg.ceiling(sg.Source(probs=ones, labels=np.zeros(40, int)), sg.Target(probs=ones))
    assert (found.critic.target, found.critic.source, found.critic.noise) == (0.0, 0.0, 0.0)


def test_defaults_where_no_option_is_given(quiet):
    source, target, _ = quiet
    found = sg.suitable(source, target)
    assert (found.margin, found.level) == (0.05, 0.9)
    assert sg.ceiling(source, target).level == 0.9


@pytest.mark.parametrize(("value", "words"), [(0.949, "at most 94.9%"), (0.95, "no useful ceiling")])
def test_a_ceiling_near_1_is_none(quiet, value, words):
    from dataclasses import replace

    source, target, _ = quiet
    assert words in replace(sg.ceiling(source, target), value=value).sentence()
