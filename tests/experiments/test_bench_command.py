"""The command on a tiny data set: the whole chain, JSON, clear refusals, and light imports."""

import json
import shutil
import subprocess
import sys

import pytest
import typer

from shiftgauge.cli.bench import app
from shiftgauge.errors import FileError, InputError, ShiftgaugeError
from shiftgauge.experiments import recipes
from shiftgauge.experiments.kept_scores import restore
from shiftgauge.experiments.scores import ScoreFolder

from . import layouts


def call(*arguments):
    return typer.main.get_command(app).main(list(map(str, arguments)), standalone_mode=False)


def test_list_says_found_and_missing(tmp_path, capsys):
    layouts.fashion(tmp_path)
    call("list", "--datasets", tmp_path, "--json")
    known = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["datasets"]}
    assert known["fashion-mnist"]["found"]
    assert not known["imagenet"]["found"]
    layouts.cifar(tmp_path)
    (tmp_path / "CIFAR-10.1").mkdir()  # an empty folder is no data
    call("list", "--datasets", tmp_path, "--json")
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["datasets"]}["cifar10"]
    assert list(found["absent"]) == ["cifar10.2", "cifar10.1_v4", "cifar10.1_v6"]
    extras = ["CIFAR-10-C", "CIFAR-10.2/cifar102_train.npz", "CIFAR-10.1"]
    assert known["cifar10"]["extras"] == dict.fromkeys(extras, False)
    call("list", "--datasets", tmp_path)
    text = capsys.readouterr().out
    assert "Fashion-MNIST, 10 classes: found" in text
    assert "cifar-100-python" in text


@pytest.mark.torch
def test_the_whole_chain(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("cv2")
    layouts.fashion(tmp_path)
    short = recipes.Recipe("sgd", 0.05, 6, 20, schedule="constant")
    monkeypatch.setitem(recipes.RECIPES, "fashion-mnist", short)
    # Two corruptions are enough to see every step; the readers' tests load all 95.
    from shiftgauge.experiments.datasets import _generated

    monkeypatch.setattr(_generated, "NAMES", ("fog", "gaussian_noise"))
    places = ["--datasets", tmp_path, "--runs", tmp_path / "runs"]
    seeds = ["--seed", 0, "--seed", 1]
    call("train", "fashion-mnist", *places, *seeds, "--threads", 1, "--json")
    trained = json.loads(capsys.readouterr().out)["trained"]
    assert [entry["seed"] for entry in trained] == [0, 1]
    call("collect", "fashion-mnist", *places, *seeds, "--max-rows", 50, "--projnorm-steps", 2, "--json")
    collected = json.loads(capsys.readouterr().out)["collected"]
    assert [entry["shifts"] for entry in collected] == [11, 11]
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "scores").rglob("*.npz")}
    assert len(files) == 2 * (12 + 11)
    # Everything is there: a second run scores nothing again.
    again = [
        "--max-rows", 50, "--projnorm-steps", 2, "--results", tmp_path / "out", "--keep-scores", "--json",
    ]  # fmt: skip
    call("all", "fashion-mnist", *places, *seeds, *again)
    done = json.loads(capsys.readouterr().out)
    assert all(path.stat().st_mtime_ns == when for path, when in files.items())
    # Other rows under the same name would be a lie.
    with pytest.raises(FileError, match="made with other rows; make it again with --redo"):
        call("collect", "fashion-mnist", *places, *seeds, "--max-rows", 40)
    assert {record["method"] for record in done["mae"]} >= {"ac", "gde", "cott", "scot", "scot+shrunk"}
    assert all(0 <= record["mae"] <= 1 for record in done["mae"])
    call("table", "fashion-mnist", "--results", tmp_path / "out")
    assert "cott" in capsys.readouterr().out
    correlation = (tmp_path / "out" / "fashion-mnist" / "small" / "tables" / "correlation.md").read_text()
    assert "ProjNorm short" in correlation
    about = json.loads((tmp_path / "out" / "fashion-mnist" / "small" / "manifest.json").read_text())
    assert about["shifts"]["fog_1"]["origin"] == "made here"
    assert about["seeds"]["0"]["rows"] == 50
    text = (tmp_path / "out" / "fashion-mnist" / "small" / "tables" / "mae.md").read_text()
    assert "10 of 10 shifted sets differ from the clean one" in text
    assert "Shifted sets: 10 made here." in text
    call("joint", "--results", tmp_path / "out")
    main = (tmp_path / "out" / "joint" / "tables" / "main.md").read_text()
    assert main.count("| here | not run") == 17 + 1  # every row of the paper, and the average
    # Of the scores that the results keep, everything is made anew: ProjNorm and GDE too, byte by byte.
    shutil.rmtree(tmp_path / "runs")
    out = tmp_path / "out"
    texts = [*out.rglob("*.csv"), *out.rglob("*.md"), *out.rglob("*.json"), *out.rglob("*.npz")]
    before = {path: path.read_bytes() for path in texts}
    assert {path.name for path in before} >= {"seed0.npz", "seed1.npz", "estimates.csv", "mae.md"}
    for path in before:
        if path.suffix in (".csv", ".md"):
            path.unlink()
    call("remake", "--results", out, "--json")
    assert {path: path.read_bytes() for path in before} == before
    # A run that does not keep its scores leaves none of an earlier run.
    for seed in (0, 1):
        restore(
            out / "fashion-mnist/small/scores" / f"seed{seed}.npz",
            ScoreFolder.of(tmp_path, "fashion-mnist", "small", seed),
        )
    call("run", "fashion-mnist", "--runs", tmp_path, "--results", out)
    with pytest.raises(FileError, match="keeps no scores of any data set"):
        call("remake", "--results", out)


