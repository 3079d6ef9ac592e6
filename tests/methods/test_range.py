"""The distribution around `auto`'s answer against scipy's Student t, its scales by hand, its sampling part."""

import json
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binomtest, t

import shiftgauge as sg
from shiftgauge.binomial import wilson
from shiftgauge.methods.range import RANGE_LEVEL, ErrorDistribution, error_distribution, grade_of

SHARES = (0.001, 0.025, 0.05, 0.25, 0.4999, 0.5, 0.5001, 0.75, 0.95, 0.975, 0.999)
CASES = [(0.2, 0.02, 0.05), (0.5, 0.3, 0.3), (0.02, 0.5, 0.01), (0.97, 0.001, 2.0), (1e-6, 0.05, 0.05)]


def half_of_t(share, scale, room):
    """The distance within which a share of one half of Student's t with 2 degrees of freedom, cut at `room`, lies."""
    whole = t.cdf(room / scale, 2) - 0.5
    return scale * t.ppf(0.5 + share * whole, 2)


@pytest.mark.parametrize(("error", "low", "high"), CASES)
def test_quantiles_are_those_of_two_truncated_halves_of_students_t(error, low, high):
    found = ErrorDistribution(error, low, high)
    for share in SHARES:
        if share >= 0.5:
            expected = error + half_of_t(2 * share - 1, high, 1 - error)
        else:
            expected = error - half_of_t(1 - 2 * share, low, error)
        assert found.quantile(share) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("error", "low", "high"), CASES)
def test_the_cdf_integrates_the_density_of_scipy(error, low, high):
    found = ErrorDistribution(error, low, high)
    for x in np.linspace(0.0, 1.0, 11):
        if x >= error:
            part = quad(t.pdf, 0, (x - error) / high, args=(2,))[0] / (t.cdf((1 - error) / high, 2) - 0.5)
            expected = 0.5 + 0.5 * part
        else:
            part = quad(t.pdf, 0, (error - x) / low, args=(2,))[0] / (t.cdf(error / low, 2) - 0.5)
            expected = 0.5 - 0.5 * part
        assert float(found.cdf(np.array(x))) == pytest.approx(expected, abs=1e-7)
    shares = np.array(SHARES)
    back = found.cdf(np.array([found.quantile(share) for share in SHARES]))
    assert back == pytest.approx(shares, abs=1e-9)


@pytest.mark.parametrize(("error", "low", "high"), [*CASES, (0.0, 0.1, 0.1), (1.0, 0.1, 0.1)])
def test_it_ends_at_0_and_1_and_its_median_is_the_answer(error, low, high):
    found = ErrorDistribution(error, low, high)
    assert found.quantile(0.5) == error
    assert (found.quantile(0.0), found.quantile(1.0)) == pytest.approx((0.0, 1.0))
    assert found.cdf(np.array([-0.1, 1.0, 1.1])) == pytest.approx([0.0, 1.0, 1.0])


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_an_answer_of_0_or_1_holds_half_of_the_mass(error):
    found = ErrorDistribution(error, 0.1, 0.2)
    other = (
        0.2 * t.ppf(0.5 + 0.8 * (t.cdf(5, 2) - 0.5), 2)
        if error == 0.0
        else 0.1 * t.ppf(0.5 + 0.8 * (t.cdf(10, 2) - 0.5), 2)
    )
    ends = (0.0, other) if error == 0.0 else (1.0 - other, 1.0)
    assert (found.range(0.8).low, found.range(0.8).high) == pytest.approx(ends)
    inside = found.cdf(np.array([1e-12, 1.0 - 1e-12]))
    assert inside == pytest.approx([0.5, 1.0] if error == 0.0 else [0.0, 0.5], abs=1e-9)


