"""Labels update `auto`: against dense integration, a second implementation by hand, and ppi-python."""

from __future__ import annotations

import numpy as np
import ppi_py
import pytest
from scipy.stats import binomtest, t

import shiftgauge as sg
from shiftgauge.methods.labels import LabelEvidence, collect_evidence, update
from shiftgauge.methods.range import ErrorDistribution
from shiftgauge.rows import run
from shiftgauge.validation.target_labels import TargetLabels


def drawn(seed, n, k=3, scale=2.0):
    """Scores whose softmax is the probability of the label."""
    rng = np.random.default_rng(seed)
    z = scale * rng.normal(size=(n, k))
    return z, (z + rng.gumbel(size=z.shape)).argmax(1)


@pytest.fixture(scope="module")
def data():
    """A source, a target whose scores hide a part of its errors, its labels, and calibrated error probabilities."""
    z, y = drawn(0, 1000)
    z_t, y_t = drawn(1, 2000)
    flipped = np.random.default_rng(2).random(2000) < 0.1
    y_t = np.where(flipped, (y_t + 1) % 3, y_t)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    return source, target, y_t, 1.0 - sg.Pair(source, target).target_block.confidence


def some(truth, rows):
    return {int(row): int(truth[row]) for row in rows}


def density(theta, error, low, high):
    """The prior's density by scipy, up to nothing: two truncated halves of Student's t."""
    above = t.pdf((theta - error) / high, 2) / high / (t.cdf((1 - error) / high, 2) - 0.5)
    below = t.pdf((error - theta) / low, 2) / low / (t.cdf(error / low, 2) - 0.5)
    return 0.5 * np.where(theta >= error, above, below)


def oracle(prior, wrong_share, count, least, most, shares):
    """Quantiles of prior density times binomial likelihood, on 200,000 points of [least, most]."""
    edges = np.linspace(least, most, 200_001)
    theta = (edges[1:] + edges[:-1]) / 2
    log_likelihood = count * (wrong_share * np.log(theta) + (1 - wrong_share) * np.log1p(-theta))
    mass = density(theta, prior.error, prior.scale_low, prior.scale_high)
    mass *= np.exp(log_likelihood - log_likelihood.max())
    cumulated = np.append(0.0, np.cumsum(mass))
    return np.interp(shares, cumulated / cumulated[-1], edges)


@pytest.mark.parametrize(
    ("around", "wrong_share", "count", "fraction", "least", "most"),
    [
        ((0.1, 0.02, 0.03), 0.4, 20.0, 0.01, 0.0, 1.0),
        ((0.1, 0.02, 0.03), 0.0, 10.0, 0.01, 0.0, 0.99),
        ((0.1, 0.02, 0.03), 1.0, 1.0, 0.001, 0.001, 1.0),
        ((0.5, 0.2, 0.2), 0.3, 5000.0, 0.5, 0.15, 0.65),
        ((0.02, 0.003, 0.004), 0.9, 500.0, 0.05, 0.04, 0.99),  # the prior is far off
        ((0.3, 0.05, 0.1), 0.25, 37.5, 0.9, 0.22, 0.32),
    ],
)
def test_the_posterior_is_the_integral(around, wrong_share, count, fraction, least, most):
    prior = ErrorDistribution(*around)
    evidence = LabelEvidence(
        labels=1,
        error=wrong_share,
        effective=count,
        fraction=fraction,
        least=least,
        most=most,
        plain_error=wrong_share,
        plain_effective=count,
    )
    shares = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    found = update(prior, evidence)
    expected = oracle(prior, wrong_share, count / (1 - fraction), least, most, shares)
    assert [found.quantile(share) for share in shares] == pytest.approx(expected, abs=3e-4)


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_an_answer_of_0_or_1_keeps_its_mass_under_labels_that_agree(answer):
    """Half of the prior is at 0 itself; labels without an error leave at least that."""
    prior = ErrorDistribution(answer, 0.1, 0.1)
    agree = update(
        prior,
        LabelEvidence(
            labels=5, error=answer, effective=5.0, fraction=0.0, plain_error=answer, plain_effective=5.0
        ),
    )
    assert abs(agree.quantile(0.5) - answer) < 0.005
    against = update(
        prior,
        LabelEvidence(
            labels=40,
            errors=20,
            error=0.5,
            effective=40.0,
            fraction=0.0,
            least=0.1,
            most=0.9,
            plain_error=0.5,
            plain_effective=40.0,
        ),
    )
    assert abs(against.quantile(0.5) - 0.5) < 0.1


