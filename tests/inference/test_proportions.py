"""Label shares: intervals hold the truth under label shift, ranges are those of metrics."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import label_shares
from shiftgauge.inference.proportions import bounds


def sample(rng, n, shares):
    y = rng.choice(3, size=n, p=shares)
    z = rng.normal(size=(n, 3))
    z[np.arange(n), y] += 1.5
    return 1.5 * z, y


METHODS = [("bbse", {}), ("rlls", {}), ("mlls", {}), ("mlls", {"bias_correction": True})]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), METHODS)
def test_intervals_hold_the_true_shares(method, options):
    """95% nominal; 24 data sets of 40 replicates, so 4 points of simulation error a class."""
    truth = np.array([0.7, 0.25, 0.05])
    held = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        z, y = sample(rng, 400, np.full(3, 1 / 3))
        z_t, _ = sample(rng, 400, truth)
        found = label_shares(
            sg.Source(logits=z, labels=y), sg.Target(logits=z_t), method, replicates=40, level=0.95, **options
        )
        assert found.shares.sum() == pytest.approx(1.0)
        assert (found.high - found.low > 0.005).all()
        held += [(found.low <= truth) & (truth <= found.high)]
    assert np.mean(held, axis=0).min() >= 0.83


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_intervals_hold_shares_that_are_held_at_zero(share):
    """4,000 shares at once, normal but for the bound at 0; of the rare ones two in five are estimated as 0."""
    rng = np.random.default_rng(0)
    noise = 0.05 * rng.normal(size=(100, 4000))
    free = share + 0.05 * rng.normal(size=4000)
    drawn = np.maximum(np.vstack([free, free + noise]), 0.0)
    low, high = bounds(drawn, 0.95, 1e9)
    assert 0.935 <= np.mean((low <= share) & (share <= high)) <= 0.985  # one-sided where 0 is in reach


def test_no_share_is_known_better_than_by_labels_of_all_rows():
    """Of 50 rows, none of the class: a share of 1 - 0.025^(1/50) would give that in 2.5% of samples."""
    low, high = bounds(np.tile([0.0, 1.0], (31, 1)), 0.95, 50.0)
    assert high[0] == pytest.approx(0.0711, abs=1e-4)
    assert (1 - high[0]) ** 50 == pytest.approx(0.025)
    assert low[1] == pytest.approx(1 - high[0])


def test_a_handful_of_rows_shows_nothing(pair):
    source, target, _ = pair
    few = sg.Source(logits=source.scores[:9], labels=source.labels[:9])
    found = label_shares(few, target, "mlls", replicates=20)
    assert (found.low == 0.0).all()
    assert (found.high == 1.0).all()


class TestAuto:
    def test_they_are_those_of_metrics(self, pair):
        source, target, _ = pair
        found, metrics = label_shares(source, target), sg.metrics(source, target)
        np.testing.assert_array_equal(found.shares, metrics.share)
        assert found.shares.sum() == pytest.approx(1.0)
        assert [(r.low, r.high) for r in found.ranges] == [(r.low, r.high) for r in metrics.ranges["share"]]
        assert found.level == 0.9
        assert "each number alone" in found.content()["classes"][0]["share_range"]["kind"]

    def test_labels_of_all_rows_are_the_shares(self, pair):
        source, target, labels = pair
        found = label_shares(source, target, labels=labels)
        truth = np.bincount(labels, minlength=4) / target.n
        for values in (found.shares, found.low, found.high):
            np.testing.assert_allclose(values, truth, atol=1e-9)

    def test_labels_narrow_them(self, pair):
        source, target, labels = pair
        order = np.random.default_rng(0).permutation(target.n)
        widths = []
        for m in (0, 100, 600):
            found = label_shares(source, target, labels={int(i): labels[i] for i in order[:m]} or None)
            assert ((found.low <= found.shares) & (found.shares <= found.high)).all()
            widths.append((found.high - found.low).mean())
        assert widths[0] > widths[1] > widths[2]

    def test_labels_are_refused_by_methods_that_assume_label_shift(self, pair):
        source, target, labels = pair
        with pytest.raises(InputError, match="labels combine with auto alone, and here mlls"):
            label_shares(source, target, "mlls", labels={0: labels[0]})


def test_it_is_at_the_top():
    assert sg.label_shares is label_shares


def test_bad_requests_are_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match="did you mean 'mlls'"):
        label_shares(source, target, "mls")
    with pytest.raises(InputError, match="bias correction belongs to mlls"):
        label_shares(source, target, "bbse", bias_correction=True)
