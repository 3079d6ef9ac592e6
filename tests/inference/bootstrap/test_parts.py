"""Parts of the bootstrap that agree with their slow forms only if they are right: temperatures, blends, groups."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.calibration import fit_temperature
from shiftgauge.inference import Resampling, bootstrap
from shiftgauge.inference.resampling import Replicator
from shiftgauge.inference.resampling import Draws, blended
from shiftgauge.inference.resampling import EXPANSION
from shiftgauge.inference.resampling import group_numbers

from ..conftest import scores


@pytest.mark.parametrize("scale", [0.2, 1.0, 8.0])
def test_far_temperatures_are_fitted_in_full(scale):
    """Masses that favour the wrong rows, or the right ones, ever more: the temperature leaves the expansion."""
    z, y = scores(np.random.default_rng(1), 500)
    source = sg.Source(logits=scale * z, labels=y)
    work = Replicator(sg.Pair(source, sg.Target(logits=scale * z)))
    assert work._expansion is not None
    wrong, moves = z.argmax(1) != y, []
    for odds in (1.1, 1.5, 2.0, 3.0, 0.7, 0.4):
        mass = np.where(wrong, odds, 1.0)
        mass /= mass.sum()
        full = fit_temperature(work.left.z, y, mass).temperature
        assert work.recalibrated(mass).calibrator.temperature == pytest.approx(full, rel=1e-3)
        moves.append(abs(work.calibration.calibrator.temperature / full - 1.0))
    assert min(moves) < EXPANSION < max(moves)  # both ways were taken


def test_without_a_temperature_there_is_nothing_to_expand():
    z, y = scores(np.random.default_rng(1), 200)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z)
    for name in ("none", "vector"):
        assert Replicator(sg.Pair(source, target, name))._expansion is None
    hopeless = sg.Source(logits=z, labels=z.argmin(1))  # a temperature at its limit
    assert Replicator(sg.Pair(hopeless, target))._expansion is None


def test_a_blend_adds_replicate_by_replicate():
    a, b = Draws(0.2, np.array([0.1, 0.3]), 1e-9), Draws(0.4, np.array([0.5, 0.2]), 1e-7)
    found = blended([(0.25, a), (0.75, b)])
    assert found.centre == pytest.approx(0.35)
    np.testing.assert_allclose(found.values, [0.4, 0.225])
    assert found.gap == 1e-7


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bootstrap_stands_beside_the_range_and_never_changes_it(pair, level):
    source, target, _ = pair
    plain = sg.estimate(source, target, level=level)
    found = sg.interval(source, target, replicates=20, level=level)
    assert found.interval == plain.interval
    assert found.interval.level == found.sampling.level == level
    assert found.sampling != plain.sampling
    assert found.details["ceiling"] == found.interval.high == sg.ceiling(source, target, level=level).value


def test_replicates_bring_their_worst_proof(pair):
    source, target, _ = pair
    drawn = bootstrap(sg.Pair(source, target), sg.COTT(), Resampling(20))
    gaps = []

    def read(left, right):
        found = work.fitted(sg.COTT(), left).estimate_view(right)
        gaps.append(abs(found.details["certificate"]["gap"]))

    work = Replicator(sg.Pair(source, target))
    work.run(read, 20, 0)
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
