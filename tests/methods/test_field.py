"""Unchanged, nuclear norm, MaNo, CBPE and agreement-on-the-line, by hand and against other implementations."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.methods.cbpe import isotonic


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=(900, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    return sg.Source(logits=z[:500], labels=y[:500]), sg.Target(logits=z[500:]), z, y


def test_unchanged_is_the_source_error(pair):
    source, target, z, y = pair
    assert sg.estimate(source, target, method="unchanged").error == np.mean(z[:500].argmax(1) != y[:500])


def score(method, probs, **options):
    k = np.shape(probs)[1]
    source = sg.Source(probs=np.eye(k) * 0.8 + 0.2 / k, labels=np.arange(k))
    return sg.estimate(source, sg.Target(probs=probs), method=method, **options).score


def test_nuclear_norm_by_hand():
    """Over sqrt(2 n): certain and even sqrt(n/2) twice; one class sqrt(n); uniform sqrt(n / 2)."""
    certain, one = np.repeat(np.eye(2), 5, axis=0), np.repeat([[1.0, 0.0]], 10, axis=0)
    assert score("nuclear-norm", certain, calibration="none") == pytest.approx(1.0)
    assert score("nuclear-norm", one, calibration="none") == pytest.approx(1 / np.sqrt(2))
    assert score("nuclear-norm", np.full((10, 2), 0.5), calibration="none") == pytest.approx(0.5)


def test_nuclear_norm_against_the_singular_values(pair):
    source, target, z, _ = pair
    found = sg.estimate(source, target, method="nuclear-norm", calibration="none").score
    assert found == pytest.approx(np.linalg.norm(softmax(z[500:]), "nuc") / np.sqrt(400 * 4), abs=1e-9)


def test_mano_by_hand():
    """Logits (1, -1): criterion log(e + 1/e) = 1.127 <= 5, so Taylor: 1 + 1 + 1/2 = 5/2 and 1 - 1 + 1/2 = 1/2."""
    source = sg.Source(logits=[[1.0, -1.0], [-1.0, 1.0]], labels=[0, 1])
    found = sg.estimate(
        source, sg.Target(logits=[[1.0, -1.0], [3.0, 1.0]]), method="mano"
    )  # rows are centred
    assert found.details["normalisation"] == "taylor"
    assert found.details["criterion"] == pytest.approx(np.log(np.e + 1 / np.e))
    assert found.score == pytest.approx((((5 / 6) ** 4 + (1 / 6) ** 4) / 2) ** 0.25)
    sure = sg.estimate(source, sg.Target(logits=[[10.0, -10.0]]), method="mano")
    assert sure.details["normalisation"] == "softmax"
    assert sure.score == pytest.approx(0.5**0.25, abs=1e-6)


@pytest.mark.parametrize("method", ["nuclear-norm", "mano"])
def test_scores_fall_as_doubt_rises(pair, method):
    source, _, z, _ = pair
    sharp, dull = (
        sg.estimate(source, sg.Target(logits=c * z[500:]), method=method).score for c in (2.0, 0.5)
    )
    assert sharp > dull


def test_isotonic_against_scikit_learn():
    sklearn = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(1)
    for _ in range(30):
        x = rng.integers(0, 12, 40) / 12
        y, w = rng.random(40), rng.random(40)
        knots, levels = isotonic(x, y, w / w.sum())
        oracle = sklearn.IsotonicRegression(out_of_bounds="clip").fit(x, y, w)
        at = np.linspace(-0.1, 1.1, 50)
        np.testing.assert_allclose(np.interp(at, knots, levels), oracle.predict(at), atol=1e-9)


def test_cbpe_is_calibrated_on_its_own_source(pair):
    source, _, _, _ = pair
    again = sg.Target(logits=source.scores)
    assert sg.estimate(source, again, method="cbpe").error == pytest.approx(source.error, abs=1e-9)


def test_cbpe_says_how_far_chance_goes(pair):
    source, target, _, _ = pair
    found = sg.estimate(source, target, method="cbpe")
    e = source.error
    assert found.details["sampling_error"] == pytest.approx(np.sqrt(e * (1 - e) / 400))
    assert 0.0 <= found.details["beyond_source"] < 0.05


def models(rng, n, sharp, noise, count=5):
    """Models of one truth that err together: scores are the truth's direction, a common part and their own."""
    y = rng.integers(4, size=n)
    common = rng.normal(size=(n, 4))
    return y, [
        sharp * s * np.eye(4)[y] + common + noise * rng.normal(size=(n, 4)) for s in np.linspace(1, 2, count)
    ]


def test_aline_finds_accuracies_on_a_line():
    rng = np.random.default_rng(2)
    y, left = models(rng, 6000, 2.0, 0.7)
    y_t, right = models(rng, 6000, 1.2, 0.7)
    held = {
        f"m{i}": (sg.Source(logits=a, labels=y), sg.Target(logits=b))
        for i, (a, b) in enumerate(zip(left, right, strict=True))
    }
    found = sg.aline(held)
    truth = np.array([np.mean(b.argmax(1) != y_t) for b in right])
    said = np.array([found[f"m{i}"].error for i in range(5)])
    before = np.array([np.mean(a.argmax(1) != y) for a in left])
    assert found["m0"].details["r_squared"] > 0.9
    assert np.abs(said - truth).mean() < 0.6 * np.abs(before - truth).mean()


def test_aline_by_hand():
    """Three models that agree everywhere are right everywhere, or as good as: half a row is the limit."""
    z = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    held = {name: (sg.Source(logits=z, labels=[0, 1, 0, 1]), sg.Target(logits=z)) for name in "abc"}
    found = sg.aline(held)
    assert {round(e.error, 9) for e in found.values()} == {0.125}


def test_aline_refuses_few_models_and_other_rows(pair):
    source, target, z, y = pair
    with pytest.raises(InputError, match="at least 3"):
        sg.aline({"a": (source, target), "b": (source, target)})
    other = sg.Source(logits=z[:499], labels=y[:499])
    with pytest.raises(InputError, match="same rows"):
        sg.aline({"a": (source, target), "b": (other, target), "c": (source, target)})


def test_aline_matches_columns_by_name():
    rng = np.random.default_rng(3)
    y, y_t = rng.integers(3, size=300), rng.integers(3, size=300)
    names, order = ("a", "b", "c"), [2, 0, 1]
    models, turned = {}, {}
    for number in range(3):
        z, z_t = (rng.normal(size=(300, 3)) * (1 + number) + 2.0 * np.eye(3)[labels] for labels in (y, y_t))
        source = sg.Source(z, y, classes=names)
        models[f"m{number}"] = source, sg.Target(z_t, classes=names)
        turned[f"m{number}"] = source, sg.Target(z_t[:, order], classes=[names[j] for j in order])
    mixed = {**models, "m1": turned["m1"]}
    expected = {name: one.error for name, one in sg.aline(models).items()}
    assert {name: one.error for name, one in sg.aline(mixed).items()} == expected
    other = sg.Source(z[:, order], y, classes=[names[j] for j in order])
    with pytest.raises(sg.InputError, match="wanted the same classes in the same order"):
        sg.aline({**models, "m2": (other, turned["m2"][1])})
