"""What the door accepts: rounded probabilities, every spelling of labels, every make of tensor, borrowed memory."""

from decimal import Decimal

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.samples import meeting_notes

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
NAMES = ["cat", "dog", "eel"]


@pytest.mark.parametrize("decimals", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rounded_probabilities_are_accepted_and_said(decimals, dtype):
    probs = np.random.default_rng(0).dirichlet(np.ones(10), 500).round(decimals).astype(dtype)
    target = sg.Target(probs=probs)
    assert target.correction == pytest.approx(np.abs(probs.sum(1, dtype=float) - 1).max())
    if target.correction > {"f4": 1e-4, "f8": 1e-6}[dtype]:
        assert f"rounded to {decimals} decimals" in target.notes[0]


def test_what_rounding_does_not_explain_is_refused():
    probs = np.random.default_rng(0).dirichlet(np.ones(10), 500).round(3)
    probs[77, 0] += 0.02
    with pytest.raises(sg.InputError, match="row 77 sums to"):
        sg.Target(probs=probs)
    full = np.random.default_rng(0).dirichlet(np.ones(10), 500)
    full[3] *= 1.0001  # full precision: nothing to do with rounding
    with pytest.raises(sg.InputError, match="row 3 sums to"):
        sg.Target(probs=full)
    with pytest.raises(sg.InputError, match="sums to"):  # a tolerance that is named is kept
        sg.Target(probs=[[0.333, 0.333, 0.333]], tolerance=1e-4)


def test_probabilities_as_logits_need_insistence():
    with pytest.raises(sg.InputError, match="as probabilities do"):
        sg.Source(P, [0, 1, 2])
    assert sg.Source(P, [0, 1, 2], insist=True).kind == "logits"
    assert sg.Target(np.vstack([P, [1.0, 2.0, 0.5]])).n == 4  # one row that is none is enough


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 2, 1], NAMES),
        (np.array([0.0, 2.0, 1.0]), NAMES),
        ([10, 30, 20], [10, 20, 30]),
        ([10.0, 30.0, 20.0], [10, 20, 30]),
        ([0, 2, 1], ["0", "1", "2"]),
        ([0.0, 2.0, 1.0], ["0", "1", "2"]),
        (["0", "2", "1"], [0, 1, 2]),
        (np.array(["cat", "eel", "dog"], dtype=object), NAMES),
        (np.array([b"cat", b"eel", b"dog"]), NAMES),
        (np.array([0, 2, 1], dtype=object), None),
        ([Decimal(0), Decimal("2.0"), Decimal(1)], None),
        ([Decimal(10), Decimal(30), Decimal(20)], [10, 20, 30]),
    ],
)
def test_labels_in_every_spelling(labels, classes):
    assert sg.Source(probs=P, labels=labels, classes=classes).labels.tolist() == [0, 2, 1]


def test_labels_of_pandas():
    pandas = pytest.importorskip("pandas")
    for labels in (
        pandas.Series([0, 2, 1], dtype="Int64"),
        pandas.Series(["cat", "eel", "dog"], dtype="category"),
        pandas.Categorical([0, 2, 1]),
    ):
        assert sg.Source(probs=P, labels=labels, classes=NAMES).labels.tolist() == [0, 2, 1]
    truth = pandas.Series([True, False, True], dtype="boolean")
    for classes in (None, ["False", "True"], ["false", "true"], ["0", "1"], [False, True]):
        source = sg.Source(probs=[[0.5, 0.5]] * 3, labels=truth, classes=classes)
        assert source.labels.tolist() == [1, 0, 1]
    frame = pandas.DataFrame(P).astype("Float64")
    assert sg.Target(probs=frame).predictions.tolist() == [0, 1, 2]
    frame.iloc[1, 1] = None
    with pytest.raises(sg.InputError, match="row 1, column 1 is nan"):
        sg.Target(probs=frame)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 2")
def test_labels_of_numpys_own_strings():
    labels = np.array(["cat", "eel", "dog"], dtype=np.dtypes.StringDType())
    assert sg.Source(probs=P, labels=labels, classes=NAMES).labels.tolist() == [0, 2, 1]


def test_unlabelled_rows_are_dropped_only_when_asked():
    labels = ["cat", None, "eel"]
    with pytest.raises(sg.InputError, match=r"row 1 is missing; .*--drop-unlabelled"):
        sg.Source(probs=P, labels=labels, classes=NAMES)
    options = {"weights": [1.0, 2.0, 4.0], "ids": ["a", "b", "c"], "predictions": ["dog", "cat", "eel"]}
    source = sg.Source(probs=P, labels=labels, classes=NAMES, drop_unlabelled=True, **options)
    assert source.notes == ("1 of 3 source rows have no label and were dropped",)
    assert (source.kept.tolist(), source.ids.tolist(), source.labels.tolist()) == ([0, 2], ["a", "c"], [0, 2])
    assert source.error == pytest.approx(0.2)
    with pytest.raises(sg.InputError, match="all 3 rows are unlabelled"):
        sg.Source(probs=P, labels=[np.nan] * 3, drop_unlabelled=True)