def by_hand(target, truth, rows, f, scale_low, scale_high, scores_error, weights=None):
    """Error, range at 90% and the labels' own part, written out anew."""
    w = np.ones(len(truth)) if weights is None else weights
    e, g, v = (target.predictions[rows] != truth[rows]).astype(float), f[rows], w[rows]
    mean_e, mean_g = np.average(e, weights=v), np.average(g, weights=v)
    count = v.sum() ** 2 / (v**2).sum()
    slope = np.average((e - mean_e) * (g - mean_g), weights=v) / np.average((g - mean_g) ** 2, weights=v)
    slope = min(1.0, max(0.0, slope))

    def explained(slope):
        left = np.average((e - mean_e - slope * (g - mean_g)) ** 2, weights=v)
        return 1.0 - left / (mean_e * (1 - mean_e))

    if explained(slope) > 0:
        slope *= max(0.0, 1.0 - 4.0 / (count * explained(slope)))
    estimate = mean_e + slope * (np.average(f, weights=w) - mean_g)
    fraction, least = v.sum() / w.sum(), (v * e).sum() / w.sum()
    effective = count / (1 - min(0.8, max(0.0, explained(slope)))) / (1 - fraction)
    prior = ErrorDistribution(scores_error, scale_low, scale_high)
    ends = oracle(prior, estimate, effective, least, 1 - fraction + least, [0.05, 0.5, 0.95])
    return ends, mean_e, count / (1 - fraction)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_answer_by_hand(data, share, weighted):
    source, target, truth, _ = data
    rng = np.random.default_rng(int(1000 * share))
    weights = rng.uniform(0.2, 3.0, target.n) if weighted else None
    target = sg.Target(logits=target.scores, weights=weights)
    f = 1.0 - sg.Pair(source, target).target_block.confidence
    rows = rng.choice(target.n, int(share * target.n), replace=False)
    alone, found = sg.estimate(source, target), sg.estimate(source, target, labels=some(truth, rows))
    assert not found.details["labels"]["post_stratified"]
    scales = alone.details["scale_low"], alone.details["scale_high"]
    (low, error, high), labels, count = by_hand(target, truth, rows, f, *scales, alone.error, weights)
    assert (found.range.low, found.error, found.range.high) == pytest.approx((low, error, high), abs=5e-4)
    said = found.labels
    assert (said.n, said.errors) == (len(rows), int((target.predictions[rows] != truth[rows]).sum()))
    assert said.error == pytest.approx(labels)
    assert (said.scores_error, said.scores_range) == (alone.error, alone.range)
    if not weighted and share < 0.9:  # Wilson's of so many rows, in scipy's words
        m = round(count)
        wilson = binomtest(round(labels * m), m).proportion_ci(0.9, method="wilson")
        assert (said.range.low, said.range.high) == pytest.approx((wilson.low, wilson.high), abs=0.02)
    assert found.sampling is None


def test_no_labels_are_auto_exactly(data):
    source, target, _, _ = data
    plain = sg.estimate(source, target).to_dict()
    for nothing in (None, {}, {3: None}, [None] * target.n, np.full(target.n, np.nan)):
        assert sg.estimate(source, target, labels=nothing).to_dict() == plain


@pytest.mark.parametrize("weighted", [False, True])
def test_all_labels_are_the_labelled_error_exactly(data, weighted):
    source, target, truth, _ = data
    weights = np.random.default_rng(4).uniform(0.0, 2.0, target.n) if weighted else None
    target = sg.Target(logits=target.scores, weights=weights)
    found = sg.estimate(source, target, labels=truth)
    error = np.average(target.predictions != truth, weights=weights)
    assert found.error == pytest.approx(error, abs=1e-12)
    assert (found.range.low, found.range.high) == (found.error, found.error)
    assert (found.labels.range.low, found.labels.range.high) == pytest.approx((error, error))
    assert found.range.kind == "all rows are labelled"
    assert "by the labels of all rows" in repr(found)
    assert sg.estimate(source, target, labels=truth, labels_chosen="unknown").range == found.range


@pytest.mark.parametrize("truth_of", ["all right", "all wrong"])
def test_all_labels_of_one_kind(data, truth_of):
    source, target, _, _ = data
    truth = target.predictions if truth_of == "all right" else (target.predictions + 1) % 3
    found = sg.estimate(source, target, labels=truth)
    assert found.error == found.range.low == found.range.high == float(truth_of == "all wrong")
    assert found.labels.contradicts
    assert sg.metrics(source, sg.Target(logits=target.scores, labels=truth)).error == pytest.approx(
        found.error, abs=1e-6
    )


