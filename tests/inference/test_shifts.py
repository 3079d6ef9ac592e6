"""Targets of the backtest against other hands: scikit-learn's clusters, a slow search for edges, Student's t."""

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import KMeans

import shiftgauge as sg
from shiftgauge.inference import backtest
from shiftgauge.inference.backtests import NotTried, Trial, covers, summarise, sureness_of
from shiftgauge.inference.columns import row_groups
from shiftgauge.inference.shifts import (
    MOST_GROUPS,
    hellinger_clusters,
    largest,
    made_shifts,
    most_confused,
    natural_splits,
    nearest_edge,
    with_share,
)
from shiftgauge.results import Estimate, Interval

from .conftest import scores


@pytest.fixture(scope="module")
def pool():
    z, y = scores(np.random.default_rng(3), 1000)
    return sg.Source(logits=z, labels=y)


def test_clusters_are_those_of_scikit_learn():
    """From the same rows as first centres, as many rounds of Lloyd's algorithm in Hellinger geometry."""
    p = np.random.default_rng(0).dirichlet([0.5, 1.0, 2.0, 0.7], 500)
    begin = np.random.default_rng(8).choice(500, size=4, replace=False)
    theirs = KMeans(4, init=np.sqrt(p)[begin], n_init=1, max_iter=15, tol=0.0, algorithm="lloyd").fit(
        np.sqrt(p)
    )
    ours = hellinger_clusters(p, np.random.default_rng(8))
    np.testing.assert_array_equal(np.sort(np.concatenate(ours)), np.arange(500))
    centres = np.array([np.sqrt(p)[rows].mean(axis=0) for rows in ours])
    assert np.abs(centres - theirs.cluster_centers_).max() < 0.01  # one round more or less


def test_the_most_confused_pair_is_found_and_put_in_excess():
    labels = np.repeat([0, 1, 2], 100)
    decided = labels.copy()
    decided[:5] = 1  # 0 for 1 five times, 1 for 2 and back eight times in all
    decided[100:104], decided[200:204] = 2, 1
    pool = sg.Source(probs=np.full((300, 3), 1 / 3), labels=labels, predictions=decided)
    inside, why = most_confused(pool)
    assert why == ""
    np.testing.assert_array_equal(inside, labels > 0)
    for share in (0.5, 0.8):
        rows = with_share(inside, share, np.random.default_rng(0))
        assert inside[rows].mean() == pytest.approx(share, abs=1 / len(rows))
    assert (
        most_confused(sg.Source(probs=np.eye(3)[labels], labels=labels))[1]
        == "no class was taken for another"
    )


def test_sizes_and_order_of_made_targets(pool):
    made = {(one.kind, one.strength): one for one in made_shifts(pool, [], 0)}
    assert len(made["none", "none"].rows) == pool.n // 2
    confidence = np.exp(pool.scores).max(axis=1) / np.exp(pool.scores).sum(axis=1)
    told = [made["lower confidence", f"power {power}"] for power in (0.5, 1.5)]
    for one in told:
        assert len(one.rows) == pool.n // 3
    means = [confidence.mean(), *(confidence[one.rows].mean() for one in told)]
    assert means == sorted(means, reverse=True)
    for kind in (("none", "none"), ("lower confidence", "power 0.5")):
        assert (np.diff(made[kind].rows) > 0).all()  # in the order of the file, each row once
    # The median of the rows' spread, times the level: what noise adds to scores that are shifted to a largest of 0.
    half = made["noisier scores", "noise 0.75"]
    z = pool.scores - pool.scores.max(axis=1, keepdims=True)
    noise = (half.logits - z[half.rows]).std()
    assert noise == pytest.approx(0.75 * np.median(z.std(axis=1)), rel=0.05)


def test_natural_targets_keep_the_order_of_the_file():
    rng = np.random.default_rng(0)
    ranks = rng.integers(50, size=900)
    found = list(natural_splits(900, row_groups(rng.integers(3, size=900), 900), ranks))
    assert len(found) == 3 + 4
    for one in found:
        assert (np.diff(one.known) > 0).all()
        assert (np.diff(one.asked) > 0).all()
    later = found[3]
    assert ranks[later.known].max() < ranks[later.asked].min()