def torch_tensors():
    torch = pytest.importorskip("torch")
    p = torch.tensor(P, dtype=torch.float32)
    yield "sparse", p.to_sparse()
    yield "csr", p.to_sparse_csr()
    yield "quantized", torch.quantize_per_tensor(p, 1 / 256, 0, torch.quint8)
    yield "bfloat16", p.bfloat16()
    yield "float8", p.to(torch.float8_e4m3fn)
    yield "negative view", torch._neg_view(-p)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_every_make():
    for name, tensor in torch_tensors():
        target = sg.Target(probs=tensor)
        assert target.predictions.tolist() == [0, 1, 2], name
        np.testing.assert_allclose(target.scores, P, atol=0.03, err_msg=name)


@pytest.mark.torch
def test_a_tensor_without_numbers_is_refused_in_one_line():
    torch = pytest.importorskip("torch")
    with pytest.raises(sg.InputError, match="cannot be read as an array"):
        sg.Target(probs=torch.empty((3, 2), device="meta"))


def test_sparse_matrices_of_scipy():
    from scipy import sparse

    assert sg.Target(probs=sparse.csr_matrix(P)).predictions.tolist() == [0, 1, 2]


@pytest.mark.parametrize("second", [0.0, 0.7])
def test_one_column_of_two_classes_says_what_to_pass(second):
    with pytest.raises(sg.InputError, match=r"two classes pass both columns, e\.g\. numpy\.column_stack"):
        sg.Target(probs=[[0.6], [second]])


def test_a_small_buffer_may_be_reused():
    buffer = P.copy()
    target = sg.Target(probs=buffer)
    buffer[:] = P[::-1]
    assert np.array_equal(target.scores, P)


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_a_threshold_for_two_classes(kind):
    p = np.array([0.2, 0.6, 0.89, 0.9, 0.97])
    probs = np.column_stack([1 - p, p])
    scores = {kind: probs if kind == "probs" else np.log(probs) + 3.0}
    names = {"classes": ["fine", "fraud"]}
    want = ["fine", "fine", "fine", "fraud", "fraud"]
    for threshold in (0.9 - 1e-12, {"fraud": 0.9 - 1e-12}):
        source = sg.Source(labels=want, threshold=threshold, **scores, **names)
        assert source.error == 0.0
        assert source.decided == pytest.approx(2 / 5)
    turned = sg.Target(
        **{kind: scores[kind][:, ::-1]}, classes=["fraud", "fine"], threshold={"fraud": 0.9 - 1e-12}
    )
    assert [turned.class_name(j) for j in turned.predictions] == want
    assert sg.Target(**scores, threshold={0: 0.5}).predictions.tolist() == [0, 1, 1, 1, 1]


def test_what_should_be_said_where_source_and_target_meet():
    plain, decided = sg.Target(probs=P), sg.Target(probs=P, predictions=[0, 1, 1])
    source = sg.Source(probs=P, labels=[0, 1, 2])
    assert meeting_notes(source, plain) == ()
    said = meeting_notes(source, decided)
    assert "33.3% of the target's rows" in said[0]
    assert "came with the target only" in said[1]
    both = meeting_notes(sg.Source(probs=P, labels=[0, 1, 2], predictions=[2, 1, 2]), decided)
    assert len(both) == 2
    assert not any("only" in note for note in both)
    agreeing = sg.Target(probs=P, predictions=[0, 1, 2])
    assert (agreeing.decided, meeting_notes(source, agreeing)) == (0.0, ())


def test_a_missing_class_is_named_before_numbers_are_compared():
    source = sg.Source(probs=P, labels=NAMES, classes=NAMES)
    with pytest.raises(sg.InputError, match="no column for the source's class 'eel'"):
        sg.estimate(source, sg.Target(probs=[[0.5, 0.5]], classes=["cat", "dog"]))
    with pytest.raises(sg.InputError, match="class 'fox' is not among them"):
        sg.estimate(source, sg.Target(probs=[[0.25] * 4], classes=[*NAMES, "fox"]))


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [2, 5])
def test_few_rows_that_weigh_anything(rows, k):
    rng = np.random.default_rng(rows)
    labels = rng.integers(0, k, 60)
    logits = rng.normal(size=(60, k)) + 2 * np.eye(k)[labels]
    source = sg.Source(logits, labels, weights=np.arange(60) < rows)
    assert 0 <= sg.estimate(source, sg.Target(logits), method="auto").error <= 1
    sg.shift_test(source, sg.Target(logits))


def test_a_weight_beside_which_all_others_vanish():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    logits = rng.normal(size=(60, 3)) + 2 * np.eye(3)[labels]
    weights = np.r_[1e300, np.ones(59)]
    source = sg.Source(logits, labels, weights=weights)
    assert source.notes == ("59 weights of the source below 1e-100 of the largest are treated as zero",)
    alone = sg.Source(logits, labels, weights=np.arange(60) < 1)
    for method in ("auto", "scot"):
        found = [sg.estimate(s, sg.Target(logits), method=method).error for s in (source, alone)]
        assert found[0] == found[1]


def test_some_of_the_rows():
    sample = sg.Target(probs=P, weights=[1, 2, 3], ids=["a", "b", "c"], second=[0, 1, 2], classes=NAMES)
    part = sample.take(np.array([2, 0]))
    assert (part.n, part.ids.tolist(), part.second.tolist()) == (2, ["c", "a"], [2, 0])
    assert np.array_equal(part.scores, P[[2, 0]])