def test_rows_without_weight_say_nothing(data):
    source, target, truth, _ = data
    weights = np.ones(target.n)
    weights[:50] = 0.0
    heavy = sg.Target(logits=target.scores, weights=weights)
    rows = np.arange(60, 100)
    plain = sg.estimate(source, heavy, labels=some(truth, rows))
    more = sg.estimate(source, heavy, labels=some(1 - np.minimum(truth, 1), range(20)) | some(truth, rows))
    assert more.error == pytest.approx(plain.error, abs=1e-9)
    with pytest.raises(sg.InputError, match="every labelled row has weight 0"):
        sg.estimate(source, heavy, labels=some(truth, range(20)))
    # all rows that count are labelled: the labelled error
    found = sg.estimate(source, heavy, labels=some(truth, range(50, target.n)))
    assert found.error == pytest.approx(np.mean(target.predictions[50:] != truth[50:]), abs=1e-12)
    assert found.range.low == found.range.high


def test_the_control_variate_is_that_of_ppi_python():
    """2,000 labels of 40,000 rows: the power-tuned estimate, its weight and the width of its interval."""
    z, y = drawn(5, 2000, k=2, scale=1.0)
    z_t, truth = drawn(6, 40_000, k=2, scale=1.0)
    sure = np.arange(40_000) % 2 == 0
    z_t[sure] *= 8.0  # half of the rows have hardly an error
    truth[sure] = z_t[sure].argmax(1)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    rows = np.random.default_rng(7).choice(40_000, 2000, replace=False)
    f = 1.0 - sg.Pair(source, target).target_block.confidence
    e = (target.predictions != truth).astype(float)
    found = sg.estimate(source, target, labels=some(truth, rows))
    theirs = ppi_py.ppi_mean_pointestimate(e[rows], f[rows], f)[0]
    low, high = (float(end[0]) for end in ppi_py.ppi_mean_ci(e[rows], f[rows], f, alpha=0.1))
    ours = found.details["labels"]
    assert ours["error"] == pytest.approx(theirs, abs=5e-4)
    assert abs(theirs - e[rows].mean()) > 1e-3  # it matters
    moved = (theirs - e[rows].mean()) / (f.mean() - f[rows].mean())
    assert ours["weight"] == pytest.approx(moved, rel=0.08)  # theirs is divided by 1 + m / n
    width = found.range.high - found.range.low
    assert width == pytest.approx(high - low, rel=0.06)
    plain = binomtest(int(e[rows].sum()), 2000).proportion_ci(0.9, method="wilson")
    assert width < 0.9 * (plain.high - plain.low)


def test_labels_overrule_a_wrong_answer_and_say_so(data):
    source, target, _, _ = data
    wrong = (target.predictions + 1) % 3
    found = sg.estimate(source, target, labels=some(wrong, range(0, 2000, 40)))
    assert found.labels.contradicts
    assert found.error > 0.85
    assert any("labels and scores contradict each other" in text for text in found.warnings)
    fine = sg.estimate(source, target, labels=some(data[2], range(0, 2000, 40)))
    assert not fine.labels.contradicts
    assert not any("contradict" in text for text in fine.warnings)


def test_random_labels_narrow_the_range_and_it_holds():
    """On average over draws: 20 labels narrow the range, 100 more so; and the truth is inside."""
    z, y = drawn(8, 500)
    z_t, truth = drawn(9, 800)
    pair = sg.Pair(sg.Source(logits=z, labels=y), sg.Target(logits=z_t))
    error = np.mean(z_t.argmax(1) != truth)
    widths, inside = {20: [], 100: []}, []
    for seed in range(15):
        order = np.random.default_rng(seed).permutation(800)
        for count, kept in widths.items():
            found = sg.estimate(pair.source_sample, sg.Target(logits=z_t, labels=some(truth, order[:count])))
            kept.append(found.range.high - found.range.low)
            inside.append(found.range.low <= error <= found.range.high)
    before = pair.estimate("auto").range
    assert np.mean(widths[100]) < np.mean(widths[20]) < before.high - before.low
    assert np.mean(inside) >= 0.82


# -- rows that are no random sample -------------------------------------------------------------------------


def weighted_by(stratum, rows, n_strata):
    """(m,) weights with which labelled rows have all rows' shares of the strata."""
    share = np.bincount(stratum, minlength=n_strata) / len(stratum)
    have = np.bincount(stratum[rows], minlength=n_strata) / len(rows)
    return share[stratum[rows]] / have[stratum[rows]]


