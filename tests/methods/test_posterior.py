"""The posterior behind an answer: every method's mean doubt is its answer, and the tilt is one factor on the odds."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.methods.posterior import believed, tilted

METHODS = ("auto", "ac", "doc", "im", "atc-ne", "cot", "cott", "scot", "label-shift")


@pytest.fixture(scope="module")
def pair(source, target):
    return sg.Pair(source, target)


@pytest.mark.parametrize("method", METHODS)
def test_the_mean_doubt_is_the_answer(pair, method):
    r = pair.posterior(method)
    np.testing.assert_allclose(r.sum(axis=1), 1.0, atol=1e-9)
    assert r.min() >= 0.0
    assert float(pair.target.mass @ pair.target.doubt(r)) == pytest.approx(pair.error(method), abs=1e-9)


def test_what_each_method_believes(pair):
    assert believed(pair.fitted("doc"), pair.target) is pair.target.probs
    plan = pair.target.soft_transport(pair.source.label_marginal).posterior(pair.target)
    assert believed(pair.fitted("cott"), pair.target) is plan
    np.testing.assert_array_equal(pair.posterior("scot"), plan)  # its answer is its plan's own doubt
    # label-shift is SCOT at the MLLS marginal (METHODS.md, fact 8)
    mlls = pair.target.soft_transport(pair.label_shares.shares).posterior(pair.target)
    np.testing.assert_allclose(believed(pair.fitted("label-shift"), pair.target), mlls, atol=1e-5)


def test_the_tilt_multiplies_the_odds_of_every_row_by_one_factor(pair):
    view = pair.target
    r = tilted(view.probs, view, 0.3)
    odds = [view.doubt(p) / (1.0 - view.doubt(p)) for p in (view.probs, r)]
    factor = odds[1] / odds[0]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-6)
    others = np.ones_like(r, dtype=bool)
    others[np.arange(view.n), view.predictions] = False
    shares = [np.where(others, p, 0.0) / view.doubt(p)[:, None] for p in (view.probs, r)]
    np.testing.assert_allclose(*shares, atol=1e-9)


def test_rows_weigh_what_they_weigh(source, scores):
    weights = np.linspace(0.0, 1.0, len(scores["shifted"]))
    pair = sg.Pair(source, sg.Target(scores["shifted"], weights=weights))
    doubt = pair.target.doubt(pair.posterior("cott"))
    assert float(weights @ doubt / weights.sum()) == pytest.approx(pair.error("cott"), abs=1e-9)
    assert doubt.mean() != pytest.approx(pair.error("cott"), abs=1e-3)


def test_certain_rows_stay_and_what_no_factor_reaches_goes_to_the_end():
    from shiftgauge.calibration import Calibration
    from shiftgauge.calibration.fit import Identity
    from shiftgauge.methods.view import View

    target = sg.Target(probs=[[1.0, 0.0], [0.6, 0.4]])
    view = View(target, Calibration("none", Identity(), {}), probs=np.array([[1.0, 0.0], [0.6, 0.4]]))
    assert view.doubt(tilted(view.probs, view, 0.25)).tolist() == pytest.approx([0.0, 0.5])
    assert view.doubt(tilted(view.probs, view, 0.9)).tolist() == pytest.approx([0.0, 1.0])


def test_auto_blends_what_its_parts_believe(demo):
    mixed = np.concatenate([demo["clean_logits"], demo["jpeg_logits"]])
    pair = sg.Pair(sg.Source(demo["val_logits"], demo["val_labels"]), sg.Target(mixed))
    parts = pair.parts("auto")
    assert len(parts) > 1
    assert sum(weight for weight, _ in parts) == pytest.approx(1.0)
    blend = sum(weight * believed(part, pair.target) for weight, part in parts)
    np.testing.assert_allclose(
        pair.posterior("auto"), tilted(blend, pair.target, pair.error("auto")), atol=1e-12
    )