def test_edges_lie_between_different_times():
    """Against every place where the time changes: the nearer end of the run that the wanted place is in."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        ranks = np.sort(rng.integers(6, size=20))
        ends = [i for i in range(21) if i in (0, 20) or ranks[i - 1] != ranks[i]]
        at = int(rng.integers(21))
        left, right = max(i for i in ends if i <= at), min(i for i in ends if i >= at)
        right = next(i for i in ends if i > at) if left == at < 20 else right
        assert nearest_edge(ranks, at) == (left if at - left <= right - at else right)


def test_the_largest_of_many_groups_in_their_own_order():
    sizes = np.random.default_rng(0).permutation(np.arange(1, 26))
    (column,) = row_groups(np.repeat([f"{j:02d}" for j in range(25)], sizes), sizes.sum())
    kept = [f"group {j:02d}" for j in range(25) if sizes[j] > 25 - MOST_GROUPS]
    assert [name for name, _ in largest(column)] == kept


def test_sureness_is_students():
    """For two methods and U targets a win has the probability of Student's t with U - 1 degrees, worked out."""
    rng = np.random.default_rng(0)
    for u in (3, 6):
        trials, miss = [], {}
        for t in range(u):
            for kind in ("group", "new group") if t else ("new group",):  # kinds of unequal size
                for name, shift in (("ac", 0.0), ("cott", 0.02)):
                    miss[name, t, kind] = abs(shift + 0.04 * rng.random() * (1 + (kind == "group")))
                    trials.append(Trial(None, kind, str(t), name, 0.2 + miss[name, t, kind], 0.2, None))
        weight = {"group": 1 / (2 * (u - 1)), "new group": 1 / (2 * u)}
        mean, off = {}, {}
        for name in ("ac", "cott"):
            mine = {key: value for key, value in miss.items() if key[0] == name}
            mean[name] = sum(weight[kind] * value for (_, _, kind), value in mine.items())
            off[name] = np.zeros(u)
            for (_, t, kind), value in mine.items():
                off[name][t] += weight[kind] * (value - mean[name])
        best = min(mean, key=mean.get)
        reach = np.linalg.norm(off["ac"] - off["cott"]) * np.sqrt(u / (u - 1))
        wins = stats.t.cdf(abs(mean["ac"] - mean["cott"]) / reach, u - 1)
        assert 0.6 < wins < 0.97
        assert sureness_of(trials, ["ac", "cott"], best, 0) == pytest.approx(wins, abs=0.04)  # 1,000 draws


def test_three_that_were_not_tried_are_all_named():
    trials = [Trial(0, "none", "none", "ac", 0.2, 0.2, None)]
    told = lambda names: summarise(trials, ["ac"], [NotTried("group", x, "why", 2) for x in names], 2, 0)  # noqa: E731
    assert told("abc").warnings[-1] == "not tried: group (a, b, c): why"
    assert told("abcd").warnings[-1] == "not tried: group (a, b, c and 1 more): why"


def test_coverage_includes_the_ends():
    one = Estimate("ac", 0.3, 9, 9, interval=Interval(0.95, 0.28, 0.33, ""), details={"label_noise": 0.03})
    low, high = 0.3 - np.hypot(0.3 - 0.28, 1.96 * 0.03), 0.3 + np.hypot(0.33 - 0.3, 1.96 * 0.03)
    assert covers(one, low)
    assert covers(one, high)
    assert not covers(one, low - 1e-9)
    assert not covers(one, high + 1e-9)


def test_slips_are_refused_before_any_work(pool):
    with pytest.raises(sg.InputError, match="seed"):
        backtest(pool, methods="ac", seed=-1)
    with pytest.raises(sg.InputError, match="replicates"):
        backtest(pool, methods="ac", replicates=-1)
    with pytest.raises(sg.InputError, match="seed"):
        sg.shift_test(pool, sg.Target(logits=pool.scores), seed=-1)


def test_made_targets_weigh_and_decide_as_their_rows_do():
    """Deployed decisions of a made target are its rows' own, so that the truth is theirs."""
    z, y = scores(np.random.default_rng(4), 800)
    decided = np.random.default_rng(5).integers(z.shape[1], size=800)  # nothing to do with the scores
    found = backtest(sg.Source(logits=z, labels=y, predictions=decided), methods="ac", repeats=1)
    unmoved = [t.truth for t in found.trials if t.kind in ("none", "sharper scores")]
    assert np.mean(unmoved) == pytest.approx((decided != y).mean(), abs=0.05)
    steps = []
    backtest(sg.Source(logits=z, labels=y), methods="ac", repeats=1, progress=steps.append)
    assert steps[0] == "made shifts, split 1 of 1"
    assert any(step.startswith("noisier scores, noise 0.25 (target ") for step in steps)
