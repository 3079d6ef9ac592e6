"""A tiny random transformers model over texts; nothing is downloaded."""

from types import SimpleNamespace

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.adapters import collect, collect_texts, from_trainer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.torch

TEXTS = ["good film", "bad film", "good good good", "bad", "film"]


@pytest.fixture(scope="module")
def tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    words = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "good", "bad", "film"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    )


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=5, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=16, num_labels=3, id2label={0: "neg", 1: "neutral", 2: "pos"},
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def test_texts_in_batches(model, tokenizer):
    found = collect_texts(model, tokenizer, TEXTS, [0, 1, 2, 0, 1], batch_size=2)
    assert found.classes == ("neg", "neutral", "pos")
    assert found.source().n == 5
    alone = collect_texts(model, tokenizer, TEXTS[:1])
    np.testing.assert_allclose(found.scores[0], alone.scores[0], atol=1e-5)  # padding changes nothing
    assert alone.labels is None


def test_a_data_set(model, tokenizer):
    datasets = pytest.importorskip("datasets")
    held = datasets.Dataset.from_dict({"review": TEXTS, "stars": [0, 1, 2, 0, 1]})
    found = collect_texts(model, tokenizer, held, column="review", label_column="stars", batch_size=2)
    plain = collect_texts(model, tokenizer, TEXTS, [0, 1, 2, 0, 1], batch_size=2)
    assert np.array_equal(found.scores, plain.scores)
    assert np.array_equal(found.labels, plain.labels)
    with pytest.raises(sg.InputError, match="no column 'text'"):
        collect_texts(model, tokenizer, held)


def test_a_tokenised_loader_goes_through_collect(model, tokenizer):
    batch = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"), labels=torch.tensor([0, 1, 2, 0, 1]))
    assert collect(model, [batch]).source().k == 3


def test_what_trainer_predict_returns(model, tokenizer, tmp_path):
    pytest.importorskip("accelerate")
    rows = [dict(tokenizer(t, padding="max_length").items(), labels=1) for t in TEXTS]
    settings = transformers.TrainingArguments(tmp_path, report_to=[], use_cpu=True)
    output = transformers.Trainer(model=model, args=settings).predict(rows)
    assert from_trainer(output, classes=["neg", "neutral", "pos"]).source().n == 5


def test_refusals(model, tokenizer):
    with pytest.raises(sg.InputError, match="4 labels for 5 texts"):
        collect_texts(model, tokenizer, TEXTS, [0] * 4)
    with pytest.raises(sg.InputError, match="list of texts"):
        collect_texts(model, tokenizer, "one")
    several = SimpleNamespace(predictions=(np.zeros((2, 3)), np.zeros((2, 8))), label_ids=None)
    with pytest.raises(sg.InputError, match="several arrays"):
        from_trainer(several)
    with pytest.raises(sg.InputError, match=r"Trainer\.predict"):
        from_trainer(SimpleNamespace(predictions=np.zeros(3)))
