"""Where a rise comes from: by hand, against rows whose truth is known, and against scipy's tests."""

import json
from importlib import resources

import jsonschema
import numpy as np
import pytest
from scipy import stats

import shiftgauge as sg
from shiftgauge import plots
from shiftgauge.reports import report


def drawn(n, share, easy, hard, seed):
    """Logits, labels and a column: of the rows `hard`, so many; the separation of classes of both sorts."""
    rng = np.random.default_rng(seed)
    group = rng.random(n) < share
    y = rng.integers(3, size=n)
    z = rng.normal(size=(n, 3))
    z[np.arange(n), y] += np.where(group, hard, easy)
    return z, y, np.where(group, "hard", "easy")


def truth(wrong, group, wrong_t, group_t):
    """Kitagawa's split by labels: sums over the slices, as in the paper."""
    mix = within = 0.0
    for name in ("easy", "hard"):
        p, q = np.mean(group == name), np.mean(group_t == name)
        s, t = wrong[group == name].mean(), wrong_t[group_t == name].mean()
        mix += (q - p) * (s + t) / 2
        within += (p + q) / 2 * (t - s)
    return mix, within


SOURCE = drawn(3000, 0.2, 3.0, 0.8, 0)


@pytest.mark.parametrize(
    ("name", "shift"), [("mix", (0.7, 3.0, 0.8)), ("within", (0.2, 1.5, 0.5)), ("none", (0.2, 3.0, 0.8))]
)
def test_ranges_cover_the_split_by_the_true_labels(name, shift):
    z, y, group = SOURCE
    zt, yt, group_t = drawn(3000, *shift, 1)
    source, target = sg.Source(z, y), sg.Target(zt)
    found = sg.drivers(source, target, {"group": (group, group_t)})
    column = found["group"]
    mix, within = truth(z.argmax(1) != y, group, zt.argmax(1) != yt, group_t)
    assert column.mix_range.low <= mix <= column.mix_range.high
    assert column.within_range.low <= within <= column.within_range.high
    assert column.mix + column.within == pytest.approx(found.rise, abs=1e-12)
    assert found.error == pytest.approx(sg.estimate(source, target).error, abs=1e-12)
    if name == "mix":
        assert column.mix > 0.1 > abs(column.within)
        assert column.p_adjusted < 0.001
    else:
        assert abs(column.mix) < 0.01
        assert (column.within > 0.1) == (name == "within")


def test_the_split_by_hand():
    """Sites x, y on the source, x, y, z on the target; with all labels, errors are counted."""
    labels = [0] * 10
    p = np.tile([0.9, 0.1], (10, 1))
    wrong = [0, 1, 4]  # rows whose prediction is wrong
    p[wrong] = [0.2, 0.8]
    source = sg.Source(probs=p, labels=labels)
    at_source = ["x"] * 4 + ["y"] * 6  # errors 2/4 and 1/6, shares 0.4 and 0.6
    at_target = ["x"] * 2 + ["y"] * 5 + ["z"] * 3  # errors 2/2, 1/5 and 0/3, shares 0.2, 0.5 and 0.3
    pair = sg.Pair(source, sg.Target(probs=p), labels=labels)
    found = sg.drivers(pair, by={"site": (at_source, at_target)})
    column = found["site"]
    assert found.rise == pytest.approx(0.0, abs=1e-9)
    assert column.new == 3
    assert column.mix + column.within == pytest.approx(0.0, abs=1e-12)
    assert sum(one.mix for one in column.slices) == pytest.approx(column.mix, abs=1e-12)
    assert sum(one.within for one in column.slices) == pytest.approx(column.within, abs=1e-12)
    by_name = {one.name: one for one in column.slices}
    shares = {name: (one.source_share, one.target_share) for name, one in by_name.items()}
    # y has 11 rows on both sides together; x (6) and z (3) are rare and joined.
    assert shares == {"y": (0.6, 0.5), "(other)": (0.4, pytest.approx(0.5))}
    errors = {name: (one.source_error, one.error) for name, one in by_name.items()}
    assert errors["y"] == pytest.approx((1 / 6, 1 / 5))
    assert errors["(other)"] == pytest.approx((2 / 4, 2 / 5))
    assert by_name["y"].mix == pytest.approx(-0.1 * (1 / 6 + 1 / 5) / 2)
    assert by_name["y"].within == pytest.approx(0.55 * (1 / 5 - 1 / 6))
    assert by_name["(other)"].mix == pytest.approx(0.1 * (2 / 4 + 2 / 5) / 2)


def test_a_slice_that_one_side_lacks_belongs_to_the_mix():
    z, y, group = SOURCE
    zt, _, _ = drawn(3000, 0.2, 3.0, 0.8, 3)
    moved = np.where(np.arange(3000) < 600, "new", "easy")
    found = sg.drivers(sg.Source(z, y), sg.Target(zt), {"group": (group, moved)})
    column = found["group"]
    by_name = {one.name: one for one in column.slices}
    assert (by_name["new"].source_error, by_name["hard"].error) == (None, None)
    assert by_name["new"].within == by_name["hard"].within == 0.0
    assert by_name["new"].mix == pytest.approx(0.2 * by_name["new"].error)
    assert column.mix + column.within == pytest.approx(found.rise, abs=1e-12)
    assert (column.new, column.counts) == (600, "600 target rows have new values")


