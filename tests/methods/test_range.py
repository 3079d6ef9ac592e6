"""The range's sampling part has a closed form, and its ends move as the evidence does."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

import shiftgauge as sg
from shiftgauge.binomial import wilson
from shiftgauge.methods.range import error_range

ANSWERS = {"unchanged": 0.1, "doc": 0.2, "scot:shrunk": 0.3, "label-shift": 0.25}


def test_sampling_is_two_standard_errors_of_both_samples():
    found = error_range(ANSWERS, 0.2, "none", 0.0, 0.0, 400.0, 100.0)
    ends = binomtest(16, 80).proportion_ci(2 * norm.cdf(2) - 1, method="wilson")  # 1 / (1/400 + 1/100) = 80
    assert (found.sampling_low, found.sampling_high) == pytest.approx((ends.low, ends.high))
    wide, narrow = (error_range(ANSWERS, 0.2, "none", 0.0, 0.0, n, n) for n in (100.0, 10_000.0))
    widths = [one.sampling.high - one.sampling.low for one in (wide, narrow)]
    assert widths[0] == pytest.approx(10.0 * widths[1], rel=0.05)
    assert wide.low < narrow.low < 0.1 < 0.3 < narrow.high < wide.high


def test_where_a_shift_is_seen_nothing_changed_has_no_say_in_the_lower_end():
    unseen, seen = (error_range(ANSWERS, 0.25, kind, 0.0, 0.0, 1e9, 1e9) for kind in ("none", "other"))
    assert unseen.low == pytest.approx(0.1 - 0.01, abs=1e-4)
    assert seen.low == seen.floor == pytest.approx(0.2 - 0.03, abs=1e-4)
    assert seen.high == unseen.high


def test_proportions_that_explain_it_or_are_known_to_have_changed_leave_scot_out():
    tops = [
        error_range(ANSWERS, 0.2, kind, 0.0, 0.0, 1e9, 1e9, proportions=known).high
        for kind, known in (
            ("other", "unknown"),
            ("label", "unknown"),
            ("label", "same"),
            ("other", "changed"),
        )
    ]
    assert tops[0] == tops[2]
    # What is left above: label-shift, 0.05 beyond the answer, in full where proportions are known to have changed.
    assert tops[3] == pytest.approx(tops[0] - 0.05, abs=1e-4)
    assert tops[1] == pytest.approx(tops[0] - 0.1 + 0.3 * 0.05, abs=1e-4)


def test_a_higher_level_reaches_further():
    ends = [
        error_range(ANSWERS, 0.2, "other", 0.1, 0.0, 1000.0, 1000.0, level=level)
        for level in (0.8, 0.95, 0.99)
    ]
    assert [e.high for e in ends] == sorted(e.high for e in ends)
    assert [-e.low for e in ends] == sorted(-e.low for e in ends)


def test_the_sampling_part_is_named_beside_the_range_without_a_bootstrap():
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(900, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    found = sg.estimate(sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:]))
    low, high = wilson(found.error, 1 / (1 / 400 + 1 / 500), 2.0)
    assert (found.sampling.low, found.sampling.high) == pytest.approx((low, high))
    said = (
        f"of which sampling error and label noise of these rows alone: [{100 * low:.1f}%, {100 * high:.1f}%]"
    )
    assert said in repr(found)
