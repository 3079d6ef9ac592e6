"""Slices: they average to the total, their ranges follow `auto`, and intervals of named methods hold together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import slices
from shiftgauge.inference.columns import slice_numbers
from shiftgauge.inference.segments import max_t

from .conftest import scores


def test_slices_average_to_the_total(pair):
    source, target, _ = pair
    group = np.random.default_rng(0).choice(["a", "b", "c"], size=target.n, p=[0.5, 0.48, 0.02])
    found = slices(source, target, group, "scot", replicates=30)
    assert [s.name for s in found.slices] == ["a", "b", "c"]
    assert sum(s.share * s.error for s in found.slices) == pytest.approx(found.error, abs=1e-9)
    assert found.error == pytest.approx(sg.estimate(source, target, method="scot").error, abs=1e-6)
    assert [s.small for s in found.slices] == [False, False, True]
    assert all(s.low <= s.error <= s.high for s in found.slices)


def test_columns_are_combined(pair):
    source, target, _ = pair
    n = target.n
    found = slices(
        source, target, {"site": ["x", "y"] * (n // 2), "day": [1] * (n // 2) + [2] * (n // 2)}, replicates=20
    )
    assert [s.name for s in found.slices] == [
        "site=x, day=1",
        "site=x, day=2",
        "site=y, day=1",
        "site=y, day=2",
    ]


@pytest.mark.slow
def test_intervals_hold_for_all_slices_at_once():
    rng = np.random.default_rng(3)
    z, y = scores(rng, 60_000)
    truth = [np.mean((z.argmax(1) != y)[z[:, 0] > 0]), np.mean((z.argmax(1) != y)[z[:, 0] <= 0])]
    held = []
    for number in range(40):
        z_s, y_s = scores(rng, 800)
        z_t, _ = scores(rng, 800)
        group = np.where(z_t[:, 0] > 0, "high", "low")
        found = slices(
            sg.Source(logits=z_s, labels=y_s),
            sg.Target(logits=z_t),
            group,
            marginal="shrunk",
            replicates=60,
            seed=number,
        )
        held.append(all(s.low <= t <= s.high for s, t in zip(found.slices, truth, strict=True)))
    assert np.mean(held) >= 0.85


def test_wrong_lengths_are_refused(pair):
    source, target, _ = pair
    with pytest.raises(
        InputError, match=r"^source_by: arrived with shape \(2,\); wanted one value per source row"
    ):
        slices(source, target, ["a"] * target.n, source_by=["a", "b"])
    with pytest.raises(InputError, match=r"^by: arrived with shape \(2,\); wanted one value per target row"):
        slices(source, target, ["a", "b"])


@pytest.mark.parametrize("method", ["auto", "scot"])
def test_too_few_rows_have_no_range(pair, method):
    """One row resampled is the same row: its interval would be that of the plan, not of the slice."""
    source, target, _ = pair
    group = np.array(["one"] + ["two"] * 2 + ["five"] * 5 + ["rest"] * (target.n - 8))
    found = {s.name: s for s in slices(source, target, group, method, replicates=30).slices}
    assert {name: s.few for name, s in found.items()} == {
        "one": True,
        "two": True,
        "five": False,
        "rest": False,
    }
    assert found["one"].range is found["two"].range is None
    assert (found["one"].low, found["one"].high) == (0.0, 1.0)
    assert found["five"].high - found["five"].low > found["rest"].high - found["rest"].low
    alone = slices(source, target, np.where(group == "rest", "rest", "eight"), method, replicates=30).slices[
        1
    ]
    assert found["rest"].high - found["rest"].low < 1.5 * (alone.high - alone.low)  # not widened by the tiny


def test_weights_count_in_what_is_too_few(pair):
    source, target, _ = pair
    weights = np.ones(target.n)
    weights[:20] = 1e-6
    weights[0] = 1.0
    weights[20:40] = 0.0
    group = np.array(["light"] * 20 + ["nothing"] * 20 + ["rest"] * (target.n - 40))
    found = slices(source, sg.Target(logits=target.scores, weights=weights), group, replicates=20)
    assert [(s.name, s.few) for s in found.slices] == [("light", True), ("rest", False)]
    assert "weigh 0 are left out: nothing" in found.warnings[-1]
    assert np.isfinite(found.error)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([10, 2, 1, 0], ["0", "1", "2", "10"]),
        (["10", "2", "1", "0"], ["0", "1", "2", "10"]),
        (["10", "2", "x", "0"], ["0", "10", "2", "x"]),
        ([2.5, np.nan, -1.0, 10.0], ["-1.0", "2.5", "10.0", "(missing)"]),
        (["b", "", None, "a"], ["a", "b", "(missing)"]),
        (np.array(["2024-02-01", "NaT", "2024-01-31", "2024-10-01"], dtype="datetime64[ns]"), None),
    ],
)
def test_names_are_in_order_and_never_empty(values, names):
    array = (
        np.array(values, dtype=object) if isinstance(values, list) and None in values else np.array(values)
    )
    found, number = slice_numbers(array, 4)
    if names is None:
        assert [name[:10] for name in found] == ["2024-01-31", "2024-02-01", "2024-10-01", "(missing)"]
        return
    assert found == names
    said = ["(missing)" if v is None or v == "" or v != v else str(v) for v in array.tolist()]
    assert [found[g] for g in number] == said


def test_combined_columns_are_in_order_too():
    found, number = slice_numbers({"day": [10, 2, 10, 2], "site": ["b", None, "a", "b"]}, 4)
    assert found == ["day=2, site=b", "day=2, site=(missing)", "day=10, site=a", "day=10, site=b"]
    assert number.tolist() == [3, 1, 2, 0]


def test_warnings_are_those_of_the_estimate():
    rng = np.random.default_rng(2)
    z, _ = scores(rng, 300)
    source, target = sg.Source(logits=z[:2], labels=z[:2].argmax(1)), sg.Target(logits=z[2:])
    found = slices(source, target, ["a", "b"] * 149, replicates=20)
    assert found.warnings[:-1] == sg.estimate(source, target).warnings
    assert "no ranges: 2 source rows" in found.warnings[-1]
    assert all(s.few and (s.low, s.high) == (0.0, 1.0) for s in found.slices)
    assert found.to_dict()["warnings"] == list(found.warnings)
    assert f"! {found.warnings[0]}" in " ".join(repr(found).split())


def test_the_more_slices_the_wider_each_interval(pair):
    """Simultaneous: with G independent slices the reach in standard deviations is that of the largest of G."""
    source, target, _ = pair
    cut = np.arange(target.n) % 12
    by = (np.where(cut == 0, "a", other) for other in ("rest", cut.astype(str)))
    alone, among = (sg.slices(source, target, one, "scot", replicates=200, level=0.95) for one in by)
    widths = [next(s for s in found.slices if s.name == "a").range for found in (alone, among)]
    two, twelve = (norm.ppf((1 + 0.95 ** (1 / g)) / 2) for g in (2, 12))
    ratio = (widths[1].high - widths[1].low) / (widths[0].high - widths[0].low)
    assert ratio == pytest.approx(twelve / two, rel=0.12)


def test_the_reach_is_the_quantile_of_the_largest_deviation():
    drawn = 0.3 + np.random.default_rng(0).normal(size=(4000, 20)) * np.linspace(0.01, 0.1, 20)
    half = max_t(drawn, np.full(20, 0.3), 0.95)
    t = norm.ppf((1 + 0.95 ** (1 / 20)) / 2)
    np.testing.assert_allclose(half, t * np.linspace(0.01, 0.1, 20), rtol=0.06)


def error_probabilities(pair, method, **options):
    return pair.target_block.error_probability(pair.posterior(method, **options)(pair.target_block))


def test_by_default_the_slices_follow_auto_and_have_ranges_as_it_has(source, target):
    cut = np.arange(target.n) % 3
    pair = sg.Pair(source, target)
    found = sg.slices(source, target, cut)
    answer = sg.estimate(source, target)
    assert found.error == answer.error
    assert found.level == answer.range.level == 0.9
    for g, one in enumerate(found.slices):
        assert one.error == pytest.approx(error_probabilities(pair, "auto")[cut == g].mean())
        assert one.low < one.error < one.high
        assert one.range.kind == found.kind
        assert "each number alone" in found.kind
    wider = sg.slices(source, target, cut, level=0.95).slices
    assert all(b.high - b.low > a.high - a.low for a, b in zip(found.slices, wider, strict=True))
    alone = sg.slices(source, target, cut, "scot", replicates=30)
    assert alone.kind.startswith("simultaneous, sampling error only; not what the scores")


def test_one_slice_of_all_rows_has_about_the_range_of_the_whole(source, target):
    (one,) = sg.slices(source, target, ["all"] * target.n).slices
    whole = sg.estimate(source, target)
    assert one.error == pytest.approx(whole.error, abs=1e-9)
    assert 0.5 < (one.high - one.low) / (whole.range.high - whole.range.low) < 2.0


class TestLabels:
    def test_all_labels_are_the_errors_of_the_slices_without_a_width(self, pair):
        source, target, labels = pair
        by = np.array(["a", "b", "c"])[np.arange(target.n) % 3]
        by[:2] = "two"
        found = slices(source, target, by, labels=labels)
        wrong = target.predictions != labels
        for one in found.slices:
            truth = wrong[by == one.name].mean()
            assert (one.error, one.low, one.high) == pytest.approx((truth,) * 3, abs=1e-9)
            assert not one.few

    def test_labels_of_a_slice_correct_it_and_the_more_the_narrower(self, pair):
        """Half of the rows of one slice have another label than any score says."""
        source, target, labels = pair
        by = np.where(np.arange(target.n) % 4 == 0, "odd", "rest")
        truth = labels.copy()
        changed = np.flatnonzero(by == "odd")[::2]
        truth[changed] = (truth[changed] + 1) % 4
        wrong = np.mean((target.predictions != truth)[by == "odd"])
        order = np.random.default_rng(0).permutation(target.n)
        found = []
        for m in (0, 100, 500):
            given = {int(i): int(truth[i]) for i in order[:m]} or None
            found.append(slices(source, target, by, labels=given).slices[0])
        off = [abs(one.error - wrong) for one in found]
        assert off[2] < off[1] < off[0]
        assert found[2].high - found[2].low < found[1].high - found[1].low
        assert found[2].low <= wrong <= found[2].high

    def test_they_are_refused_with_a_named_method(self, pair):
        source, target, labels = pair
        with pytest.raises(InputError, match="labels combine with auto alone"):
            slices(source, target, ["a", "b"] * (target.n // 2), "scot", labels={0: labels[0]})


def test_metrics_follow_auto_by_default_and_scot_where_shares_are_given(source, target):
    pair = sg.Pair(source, target)
    assert sg.metrics(source, target).error == pytest.approx(pair.error("auto"), abs=1e-9)
    assert sg.metrics(source, target).method == "auto"
    given = sg.metrics(source, target, marginal="mlls")
    assert (given.method, given.error) == (
        "scot",
        pytest.approx(pair.error("scot", marginal="mlls"), abs=1e-9),
    )


def test_values_of_which_every_row_has_its_own_are_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match=r"by: 1,200 different values in 1,200 rows; .*COLUMN:1d"):
        slices(source, target, np.arange(target.n))
    with pytest.raises(InputError, match="by time: 400 different values"):
        slices(source, target, {"time": np.arange(target.n) // 3})
    assert len(slices(source, target, np.arange(target.n) % 40, replicates=20).slices) == 40


def test_correlated_rows_widen_the_intervals_of_slices(pair):
    source, target, _ = pair
    by = np.where(np.arange(target.n) < 600, "a", "b")
    order = np.argsort(target.scores.max(axis=1), kind="stable")  # rows of a group are alike
    groups = np.empty(target.n, dtype=int)
    groups[order] = np.arange(target.n) // 40
    alone, grouped = (slices(source, target, by, "scot", replicates=40, groups=g) for g in (None, groups))
    for a, b in zip(alone.slices, grouped.slices, strict=True):
        assert b.error == a.error
        assert b.high - b.low > 1.2 * (a.high - a.low)


def test_the_note_says_what_is_wrong_with_a_slice_s_size():
    from shiftgauge.inference import Slice
    from shiftgauge.results import Interval

    held = Interval(0.95, 0.0, 1.0, "")
    notes = [Slice("a", 9, 0.1, 0.2, held, small, few).note for small, few in ((0, 0), (1, 0), (1, 1))]
    assert notes == ["", "small", "too few rows"]


def test_what_scores_miss_in_a_slice_is_not_in_its_interval_and_that_is_said():
    """Log-odds off by 1 upwards in one half and downwards in the other: the total is right, no slice is."""
    rng = np.random.default_rng(0)
    z, age = 2.0 * rng.normal(size=20_000), np.arange(20_000) % 2
    y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-(z + np.where(age, 1.0, -1.0) * np.sign(z))))).astype(int)
    logits, half = np.column_stack([0.0 * z, z]), 10_000
    source, target = sg.Source(logits=logits[:half], labels=y[:half]), sg.Target(logits=logits[half:])
    found = slices(source, target, age[half:], "ac", replicates=20)
    wrong = target.predictions != y[half:]
    assert found.error == pytest.approx(wrong.mean(), abs=0.02)
    for one in found.slices:
        truth = wrong[age[half:] == int(one.name)].mean()
        assert not one.range.low <= truth <= one.range.high
        assert "not what the scores themselves miss" in one.range.kind


def test_what_scores_missed_of_a_slice_on_the_source_is_in_its_interval():
    """A made census, whose log-odds are off from age to age: with the ages of the source, intervals hold the truth."""
    held, without, count = 0, 0, 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        age, z = rng.integers(0, 6, 14_000), 2.0 * rng.normal(size=14_000)
        off = np.linspace(-0.75, 0.6, 6)[age]
        sure = 1.0 / (1.0 + np.exp(-(z + off * np.sign(z))))
        y = (rng.random(14_000) < sure).astype(int)
        logits, n = np.column_stack([0.0 * z, z]), 4_000
        source, target = sg.Source(logits=logits[:n], labels=y[:n]), sg.Target(logits=logits[n:])
        wrong = np.where(
            target.predictions == 1, 1.0 - sure[n:], sure[n:]
        )  # no interval holds the labels' own noise
        options = {"method": "ac", "replicates": 20, "level": 0.95}
        plain = slices(source, target, age[n:], **options).slices
        told = slices(source, target, age[n:], source_by=age[:n], **options).slices
        for one, more in zip(plain, told, strict=True):
            truth = wrong[age[n:] == int(one.name)].mean()
            without += one.range.low <= truth <= one.range.high
            held += more.range.low <= truth <= more.range.high
            count += 1
            assert more.error == one.error
            assert more.range.kind.endswith("and what the scores missed of each slice on the source")
    assert held == count
    assert without < 0.75 * count


def test_what_was_missed_shifts_one_end_and_its_chance_joins_the_sampling_error():
    """The two have nothing to do with each other, so their squares add up; adding them covered too much."""
    rng = np.random.default_rng(5)
    z, half = 2.0 * rng.normal(size=(4_000, 2)), 2_000
    site = np.arange(half) % 2
    noisy = np.tile([0.6, 0.1], 2_000)  # more mistakes than doubt at one site, fewer at the other
    y = np.where(rng.random(4_000) < noisy, rng.integers(0, 2, 4_000), z.argmax(axis=1))
    source, target = sg.Source(logits=z[:half], labels=y[:half]), sg.Target(logits=z[half:])
    options = {"method": "ac", "replicates": 50, "calibration": "none", "level": 0.95}
    plain = slices(source, target, site, **options).slices
    told = slices(source, target, site, source_by=site, **options).slices
    doubt = 1.0 / (1.0 + np.exp(np.abs(z[:half, 0] - z[:half, 1])))
    missed = (y[:half] != z[:half].argmax(axis=1)) - doubt
    for one, more in zip(plain, told, strict=True):
        own = missed[site == int(one.name)]
        assert (own.mean() > 0) == (one.name == "0")
        chance = norm.ppf(1 - 0.05 / 4) * np.sqrt((own.var() + 1 / len(own)) / len(own))
        up = np.hypot(one.range.high - one.error, chance) + max(own.mean(), 0.0)
        down = np.hypot(one.error - one.range.low, chance) + max(-own.mean(), 0.0)
        assert more.range.high == pytest.approx(one.error + up)
        assert more.range.low == pytest.approx(max(0.0, one.error - down))


def test_a_slice_that_the_source_does_not_have_is_named(source, target):
    by = np.where(np.arange(target.n) % 2, "new", "old")
    found = slices(source, target, by, "ac", replicates=20, source_by=["old"] * source.n)
    plain = slices(source, target, by, "ac", replicates=20)
    assert any("new" in text and "old" not in text for text in found.warnings)
    ends = {s.name: (s.low, s.high) for s in plain.slices}
    for one in found.slices:
        same = ends[one.name] == (one.range.low, one.range.high)
        assert same == (one.name == "new")


def test_source_rows_of_no_weight_say_nothing_of_a_slice(source, target):
    weighted = sg.Source(source.scores, source.labels, weights=np.arange(source.n) % 2)
    by = np.where(np.arange(target.n) % 2, "odd", "even")
    own = np.where(np.arange(source.n) % 2, "odd", "even")
    plain = slices(weighted, target, by).slices[0]
    found = slices(weighted, target, by, source_by=own)
    assert (found.slices[0].low, found.slices[0].high) == (plain.low, plain.high)
    assert any(text.endswith(": even") for text in found.warnings)
