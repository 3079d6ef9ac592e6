"""Metrics and their ranges, against scikit-learn: on rows split by their posteriors, and on labelled rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn import metrics as sk

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import metrics
from shiftgauge.methods.posterior import row_posterior
from shiftgauge.rows import Rows, run

from .conftest import scores

PER_CLASS = ("share", "precision", "recall", "f1")
SINGLE = ("kappa", "cost", "roc_auc", "average_precision")


def posterior(source, target):
    pair = sg.Pair(source, target)
    block = pair.target_block
    return block, run(row_posterior(pair.fitted("scot", marginal="source"), pair.target))(block)


def split(view, r):
    """Each row K times, once per possible label, weighted by its posterior."""
    n, k = r.shape
    return np.tile(np.arange(k), n), np.repeat(view.predictions, k), (r * view.row_share[:, None]).reshape(-1)


def every_number(found):
    """(number, range) of everything in the document that has a range."""
    held = found.to_dict()
    out = {("error",): (held["error"], held["range"])}
    out |= {(name,): (held[name], held[f"{name}_range"]) for name in SINGLE if held[name] is not None}
    for row in held["classes"]:
        out |= {(row["class"], name): (row[name], row[f"{name}_range"]) for name in PER_CLASS}
    for name, means in held["averages"].items():
        out |= {(name, a): (means[a], means[f"{a}_range"]) for a in ("macro", "weighted", "micro")}
    return out


def width(ends):
    return ends["high"] - ends["low"]


def two_classes():
    z, y = scores(np.random.default_rng(1), 800, k=2)
    z[::7] = z[0]  # ties
    return sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:]), y[400:]


def test_everything_agrees_with_scikit_learn(pair):
    source, target, _ = pair
    found = metrics(source, target, "scot", cost=np.arange(16).reshape(4, 4))
    view, r = posterior(source, target)
    truth, said, weight = split(view, r)
    matrix = sk.confusion_matrix(truth, said, sample_weight=weight)
    np.testing.assert_allclose(found.confusion, matrix, atol=1e-9)
    precision, recall, f1, _ = sk.precision_recall_fscore_support(truth, said, sample_weight=weight)
    np.testing.assert_allclose(found.precision, precision, atol=1e-9)
    np.testing.assert_allclose(found.recall, recall, atol=1e-9)
    np.testing.assert_allclose(found.f1, f1, atol=1e-9)
    assert found.kappa == pytest.approx(sk.cohen_kappa_score(truth, said, sample_weight=weight))
    for average in ("macro", "weighted", "micro"):
        expected = sk.precision_recall_fscore_support(truth, said, sample_weight=weight, average=average)
        for value, name in zip(expected, ("precision", "recall", "f1"), strict=False):
            assert found.averages()[name][average] == pytest.approx(value)
    assert found.cost == pytest.approx((matrix * np.arange(16).reshape(4, 4)).sum())
    assert found.error == pytest.approx(sg.estimate(source, target, method="scot").error, abs=1e-9)
    assert found.cott_error == pytest.approx(sg.estimate(source, target, method="cott").error)


def test_two_classes_have_auc_and_average_precision():
    source, target, _ = two_classes()
    found = metrics(source, target, "scot")
    view, r = posterior(source, target)
    label, score = np.tile([0, 1], 400), np.repeat(view.probs[:, 1], 2)
    weight = (r * view.row_share[:, None]).reshape(-1)
    assert found.roc_auc == pytest.approx(sk.roc_auc_score(label, score, sample_weight=weight))
    expected = sk.average_precision_score(label, score, sample_weight=weight)
    assert found.average_precision == pytest.approx(expected)


def test_estimates_come_near_the_truth(pair):
    source, target, labels = pair
    found = metrics(source, target, "scot")
    truth = sk.confusion_matrix(labels, target.predictions) / target.n
    assert np.abs(found.confusion - truth).max() < 0.02
    assert np.abs(found.recall - sk.recall_score(labels, target.predictions, average=None)).max() < 0.08


class TestRanges:
    def test_every_number_of_auto_lies_in_its_range_and_a_higher_level_is_wider(self):
        source, target, _ = two_classes()
        cost = [[0.0, 1.0], [3.0, 0.0]]
        low, high = (every_number(metrics(source, target, cost=cost, level=v)) for v in (0.8, 0.95))
        assert len(low) == 1 + 4 + 2 * 4 + 3 * 3
        for name, (value, ends) in low.items():
            assert ends["level"] == 0.8
            assert ends["low"] <= value <= ends["high"]
            assert width(ends) > 0.0
            assert high[name][0] == pytest.approx(value, abs=1e-12)
            assert width(high[name][1]) > width(ends)

    def test_the_range_of_the_error_is_that_of_estimate(self, pair):
        source, target, _ = pair
        assert metrics(source, target).range == sg.estimate(source, target).range
        assert metrics(source, target, level=0.5).range == sg.estimate(source, target, level=0.5).range

    def test_a_method_that_is_named_has_none(self, pair):
        source, target, _ = pair
        found = metrics(source, target, "scot")
        assert all(ends is None for _, ends in every_number(found).values())
        assert "no range" in found.note
        assert "no range" not in metrics(source, target).note

    def test_without_shift_they_hold_the_truth_of_most_numbers(self, pair):
        source, target, labels = pair
        found = metrics(source, target)
        precision, recall, f1, count = sk.precision_recall_fscore_support(labels, target.predictions)
        truth = {"precision": precision, "recall": recall, "f1": f1, "share": count / target.n}
        held = [
            r.low <= t <= r.high for n, v in truth.items() for r, t in zip(found.ranges[n], v, strict=True)
        ]
        assert np.mean(held) >= 0.9

    def test_a_class_of_few_rows_says_so_and_one_of_fewer_has_no_range(self, pair):
        source, target, _ = pair
        kept = np.flatnonzero(target.predictions < 2)[:300]
        few = np.concatenate([kept, np.flatnonzero(target.predictions == 2)[:20]])
        found = metrics(source, sg.Target(logits=target.scores[few]))
        held = found.to_dict()["classes"]
        assert not held[0]["few"]
        assert held[2]["few"]
        assert held[3]["precision_range"] is None  # not predicted once
        row = repr(found).split("\n  3 ")[1].split("\n  macro")[0]
        assert "[too few]" in row
        assert row.endswith("few")

    def test_lines_fit_80_columns(self, pair):
        source, target, labels = pair
        for given in (None, dict(enumerate(labels[:300]))):
            lines = repr(metrics(source, target, labels=given)).splitlines()
            assert all(len(line) <= 80 for line in lines[:8])
            assert "[90% range]" in lines[1]
            assert re.fullmatch(
                r"error [\d.]+% \(90% range [\d.]+% to [\d.]+%\) by auto, kappa [\d.]+ \([\d.]+ to [\d.]+\)",
                lines[0],
            )
            assert re.fullmatch(r"  0( +\d+% \[\d+, \d+\]){4}", lines[3])


class TestLabels:
    def test_all_labels_are_the_metrics_of_scikit_learn_without_a_width(self, pair):
        source, target, labels = pair
        said, cost = target.predictions, np.arange(16).reshape(4, 4)
        found = metrics(source, target, labels=labels, cost=cost)
        matrix = sk.confusion_matrix(labels, said) / target.n
        np.testing.assert_allclose(found.confusion, matrix, atol=1e-12)
        precision, recall, f1, count = sk.precision_recall_fscore_support(labels, said)
        for name, truth in (
            ("precision", precision),
            ("recall", recall),
            ("f1", f1),
            ("share", count / target.n),
        ):
            np.testing.assert_allclose(getattr(found, name), truth, atol=1e-9)
        assert found.kappa == pytest.approx(sk.cohen_kappa_score(labels, said))
        assert found.cost == pytest.approx((matrix * cost).sum())
        for average in ("macro", "weighted"):
            expected = sk.precision_recall_fscore_support(labels, said, average=average)[:3]
            assert [m[average] for m in found.averages().values()] == pytest.approx(expected)
        for name, (value, ends) in every_number(found).items():
            assert ends["low"] == pytest.approx(value, abs=1e-9), name
            assert ends["high"] == pytest.approx(value, abs=1e-9), name

    def test_all_labels_of_two_classes_give_the_curves(self):
        source, target, labels = two_classes()
        found = metrics(source, target, labels=labels)
        score = sg.Pair(source, target).target_block.probs[:, 1]
        assert found.roc_auc == pytest.approx(sk.roc_auc_score(labels, score))
        assert found.average_precision == pytest.approx(sk.average_precision_score(labels, score))
        for name in ("roc_auc", "average_precision"):
            (ends,) = found.ranges[name]
            assert ends.high - ends.low == pytest.approx(0.0, abs=1e-9)

    def test_the_more_labels_the_narrower(self, pair):
        source, target, labels = pair
        order = np.random.default_rng(0).permutation(target.n)
        mean = []
        for m in (0, 100, 600):
            found = every_number(
                metrics(source, target, labels={int(i): labels[i] for i in order[:m]} or None)
            )
            assert all(ends["low"] <= value <= ends["high"] for value, ends in found.values())
            mean.append(np.mean([width(ends) for _, ends in found.values()]))
        assert mean[0] > mean[1] > mean[2]

    def test_labels_correct_a_class_that_scores_have_wrong(self, pair):
        """Every second row predicted as class 0 is truly of class 1, which no score shows."""
        source, target, labels = pair
        truth = labels.copy()
        zero = np.flatnonzero(target.predictions == 0)
        truth[zero[::2]] = 1
        correct = np.mean(truth[zero] == 0)
        order = np.random.default_rng(0).permutation(target.n)[:300]
        before = metrics(source, target)
        after = metrics(source, target, labels={int(i): int(truth[i]) for i in order})
        assert abs(after.precision[0] - correct) < 0.5 * abs(before.precision[0] - correct)
        assert after.ranges["precision"][0].low <= correct <= after.ranges["precision"][0].high
        assert after.share[1] > before.share[1] + 0.03

    def test_labels_of_unknown_origin_do_not_narrow_classes(self, pair):
        source, target, labels = pair
        some = {int(i): labels[i] for i in range(200)}
        random, unknown = (
            metrics(source, target, labels=some, labels_chosen=how) for how in ("random", "unknown")
        )
        for name in ("precision", "recall", "f1"):
            for a, b in zip(random.ranges[name], unknown.ranges[name], strict=True):
                assert b.high - b.low > a.high - a.low
        own = np.diag(unknown.confusion) / unknown.confusion.sum(axis=0)
        np.testing.assert_allclose(unknown.precision, own)  # nor do they stand for the other rows of a class
        assert (
            np.abs(random.precision - np.diag(random.confusion) / random.confusion.sum(axis=0)).max() > 1e-3
        )

    def test_blocks_give_what_memory_gives(self, pair):
        source, target, labels = pair
        some = {int(i): int(labels[i]) for i in range(0, target.n, 7)}
        by = np.arange(target.n) % 3
        blocks = Rows.of(target, block_rows=97).in_passes()
        whole, parts = (every_number(metrics(source, t, labels=some)) for t in (target, blocks))
        for name, (value, ends) in whole.items():
            assert parts[name][0] == pytest.approx(value, abs=1e-8), name
            assert parts[name][1]["low"] == pytest.approx(ends["low"], abs=1e-7), name
            assert parts[name][1]["high"] == pytest.approx(ends["high"], abs=1e-7), name
        whole, parts = (sg.slices(source, t, by, labels=some).slices for t in (target, blocks))
        for a, b in zip(whole, parts, strict=True):
            assert (b.error, b.low, b.high) == pytest.approx((a.error, a.low, a.high), abs=1e-7)

    def test_they_are_refused_with_a_named_method(self, pair):
        source, target, labels = pair
        with pytest.raises(InputError, match="labels combine with auto alone"):
            metrics(source, target, "scot", labels={0: labels[0]})


def test_a_cost_of_another_shape_is_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match=r"\(4, 4\)"):
        metrics(source, target, cost=[[0, 1], [1, 0]])


def test_a_cost_that_is_not_a_number_is_named(pair):
    source, target, _ = pair
    cost = 1.0 - np.eye(4)
    cost[2, 3] = np.nan
    with pytest.raises(InputError, match="row 2, column 3 is nan"):
        metrics(source, target, cost=cost)


def test_warnings_are_those_of_the_estimates():
    """A class without source labels, and COTT's threshold, which two rows without errors do not tell."""
    rng = np.random.default_rng(2)
    z, _ = scores(rng, 300)
    source, target = sg.Source(logits=z[:2], labels=z[:2].argmax(1)), sg.Target(logits=z[2:])
    found = metrics(source, target, "scot")
    scot, cott = (sg.estimate(source, target, method=name).warnings for name in ("scot", "cott"))
    assert any("no source label is" in warning for warning in found.warnings)
    assert found.warnings[: len(scot)] == scot
    assert set(found.warnings[len(scot) :]) == {f"COTT: {w}" for w in set(cott) - set(scot)}
    assert found.to_dict()["warnings"] == list(found.warnings)
    assert f"! {found.warnings[0]}" in " ".join(repr(found).split())


def test_warnings_are_none_where_there_is_nothing_to_warn_of(pair):
    assert metrics(*pair[:2]).warnings == ()
