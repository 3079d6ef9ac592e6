"""Two files that meet: decisions under other names, thresholds and classes in other orders and spellings."""

import numpy as np
import pyarrow as pa
import pytest

import shiftgauge as sg
from shiftgauge.errors import FileError, InputError

FRAUD = np.random.default_rng(0).uniform(size=400)
DECIDED = np.where(FRAUD >= 0.9, "fraud", "ok")


def table(path, first="ok", second="fraud", write_csv=None, **more):
    p = {"ok": (1 - FRAUD).tolist(), "fraud": FRAUD.tolist()}
    return write_csv(path, {f"prob_{first}": p[first], f"prob_{second}": p[second], **more})


@pytest.fixture
def csv(tmp_path, write_csv):
    return lambda name, *classes, **more: table(tmp_path / name, *classes, write_csv=write_csv, **more)


LABEL = np.where(np.random.default_rng(1).uniform(size=400) < FRAUD, "fraud", "ok")


@pytest.mark.parametrize(
    "name", ["predictions", "Prediction", "predicted", "pred", "y_pred", "Decision", "predicted class"]
)
def test_decisions_under_another_name_are_not_passed_over(csv, name):
    path = csv("s.csv", label=LABEL, **{name: DECIDED})
    with pytest.raises(
        FileError, match=f"does the column '{name}' hold the deployed decisions.*--prediction-column {name}"
    ):
        sg.read_source(path)
    with pytest.raises(FileError, match="hold the deployed decisions"):
        sg.scan(path)
    assert sg.read_source(path, prediction=name).error == np.mean(DECIDED != LABEL)
    assert sg.read_source(path, prediction=None).error == np.mean((FRAUD > 0.5) != (LABEL == "fraud"))
    assert sg.read_source(path, threshold=0.9).error == np.mean(DECIDED != LABEL)


def test_a_frame_s_decisions_are_read_as_a_table_s_are():
    held = {"prob_ok": 1 - FRAUD, "prob_fraud": FRAUD, "label": LABEL}
    frame = pa.table({**held, "prediction": DECIDED})
    assert sg.from_dataframe(frame, labels="label").source().error == np.mean(DECIDED != LABEL)
    plain = sg.from_dataframe(frame, labels="label", predictions=None).source()
    assert plain.error == np.mean((FRAUD > 0.5) != (LABEL == "fraud"))
    other = pa.table({**held, "pred": DECIDED})
    with pytest.raises(FileError, match=r"'pred' hold the deployed decisions.*\(predictions='pred'\)"):
        sg.from_dataframe(other, labels="label")
    assert sg.from_dataframe(other, labels="label", predictions="pred").source().error == np.mean(
        DECIDED != LABEL
    )


def test_a_threshold_is_about_the_source_s_second_class(csv):
    """Whatever the order of the target's columns; where nobody knows the source yet, the class must be named."""
    source = sg.read_source(csv("s.csv", label=LABEL), threshold=0.9)
    same, turned = csv("t.csv"), csv("u.csv", "fraud", "ok")
    truth = sg.estimate(source, sg.read_target(same, like=source, threshold=0.9), "ac").error
    assert sg.estimate(source, sg.read_target(turned, like=source, threshold=0.9), "ac").error == truth
    for target in (sg.read_target(turned, threshold=0.9), sg.scan(turned, threshold=0.9)):
        with pytest.raises(InputError, match=r"it is about 'ok', .*threshold=\{'fraud': \.\.\.\}"):
            sg.estimate(source, target, "ac")
    for target in (
        sg.read_target(turned, threshold={"fraud": 0.9}),
        sg.scan(turned, threshold={"fraud": 0.9}),
    ):
        assert sg.estimate(source, target, "ac").error == pytest.approx(truth, abs=1e-12)
    assert sg.estimate(source, sg.scan(same, threshold=0.9), "ac").error == pytest.approx(truth, abs=1e-12)


