"""Estimators that were saved and loaded: the same answers, the same types, whatever the arguments were."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.methods.saved import read_document, restore, write_document

SOURCE = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], labels=[0, 1, 1])
TARGET = sg.Target(probs=[[0.7, 0.3], [0.4, 0.6]])
SHARES = {
    "name": "shrunk",
    "list of floats": [0.25, 0.75],
    "list of whole numbers": [1, 0],
    "whole numbers": np.array([1, 0]),
    "half precision": np.array([0.25, 0.75], dtype=np.float16),
    "mapping": {0: 0.25, 1: 0.75},
}


@pytest.mark.parametrize("marginal", SHARES.values(), ids=SHARES)
def test_label_shares_of_every_form_come_back(marginal, tmp_path):
    fitted = sg.methods.COT(calibration="none", marginal=marginal).fit(SOURCE)
    fitted.save(tmp_path / "cot.json")
    again = sg.load(tmp_path / "cot.json")
    assert again.estimate(TARGET).to_dict() == fitted.estimate(TARGET).to_dict()
    assert np.asarray(again.marginal).dtype == np.asarray(marginal).dtype


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool"])
def test_learned_arrays_keep_their_type(dtype, tmp_path):
    learned = np.array([0, 1, 1]).astype(dtype)
    fitted = SimpleNamespace(
        name="ac",
        schema=lambda: "s",
        get_params=dict,
        state=lambda: {"plain_": learned, "inside_": {"a": learned}},
    )
    write_document(tmp_path / "x.json", fitted)
    state = read_document(tmp_path / "x.json")["state"]
    plain, inside = (restore(name, state[name]) for name in ("plain_", "inside_"))
    for array in (plain, inside["a"]):
        assert array.dtype == dtype
        assert array.tolist() == learned.tolist()


@pytest.mark.parametrize(
    "change", [{"params": []}, {"state": []}, {"method": 5}, {"method": ["ac"]}, {"method": "no such method"}]
)
def test_documents_of_another_shape_are_refused_in_one_line(source, tmp_path, change):
    """Even if the digest fits."""
    sg.methods.AC().fit(source).save(tmp_path / "m.json")
    saved = json.loads((tmp_path / "m.json").read_text())
    content = {name: saved[name] for name in ("method", "schema", "params", "state")} | change
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (tmp_path / "m.json").write_text(json.dumps({**saved, **content, "digest": digest}))
    with pytest.raises(sg.FileError, match=r"m\.json: (not a saved estimator|holds the unknown method)"):
        sg.load(tmp_path / "m.json")