def test_a_higher_level_is_wider_and_around_the_answer():
    found = ErrorDistribution(0.2, 0.02, 0.05)
    ranges = [found.range(level) for level in (0.5, 0.7, 0.9, 0.95, 0.99)]
    assert all(b.low < a.low < 0.2 < a.high < b.high for a, b in pairwise(ranges))
    for one in ranges:
        assert float(np.diff(found.cdf(np.array([one.low, one.high])))[0]) == pytest.approx(one.level)
    assert found.half_width(0.9) == pytest.approx(ranges[2].high - 0.2)


def constants():
    text = resources.files("shiftgauge.methods").joinpath("auto_constants.json").read_text(encoding="utf-8")
    return json.loads(text)


def test_the_scales_by_hand():
    """Distances from 0.2: 0.1, 0, 0.2, 0.05; their median 0.075, the farthest 0.2 above and 0.1 below."""
    answers = {"unchanged": 0.1, "doc": 0.2, "scot:shrunk": 0.4, "label-shift": 0.25}
    found = error_distribution(answers, 0.2, 0.3, 0.5, 400.0, 100.0)
    smoothed = (0.2 * 80 + 1) / 82  # 1 / (1/400 + 1/100) = 80 rows
    sampling = np.sqrt(smoothed * (1 - smoothed) / 80)
    for side, farthest, scale in (("above", 0.2, found.scale_high), ("below", 0.1, found.scale_low)):
        c = constants()["range"][side]
        method = (
            c["constant"]
            + 0.075 * c["disagreement"]
            + farthest * c["largest"]
            + 0.3 * c["ks_distance"]
            + 0.5 * c["weakness"]
        )
        assert scale == pytest.approx(np.sqrt(method**2 + sampling**2))
    agree = error_distribution({"unchanged": 0.3, "doc": 0.3}, 0.2, 0.0, 0.0, 1e12, 1e12)
    c = constants()["range"]["below"]
    assert agree.scale_low == pytest.approx(
        c["constant"] + 0.1 * c["disagreement"], abs=1e-6
    )  # nothing is below


def test_grades_by_hand():
    ok, stop = constants()["grades"]["longer_side"]
    assert [grade_of(side) for side in (0.0, ok - 1e-9, ok, stop - 1e-9, stop, 1.0)] == [
        "ok",
        "ok",
        "caution",
        "caution",
        "stop",
        "stop",
    ]
    for scale in (0.01, 0.1, 0.3):
        found = ErrorDistribution(0.4, scale / 2, scale)
        side = half_of_t(0.9, scale, 0.6)
        assert found.grade == ("ok" if side < ok else "caution" if side < stop else "stop")


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(900, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    return sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:])


def test_every_level_is_a_quantile_of_one_distribution(pair):
    plain = sg.estimate(*pair)
    assert plain.range.level == RANGE_LEVEL == 0.9
    around = ErrorDistribution(plain.error, plain.details["scale_low"], plain.details["scale_high"])
    for level in (0.5, 0.8, 0.9, 0.95):
        found = sg.estimate(*pair, level=level)
        assert found.error == plain.error
        assert found.range == around.range(level)
        assert found.details["grade"] == around.grade


def test_the_sampling_part_is_named_beside_the_range_without_a_bootstrap(pair):
    found = sg.estimate(*pair)
    rows = 1 / (1 / 400 + 1 / 500)
    low, high = wilson(found.error, rows, 1.6448536269514722)
    assert (found.sampling.low, found.sampling.high) == pytest.approx((low, high))
    whole = binomtest(round(found.error * 222), 222).proportion_ci(0.9, method="wilson")
    assert (low, high) == pytest.approx((whole.low, whole.high), abs=0.004)
    said = (
        f"of which sampling error and label noise of these rows alone: [{100 * low:.1f}%, {100 * high:.1f}%]"
    )
    assert said in found.notes()


def test_a_side_without_scale_ends_at_the_answer():
    around = ErrorDistribution(0.4, 0.0, 0.1)
    assert around.quantile(0.05) == around.quantile(0.5) == 0.4 < around.quantile(0.95)
    assert around.cdf(np.array([0.3, 0.4, 1.0])).tolist() == [0.0, 0.5, 1.0]
