"""Source and Target: forms of input, names, weights, immutability."""

import dataclasses
import json
import pickle

import numpy as np
import pytest

import shiftgauge as sg

HEAD = '{"format": "shiftgauge-estimator", '
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])


def test_lists_arrays_and_precisions_agree():
    expected = sg.Target(probs=P).predictions
    for probs in (P.tolist(), P.astype("f2"), P.astype("f4"), P.astype(np.longdouble), np.asfortranarray(P)):
        assert (sg.Target(probs=probs).predictions == expected).all()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    probs = torch.tensor(P, dtype=getattr(torch, dtype), requires_grad=True)
    source = sg.Source(probs=probs, labels=torch.tensor([0, 1, 2]))
    assert source.error == 0.0
    assert sg.estimate(
        source, sg.Target(probs=probs), method="ac", calibration="none"
    ).error == pytest.approx(1.3 / 3, abs=0.01)


def test_names_are_matched_in_any_order():
    names = ["cat", "dog", "eel"]
    source = sg.Source(probs=P, labels=["cat", "dog", "cat"], classes=names)
    assert source.labels.tolist() == [0, 1, 0]
    straight = sg.Target(probs=P, classes=names, second=["cat", "eel", "eel"])
    turned = sg.Target(probs=P[:, [2, 0, 1]], classes=["eel", "cat", "dog"], second=["cat", "eel", "eel"])
    one, two = sg.compare(source, straight), sg.compare(source, turned)
    assert [e.to_dict() for e in one] == [e.to_dict() for e in two]
    assert one["gde"].error == pytest.approx(1 / 3)


def test_names_may_be_numbers():
    source = sg.Source(probs=P, labels=[30, 10, 20], classes=[10, 20, 30])
    assert source.labels.tolist() == [2, 0, 1]


def test_a_nameless_target_is_taken_in_order_and_said():
    source = sg.Source(probs=P, labels=["a", "b", "c"], classes=["a", "b", "c"])
    assert any("no names" in w for w in sg.estimate(source, sg.Target(probs=P), method="ac").warnings)


def test_classes_come_from_the_columns():
    assert sg.Source(probs=P, labels=[0, 0, 0]).k == 3
    assert sg.Source(probs=P, labels=[0, 0, 0]).label_marginal.tolist() == [1.0, 0.0, 0.0]


def test_weights_are_masses():
    source = sg.Source(probs=P, labels=[1, 1, 1], weights=[2, 1, 1])
    assert source.error == pytest.approx(0.75)
    assert source.n_effective == pytest.approx(16 / 6)


def test_frozen():
    target = sg.Target(probs=P)
    with pytest.raises(ValueError, match="read-only"):
        target.scores[0, 0] = 0.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.kind = "logits"


def test_memory_maps_stay_maps(tmp_path):
    np.save(tmp_path / "p.npy", P)
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    assert isinstance(sg.Target(probs=mapped).scores.base, np.memmap | np.ndarray)
    assert sg.Target(probs=mapped).predictions.tolist() == [0, 1, 2]


def test_samples_survive_pickling():
    source = pickle.loads(pickle.dumps(sg.Source(probs=P, labels=[0, 1, 0])))
    assert source.error == pytest.approx(1 / 3)
    assert repr(source) == "Source(probs, 3 rows x 3 classes)"


def test_results_speak(source, target, scores):
    comparison = sg.compare(source, target, ["cott", "entropy"], truth=scores["truth"])
    assert comparison.true_error == pytest.approx(np.mean(scores["shifted"].argmax(1) != scores["truth"]))
    cott, entropy = comparison
    assert cott.accuracy == pytest.approx(1 - cott.error)
    assert repr(cott).startswith(f"cott: error {100 * cott.error:.1f}% (600 source rows, 800 target rows)")
    assert "score" in repr(entropy)
    assert comparison["cott"] is cott
    assert json.loads(comparison.to_json()) == comparison.to_dict()
    assert "<table>" in comparison._repr_html_()
    assert "cott" in cott._repr_html_()
    with pytest.raises(dataclasses.FrozenInstanceError):
        cott.error = 0.0


def test_numbers_of_a_table_stand_to_the_right(source, target, scores):
    """Whatever a notebook's own style does to cells: "9.7%" stands under "10.8%", words begin where words begin."""
    page = sg.compare(source, target, ["cott", "entropy"], truth=scores["truth"])._repr_html_()
    assert page.count('<td style="text-align: right">') == 2  # two misses, one of them empty
    assert '<td style="text-align: left">cott</td>' in page
    assert '<th style="text-align: right">miss, points</th>' in page


def test_html_is_escaped():
    estimate = sg.Estimate("ac", 0.1, 1, 1, warnings=("<script>",))
    assert "<script>" not in estimate._repr_html_()


def test_compare_takes_every_method_the_evidence_allows(source, target, scores):
    names = [e.method for e in sg.compare(source, target)]
    assert names == [m for m in sg.methods.METHODS if m != "gde"]
    assert any("gde left out" in w for w in sg.compare(source, target).warnings)
    both = sg.compare(source, sg.Target(logits=scores["shifted"], second=scores["truth"]))
    assert [e.method for e in both] == list(sg.methods.METHODS)