def test_labels_of_confident_rows_are_weighted_to_represent_all(data):
    source, target, truth, f = data
    rng = np.random.default_rng(0)
    order = np.argsort(f)
    rows = np.concatenate(
        [rng.choice(order[:1000], 150, replace=False), rng.choice(order[1000:], 50, replace=False)]
    )
    found = sg.estimate(source, target, labels=some(truth, rows))
    assert found.details["labels"]["p_value"] < 0.01
    assert any("were weighted to represent all rows" in text for text in found.warnings)
    fifth = np.searchsorted(np.quantile(f, [0.2, 0.4, 0.6, 0.8]), f)
    weights = weighted_by(fifth, rows, 5)
    wrong = target.predictions[rows] != truth[rows]
    assert found.labels.error == pytest.approx(np.average(wrong, weights=weights))
    error = np.mean(target.predictions != truth)
    assert abs(found.labels.error - error) < abs(wrong.mean() - error)
    kish = weights.sum() ** 2 / (weights**2).sum()
    assert found.details["labels"]["plain_effective"] == pytest.approx(kish)


def test_labels_of_one_predicted_class_are_weighted_by_class(data):
    source, target, truth, _ = data
    rng = np.random.default_rng(1)
    chance = np.array([6.0, 1.0, 1.0])[target.predictions]
    rows = rng.choice(target.n, 200, replace=False, p=chance / chance.sum())
    found = sg.estimate(source, target, labels=some(truth, rows))
    assert found.details["labels"]["post_stratified"]
    weights = weighted_by(target.predictions, rows, 3)
    wrong = target.predictions[rows] != truth[rows]
    assert found.labels.error == pytest.approx(np.average(wrong, weights=weights), abs=1e-9)


def test_a_predicted_class_without_labels_is_left_out(data):
    """Of class 1 no row is labelled: classes 0 and 2 have their shares among themselves."""
    source, target, truth, _ = data
    rng = np.random.default_rng(3)
    zeros, twos = (np.flatnonzero(target.predictions == j) for j in (0, 2))
    rows = np.concatenate([rng.choice(zeros, 60, replace=False), rng.choice(twos, 60, replace=False)])
    found = sg.estimate(source, target, labels=some(truth, rows))
    wrong = target.predictions[rows] != truth[rows]
    share = np.array([len(zeros), len(twos)]) / (len(zeros) + len(twos))
    assert found.labels.error == pytest.approx(share @ [wrong[:60].mean(), wrong[60:].mean()], abs=1e-9)


def test_labels_that_differ_in_both_are_raked(data):
    """In the end both margins are all rows': confidence and predicted class."""
    source, target, truth, f = data
    rng = np.random.default_rng(2)
    chance = np.array([5.0, 1.0, 1.0])[target.predictions] * np.where(f < np.median(f), 4.0, 1.0)
    rows = rng.choice(target.n, 400, replace=False, p=chance / chance.sum())
    found = sg.estimate(source, target, labels=some(truth, rows))
    fifth = np.searchsorted(np.quantile(f, [0.2, 0.4, 0.6, 0.8]), f)
    weights = np.ones(400)
    for _ in range(200):
        for stratum in (fifth, target.predictions):
            share = np.bincount(stratum) / len(stratum)
            have = np.bincount(stratum[rows], weights)
            weights = weights * (share / have)[stratum[rows]]
    wrong = target.predictions[rows] != truth[rows]
    assert found.labels.error == pytest.approx(np.average(wrong, weights=weights), abs=1e-6)


def test_labels_of_confident_rows_alone_are_no_contradiction_by_themselves(data):
    """Only the most confident half: the rest joins the nearest bin, and the answer warns."""
    source, target, truth, f = data
    rows = np.argsort(f)[:400:2]
    found = sg.estimate(source, target, labels=some(truth, rows))
    assert any("were weighted" in text for text in found.warnings)
    assert "labels_chosen='unknown'" in " ".join(found.warnings)
    unknown = sg.estimate(source, target, labels=some(truth, rows), labels_chosen="unknown")
    assert unknown.labels.chosen == "unknown"
    assert "labels_chosen='unknown'" not in " ".join(unknown.warnings)


