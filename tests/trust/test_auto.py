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
    assert found.details["choice"] == "cott:shrunk"
    shrunk = lf.estimate(
        source_of(demo), lf.Target(logits=demo["clean_logits"]), method="cott", marginal="shrunk"
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


def test_both_at_once_gives_up_the_source_proportions(demo):
    shares = np.array([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    rows = resample_to(demo["labels"].astype(int), shares)
    target = lf.Target(logits=demo["jpeg_logits"][rows])
    truth = np.mean(target.predictions != demo["labels"][rows])
    found = lf.estimate(source_of(demo), target, method="auto")
    assert found.details["choice"] == "cott:mlls"
    assert abs(found.error - truth) < 0.06


def test_interval_resamples_the_choice(demo):
    found = interval(source_of(demo), lf.Target(logits=demo["jpeg_logits"]), "auto", replicates=30)
    assert found.interval.low < found.error < found.interval.high
    assert "SCOT" in found.details["bootstrap_method"]
