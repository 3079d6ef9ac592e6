"""A target answers the same whatever its size: in memory, in passes, with few or many rows."""

import numpy as np
import pyarrow as pa
import pytest

import shiftgauge as sg
from shiftgauge.methods.checks import CHECKS

#: More rows than this of ten classes are read in passes even where they are in memory.
MANY = 430_000


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 400)
    logits = rng.normal(size=(400, 10)) + 3.0 * np.eye(10)[labels]
    large = np.tile(rng.normal(size=(1000, 10)).astype(np.float32), (MANY // 1000, 1))
    return sg.Source(logits, labels), sg.Target(large)


def test_slices_of_many_rows_by_an_array(many):
    found = sg.slices(*many, np.arange(MANY) % 2, method="ac", replicates=20)
    assert [(one.name, one.rows) for one in found.slices] == [("0", MANY // 2), ("1", MANY // 2)]


def test_an_interval_of_many_rows_in_groups(many):
    found = sg.interval(*many, "ac", groups=np.arange(MANY) // 1000, replicates=20)
    assert found.interval.low <= found.error <= found.interval.high


def test_a_label_budget_for_many_rows(many):
    assert len(sg.label_plan(*many, n=30).rows) == 30


class MeanUncertainty(sg.methods.Estimator):
    """A method of somebody else, written as the guide says."""

    name, title, meaning = "mean-uncertainty", "Mean uncertainty", "one minus the mean confidence"

    def row_error(self, rows):
        return 1.0 - rows.confidence


def test_a_method_of_somebody_else_reads_many_rows(many):
    source, target = many
    few = MeanUncertainty(calibration="none").fit(source).estimate(sg.Target(target.scores[:1000]))
    found = MeanUncertainty(calibration="none").fit(source).estimate(target)
    assert found.error == pytest.approx(few.error, abs=1e-9)


def test_a_method_of_somebody_else_passes_the_published_checks():
    for check in CHECKS:
        check(MeanUncertainty)


def test_label_shift_of_many_rows_with_a_class_that_nobody_expects():
    """Column 9 is zero in every row of the source and of the target."""
    rng = np.random.default_rng(1)
    probs = np.column_stack([rng.dirichlet(np.full(9, 0.5), 1500), np.zeros(1500)])
    labels = np.array([rng.choice(10, p=row) for row in probs[:500]])
    source = sg.Source(probs=probs[:500], labels=labels)
    few = sg.estimate(source, sg.Target(probs=probs[500:]), "label-shift", calibration="none")
    large = sg.Target(probs=np.tile(probs[500:], (MANY // 1000, 1)))
    found = sg.estimate(source, large, "label-shift", calibration="none")
    assert found.error == pytest.approx(few.error, abs=1e-9)


def table(probs, **columns):
    return pa.table({f"prob_{j}": column for j, column in enumerate(probs.T)} | columns)


def test_scot_of_a_scan_with_a_class_that_the_source_has_not():
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.ones(4), 700)
    source = sg.Source(probs=probs[:300], labels=rng.integers(0, 3, 300))
    whole = sg.estimate(source, sg.Target(probs=probs[300:]), "scot")
    found = sg.estimate(source, sg.scan(table(probs[300:])), "scot")
    assert found.error == pytest.approx(whole.error, abs=1e-9)


def test_scot_of_a_scan_where_every_other_row_weighs_nothing():
    """The search begins with every other row, which has no mass at all here."""
    rng = np.random.default_rng(3)
    probs = np.tile(rng.dirichlet(np.ones(10), 1000), (110, 1))
    weight = np.tile([0.0, 1.0], len(probs) // 2)
    source = sg.Source(probs=probs[:300], labels=rng.integers(0, 10, 300))
    whole = sg.estimate(source, sg.Target(probs=probs[1:1000:2]), "scot")
    found = sg.estimate(source, sg.scan(table(probs, weight=weight), weight="weight"), "scot")
    assert found.error == pytest.approx(whole.error, abs=1e-9)


def test_batches_that_come_in_another_order_in_the_second_pass_are_noticed():
    """Of 256 classes 2,048 rows are read at once."""
    rng = np.random.default_rng(4)
    probs = rng.dirichlet(np.ones(256), 4096)
    batches = [table(part) for part in np.split(probs, 2)]
    source = sg.Source(probs=probs[:300], labels=rng.integers(0, 256, 300))
    scan = sg.scan(lambda: iter(batches))
    sg.estimate(source, scan, "ac")
    batches.reverse()
    with pytest.raises(sg.FileError, match="changed between two passes"):
        sg.estimate(source, scan, "ac")