def test_names_that_are_numbers_meet_however_they_are_stored(tmp_path, write_csv):
    p = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    labels = np.arange(90) % 3
    columns = {f"prob_{j}": p[:, j].tolist() for j in range(3)}
    text = sg.read_source(write_csv(tmp_path / "s.csv", {**columns, "label": labels}))
    whole = sg.estimate(text, sg.read_target(write_csv(tmp_path / "t.csv", columns)), "scot").error
    for names in ([0, 1, 2], [0.0, 1.0, 2.0], ["0", "1", "2"]):
        found = sg.estimate(text, sg.Target(probs=p, classes=names), "scot")
        assert found.error == whole
        turned = sg.Target(probs=p[:, ::-1], classes=names[::-1])
        assert sg.estimate(text, turned, "scot").error == pytest.approx(whole, abs=1e-12)
        back = sg.estimate(
            sg.Source(probs=p, labels=labels, classes=[0, 1, 2]), sg.Target(probs=p, classes=names), "scot"
        )
        assert back.error == whole
    with pytest.raises(InputError, match="no column for the source's class '2'"):
        sg.estimate(text, sg.Target(probs=p, classes=[0, 1, 3]), "ac")


@pytest.mark.parametrize("threshold", [{"1": 0.9}, {1: 0.9}, {1.0: 0.9}])
def test_a_threshold_names_a_class_as_it_is_written(threshold):
    p = np.column_stack([1 - FRAUD, FRAUD])
    for classes in (None, [0, 1], ["0", "1"]):
        found = sg.Target(probs=p, classes=classes, threshold=threshold)
        np.testing.assert_array_equal(found.predictions, FRAUD >= 0.9)
    with pytest.raises(InputError, match="wanted one of the two classes, 0 or 1"):
        sg.Target(probs=p, threshold={"2": 0.9})


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (("0", "1", "2"), ["2.0", "0.0", "1.00"]),
        ((0, 1, 2), ["2.0", "0", "1.0"]),
        (("false", "true"), ["True", "FALSE"]),
        (("0", "1"), ["True", "False"]),
    ],
)
def test_labels_in_text_are_what_they_were_before_they_were_written(classes, labels):
    k = len(classes)
    wanted = [2, 0, 1] if k == 3 else [1, 0]
    source = sg.Source(probs=np.full((k, k), 1 / k), labels=labels, classes=classes)
    assert source.labels.tolist() == wanted


@pytest.mark.parametrize("label", ["01", "1.10", "1.5", "yes", "2.0.0"])
def test_other_texts_stay_to_the_letter(label):
    with pytest.raises(InputError, match=f"row 0 is '{label}', which is not a class"):
        sg.Source(probs=np.full((1, 2), 0.5), labels=[label], classes=["1", "1.1"])


def test_shares_by_names_as_they_are_written(tmp_path, write_csv):
    p = np.random.default_rng(0).dirichlet(np.ones(2), 50)
    source, target = sg.Source(probs=p, labels=np.arange(50) % 2, classes=["0", "1"]), sg.Target(probs=p)
    wanted = sg.estimate(source, target, "cot", marginal={"0": 0.25, "1": 0.75}).error
    assert sg.estimate(source, target, "cot", marginal={1: 0.75, 0: 0.25}).error == wanted
    path = write_csv(tmp_path / "m.csv", {"class": ["1.0", "0.0"], "mass": [0.75, 0.25]})
    found = sg.io.read_marginal(path, source.classes, 2)
    assert found.tolist() == [0.25, 0.75]
    with pytest.raises(InputError, match="'2' is not a class"):
        sg.estimate(source, target, "cot", marginal={"0": 0.25, "2": 0.75})


@pytest.mark.parametrize(("k", "decimals"), [(3, 2), (20, 2), (100, 3)])
def test_rounded_probabilities_are_no_logits(k, decimals):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k), 300).round(decimals)
    assert np.abs(p.sum(axis=1) - 1).max() > 1e-4
    with pytest.raises(InputError, match="as probabilities do"):
        sg.Target(p)
    assert sg.Target(p, insist=True).kind == "logits"
    assert sg.Target(np.abs(rng.normal(size=(300, k))).round(decimals)).kind == "logits"
