"""The cut of ATC and COTT at ties, with masses, and where nothing identifies it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftgauge as sg
from shiftgauge.methods.threshold import TIE, threshold_at_share


def share_beyond(values, mass, cut):
    return float(mass[values >= cut - TIE].sum())


@given(st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9]), min_size=1, max_size=12), st.floats(0, 1))
def test_no_other_cut_is_nearer(values, share):
    values = np.array(values)
    mass = np.full(len(values), 1 / len(values))
    cut = threshold_at_share(values, mass, share)
    assert share_beyond(values, mass, cut.value) == pytest.approx(cut.share)
    for other in [*values, 2.0]:
        there = share_beyond(values, mass, other)
        assert abs(cut.share - share) <= abs(there - share) + 1e-12
        if abs(abs(cut.share - share) - abs(there - share)) <= 1e-13:
            assert cut.share >= there - 1e-12  # equally near: the larger share


def test_without_errors_the_cut_lies_beyond_the_source():
    cut = threshold_at_share(np.array([0.2, 0.4]), np.array([0.5, 0.5]), 0.0)
    assert not cut.identified
    assert 0.4 < cut.value < 0.4 + 1e-11


@pytest.mark.parametrize("method", ["atc-mc", "atc-ne", "cott"])
def test_no_source_errors_warns(method):
    source = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
    estimate = sg.estimate(
        source, sg.Target(probs=[[0.55, 0.45], [0.1, 0.9]]), method=method, calibration="none"
    )
    assert any("not identified" in w for w in estimate.warnings)
    assert any("no errors" in w for w in estimate.warnings)
    assert estimate.error == 0.5  # the row less certain than every source row


def test_all_rows_equal_takes_the_nearer_side():
    probs = np.tile([0.6, 0.4], (10, 1))
    few = sg.Source(probs=probs, labels=[1] * 3 + [0] * 7)
    many = sg.Source(probs=probs, labels=[1] * 7 + [0] * 3)
    assert sg.estimate(few, sg.Target(probs=probs), method="atc-mc", calibration="none").error == 0.0
    assert sg.estimate(many, sg.Target(probs=probs), method="atc-mc", calibration="none").error == 1.0


def test_weights_move_the_cut():
    values = np.array([0.9, 0.5, 0.1])
    assert threshold_at_share(values, np.array([0.1, 0.6, 0.3]), 0.1).value == 0.9
    assert threshold_at_share(values, np.array([0.1, 0.6, 0.3]), 0.7).value == 0.5