def test_numbers_are_binned_and_tested_as_scipy_does():
    z, y, _ = SOURCE
    rng = np.random.default_rng(5)
    age, older = rng.normal(40, 10, 3000), rng.normal(45, 10, 3000)
    age[:30], older[:90] = np.nan, np.nan
    older[-3:] = [400.0, -400.0, 500.0]
    colour = (
        rng.choice(["red", "green", "blue"], 3000),
        rng.choice(["red", "green", "blue"], 3000, p=[0.4, 0.3, 0.3]),
    )
    same = rng.choice(["a", "b"], 3000), rng.choice(["a", "b"], 3000)
    by = {"age": (age, older), "colour": colour, "same": same}
    found = sg.drivers(sg.Source(z, y), sg.Target(z), by)
    ks = stats.ks_2samp(age[30:], older[90:], method="asymp")
    column = found["age"]
    assert (column.kind, column.missing_source, column.missing_target) == ("numbers", 30, 90)
    assert (column.distance, column.p_value) == pytest.approx((ks.statistic, ks.pvalue), rel=1e-6)
    outside = np.sum((older < np.nanmin(age)) | (older > np.nanmax(age)))
    assert column.outside == outside >= 3
    assert [one.source_share for one in column.slices] == pytest.approx([0.198] * 5 + [0.01], abs=1e-3)
    counts = [[np.sum(side == name) for name in ("red", "green", "blue")] for side in colour]
    assert found["colour"].p_value == pytest.approx(stats.chi2_contingency(counts).pvalue)
    shares = np.array(counts) / 3000
    assert found["colour"].distance == pytest.approx(np.abs(shares[0] - shares[1]).sum() / 2)
    raw = [found[name].p_value for name in by]
    assert [found[name].p_adjusted for name in by] == pytest.approx(
        stats.false_discovery_control(raw).tolist()
    )
    assert found.columns[0].column == "age"


def test_texts_of_numbers_are_numbers_and_codes_are_not():
    z, y, _ = SOURCE
    source, target = sg.Source(z, y), sg.Target(z)
    values = np.arange(3000) % 40
    texts, codes = [str(v) for v in values], [f"{v:02d}" for v in values]
    given = {"number": (values, values), "text": (texts, texts), "code": (codes, codes)}
    found = sg.drivers(source, target, given)
    assert [found[name].kind for name in given] == ["numbers", "numbers", "categories"]
    assert [len(found[name].slices) for name in given] == [5, 5, 21]  # 20 categories and the others
    assert found["text"].p_value == found["number"].p_value == 1.0


def test_weights_are_rows():
    z, y, group = SOURCE
    rows = np.arange(1500)
    counts = np.random.default_rng(0).integers(1, 3, 1500)
    again = np.repeat(rows, counts)
    number = z[:, 0]
    weighted = sg.drivers(
        sg.Source(z[rows], y[rows], weights=counts.astype(float)),
        sg.Target(z[rows], weights=counts.astype(float)),
        {"group": (group[rows], group[rows][::-1]), "number": (number[rows], number[rows] + 0.1)},
    )
    repeated = sg.drivers(
        sg.Source(z[again], y[again]),
        sg.Target(z[again]),
        {
            "group": (group[again], np.repeat(group[rows][::-1], counts)),
            "number": (number[again], number[again] + 0.1),
        },
    )
    for name in ("group", "number"):
        assert weighted[name].distance == pytest.approx(repeated[name].distance, abs=1e-9)
    one, other = weighted["group"], repeated["group"]
    assert (one.mix, one.within) == pytest.approx((other.mix, other.within), abs=1e-6)


def test_labels_of_all_rows_leave_no_doubt():
    z, y, group = SOURCE
    zt, yt, group_t = drawn(3000, 0.6, 3.0, 0.8, 7)
    found = sg.drivers(sg.Source(z, y), sg.Target(zt), {"group": (group, group_t)}, labels=yt)
    column = found["group"]
    mix, within = truth(z.argmax(1) != y, group, zt.argmax(1) != yt, group_t)
    assert (column.mix, column.within) == pytest.approx((mix, within), abs=1e-9)
    assert column.mix_range.high - column.mix_range.low < 1e-6


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (None, "by: arrived as NoneType; wanted {column: (source values, target values)}"),
        ({"a": np.arange(3000)}, "by a: arrived as ndarray; wanted"),
        ({"a": (np.arange(2), np.arange(3000))}, "by a, source: arrived with shape"),
        ({"a": ([f"u{i}" for i in range(3000)],) * 2}, "by a: 3,000 different values in 6,000 rows"),
    ],
)
def test_bad_input_gets_one_line(by, said):
    z, y, _ = SOURCE
    with pytest.raises(sg.InputError) as caught:
        sg.drivers(sg.Source(z, y), sg.Target(z), by)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_it_prints_in_80_columns_and_fits_the_schema_and_is_drawn():
    z, y, group = SOURCE
    z, y, group = z[:400], y[:400], group[:400]
    zt, _, group_t = drawn(400, 0.7, 3.0, 0.8, 1)
    by = {"group": (group, group_t), "a very long name of a column": (z[:, 0], zt[:, 0])}
    source, target = sg.Source(z, y), sg.Target(zt)
    found = sg.drivers(source, target, by)
    assert max(map(len, repr(found).splitlines())) <= 80
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(json.loads(found.to_json()), schema)
    assert list(found.to_pandas().index) == [one.column for one in found.columns]
    bars = plots.drivers(found).axes[0].containers
    assert [bar.get_width() for bar in bars[0]] == pytest.approx([one.mix for one in found.columns])
    page = report(source, target, by={"group": group_t}, source_by={"group": group}, replicates=0)
    assert page.summary["drivers"]["columns"][0]["mix"] == pytest.approx(found["group"].mix)
    assert "Where the rise comes from" in page.to_html()
    assert f"| group | {found['group'].distance:.2f} |" in page.to_markdown()
    alone = report(source, target, by={"group": group_t}, replicates=0)
    assert alone.summary["drivers"] is None
    assert "Where the" not in alone.to_html()
