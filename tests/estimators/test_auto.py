"""auto: the choice follows the kind of shift, and it is as good as the method the shift calls for."""

from __future__ import annotations

import numpy as np
import pytest

import labelfree as lf
from labelfree.labelshift import resample_to
from labelfree.trust import interval


def source_of(demo):
    return lf.Source(logits=demo["val_logits"], labels=demo["val_labels"])


def test_no_shift(demo):
    found = lf.estimate(source_of(demo), lf.Target(logits=demo["clean_logits"]), method="auto")
    assert found.details["shift"] == "none"
    assert found.details["choice"] == "scot:shrunk"
    shrunk = lf.estimate(
        source_of(demo), lf.Target(logits=demo["clean_logits"]), method="scot", marginal="shrunk"
    )
    assert found.error == pytest.approx(shrunk.error, abs=1e-9)


def test_label_shift(demo):
    rows = resample_to(
        demo["labels"].astype(int), np.array([0.3, 0.25, 0.15, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    )
    target = lf.Target(logits=demo["clean_logits"][rows])
    found = lf.estimate(source_of(demo), target, method="auto")
    truth = np.mean(target.predictions != demo["labels"][rows])
    assert found.details["choice"] == "label-shift"
    assert found.error == pytest.approx(
        lf.estimate(source_of(demo), target, method="label-shift").error, abs=1e-9
    )
    assert abs(found.error - truth) < 0.02
    assert abs(lf.estimate(source_of(demo), target, method="scot").error - truth) > 0.1


def test_corruptions(demo):
    source = source_of(demo)
    misses, inside = [], []
    for name in demo["shifts"].tolist():
        target = lf.Target(logits=demo[f"{name}_logits"])
        truth = np.mean(target.predictions != demo["labels"])
        found = lf.estimate(source, target, method="auto")
        misses.append(abs(found.error - truth))
        band = found.details["band"]
        inside.append(band["low"] <= truth <= band["high"])
        if name != "clean":
            assert found.details["shift"] == "other"
    assert np.mean(misses) < 0.02
    assert np.max(misses) < 0.08
    assert np.mean(inside) >= 0.8


@pytest.mark.parametrize("name", ["jpeg", "pixelate", "mild_noise", "zoom_blur"])
def test_both_at_once_gives_up_the_source_proportions(demo, name):
    shares = np.array([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    rows = resample_to(demo["labels"].astype(int), shares)
    target = lf.Target(logits=demo[f"{name}_logits"][rows])
    truth = np.mean(target.predictions != demo["labels"][rows])
    found = lf.estimate(source_of(demo), target, method="auto")
    free = {m: found.details["answers"][m] for m in ("atc-ne", "cott:mlls", "label-shift")}
    assert found.details["weight_of_label_shift"] == 1.0
    assert found.error == np.median(list(free.values())) == free[found.details["choice"]]
    assert abs(found.error - truth) < 0.1
    assert abs(found.details["answers"]["scot:shrunk"] - truth) > 0.15


def test_a_network_that_lost_its_way_is_not_taken_for_label_shift(demo):
    """Low contrast makes it see bags and shirts only, with confidence; their runner-ups give it away."""
    target = lf.Target(logits=demo["low_contrast_logits"])
    truth = np.mean(target.predictions != demo["labels"])
    found = lf.estimate(source_of(demo), target, method="auto")
    assert found.details["unexplained_mass"] > 0.8
    assert found.details["choice"] == "scot:shrunk"
    assert abs(found.error - truth) < 0.03
    assert abs(found.details["answers"]["label-shift"] - truth) > 0.5


def test_two_classes(demo):
    """No runner-up to look at: the confidences are."""

    def halves(logits):
        logits = logits.astype(float)
        return np.column_stack([np.logaddexp.reduce(part, axis=1) for part in np.split(logits, 2, axis=1)])

    source = lf.Source(logits=halves(demo["val_logits"]), labels=demo["val_labels"] // 5)
    target = lf.Target(logits=halves(demo["pixelate_logits"]))
    truth = np.mean(target.predictions != demo["labels"] // 5)
    found = lf.estimate(source, target, method="auto")
    assert abs(found.error - truth) < 0.03
    assert 0.0 < found.details["unexplained_mass"] < 1.0


def test_runner_up_by_hand():
    from labelfree.calibration import fit_calibration
    from labelfree.estimators.view import View

    probs = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
    source = lf.Source(probs=probs, labels=[1, 0, 2])
    assert View(source, fit_calibration("none", source)).runner_up.tolist() == [2, 1, 0]


def test_unexplained_by_hand():
    from labelfree.labelshift import unexplained

    source_cells, labels = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 1, 1, 1])
    even = np.full(6, 1 / 6)
    # Class 0 sits in cells 0, 0, 1; class 1 in 1, 2, 2. At shares (1, 0) that is (2/3, 1/3, 0).
    target = np.array([0, 0, 1])
    third = np.full(3, 1 / 3)
    assert unexplained(source_cells, labels, even, target, third, 4, np.array([1.0, 0.0])) == pytest.approx(0)
    found = unexplained(source_cells, labels, even, np.array([3, 3, 3]), third, 4, np.array([0.5, 0.5]))
    assert found == pytest.approx(1.0)
    assert unexplained(source_cells, labels, even, target, third, 4, np.array([0.0, 1.0])) == pytest.approx(
        2 / 3
    )


def test_interval_resamples_the_choice(demo):
    found = interval(source_of(demo), lf.Target(logits=demo["jpeg_logits"]), "auto", replicates=30)
    assert found.interval.low < found.error < found.interval.high
    assert "SCOT" in found.details["bootstrap_method"]
