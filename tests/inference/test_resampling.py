"""Parts of the bootstrap that agree with their slow forms only if they are right: temperatures, blends, groups."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.calibration import fit_temperature
from shiftgauge.inference import Resampling, bootstrap
from shiftgauge.inference.resampling import Replicates, group_numbers

from .conftest import scores


@pytest.mark.parametrize("scale", [0.2, 1.0, 8.0])
def test_temperatures_near_and_far_are_those_of_a_full_fit(scale):
    """Weights that favour the wrong rows, or the right ones, ever more."""
    z, y = scores(np.random.default_rng(1), 500)
    source = sg.Source(logits=scale * z, labels=y)
    replicates = Replicates(sg.Pair(source, sg.Target(logits=scale * z)), Resampling(20))
    wrong = z.argmax(1) != y
    for odds in (1.0, 1.1, 1.5, 2.0, 3.0, 0.7, 0.4, 1e-9):
        weights = np.where(wrong, odds, 1.0)
        full = fit_temperature(replicates.source.z, y, weights / weights.sum()).temperature
        assert replicates.recalibrate(weights).calibrator.temperature == pytest.approx(full, rel=1e-5)


def test_a_temperature_at_its_limit_is_found_again():
    z, _ = scores(np.random.default_rng(1), 200)
    hopeless = sg.Source(logits=z, labels=z.argmin(1))
    replicates = Replicates(sg.Pair(hopeless, sg.Target(logits=z)), Resampling(20))
    assert replicates.recalibrate(np.ones(200)).calibrator.temperature == 20.0


@pytest.mark.parametrize("calibration", ["none", "vector"])
def test_other_calibrations_are_fitted_again_too(calibration):
    z, y = scores(np.random.default_rng(1), 300)
    pair = sg.Pair(sg.Source(logits=z, labels=y), sg.Target(logits=z), calibration)
    rows, _ = Replicates(pair, Resampling(20)).draw(None)
    np.testing.assert_allclose(rows.parts[0].block.probs, pair.source_block.probs, atol=1e-12)
    assert sg.estimate(pair, method="ac", interval=True, replicates=20).interval is not None


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bootstrap_stands_beside_the_range_and_never_changes_it(pair, level):
    source, target, _ = pair
    plain = sg.estimate(source, target, level=level)
    found = sg.interval(source, target, replicates=20, level=level)
    assert (found.range, found.sampling) == (plain.range, plain.sampling)
    assert plain.interval is None
    assert found.range.level == found.sampling.level == found.interval.level == level
    assert found.range.high == sg.ceiling(source, target, level=level).value
    assert sg.estimate(source, target, "ac", level=level).range is None


def test_replicates_bring_their_worst_proof(pair):
    source, target, _ = pair
    drawn = bootstrap(sg.Pair(source, target), sg.COTT(), Resampling(20))

    def read(left, right):
        found = sg.COTT().fit_rows(left).estimate_rows(right)
        return abs(found.details["certificate"]["gap"])

    gaps = Replicates(sg.Pair(source, target), Resampling(20)).map(read)
    assert 0.0 <= min(gaps) < max(gaps)
    assert drawn.gap == pytest.approx(max(gaps), rel=0.5)  # the plans differ by their moved marginals
    assert bootstrap(sg.Pair(source, target), sg.AC(), Resampling(20)).gap == 0.0


def test_given_shares_are_not_moved(pair):
    """A marginal that is known is the same in every world: replicates of SCOT scatter about the answer itself."""
    source, target, _ = pair
    shares = source.label_marginal
    drawn = bootstrap(sg.Pair(source, target), sg.SCOT(marginal=shares), Resampling(20))
    assert drawn.centre == pytest.approx(sg.estimate(source, target, "scot", marginal=shares).error, abs=1e-6)


@pytest.mark.parametrize(
    "values",
    [["b", "a", "b", "c"], [2, 1, 2, 3], [2.5, 1.0, 2.5, 9.0], np.array(["b", 1, "b", 2.5], dtype=object),
     np.array(["2024-02-01", "2024-01-01", "2024-02-01", "2024-03-01"], dtype="datetime64[D]")],
)  # fmt: skip
def test_groups_are_numbered_whatever_they_are(values):
    number = group_numbers(values, 4, "groups")
    assert number[0] == number[2]
    assert sorted(set(number.tolist())) == [0, 1, 2]


def test_one_group_or_a_hole_is_refused():
    with pytest.raises(sg.InputError, match="only one group"):
        group_numbers([1, 1], 2, "groups")
    with pytest.raises(sg.InputError, match="row 1 is missing"):
        group_numbers(["a", "", "b"], 3, "groups")
