"""Blocks and Rows: derived columns against their formulas, and the same answers in memory and in passes."""

import cloudpickle
import numpy as np
import pytest
from engines import samples

import shiftgauge as sg
from shiftgauge.calibration import fit_calibration
from shiftgauge.errors import FileError, InputError
from shiftgauge.rows import ArrayPart, Block, Rows, gather, run, subsample_step, to_source


def probabilities(n=400, k=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.6), n)


def block(**more):
    return Block(probabilities(), **more)


def test_a_block_derives_what_the_formulas_say():
    p = probabilities()
    rows = block()
    np.testing.assert_array_equal(rows.predictions, p.argmax(axis=1))
    np.testing.assert_array_equal(rows.confidence, p.max(axis=1))
    np.testing.assert_array_equal(rows.runner_up, np.argsort(p, axis=1)[:, -2])
    np.testing.assert_allclose(rows.entropy, -(p * np.log(p)).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(rows.log_probs, np.log(p), rtol=1e-12)
    assert rows.mass.tolist() == [1.0] * 400
    assert rows.numbers.tolist() == list(range(400))
    assert rows.zeros is None
    posterior = probabilities(seed=1)
    np.testing.assert_allclose(
        rows.error_probability(posterior), 1.0 - posterior[np.arange(400), p.argmax(axis=1)], rtol=1e-12
    )


def test_decisions_come_before_the_largest_score():
    decisions = np.random.default_rng(1).integers(0, 4, 400)
    rows = block(decisions=decisions)
    np.testing.assert_array_equal(rows.predictions, decisions)
    np.testing.assert_array_equal(rows.confidence, probabilities()[np.arange(400), decisions])


def test_ties_for_the_runner_up_are_the_prediction():
    rows = Block(np.array([[0.5, 0.25, 0.25], [0.5, 0.3, 0.2]]))
    assert rows.runner_up.tolist() == [0, 1]


def test_zeros_are_those_of_given_probabilities():
    scores = np.array([[0.0, 1.0], [0.5, 0.5]])
    assert Block(scores).zeros.tolist() == [[True, False], [False, False]]
    assert Block(scores, kind="logits").zeros is None


@pytest.mark.parametrize("rows", [slice(10, 30), np.array([3, 399, 7]), np.arange(400) % 3 == 0])
def test_taking_rows_takes_all_that_belongs_to_them(rows):
    whole = block(
        decisions=np.arange(400) % 4,
        weights=np.linspace(1, 2, 400),
        ids=np.arange(400) + 7,
        labels=np.arange(400) % 3,
        columns={"site": np.array(["a", "b"])[np.arange(400) % 2]},
    )
    whole.probs  # noqa: B018 (what was computed is taken along)
    some = whole.take(rows)
    for name in ("scores", "decisions", "weights", "ids", "labels", "probs", "predictions", "confidence"):
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[rows])
    np.testing.assert_array_equal(some.columns["site"], whole.columns["site"][rows])


def test_classes_in_another_order():
    whole = block(decisions=np.arange(400) % 4, second=np.arange(400) % 3)
    turned = whole.in_class_order(np.array([2, 0, 3, 1]))
    np.testing.assert_array_equal(turned.scores, whole.scores[:, [2, 0, 3, 1]])
    np.testing.assert_array_equal(turned.confidence, whole.confidence)


def source_and_target(n=900):
    rng = np.random.default_rng(3)
    z = 2.0 * rng.normal(size=(n + 300, 3))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)[:300]
    return sg.Source(logits=z[:300], labels=labels), z[300:]


def calibrated_rows(cuts=None, size=101):
    """The same calibrated rows: in memory if there are no cuts, else in parts that are read in passes."""
    source, logits = source_and_target()
    if cuts is None:
        rows = Rows.of(sg.Target(logits=logits), size)
    else:
        rows = Rows(samples.parts_of({"scores": logits}, cuts, size), "logits", 3)
    return rows.calibrated(fit_calibration("temperature", source))


