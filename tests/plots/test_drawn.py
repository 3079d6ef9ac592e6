"""What the figures draw, read off their axes: data, limits and labels against numbers worked out beforehand."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Text

import shiftgauge as sg
from shiftgauge import plots
from shiftgauge.plots.experiment import scatter_sets
from shiftgauge.plots.sample import draw_proportions
from shiftgauge.plots.style import PALETTE
from shiftgauge.results import Interval


def drawn(ax):
    """The (x, y) of every line that has data of its own, without those across the axes."""
    return [line.get_xydata().tolist() for line in ax.lines if len(line.get_xydata())]


def line_with(ax, label):
    (line,) = [line for line in ax.lines if str(line.get_label()).startswith(label)]
    return line


def dots(ax):
    """The places of the points of every scatter that is seen."""
    return [c.get_offsets().tolist() for c in ax.collections if c.get_alpha() and hasattr(c, "get_sizes")]


def hovers(ax):
    return [a.get_gid().removeprefix("hover: ") for a in ax.findobj(lambda a: a.get_gid() is not None)]


def close(drawn, wanted):
    return np.allclose(drawn, wanted, atol=1e-12, equal_nan=True)


def limits(ax):
    return [*ax.get_xlim(), *ax.get_ylim()]


def some_estimates(high=0.4):
    interval = Interval(0.9, 0.25, high, "sampling error only")
    return [sg.Estimate("ac", 0.2, 9, 9), sg.Estimate("scot", 0.3, 9, 9, interval=interval)]


def test_estimates_stand_at_their_error_with_their_ends():
    figure = plots.estimates(some_estimates(), highlight="scot")
    (ax,) = figure.axes
    assert drawn(ax) == [[[0.2, 1]], [[0.25, 0], [0.4, 0]], [[0.3, 0]]]
    assert [line.get_marker() for line in ax.lines] == ["o", "None", "D"]
    assert [line.get_color() for line in ax.lines] == [PALETTE[0], PALETTE[1], PALETTE[1]]
    assert [(band.get_y(), band.get_height()) for band in ax.patches] == [(0.5, 1.0), (-0.5, 1.0)]
    assert [(t.get_text(), t.get_position()[1]) for t in ax.get_yticklabels()] == [("AC", 1), ("SCOT", 0)]
    assert [(t.get_text(), t.xy) for t in ax.texts] == [("20.0%", (1.0, 1)), ("30.0%", (1.0, 0))]
    assert hovers(ax) == ["AC: 20.0%", "SCOT: 30.0%, 25.0% to 40.0%"]
    assert close(limits(ax), [0, 0.448, -0.6, 1.8])
    assert ax.get_xlabel() == "estimated error"


@pytest.mark.parametrize(
    ("answers", "right"), [(some_estimates(0.95), 1.0), ([sg.Estimate("ac", 0.0, 9, 9)], 0.056)]
)
def test_the_scale_of_estimates_ends_beyond_all_of_them(answers, right):
    assert close(plots.estimates(answers).axes[0].get_xlim(), [0, right])


def test_a_method_that_is_not_registered_has_its_name():
    (ax,) = plots.estimates([sg.Estimate("mine", 0.2, 9, 9)]).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["mine"]


def test_the_true_error_is_a_line(source, target, scores):
    found = sg.compare(source, target, ["ac"], truth=scores["truth"])
    (ax,) = plots.estimates(found).axes
    assert line_with(ax, "true error").get_xdata() == [found.true_error] * 2
    assert ax.get_xlim()[1] > found.true_error


def test_estimates_against_the_truth():
    figure = plots.truth(
        {"ac": [0.1, 0.2], "mine": [0.5, 0.3]}, [0.4, 0.2], methods=["ac", "mine"], title="T"
    )
    (ax,) = figure.axes
    diagonal, ac, mine = drawn(ax)
    assert close(diagonal, [[0, 0], [0.53, 0.53]])
    assert (ac, mine) == ([[0.2, 0.2], [0.4, 0.1]], [[0.2, 0.3], [0.4, 0.5]])  # in the order of the truth
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["AC, off by 15.0 points on average", "mine, off by 10.0 points on average"]
    assert close(limits(ax), [0, 0.53] * 2)
    assert (ax.get_xlabel(), ax.get_title()) == ("true error", "T")


@pytest.mark.parametrize("sides", [(0.2, 0.3, 0.25), (0.1, 0.3, 0.4), (0.2, 0.2, 0.0)])
def test_the_sides_of_the_triangle_have_their_lengths(sides):
    """AC from scores to pseudo-labels, COT from scores to source labels, the shift between the two."""
    (ax,) = plots.triangle(*sides, true_error=0.26, title="T").axes
    ends = drawn(ax)[:3]
    assert [np.linalg.norm(np.subtract(a, b)) for a, b in ends] == pytest.approx(sides, abs=1e-9)
    (scores, pseudo), (again, labels), last = ends
    assert scores == again
    assert last == [pseudo, labels]
    assert pseudo == [0, 0]
    assert drawn(ax)[3:] == [[scores], [pseudo], [labels]]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert left < 0 <= sides[2] < right
    assert low < 0 <= scores[1] < high
    assert ax.get_aspect() == 1
    assert ax.get_title() == "T, true error 26.0%"


def period(name, error=None, low=None, high=None, observed=None):
    return SimpleNamespace(name=name, error=error, low=low, high=high, observed=observed)


def test_a_timeline_draws_every_period():
    periods = (period("a", 0.1, 0.05, 0.2, 0.15), period("b"), period("c", 0.3, 0.2, 0.5))
    result = SimpleNamespace(periods=periods, level=0.9, source_error=0.04)
    figure = plots.timeline(result)
    (ax,) = figure.axes
    assert line_with(ax, "source error").get_ydata() == [0.04, 0.04]
    assert close(line_with(ax, "estimated error").get_ydata(), [0.1, np.nan, 0.3])
    assert close(line_with(ax, "observed error").get_ydata(), [0.15, np.nan, np.nan])
    bars = [s for s in ax.collections[0].get_segments() if len(s) and np.isfinite(s).all()]
    assert close(bars, [[[0, 0.05], [0, 0.2]], [[2, 0.2], [2, 0.5]]])
    assert "90% range" in [t.get_text() for t in figure.legends[0].get_texts()]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c"]
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {0.0}
    assert close(limits(ax), [-0.5, 2.5, 0, 0.575])


def test_a_long_timeline_names_at_most_ten_periods():
    result = SimpleNamespace(periods=[period(f"p{i}", 0.01) for i in range(21)], level=0.9, source_error=0.0)
    figure = plots.timeline(result)
    (ax,) = figure.axes
    assert [t.get_text() for t in ax.get_xticklabels()] == [f"p{i}" for i in range(0, 21, 3)]
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {30.0}
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["source error", "estimated error"]
    assert close(ax.get_ylim(), [0, 0.0575])  # errors near zero do not fill the figure


def test_a_timeline_without_estimates_is_refused():
    with pytest.raises(sg.InputError, match="no period has an estimated error"):
        plots.timeline(SimpleNamespace(periods=[period("a")], level=0.9, source_error=0.1))


def test_drivers_draw_both_parts_of_the_rise():
    ends = SimpleNamespace(low=0.01, high=0.07)
    columns = [
        SimpleNamespace(
            column=f"c{i}", distance=0.5, mix=0.01 * i, within=-0.02, mix_range=ends, within_range=None
        )
        for i in range(14)
    ]
    figure = plots.drivers(SimpleNamespace(columns=columns, rise=0.05, level=0.9))
    (ax,) = figure.axes
    mix, within = ax.patches[:12], ax.patches[12:]
    assert [bar.get_width() for bar in mix] == pytest.approx([0.01 * i for i in range(12)])
    assert {bar.get_width() for bar in within} == {-0.02}
    names = {t.get_position()[1]: t.get_text() for t in ax.get_yticklabels()}
    assert names == {11 - i: f"c{i} (change 0.50)" for i in range(12)}  # the first at the top
    for place, one, other in zip(range(11, -1, -1), mix, within, strict=True):
        assert other.get_y() + other.get_height() <= place <= one.get_y()
    spans = [line.get_xydata().tolist() for line in ax.lines if list(line.get_xdata()) == [0.01, 0.07]]
    assert close(spans, [[[0.01, place + 0.18], [0.07, place + 0.18]] for place in range(11, -1, -1)])
    assert line_with(ax, "rise, +5.0 points").get_xdata() == [0.05, 0.05]


def test_confidence_is_a_histogram_of_the_largest_probability():
    first, second = [0.5, 0.62, 0.97, 1.0], [0.51, 0.52, 0.98]
    source = sg.Source(probs=[[p, 1 - p] for p in first], labels=[0, 0, 1, 0])
    figure = plots.confidence(source, sg.Target(probs=[[p, 1 - p] for p in second]), calibration="none")
    (ax,) = figure.axes
    for patches, values in ((ax.patches[:2], first), (ax.patches[2:4], second)):
        shares, edges = np.histogram(values, 20, (0, 1))
        for patch in patches:  # the area and its outline
            assert close(patch.get_data().values, shares / len(values))
            assert close(patch.get_data().edges, edges)
    assert line_with(ax, "mean on source, 77.2%").get_xdata() == [pytest.approx(0.7725)] * 2
    assert line_with(ax, "mean on target, 67.0%").get_xdata() == [pytest.approx(0.67)] * 2
    assert hovers(ax)[10] == "0.50 to 0.55: 25.0% of the source, 66.7% of the target"
    assert ax.get_xlim() == (0, 1)
    assert ax.get_xlabel() == "confidence in the prediction"


def test_costs_are_shaded_beyond_the_threshold(source, target):
    (ax,) = plots.costs(source, target).axes
    cut = sg.methods.COTT().fit(source).threshold_
    assert line_with(ax, "threshold").get_xdata() == [cut, cut]
    shaded = [p for p in ax.patches if hasattr(p, "get_x") and p.get_alpha() == 0.08]
    assert [(p.get_x(), p.get_width()) for p in shaded] == [(cut, pytest.approx(1 - cut))]
    assert (ax.get_yscale(), ax.get_xlim()) == ("log", (0, 1))
    assert hovers(ax)[-1].startswith("0.95 to 1.00: ")


def test_proportions_draw_four_marks_a_class():
    table = {
        "classes": ["cat", "a name of many more letters"],
        "source_labels": [0.5, 0.5],
        "source_predictions": [0.4, 0.6],
        "target_predictions": [0.3, 0.7],
        "estimated_target_labels": [0.2, 0.8],
    }
    (ax,) = draw_proportions(table).axes
    assert drawn(ax) == [[[row[0], 1], [row[1], 0]] for row in list(table.values())[1:]]
    assert ax.collections[0].get_segments()[0].tolist() == [[0.2, 1], [0.5, 1]]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["cat", "a name of many more l…"]
    assert not any(t.get_parse_math() for t in ax.get_yticklabels())  # names are no formulas
    assert [(band.get_y(), band.get_height()) for band in ax.patches] == [(0.5, 1.0), (-0.5, 1.0)]
    assert hovers(ax)[0].startswith(
        "cat: source labels 50.0%, source predictions 40.0%, target predictions 30.0%"
    )
    assert (ax.get_xlim()[0], ax.get_ylim()) == (0, (-0.7, 1.7))


def test_of_many_classes_twelve_are_drawn():
    shares = [1 / 40] * 40
    names = ("source_labels", "source_predictions", "target_predictions", "estimated_target_labels")
    table = {"classes": [f"c{j}" for j in range(40)], **dict.fromkeys(names, shares)}
    (ax,) = draw_proportions(table).axes
    assert len(ax.get_yticks()) == 12


def test_reliability_is_accuracy_by_confidence():
    source = sg.Source(probs=[[0.9, 0.1], [0.9, 0.1], [0.65, 0.35], [0.65, 0.35]], labels=[0, 1, 0, 0])
    figure = plots.reliability(source, calibration="none")
    (ax,) = figure.axes
    assert close(drawn(ax), [[[0, 0], [1, 1]], [[0.65, 1], [0.9, 0.5]]])
    assert close(dots(ax), [[[0.65, 1], [0.9, 0.5]]])
    assert close(ax.collections[0].get_sizes(), 12 + 160 * 0.5**0.5)
    (text,) = figure.legends[0].get_texts()
    assert text.get_text() == "as the scores came: off by 37.5% on average"  # (0.35 + 0.4) / 2
    assert hovers(ax)[0] == "confidence 65.0%, accuracy 100.0%, 50.0% of the rows, as the scores came"
    assert close(limits(ax), [0, 1.02, 0, 1.04])


def test_reliability_is_drawn_before_and_after_calibration(source):
    texts = [t.get_text().split(":")[0] for t in plots.reliability(source).legends[0].get_texts()]
    assert texts == ["as the scores came", "calibrated"]


POINTS = {name: ([0.1, 0.2 + i / 10], [0.2, 0.4]) for i, name in enumerate("abcd")}


def named(figure):
    """The names of the axes of every panel that is seen."""
    return [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes if ax.axison]


def test_panels_against_the_truth():
    figure = plots.scatter(POINTS, "T")
    panels = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title() for ax in panels] == [
        "a: MAE 15.00", "b: MAE 10.00", "c: MAE 5.00", "d: MAE 10.00",
    ]  # fmt: skip
    assert [dots(ax) for ax in panels] == [[list(map(list, zip(*p, strict=True)))] for p in POINTS.values()]
    assert all(drawn(ax) == [[[0, 0], [1, 1]]] for ax in panels)
    assert named(figure) == [
        ("", "true error"),
        *[("estimated error", "")] * 2,
        ("estimated error", "true error"),
    ]
    assert close(limits(panels[3]), [0, 0.525] * 2)
    assert figure.get_suptitle() == "T"
    assert plots.scatter({"a": ([0.99], [0.5])}).axes[0].get_xlim() == (0, 1)


def test_panels_of_many_data_sets():
    figure = scatter_sets({"m": {"one": ([0.1], [0.2]), "two": ([0.3], [0.4])}, "n": {"two": ([0.5], [0.6])}})
    first, second = figure.axes
    assert dots(first) == [[[0.1, 0.2]], [[0.3, 0.4]]]
    assert dots(second) == [[[0.5, 0.6]]]
    assert (
        second.collections[0].get_facecolor() == first.collections[1].get_facecolor()
    ).all()  # a data set's
    assert [t.get_text() for t in first.get_legend().get_texts()] == ["one", "two"]
    many = scatter_sets({"m": {f"set {i}": ([0.1], [0.2]) for i in range(7)}}).axes[0].collections
    colours = [tuple(c.get_facecolor()[0]) for c in many]
    assert colours[6] == colours[0]
    assert len(set(colours)) == 6
    assert first.get_xlim() == first.get_ylim() == (0, 1)


def test_misses_against_the_shift_have_a_line_where_they_vary():
    x = np.array([0.1, 0.2, 0.4])
    points = {"line": (x, 2 * x + 0.1), "level": (x, [0.1] * 3), "few": (x[:2], x[:2])}
    figure = plots.against_pseudo_shift(points, "miss", "T")
    first, level, few = figure.axes
    assert close(drawn(first), [[[0.1, 0.3], [0.4, 0.9]]])
    assert [ax.get_title() for ax in figure.axes] == ["line, r = 1.00", "level", "few"]
    assert drawn(level) == drawn(few) == []
    assert limits(first) == limits(level) == limits(few)
    assert close(dots(first), [np.stack([x, 2 * x + 0.1], axis=1)])
    assert (first.get_ylim()[0], first.get_ylabel(), figure.get_suptitle()) == (0, "miss", "T")


def test_distributions_of_costs():
    figure = plots.cost_distribution(
        [("AC", [0.0, 0.01, 0.5, 1.0], [0.3, 0.5], 0.5), ("COT", [0.1], [0.2], 0.2)], 0.25
    )
    ax, other = figure.axes
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert close(heights[0], np.histogram([0.0, 0.01, 0.5, 1.0], 40, (0, 1))[0] / 4)
    assert close(heights[1], np.histogram([0.3, 0.5], 40, (0, 1))[0] / 2)
    assert line_with(ax, "threshold 0.50").get_xdata() == [0.5, 0.5]
    assert ax.get_title() == "AC\nmean 40.0%, beyond threshold 50.0%"
    assert figure.get_suptitle() == "true error 25.0%"
    assert {t.get_text() for t in ax.get_legend().findobj(Text)} >= {"source", "target", "threshold 0.50"}
    assert ax.get_yscale() == other.get_yscale() == "log"