def test_refusals_are_one_clear_line(tmp_path):
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        call("train", "cifar", "--datasets", tmp_path)
    with pytest.raises(FileError, match="run `shiftgauge bench run` first"):
        call("table", "cifar10", "--results", tmp_path)
    with pytest.raises(
        FileError, match="run `shiftgauge bench collect cifar10 --network resnet18-224` first"
    ):
        call("run", "cifar10", "--runs", tmp_path, "--results", tmp_path)


@pytest.mark.torch
def test_training_without_data_is_refused(tmp_path):
    pytest.importorskip("torch")
    with pytest.raises(FileError, match="CIFAR-10 is not complete"):
        call("train", "cifar10", "--datasets", tmp_path, "--runs", tmp_path)


def test_help_imports_nothing_heavy():
    code = (
        "import sys, shiftgauge.cli.bench; "
        "heavy = {'torch', 'numba', 'scipy', 'pyarrow', 'cv2', 'PIL'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_experiments_import_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; import shiftgauge.experiments.bench, shiftgauge.experiments.tables; "
        "from shiftgauge.experiments.datasets import DATASETS; assert DATASETS"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_torch_one_line_says_what_to_install():
    commands = ["train", "collect", "all", "train --threads 1", "collect --device cpu"]
    code = (
        "import sys; sys.modules['torch'] = None; from shiftgauge.cli.app import run\n"
        f"for verb, *options in map(str.split, {commands}):\n"
        "    assert run(['bench', verb, 'cifar10', *options]) == 2, verb\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(commands)
    assert all(
        "networks need torch; install the extra: pip install '.[experiments]'" in line for line in lines
    )
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train cifar10 --seed -1", "Invalid value for '--seed'"),
        ("train cifar10 --seed 0 --seed=x", "Invalid value for '--seed'"),
        ("collect cifar10 --max-rows 0", "Invalid value for '--max-rows'"),
        ("collect cifar10 --shard 1/0", "--shard is '1/0'; it must be like 2/8"),
        ("run cifar10 --marginal nonsense", "--marginal is 'nonsense'; it must be one of source, uniform"),
        ("all cifar10 --marginal nonsense", "--marginal is 'nonsense'; it must be one of source, uniform"),
        (
            "run cifar10 --results taken/out",
            "taken/out: cannot be written (Not a directory); wanted a directory",
        ),
        ("collect amazon --cache kept", "--cache keeps corrupted images, and amazon has none; leave it out"),
        (
            "collect natural-90 --seed 7",
            "natural-90 is a data set of tables; run `shiftgauge bench natural --only",
        ),
        (
            "natural --only natural-91",
            "no data set of tables is called 'natural-91'; did you mean 'natural-90'?",
        ),
        ("natural --estimator nonsense", "--estimator is 'nonsense'; it must be like my_module:my_name"),
        ("natural --estimator no_module:Mine", "--estimator is 'no_module:Mine', and it cannot be imported"),
        ("run cifar10 --estimator pathlib:Path", "which is not a subclass of shiftgauge.methods.Estimator"),
        (
            "train cifar10 --network resnet18-cifar --recipe cifar10-pretrained",
            "from public imagenet weights, and resnet18-cifar has none; choose one of --network resnet18,",
        ),
        ("train cifar10 --recipe amazon", "cifar10 holds images, and the recipe is one for texts"),
        (
            "train amazon --network resnet50",
            "amazon holds texts, and resnet50 reads none; choose one of --network distilbert",
        ),
        ("train rxrx1 --network distilbert", "rxrx1 holds images, and distilbert reads none; choose one of"),
        ("train my_images:DATASET", "the data set is 'my_images:DATASET', and it cannot be imported"),
        ("train pathlib:Path", "the data set is 'pathlib:Path', which is a type and not a Dataset"),
        ("train cifar10 --network no_module:net", "--network is 'no_module:net', and it cannot be imported"),
        ("train cifar10 --network pathlib:Path", "which is a type and not a function"),
        ("train cifar10 --network resnt20", "no network is called 'resnt20'; did you mean 'resnet20'?"),
        (
            "merge nowhere",
            "nowhere holds nothing to merge; wanted a directory with checkpoints or scores or estimates",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_done(words, said, tmp_path, monkeypatch, capsys):
    from shiftgauge.cli.app import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file, not a folder")
    assert run(["bench", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train cifar10 --device gpu", "--device is 'gpu'; it must be one like cpu, cuda or cuda:1"),
        ("train cifar10 --device cuda:9", "--device is 'cuda:9', and torch sees 0 GPUs here; wanted cpu"),
        ("train cifar10 --runs taken/runs", "taken/runs: cannot be written (Not a directory)"),
        ("collect cifar10 --runs taken/runs", "taken/runs: cannot be written (Not a directory)"),
        (
            "collect cifar10 --network small --projnorm",
            "the paper's ProjNorm starts from public ImageNet weights",
        ),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_read(words, said, tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from shiftgauge.cli.app import run

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file, not a folder")
    assert run(["bench", *words.split()]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.parametrize(
    "held", [[1, 2], {"network": {}}, {"network": {}, "optimiser": {}, "scaler": {}, "step": 1}]
)
def test_a_file_that_is_no_checkpoint_of_this_network_is_refused(held, tmp_path):
    torch = pytest.importorskip("torch")
    from shiftgauge.experiments.checkpoints import resume
    from shiftgauge.experiments.networks import build
    from shiftgauge.experiments.recipes import recipe
    from shiftgauge.experiments.training import make_optimiser

    torch.save(held, tmp_path / "x.pt")
    network = build("small", 4, 0)
    optimiser = make_optimiser(network, recipe("cifar10-short"))
    with pytest.raises(
        FileError, match=r"x.pt is (not a checkpoint|a checkpoint of another network).*; delete it"
    ):
        resume(tmp_path / "x.pt", network, optimiser, torch.amp.GradScaler("cpu", enabled=False), {})


def test_a_broken_cache_says_which_files_to_delete(setting):
    from shiftgauge.experiments.corrupted_cache import load_cached
    from shiftgauge.experiments.progress import silent

    shift = {s.name: s for s in setting.dataset.shifts(setting.root)}["contrast_2"]
    load_cached(shift, setting.root / "kept", "code", 0, silent)
    (path,) = (p for p in (setting.root / "kept").iterdir() if "labels" not in p.name)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(FileError, match=r"contrast_2-\w+.npy and its labels cannot be read .*; delete both"):
        load_cached(shift, setting.root / "kept", "code", 0, silent)


@pytest.mark.parametrize(
    ("problem", "kind", "said"),
    [
        (OSError(28, "No space left on device"), FileError, "contrast_2: .*No space left on device"),
        (MemoryError(), ShiftgaugeError, "contrast_2: there was not enough memory"),
    ],
)
def test_the_machines_own_limits_are_reported_as_such(setting, problem, kind, said):
    import dataclasses

    from shiftgauge.experiments import collect

    def full():
        raise problem

    every = setting.dataset.shifts
    wrong = lambda root: [  # noqa: E731
        dataclasses.replace(s, load=full) if s.name == "contrast_2" else s for s in every(root)
    ]
    setting = dataclasses.replace(setting, dataset=dataclasses.replace(setting.dataset, shifts=wrong))
    with pytest.raises(kind, match=said):
        collect.collect(setting, [0])
