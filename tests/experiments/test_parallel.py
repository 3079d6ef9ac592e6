"""Two processes that share every batch follow the loss curve of one process with the same batch."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from shiftgauge.errors import FileError, InputError  # noqa: E402
from shiftgauge.experiments.examples import FileImages  # noqa: E402
from shiftgauge.experiments.loading import SequentialBatches, ShuffledBatches, batches  # noqa: E402
from shiftgauge.experiments.parallel import Group  # noqa: E402
from shiftgauge.experiments.training import Run  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPT = """
import json, os, sys
from pathlib import Path
import numpy as np, torch
torch.set_num_threads(1)
from shiftgauge.experiments.examples import ArrayImages
from shiftgauge.experiments.networks import build
from shiftgauge.experiments.recipes import Recipe
from shiftgauge.experiments.scoring import Run, score
from shiftgauge.experiments.training import train

rng = np.random.default_rng(0)
labels = np.arange(96) % 4
pixels = np.clip(60 * labels[:, None, None, None] + rng.integers(0, 40, (96, 32, 32, 3)), 0, 255).astype(np.uint8)
images = ArrayImages(pixels, labels)
recipe = Recipe("sgd", 0.1, 3, 16, 5e-4, nesterov=True, schedule="onecycle", warmup=0.5, augment=True)
losses = []
watch = lambda step, loss: losses.append(loss)
run = Run(Path(sys.argv[1]) / "c.pt", device="cpu", on_step=watch, stop_after=int(sys.argv[2]))
network = train(build("small", 4, 0), images, recipe, 0, run)
if os.environ.get("RANK", "0") == "0":
    told = {"losses": losses, "logits": score(network, images, run=Run(device="cpu")).tolist()}
    (Path(sys.argv[1]) / "told.json").write_text(json.dumps(told))
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
"""


def curve(folder, processes, stop=18):
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [
        sys.executable,
        *(launcher if processes > 1 else []),
        str(folder / "train.py"),
        str(folder),
        str(stop),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, timeout=600, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "told.json").read_text())


def test_two_processes_are_one(tmp_path):
    one, two = curve(tmp_path / "one", 1), curve(tmp_path / "two", 2)
    assert len(one["losses"]) == 18
    assert one["losses"][-1] < one["losses"][0] / 2
    # The same sums in another order: float32 rounding, grown by 18 steps.
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(two["losses"][:3], one["losses"][:3], rtol=1e-5)
    np.testing.assert_allclose(two["logits"], one["logits"], rtol=0.05, atol=0.05)


def test_one_process_goes_on_where_two_were(tmp_path):
    whole = curve(tmp_path / "whole", 1)
    curve(tmp_path / "mixed", 2, stop=9)
    rest = curve(tmp_path / "mixed", 1)
    np.testing.assert_allclose(rest["losses"], whole["losses"][9:], rtol=2e-3, atol=2e-4)


def test_the_processes_of_a_step_see_its_whole_batch():
    whole = ShuffledBatches(50, 8, seed=3)
    parts = [ShuffledBatches(50, 8, seed=3, rank=rank, ranks=2) for rank in range(2)]
    for step in (0, 5, 6, 13):
        rows, draws = whole.at(step)
        assert sorted(np.concatenate([part.at(step)[0] for part in parts])) == sorted(rows)
        assert np.array_equal(parts[1].at(step)[1], draws[1::2])
    assert whole.steps == 6
    with pytest.raises(InputError, match="cannot be shared evenly by 3"):
        Group(0, 3).check(8)


def test_a_file_that_a_worker_cannot_read_is_one_clear_line(tmp_path):
    pytest.importorskip("PIL")
    (tmp_path / "broken.png").write_bytes(b"no image")
    images = FileImages([tmp_path / "broken.png"] * 4, np.zeros(4, np.int64))
    for workers in (0, 2):
        with pytest.raises(
            FileError, match=r"broken.png is not a readable image .*; download it again$"
        ) as told:
            list(batches(images, SequentialBatches(4, 2), 0, 2, workers))
        assert "Traceback" not in str(told.value)


@pytest.mark.parametrize(
    ("device", "gpu", "expected"),
    [(None, True, "cuda:3"), ("cuda", True, "cuda:3"), ("cpu", True, "cpu"), (None, False, "cpu")],
)
def test_every_process_has_a_gpu_of_its_own(device, gpu, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert Run(device=device).torch_device == torch.device(expected)


def test_one_gpu_for_all_processes_is_refused(monkeypatch):
    assert Run(device="cuda:1").torch_device == torch.device("cuda:1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        InputError, match=r"--device is 'cuda:1', one GPU for all processes of torchrun; say cuda"
    ):
        _ = Run(device="cuda:1").torch_device


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_one_process_speaks_for_all(rank, lines, monkeypatch, capsys):
    from shiftgauge.cli.app import run
    from shiftgauge.experiments import collect

    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(collect, "train_seeds", lambda setting, seeds: [{"seed": 0, "checkpoint": "x.pt"}])
    assert run(["bench", "train", "cifar10"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_batches_in_order_cover_every_row_once():
    plan = SequentialBatches(23, 5)
    assert np.concatenate([plan.at(step)[0] for step in range(plan.steps)]).tolist() == list(range(23))

    class Numbers:
        labels = np.arange(23)

        def __len__(self):
            return 23

        def batch(self, rows, draws=None):
            return np.asarray(rows, np.uint8).reshape(-1, 1, 1, 1)

    state = torch.random.get_rng_state()
    for workers in (0, 2):
        found = [
            (step, x.flatten().tolist(), y.tolist()) for step, x, y in batches(Numbers(), plan, 1, 4, workers)
        ]
        assert found == [
            (step, [*range(5 * step, 5 * step + 5)], [*range(5 * step, 5 * step + 5)]) for step in (1, 2, 3)
        ]
    assert torch.equal(torch.random.get_rng_state(), state)  # the global generator is left alone
    with pytest.raises(InputError, match="workers is -1"):
        next(batches(Numbers(), plan, 0, 1, -1))
