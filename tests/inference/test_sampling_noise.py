"""Sampling errors of metrics and label shares, against simulations and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg


def two_classes(rng, n, share=0.3, apart=1.2):
    labels = (rng.random(n) < share).astype(int)
    score = rng.normal(size=n) + apart * (2 * labels - 1)
    return np.stack([-score, score], axis=1), labels


def simulated_auc_noise(auc, positives, negatives, draws=4000):
    """The standard deviation of the AUC of exponential scores, for which Hanley and McNeil's formula is exact."""
    rng = np.random.default_rng(1)
    ratio = auc / (1 - auc)
    areas = np.empty(draws)
    for i in range(draws):
        positive, negative = rng.exponential(ratio, positives), np.sort(rng.exponential(1.0, negatives))
        areas[i] = np.searchsorted(negative, positive).mean() / negatives
    assert areas.mean() == pytest.approx(auc, abs=0.01)
    return areas.std()


def test_the_noise_of_an_auc_is_that_of_drawn_scores():
    rng = np.random.default_rng(0)
    logits, labels = two_classes(rng, 200_000)
    target, _ = two_classes(rng, 150)
    found = sg.metrics(sg.Source(logits=logits, labels=labels), sg.Target(logits=target))
    positives = round(150 * found.confusion.sum(axis=1)[1])
    expected = simulated_auc_noise(found.roc_auc, positives, 150 - positives)
    assert found.noise["roc_auc"] == pytest.approx(expected, rel=0.08)


def confusion_of(logits, labels, k):
    """(K, K) the shares of (prediction, label)."""
    joint = np.zeros((k, k))
    np.add.at(joint, (logits.argmax(axis=1), labels), 1 / len(labels))
    return joint


def test_bbse_inverts_the_confusion_matrix():
    """Lipton et al. (2018): the ratios w of label shares solve C w = h, where the solution is positive."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 90)
    z = 2.0 * rng.normal(size=(90, 3)) + 5.0 * np.eye(3)[y]
    y_t = rng.choice(3, 3000, p=[0.5, 0.3, 0.2])
    z_t = 2.0 * rng.normal(size=(3000, 3)) + 5.0 * np.eye(3)[y_t]
    joint = confusion_of(z, y, 3)
    h = np.bincount(z_t.argmax(axis=1), minlength=3) / 3000
    shares = np.linalg.solve(joint, h) * joint.sum(axis=0)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    np.testing.assert_allclose(
        sg.label_shares(source, target, "bbse").shares, shares / shares.sum(), atol=1e-9
    )
