"""Train, collect and estimate on tiny copies of every data set, through the same code as the real ones."""

import dataclasses
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

from shiftgauge.experiments import bench, collect, protocol  # noqa: E402
from shiftgauge.experiments.datasets import DATASETS, breeds  # noqa: E402
from shiftgauge.experiments.recipes import RECIPES, Recipe  # noqa: E402
from shiftgauge.experiments.scores import ScoreFolder  # noqa: E402

from . import layouts  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = Recipe("sgd", 0.02, 2, 8, schedule="constant")


def chain(name, network, root, monkeypatch, classes, **changes):
    if "recipe" not in changes:
        monkeypatch.setitem(RECIPES, DATASETS[name].recipe, STEPS)
    monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], classes=classes, **changes))
    collect.collect_scores(bench.setting(name, root, root / "runs", network), [0, 1])
    rows = protocol.estimates_sweep().run(root / "runs", name, network)
    assert np.isfinite(rows.estimate).all()
    return rows, ScoreFolder.of(root / "runs", name, network, 0)


@pytest.mark.parametrize(
    ("name", "write", "classes", "kinds"),
    [
        ("cifar100", lambda root: layouts.cifar(root, 100, hundred=True), 100, None),
        ("camelyon17", layouts.camelyon17, 2, {"natural"}),
        ("rxrx1", layouts.rxrx1, 5, {"natural"}),
        ("imagenet", layouts.imagenet, 8, {"clean", "synthetic", "natural"}),
    ],
)
def test_images(name, write, classes, kinds, tmp_path, monkeypatch):
    write(tmp_path)
    if name == "imagenet":
        layouts.hierarchy(tmp_path / "breeds")
    if name == "cifar100":
        layouts.cifar_c(tmp_path, ["fog"], folder="CIFAR-100-C")
        everything = DATASETS[name].shifts
        few = lambda root: [s for s in everything(root) if s.name in ("clean", "fog_1", "fog_5")]  # noqa: E731
        rows, scores = chain(name, "small", tmp_path, monkeypatch, classes, shifts=few)
        assert scores.read("fog_5").scores.shape == (10, 100)
        return
    rows, scores = chain(name, "small", tmp_path, monkeypatch, classes)
    assert set(rows.kind) == kinds
    assert scores.read().scores.shape[1] == classes


def test_breeds(tmp_path, monkeypatch):
    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    task = breeds._Task(1, 4)
    parts = {"training": task.training, "validation": task.validation, "shifts": task.shifts}
    rows, _ = chain("living17", "small", tmp_path, monkeypatch, 2, **parts)
    assert set(rows.kind) == {"clean", "same", "novel"}
    assert set(rows[rows.kind == "novel"]["shift"]) == {"novel_clean", "novel_fog_1", "novel_fog_5"}


@pytest.mark.parametrize(("name", "classes"), [("amazon", 5), ("civilcomments", 2)])
def test_texts(name, classes, tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    getattr(layouts, name)(tmp_path)
    weights = tmp_path / "weights" / "distilbert-base-uncased"
    weights.mkdir(parents=True)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "review",
        "comment",
        "second",
        "line",
        *"0123456789",
    ]
    (weights / "vocab.txt").write_text("\n".join(words))
    (weights / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "DistilBertTokenizer"}))
    config = transformers.DistilBertConfig(
        vocab_size=len(words), dim=16, hidden_dim=32, n_layers=1, n_heads=2
    )
    transformers.DistilBertModel(config).save_pretrained(weights)
    monkeypatch.setitem(RECIPES, name, dataclasses.replace(RECIPES[name], epochs=1))
    rows, scores = chain(name, "distilbert", tmp_path, monkeypatch, classes, recipe=name)
    beside = {"white", "whole"} if name == "civilcomments" else set()
    assert set(rows.kind) == {"natural"} | beside
    assert scores.read().scores.shape[1] == classes
