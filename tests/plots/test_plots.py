"""The figures draw what the tables hold, and the tables agree with the library."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge import plots
from shiftgauge.plots.evidence import confidence_table, costs_table, proportions_table, reliability_table
from shiftgauge.plots.sample import draw_proportions, most_changed


@pytest.fixture(scope="module")
def pair(source, target):
    return sg.Pair(source, target)


def texts(figure):
    from matplotlib.text import Text

    return " ".join(t.get_text() for t in figure.findobj(Text))


def png(figure, tmp_path):
    figure.savefig(tmp_path / "f.png")
    return (tmp_path / "f.png").stat().st_size


def test_every_figure_draws(source, target, tmp_path):
    for figure in (
        plots.confidence(source, target),
        plots.proportions(source, target, calibration="none"),
        plots.costs(source, target, marginal="mlls"),
        plots.reliability(source),
        plots.reliability(sg.Source(probs=np.full((3, 2), 0.5), labels=[0, 1, 0]), calibration="none"),
        plots.estimates(sg.compare(source, target), highlight="scot"),
    ):
        assert png(figure, tmp_path) > 3000


def test_tables_hold_whole_masses(pair, source, target):
    confidence, costs = confidence_table(pair), costs_table(pair)
    for table in (confidence, costs):
        assert sum(table["source"]) == pytest.approx(1)
        assert sum(table["target"]) == pytest.approx(1)
        assert len(table["edges"]) == len(table["source"]) + 1
    assert 1 - confidence["source_mean"] == pytest.approx(
        sg.estimate(source, sg.Target(logits=source.scores), "ac").error
    )
    assert costs["threshold"] == sg.methods.COTT().fit(source).threshold_
    assert costs["target_beyond"] == pytest.approx(sg.estimate(source, target, "cott").error)


def test_reliability_matches_the_calibration_s_own_report(pair, source, target):
    details = sg.estimate(source, target, "ac").details
    table = reliability_table(source, pair.calibration)
    assert table["before"]["ece"] == pytest.approx(details["ece_before"])
    assert table["after"]["ece"] == pytest.approx(details["ece_after"])
    assert sum(table["after"]["mass"]) == pytest.approx(1)
    right = float(np.dot(table["after"]["mass"], table["after"]["accuracy"]))
    assert 1 - right == pytest.approx(source.error)


def test_proportions_of_many_classes_show_the_most_changed():
    k = 40
    flat = [1 / k] * k
    moved = list(flat)
    moved[7] += 0.01
    moved[31] -= 0.01
    table = {
        "classes": [f"$class_{j}$ with a very long name indeed" for j in range(k)],
        "source_labels": flat,
        "source_predictions": flat,
        "target_predictions": moved,
        "estimated_target_labels": flat,
    }
    assert set(most_changed(table)[:2]) == {7, 31}
    assert "$class_7$" in texts(draw_proportions(table))  # names are names, never mathematics


def test_proportions_are_the_samples(pair, source):
    table = proportions_table(pair)
    assert table["source_labels"] == pytest.approx(source.label_marginal.tolist())
    assert table["classes"] == [str(j) for j in range(5)]


def test_estimates_mark_the_truth_and_leave_scores_out(source, target, scores):
    found = sg.compare(source, target, ["ac", "scot", "entropy"], truth=scores["truth"])
    figure = plots.estimates(found, highlight="scot")
    assert f"true error {found.true_error:.1%}" in texts(figure)
    assert "Entropy" not in texts(figure)
    with pytest.raises(sg.InputError, match="no estimates"):
        plots.estimates(sg.compare(source, target, ["entropy"]))


def test_wrong_things_are_refused(source):
    with pytest.raises(sg.InputError, match="wanted shiftgauge"):
        plots.confidence(source, source)
    with pytest.raises(sg.InputError, match="wanted shiftgauge"):
        plots.reliability(sg.Target(logits=source.scores))


@pytest.mark.parametrize("name", ["confidence", "costs", "proportions", "reliability"])
def test_nothing_runs_through_a_legend(source, target, name):
    """Legends stand outside the axes; so do the numbers beside the estimates."""
    drawn = getattr(sg.plots, name)
    figure = drawn(source) if name == "reliability" else drawn(source, target)
    figure.canvas.draw()
    (legend,) = figure.legends
    (ax,) = figure.axes
    assert legend.get_window_extent().y0 >= ax.get_window_extent().y1 - 1
    assert ax.get_legend() is None


def test_numbers_stand_beside_the_estimates(source, target):
    figure = sg.plots.estimates(sg.compare(source, target, ["ac", "scot", "cott"]))
    figure.canvas.draw()
    (ax,) = figure.axes
    texts = [t for t in ax.texts if t.get_text().endswith("%")]
    assert len(texts) == 3
    assert all(t.get_window_extent().x0 >= ax.get_window_extent().x1 for t in texts)


@pytest.mark.parametrize("top", [0.42, 0.93, 1.0])
def test_numbers_under_panels_keep_apart(top):
    """In figures of many panels no number touches another, whichever panel it belongs to."""
    from shiftgauge.plots.experiment import scatter_sets

    points = {name: (np.array([0.1, top]), np.array([0.2, top])) for name in "abcdef"}
    for figure in (plots.scatter(points), scatter_sets({name: {"one": v} for name, v in points.items()})):
        figure.draw_without_rendering()
        boxes = [
            tick.label1.get_window_extent()
            for ax in figure.axes
            for tick in ax.xaxis.get_major_ticks()
            if tick.label1.get_visible() and tick.get_loc() <= ax.get_xlim()[1] + 1e-9
        ]
        grown = [box.padded(0.07 * figure.dpi) for box in boxes]
        assert len(boxes) >= 12
        assert not any(a.overlaps(b) for i, a in enumerate(grown) for b in grown[:i])


def test_names_of_columns_are_no_formulas(source, target, tmp_path):
    """A dollar sign begins none: `$\\frac$` alone would be refused by matplotlib."""
    name = r"price $\frac$"
    by = {name: (np.arange(source.n) % 2, np.arange(target.n) % 3)}
    figure = plots.drivers(sg.drivers(source, target, by))
    assert name in texts(figure)
    assert png(figure, tmp_path) > 1000