@pytest.mark.parametrize("cuts", [[], [450], [1, 2, 899], [300, 300, 300]])
def test_rows_in_passes_are_the_rows_in_memory(cuts):
    held, read = calibrated_rows(), calibrated_rows(cuts)

    async def everything(rows):
        return await gather(
            rows.mean(lambda b: b.confidence),
            rows.share(lambda b: b.confidence > 0.5),
            rows.shares(lambda b: b.predictions, 3),
            rows.column(lambda b: b.entropy),
            rows.moments(),
        )

    mean, share, shares, column, moments = run(everything(held))
    found = run(everything(read))
    assert found[0] == pytest.approx(mean, abs=1e-13)
    assert found[1] == share
    np.testing.assert_array_equal(found[2], shares)
    np.testing.assert_array_equal(found[3], column)
    np.testing.assert_allclose(found[4].mean_posterior, moments.mean_posterior, atol=1e-13)
    assert read.passes == 1


def test_a_subsample_is_the_same_however_rows_are_cut(monkeypatch):
    monkeypatch.setattr("shiftgauge.rows.subsample.WHOLE_ENTRIES", 300)
    monkeypatch.setattr("shiftgauge.rows.subsample.WIDE_ENTRIES", 300)
    monkeypatch.setattr("shiftgauge.rows.subsample.SUBSAMPLE_ENTRIES", 600)
    drawn = [run(rows.subsample()) for rows in (calibrated_rows(), calibrated_rows([7, 500], 33))]
    one, other = (run(rows.collect()) for rows in drawn)
    assert one.n == 900 // subsample_step(900, 3) == 180
    np.testing.assert_array_equal(one.numbers, other.numbers)
    np.testing.assert_array_equal(one.probs, other.probs)
    assert (np.diff(one.numbers) > 0).all()


def test_few_rows_in_memory_are_their_own_subsample():
    rows = calibrated_rows()
    assert run(rows.subsample()) is rows


def test_collecting_too_many_rows_is_refused_in_one_line(monkeypatch):
    rows = calibrated_rows([400])
    assert run(rows.collect()).n == 900
    monkeypatch.setattr("shiftgauge.rows.subsample.WHOLE_ENTRIES", 300)
    monkeypatch.setattr("shiftgauge.rows.subsample.WIDE_ENTRIES", 300)
    with pytest.raises(InputError, match="the target has 900 rows that are read in passes"):
        run(calibrated_rows([400]).collect())


def test_rows_that_change_between_two_passes_are_noticed():
    _, logits = source_and_target()
    parts = samples.parts_of({"scores": logits.copy()}, [300], 64)
    rows = Rows(parts, "logits", 3)
    run(rows.fold(len))
    parts[1].arrays["scores"][5, 0] += 1e-9
    with pytest.raises(FileError, match="part 1: changed between two passes"):
        run(rows.fold(len))


def test_the_fingerprint_is_that_of_the_rows():
    one, other = calibrated_rows([300]), calibrated_rows([300], 7)
    assert calibrated_rows([300]).fingerprint == one.fingerprint
    assert one.fingerprint != other.fingerprint  # other blocks: the digests are by block


def test_only_a_source_or_labelled_rows_are_a_source():
    source, logits = source_and_target()
    assert to_source(source, "estimate") is source
    with pytest.raises(InputError, match=r"estimate: arrived ndarray; wanted shiftgauge\.Source"):
        to_source(logits, "estimate")
    with pytest.raises(FileError, match="the source needs labels"):
        to_source(Rows([ArrayPart(Block(logits, kind="logits"))], "logits", 3), "estimate")


class Sent:
    """An engine that sends every task through cloudpickle, as a cluster does, and counts the bytes."""

    def __init__(self):
        self.bytes = 0

    def reduce(self, task, parts, starts, done):
        total = None
        for part, start in zip(parts, starts, strict=True):
            stored = cloudpickle.dumps(task)
            self.bytes = max(self.bytes, len(stored))
            here = cloudpickle.loads(stored)(part, start)
            total = here if total is None else total + here
            done(part.rows)
        return total


@pytest.mark.parametrize("method", list(sg.methods.METHODS))
def test_every_step_of_a_method_can_be_sent_to_a_worker(method):
    """With the answer of threads, and without dragging rows along."""
    source, logits = source_and_target()
    held = {"scores": logits, "second": np.random.default_rng(5).integers(0, 3, len(logits))}

    def rows(engine=None):
        return Rows(samples.parts_of(held, [300, 600], 128), "logits", 3, second=True, engine=engine)

    engine = Sent()
    found = sg.estimate(source, rows(engine), method)
    assert found.error == sg.estimate(source, rows(), method).error
    assert 0 < engine.bytes < 60_000