def test_compare_is_estimate_for_each(source, target):
    for one in sg.compare(source, target, marginal="shrunk"):
        options = {"marginal": "shrunk"} if one.method in ("cot", "cott", "scot") else {}
        assert sg.estimate(source, target, method=one.method, **options).to_json() == one.to_json()


def test_load_finds_the_class(source, target, tmp_path):
    sg.methods.COTT(marginal=np.full(5, 0.2)).fit(source).save(tmp_path / "e.json")
    twin = sg.load(tmp_path / "e.json")
    assert isinstance(twin, sg.methods.COTT)
    assert twin.estimate(target).error == sg.estimate(source, target, "cott", marginal=np.full(5, 0.2)).error
    with pytest.raises(sg.FileError, match="holds a fitted 'cott', not 'ac'"):
        sg.methods.AC.load(tmp_path / "e.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "not JSON"),
        ('{"a": 1}', "not a saved estimator"),
        (HEAD + '"schema": 2}', "changed or damaged"),
        (HEAD + '"schema": 1, "method": "zz"}', "changed or damaged"),
        (HEAD + '"schema": 1, "method": ["ac"], "params": {}, "state": {}}', "changed or damaged"),
    ],
)
def test_damaged_estimator_files(tmp_path, text, message):
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(sg.FileError, match=message):
        sg.load(tmp_path / "e.json")
    with pytest.raises(sg.FileError, match="cannot be read"):
        sg.load(tmp_path / "none.json")


def test_an_estimator_of_another_version_is_refused(source, tmp_path):
    class Later(sg.methods.AC):  # as if its next version learned one thing more
        async def learn(self, rows):
            self.more_ = rows.n

    for later, saved in ((Later, sg.methods.AC), (sg.methods.AC, Later)):
        saved().fit(source).save(tmp_path / "e.json")
        with pytest.raises(
            sg.FileError, match=r"e\.json: another version of shiftgauge saved this ac"
        ) as said:
            later.load(tmp_path / "e.json")
        assert "\n" not in str(said.value)


def test_an_edited_estimator_is_refused(source, tmp_path):
    path = tmp_path / "e.json"
    sg.methods.AC().fit(source).save(path)
    path.write_text(path.read_text().replace('"n_source_": 600', '"n_source_": 6'))
    with pytest.raises(sg.FileError, match="changed or damaged"):
        sg.load(path)
    with pytest.raises(sg.FileError, match="cannot be written"):
        sg.methods.AC().fit(source).save(tmp_path / "nowhere" / "e.json")


def test_every_form_of_marginal_is_saved(source, target, tmp_path):
    q = np.array([0.1, 0.2, 0.3, 0.2, 0.2])
    for marginal in (q, q.tolist(), dict(enumerate(q)), "shrunk"):
        estimator = sg.methods.COT(marginal=marginal).fit(source)
        estimator.save(tmp_path / "e.json")
        assert sg.load(tmp_path / "e.json").estimate(target).error == estimator.estimate(target).error


def test_new_parameters_need_a_new_fit(source, target):
    estimator = sg.methods.COT().fit(source).set_params(calibration="none")
    with pytest.raises(sg.NotFittedError):
        estimator.estimate(target)
    with pytest.raises(sg.InputError, match="cot takes no foo="):
        estimator.set_params(foo=1)


def test_only_proportions_of_weights_matter(scores):
    weights = np.random.default_rng(0).random(600)
    errors = []
    for scale in (1.0, 1e200, 1e-200, 1e307):
        source = sg.Source(scores["logits"], scores["labels"], weights=weights * scale)
        errors.append(
            sg.estimate(source, sg.Target(scores["shifted"]), method="scot", marginal="shrunk").error
        )
    assert errors == pytest.approx([errors[0]] * 4, rel=1e-9)


def test_masked_values_are_refused():
    with pytest.raises(sg.InputError, match="1 values are masked"):
        sg.Target(probs=np.ma.masked_array(P, mask=np.eye(3, dtype=bool) & (np.arange(3) == 0)))


def test_a_result_is_not_changed_through_its_dictionary(source, target):
    estimate = sg.estimate(source, target, "cot")
    estimate.to_dict()["details"]["certificate"]["gap"] = 9
    assert estimate.details["certificate"]["gap"] != 9


def test_a_comparison_is_a_table_whose_columns_stand_under_each_other(source, target):
    found = sg.compare(source, target, ["ac", "label-shift", "nuclear-norm"])
    lines = repr(found).splitlines()[1:4]
    assert [line.split()[0] for line in lines] == ["ac", "label-shift", "nuclear-norm"]
    assert [line.index(word) for line, word in zip(lines, ("error", "error", "score"), strict=True)] == [
        16
    ] * 3


class Lent:
    """Hands out its own memory to whoever asks for an array."""

    def __init__(self, held):
        self.held = held

    def __array__(self, dtype=None, copy=None):
        return self.held


def test_a_buffer_behind_another_object_is_copied():
    buffer = P.copy()
    source = sg.Source(probs=Lent(buffer), labels=[0, 1, 0])
    buffer[:] = 1 / 3
    assert (source.scores == P).all()
