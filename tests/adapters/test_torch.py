"""`collect` runs any module over any loader, leaves the module as it was, and keeps memory bounded."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.adapters import CollectedScores, collect

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(70, 5, generator=generator), torch.randint(0, 3, (70,), generator=generator)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))


def expected(model, x):
    model.eval()
    with torch.no_grad():
        return model(x).numpy()


def test_scores_labels_and_modes(model, data):
    x, y = data
    model.train()
    model[1].eval()  # a frozen part stays frozen
    found = collect(model, DataLoader(TensorDataset(x, y), batch_size=16))
    assert model.training
    assert model[0].training
    assert not model[1].training
    assert found.scores.dtype == np.float32
    np.testing.assert_allclose(found.scores, expected(model, x), rtol=1e-5, atol=1e-6)
    source = found.source()
    assert np.array_equal(source.labels, y.numpy())
    assert isinstance(found.target(), sg.Target)
    assert all(p.grad is None for p in model.parameters())


def test_names_and_a_second_model(model, data):
    x, y = data
    other = torch.nn.Linear(5, 3)
    found = collect(
        model, DataLoader(TensorDataset(x, y), batch_size=70), classes=["a", "b", "c"], second=other
    )
    assert found.source().classes == ("a", "b", "c")
    assert found.source().error == collect(model, [(x, y)]).source().error
    assert np.array_equal(found.target().second, expected(other, x).argmax(1))


def test_restored_after_an_error(model, data):
    model.train()
    with pytest.raises(RuntimeError):
        collect(model, [torch.zeros(2, 9)])
    assert model.training


class Stream(IterableDataset):
    def __iter__(self):
        yield from (torch.full((5,), float(i)) for i in range(3000))


@pytest.mark.parametrize("to_file", [False, True])
def test_a_stream_without_length(model, tmp_path, to_file):
    out = tmp_path / "scores.npy" if to_file else None
    found = collect(model, DataLoader(Stream(), batch_size=128), out=out)
    assert found.scores.shape == (3000, 3)
    assert found.labels is None
    np.testing.assert_allclose(found.scores[2999], expected(model, torch.full((1, 5), 2999.0))[0], rtol=1e-5)
    if to_file:
        assert isinstance(found.scores, np.memmap)
        assert np.array_equal(np.load(out), found.scores)
        assert [file.name for file in tmp_path.iterdir()] == ["scores.npy"]
        assert found.target().n == 3000


def test_a_failed_run_leaves_no_file(model, tmp_path):
    with pytest.raises(RuntimeError):
        collect(model, [torch.zeros(2, 5), torch.zeros(2, 9)], out=tmp_path / "scores.npy")
    assert list(tmp_path.iterdir()) == []


def test_dictionaries_tuples_and_unpack(data):
    x, y = data

    class Two(torch.nn.Module):
        def forward(self, left, right):
            return {"logits": torch.cat([left, right], dim=1)}

    by_name = collect(Two(), [{"left": x, "right": x, "label": y}])
    by_place = collect(Two(), [(x, x, y)], unpack=lambda b: ((b[0], b[1]), b[2]))
    assert np.array_equal(by_name.scores, by_place.scores)
    assert np.array_equal(by_name.labels, y.numpy())


def test_autocast_is_close(model, data):
    x, _ = data
    half = collect(model, [x], precision="bfloat16").scores
    assert not np.array_equal(half, expected(model, x))
    np.testing.assert_allclose(half, expected(model, x), atol=0.05)


def test_probabilities_are_said(data):
    x, y = data
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Softmax(dim=1))
    assert collect(model, [(x, y)], kind="probs").source().kind == "probs"
    found = collect(model, [(x, y)])
    for make in (found.source, found.target):
        with pytest.raises(sg.InputError, match="softmax") as refused:
            make()
        assert "probs=" not in str(refused.value)  # which no adapter takes
        assert make(kind="probs").kind == "probs"
        assert make(insist=True).kind == "logits"
    with pytest.raises(sg.InputError, match="kind 'scores'"):
        found.target(kind="scores")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x, y: collect(m, [(x, x)]), "unpack="),
        (lambda m, x, y: collect(m, [(x, y, y)]), "unpack="),
        (lambda m, x, y: collect(m, []), "no batches"),
        (lambda m, x, y: collect(m, [(x, y), (x,)]), "some had none"),
        (lambda m, x, y: collect(torch.nn.Linear(5, 1), [x]), "single logit"),
        (lambda m, x, y: collect(torch.nn.LSTM(5, 3), [x]), "wrap the model"),
        (lambda m, x, y: collect(m, [x], device="warp"), "device 'warp'"),
        (lambda m, x, y: collect(m, [x], precision="int4"), "precision 'int4'"),
        (lambda m, x, y: collect(m, [x], kind="scores"), "kind 'scores'"),
        (lambda m, x, y: collect(len, [x]), "torch.nn.Module"),
        (lambda m, x, y: collect(m, [x], out="scores.csv"), r"\.npy"),
        (lambda m, x, y: collect(m, [x]).source(), "no labels"),
        (lambda m, x, y: collect(m, [x], classes=["a"]), "1 names for 3"),
    ],
)
def test_what_cannot_be_used_is_refused(model, data, call, words):
    with pytest.raises(sg.InputError, match=words):
        call(model, *data)


def test_collected_says_what_it_is(data):
    assert (
        repr(CollectedScores(np.zeros((2, 3), np.float32)))
        == "CollectedScores(logits, 2 rows x 3 classes, no labels)"
    )


def test_progress_is_called_with_a_text_as_everywhere(model, data, capfd):
    seen = []
    collect(model, [data[0], data[0]], progress=seen.append)
    collect(model, iter([data[0]]), progress=seen.append)
    assert seen == ["scoring, batch 1 of 2", "scoring, batch 2 of 2", "scoring, batch 1"]
    assert capfd.readouterr() == ("", "")


def test_on_a_terminal_there_is_a_bar_on_stderr(model, data, monkeypatch, capsys):
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    collect(model, [data[0]])
    collect(model, DataLoader(Stream(), batch_size=1000))  # a length that only raises
    out, err = capsys.readouterr()
    assert out == ""
    assert "scoring" in err