def test_random_labels_seldom_warn(data):
    """About one in a hundred: the p-value of two comparisons together."""
    source, target, truth, _ = data
    rows = sg.Pair(source, target).target
    rng = np.random.default_rng(3)
    warned = []
    for _ in range(400):
        keys = rng.choice(target.n, 40, replace=False)
        evidence, warnings = run(collect_evidence(rows, TargetLabels(keys, truth[keys], False)))
        assert bool(warnings) == (evidence.p_value < 0.01) == evidence.post_stratified
        warned.append(evidence.post_stratified)
    assert np.mean(warned) <= 0.025  # 1% and three standard errors


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.79, 0.8, 0.95])
def test_labels_of_unknown_origin_do_not_narrow_the_range_until_most_rows_have_one(data, share):
    source, target, truth, _ = data
    rows = np.random.default_rng(5).choice(target.n, int(share * target.n), replace=False)
    before = sg.estimate(source, target)
    for level in (0.5, 0.9):
        known, unknown = (
            sg.estimate(source, target, labels=some(truth, rows), labels_chosen=chosen, level=level)
            for chosen in ("random", "unknown")
        )
        assert unknown.error == known.error
        if share >= 0.8:
            assert unknown.range == known.range
            continue
        prior = sg.estimate(source, target, level=level).range
        wrong = np.sum(target.predictions[rows] != truth[rows])
        least, most = (
            wrong / target.n,
            1 - (len(rows) - wrong) / target.n,
        )  # beyond these no error is possible
        assert unknown.range.low <= max(least, unknown.error - (before.error - prior.low)) + 1e-12
        assert unknown.range.high >= min(most, unknown.error + (prior.high - before.error)) - 1e-12
        if share < 0.5:
            assert unknown.range.high - unknown.range.low >= prior.high - prior.low - 1e-12
        if share >= 0.2:
            assert known.range.high - known.range.low < prior.high - prior.low


# -- small and odd samples ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_few_rows_and_few_classes(k, n):
    z, y = drawn(11, 60, k=k)
    z_t, y_t = drawn(12, n, k=k)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    found = sg.estimate(source, target, labels={0: int(y_t[0])})
    assert 0.0 <= found.range.low <= found.error <= found.range.high <= 1.0
    assert found.labels.n == 1
    if n == 1:
        assert found.error == found.range.low == found.range.high == float(z_t[0].argmax() != y_t[0])


def test_a_source_without_errors():
    z, y = drawn(13, 200, scale=30.0)
    y = z.argmax(1)
    source, target = sg.Source(logits=z[:100], labels=y[:100]), sg.Target(logits=z[100:])
    right = sg.estimate(source, target, labels=some(y[100:], range(20)))
    assert right.error <= sg.estimate(source, target).error + 1e-6
    wrong = sg.estimate(source, target, labels=some((y[100:] + 1) % 3, range(20)))
    assert wrong.error > 0.7
    assert wrong.labels.contradicts


def test_deployed_decisions_are_what_labels_judge(data):
    source, target, truth, _ = data
    chosen = np.where(np.arange(target.n) % 2, 0, target.predictions)
    own = np.where(np.arange(source.n) % 2, 0, source.predictions)
    decided = sg.Target(logits=target.scores, predictions=chosen)
    source = sg.Source(logits=source.scores, labels=source.labels, predictions=own)
    rows = range(0, 2000, 9)
    found = sg.estimate(source, decided, labels=some(truth, rows))
    assert found.labels.errors == int((chosen[::9] != truth[::9]).sum())
    assert found.range.low <= np.mean(chosen != truth) <= found.range.high


def test_rows_of_no_weight_are_not_what_labels_are_compared_with(data):
    """All rows that count have labels, the least certain ones of the target: the answer is their labelled error."""
    source, target, truth, probability = data
    rows = np.argsort(-probability)[:300]
    weights = np.zeros(target.n)
    weights[rows] = 1.0
    found = sg.estimate(source, sg.Target(target.scores, weights=weights), labels=some(truth, rows))
    assert found.error == pytest.approx(np.mean(target.predictions[rows] != truth[rows]), abs=1e-12)
    assert not found.details["labels"]["post_stratified"]


def test_the_order_of_classes_does_not_change_how_labels_are_compared(data):
    source, target, truth, _ = data
    rows = np.random.default_rng(5).choice(target.n, 60, replace=False)
    order = [2, 0, 1]
    turned = sg.Source(source.scores[:, order], np.argsort(order)[source.labels])
    found = sg.estimate(
        turned, sg.Target(target.scores[:, order]), labels=some(np.argsort(order)[truth], rows)
    )
    plain = sg.estimate(source, target, labels=some(truth, rows))
    assert found.details["labels"]["p_value"] == plain.details["labels"]["p_value"]
    assert found.error == pytest.approx(plain.error, abs=1e-9)
