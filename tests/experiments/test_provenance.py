"""Scores that cannot lie: what made them is recorded, compared, refused; truncated files are made again."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cv2")

from shiftgauge.errors import FileError, InputError  # noqa: E402
from shiftgauge.experiments import bench, collect, corrupted_cache, digests, protocol  # noqa: E402
from shiftgauge.experiments.datasets.base import existing  # noqa: E402
from shiftgauge.experiments.progress import silent  # noqa: E402
from shiftgauge.experiments.scores import SOURCE, ScoreFolder  # noqa: E402
from shiftgauge.experiments.shards import Shard, merge  # noqa: E402
from shiftgauge.experiments.storage import read_arrays  # noqa: E402

from . import layouts  # noqa: E402

pytestmark = pytest.mark.torch


def stamps(runs):
    return {path: path.stat().st_mtime_ns for path in (runs / "scores").rglob("*.npz")}


def test_what_is_there_and_alike_is_not_scored_again(setting, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    collect.collect(setting, [0])
    before = stamps(setting.runs)
    collect.collect(setting, [0])
    assert stamps(setting.runs) == before
    scores = ScoreFolder.of(setting.runs, "fashion-mnist", "small", 0)
    assert set(scores.made_by("contrast_1")) == {"weights", "data", "corruption", "code", "rows", "precision"}
    # "auto" is another precision on another device: what it came to is recorded, here and in manifest.json.
    assert scores.made_by("contrast_1")["precision"] == scores.manifest["precision"] == "float32"
    collect.collect(dataclasses.replace(setting, precision="float32"), [0])
    assert stamps(setting.runs) == before
    pixels = {s.name: s for s in setting.dataset.shifts(setting.root)}["contrast_1"].load().pixels
    assert scores.stamp("contrast_1")["inputs"] == hashlib.sha256(pixels.tobytes()).hexdigest()[:16]


def test_workers_and_seeds_share_a_set_that_is_made_in_memory(setting, monkeypatch):
    from shiftgauge.experiments.datasets import _generated

    made = setting.root / "made.txt"

    def counted(images, name, severity, **how):
        # A file, since worker processes have a memory of their own.
        with made.open("a") as file:
            file.write(f"{name}_{severity}\n")
        return corrupt(images, name, severity, **how)

    corrupt = _generated.corrupt
    monkeypatch.setattr(_generated, "corrupt", counted)
    collect.collect(dataclasses.replace(setting, workers=2), [0, 1])
    names = made.read_text().split()
    assert len(names) == len(set(names)) == 10


def test_projnorm_says_where_it_failed(setting, monkeypatch):
    from shiftgauge.experiments.projnorm import short_form

    def fails(*given):
        raise InputError("no good")

    collect.collect(setting, [0])
    monkeypatch.setattr(collect, "projnorm", fails)
    with pytest.raises(InputError, match=r"fashion-mnist, seed 0, projnorm-short of clean: no good"):
        collect.collect_projnorm(setting, [0], short_form(1))


def test_public_weights_belong_to_what_a_checkpoint_must_agree_with(tmp_path):
    layouts.cifar(tmp_path)
    given = bench.setting("cifar10", tmp_path, tmp_path / "runs", "resnet18-224", "cifar10-pretrained")
    weights = tmp_path / "weights" / "resnet18.pth"
    weights.parent.mkdir()
    before = []
    for text in ("one", "two"):
        weights.write_text(text)
        before.append((collect.run_of(given, 0).data, digests.files_digest([given.initial_weights()])))
    assert before[0][0] != before[1][0]
    assert before[0][1] != before[1][1] == digests.files_digest([weights])
    plain = bench.setting("cifar10", tmp_path, tmp_path / "runs", "resnet18-224")
    assert plain.initial_weights() is None
    assert plain.initial_weights("imagenet") == weights
    assert collect.run_of(plain, 0).data == digests.files_digest(plain.dataset.files(tmp_path))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda s: dataclasses.replace(s, rows=20), "rows"),
        (lambda s: dataclasses.replace(s, precision="bfloat16"), "precision"),
    ],
)
def test_other_options_are_refused_and_can_be_made_again(setting, change, what, monkeypatch):
    # The weights stay: the checkpoint is read as it is.
    model = collect.trained_network(setting, 0)
    monkeypatch.setattr(collect, "trained_network", lambda setting, seed: model)
    collect.collect(setting, [0])
    other = change(setting)
    with pytest.raises(FileError, match=f"made with other {what}; make it again with --redo"):
        collect.collect(other, [0])
    collect.collect(dataclasses.replace(other, redo=True), [0])
    assert ScoreFolder.of(setting.runs, "fashion-mnist", "small", 0).made_by("contrast_1")[what] == getattr(
        other, what
    )


def test_other_weights_after_a_deleted_checkpoint_are_refused(setting):
    collect.collect(setting, [0])
    setting.checkpoint(0).unlink()
    longer = dataclasses.replace(setting, recipe=dataclasses.replace(setting.recipe, epochs=3))
    with pytest.raises(FileError, match=r"source.npz was made with other weights"):
        collect.collect(longer, [0])


def test_other_data_files_are_refused(setting, monkeypatch):
    collect.collect(setting, [0])
    model = collect.trained_network(setting, 0)
    monkeypatch.setattr(collect, "trained_network", lambda setting, seed: model)
    before = digests.files_digest(existing(setting.root, setting.dataset.expects))
    for path in (setting.root / "fashion-mnist").iterdir():
        path.unlink()
    (setting.root / "fashion-mnist").rmdir()
    layouts.fashion(setting.root, seed=5)
    # The gzipped files count for the source too.
    assert digests.files_digest(existing(setting.root, setting.dataset.expects)) != before
    with pytest.raises(FileError, match=r"made with other .*data"):
        collect.collect(setting, [0])


def test_other_code_is_refused(setting, monkeypatch):
    collect.collect(setting, [0])
    monkeypatch.setattr(collect, "code_digest", lambda *modules: "another")
    with pytest.raises(FileError, match="made with other code"):
        collect.collect(setting, [0])


def test_a_truncated_or_damaged_file_is_made_again(setting):
    collect.collect(setting, [0])
    path = ScoreFolder.of(setting.runs, "fashion-mnist", "small", 0).path("saturate_5")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    collect.collect(setting, [0])
    assert path.read_bytes() == whole
    damaged = bytearray(whole)
    damaged[200] ^= 255  # within the scores; the stamp can still be read
    path.write_bytes(damaged)
    collect.collect(setting, [0])
    assert path.read_bytes() == whole


def test_missing_sets_are_said_everywhere(setting, tmp_path):
    every = setting.dataset.shifts
    lacking = lambda root: [  # noqa: E731
        dataclasses.replace(s, absent="its file is not there") if s.name == "contrast_3" else s
        for s in every(root)
    ]
    setting = dataclasses.replace(setting, dataset=dataclasses.replace(setting.dataset, shifts=lacking))
    (made,) = collect.collect_scores(setting, [0])
    assert made["missing"] == {"contrast_3": "its file is not there"}
    assert made["shifts"] == 10
    # Another one is lost later.
    ScoreFolder.of(setting.runs, "fashion-mnist", "small", 0).path("contrast_4").unlink()
    folder = bench.run("fashion-mnist", setting.runs, tmp_path / "out")
    bench.table("fashion-mnist", tmp_path / "out")
    text = (folder / "tables" / "mae.md").read_text()
    assert "Missing: contrast_3, seed 0, contrast_4, seed 0." in text
    assert "8 shifts of 60 rows" in text
    # Saturation does nothing to grey images, and contrast always does something: told by the images.
    assert "saturate_1, saturate_2, saturate_3 do nothing" in text
    shown = (folder / "tables" / "shifts.md").read_text()
    assert "contrast_3, seed 0 |  | not run" in shown
    assert "not scored yet" in shown


def test_shards_merge_to_the_same_bytes(setting, tmp_path):
    collect.collect(setting, [0, 1])
    bench.run("fashion-mnist", setting.runs, tmp_path / "whole")
    parts = [tmp_path / f"part{i}" for i in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        shard = Shard(number, 3)
        collect.collect(dataclasses.replace(setting, runs=part, shard=shard), [0, 1])
    merged = tmp_path / "merged"
    merge(parts, merged)
    one, other = (
        {p.relative_to(r): p.read_bytes() for p in (r / "scores").rglob("*.npz")}
        for r in (setting.runs, merged)
    )
    assert one == other
    for number in (1, 2, 3):
        bench.run("fashion-mnist", merged, tmp_path / "none", shard=Shard(number, 3))
    assert not (tmp_path / "none").exists()
    before = {p: p.stat().st_mtime_ns for p in (merged / "estimates").rglob("*.json")}
    bench.run("fashion-mnist", merged, tmp_path / "joined")
    assert {
        p: p.stat().st_mtime_ns for p in (merged / "estimates").rglob("*.json")
    } == before  # nothing done twice
    for path in (tmp_path / "whole").rglob("*.*"):
        assert (
            path.read_bytes() == (tmp_path / "joined" / path.relative_to(tmp_path / "whole")).read_bytes()
        ), path


def test_runs_that_differ_are_not_mixed(tmp_path):
    for name, text in (("a", "1"), ("b", "2")):
        (tmp_path / name / "scores").mkdir(parents=True)
        (tmp_path / name / "scores" / "x.json").write_text(text)
    with pytest.raises(FileError, match="not made from the same data"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    with pytest.raises(FileError, match="nothing to merge"):
        merge([tmp_path / "d"], tmp_path / "c")


@pytest.mark.parametrize("text", ["0/3", "4/3", "x", "1", "1/2/3"])
def test_nonsense_shards_are_refused(text):
    with pytest.raises(InputError, match="--shard"):
        Shard.parse(text)


def test_a_corrupted_set_is_kept_once_for_all(setting, tmp_path, monkeypatch):
    plain = collect.collect(setting, [0])[0]
    kept = dataclasses.replace(setting, runs=tmp_path / "other", cache=tmp_path / "cache")
    with_cache = collect.collect(kept, [0])[0]
    for shift in plain.shifts():
        assert plain.stamp(shift)["inputs"] == with_cache.stamp(shift)["inputs"]
    files = sorted((tmp_path / "cache" / "fashion-mnist").glob("*.npy"))
    assert len(files) == 2 * 10  # images and labels of the ten made sets; the clean one is not copied
    size = sum(path.stat().st_size for path in files if "labels" not in path.name)
    assert corrupted_cache.cache_bytes(setting.dataset.shifts(setting.root)) == 10 * 60 * 32 * 32 * 3
    assert 0 < size - 10 * 60 * 32 * 32 * 3 <= 10 * 128
    shift = {s.name: s for s in setting.dataset.shifts(setting.root)}["contrast_2"]
    never = dataclasses.replace(shift, load=lambda: pytest.fail("made again"))
    code = digests.code_digest(setting.dataset.module)
    again = corrupted_cache.load_cached(never, tmp_path / "cache" / "fashion-mnist", code, 0, silent)
    assert np.array_equal(again.pixels, shift.load().pixels)


def test_scoring_is_not_for_torchrun(setting, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="split with --shard"):
        collect.collect(setting, [0])


def test_two_sets_of_one_name_are_refused_before_training(setting):
    every = setting.dataset.shifts
    twice = lambda root: [  # noqa: E731
        dataclasses.replace(s, name="source") if s.name == "contrast_2" else s for s in every(root)
    ]
    setting = dataclasses.replace(setting, dataset=dataclasses.replace(setting.dataset, shifts=twice))
    with pytest.raises(InputError, match="fashion-mnist has two sets called 'source'"):
        collect.collect(setting, [0])
    assert not setting.checkpoint(0).exists()


def test_an_error_names_the_shift(setting):
    def broken():
        raise FileError("its file is broken")

    every = setting.dataset.shifts
    wrong = lambda root: [  # noqa: E731
        dataclasses.replace(s, load=broken) if s.name == "contrast_2" else s for s in every(root)
    ]
    setting = dataclasses.replace(setting, dataset=dataclasses.replace(setting.dataset, shifts=wrong))
    with pytest.raises(FileError, match="fashion-mnist, contrast_2: its file is broken"):
        collect.collect(setting, [0])


def test_a_killed_run_goes_on_by_shift(setting, tmp_path, monkeypatch):
    collect.collect(setting, [0])
    original, done = protocol.FittedMethods.estimate, []

    def dies(self, target, second=None):
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(1)
        return original(self, target, second)

    monkeypatch.setattr(protocol.FittedMethods, "estimate", dies)
    with pytest.raises(KeyboardInterrupt):
        protocol.estimates_sweep().run(setting.runs, "fashion-mnist", "small")
    kept = sorted((setting.runs / "estimates").rglob("*.json"))
    assert len(kept) == 5
    before = {path: path.stat().st_mtime_ns for path in kept}
    monkeypatch.setattr(protocol.FittedMethods, "estimate", original)
    table = protocol.estimates_sweep().run(setting.runs, "fashion-mnist", "small")
    assert table["shift"].nunique() == 11
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    # With other label shares nothing kept counts.
    protocol.estimates_sweep(marginal="uniform").run(setting.runs, "fashion-mnist", "small")
    assert all(path.stat().st_mtime_ns != before[path] for path in kept)


def test_about_json_is_plain(setting, tmp_path):
    collect.collect(setting, [0])
    folder = bench.run("fashion-mnist", setting.runs, tmp_path / "out", marginal="source")
    about = json.loads(Path(folder / "manifest.json").read_text())
    assert about["marginal"] == "source"
    assert about["seeds"]["0"]["weights"] == digests.weights_digest(collect.trained_network(setting, 0))
    assert about["shifts"]["clean"]["n"] == 60


def test_the_papers_projnorm_needs_and_takes_public_weights(setting):
    from shiftgauge.experiments.networks import build
    from shiftgauge.experiments.projnorm import PAPER

    collect.collect(setting, [0])
    with pytest.raises(InputError, match="small has none"):
        collect.collect_projnorm(setting, [0], PAPER)
    few = lambda root: [s for s in shifts(root) if s.name in ("clean", "contrast_5")]  # noqa: E731
    shifts = setting.dataset.shifts
    dataset = dataclasses.replace(setting.dataset, shifts=few)
    enlarged = dataclasses.replace(setting, network="resnet18-224", dataset=dataset, rows=10)
    scores = ScoreFolder.of(setting.runs, "fashion-mnist", "resnet18-224", 0)
    scores.write_manifest(shifts=["clean", "contrast_5"], made_by={"clean": {}, "contrast_5": {}})
    for shift in enlarged.dataset.shifts(setting.root):
        scores.write(shift.name, np.eye(10)[np.arange(10)], np.arange(10), shift.kind)
    with pytest.raises(FileError, match=r"weights/resnet18.pth does not exist"):
        collect.collect_projnorm(enlarged, [0], PAPER)
    (setting.root / "weights").mkdir()
    torch.save(build("resnet18", 1000, 7).state_dict(), setting.root / "weights" / "resnet18.pth")
    collect.collect_projnorm(enlarged, [0], dataclasses.replace(PAPER, batch=4))
    assert scores.projnorm("projnorm/contrast_5") > 0
    assert read_arrays(scores.path("projnorm/contrast_5"), "steps") == {"steps": 1}
    form = scores.made_by("projnorm/contrast_5")["form"]
    assert (form["rate"], form["cosine"], form["pretrained"]) == (1e-3, True, True)


def test_an_empty_draw_of_mild_label_shift_is_left_out(tmp_path):
    rng = np.random.default_rng(0)
    scores = ScoreFolder.of(tmp_path, "cifar10", "small", 0)
    scores.write_manifest(shifts=["a"], seed=0)
    labels = np.arange(200) % 2
    scores.write(SOURCE, 3 * np.eye(2)[labels] + rng.normal(size=(200, 2)), labels)
    # Shares of 0.6 and 0.4 afford one row of two classes of one row each, and 0.6 rows are none.
    scores.write("a", rng.normal(size=(2, 2)), np.arange(2), "synthetic")
    assert protocol.mild_label_shift_sweep().run(tmp_path, "cifar10", "small").empty


def test_a_refusal_leaves_the_old_about_json(setting, tmp_path):
    scores = collect.collect(setting, [0])[0]
    before = scores.manifest
    setting.checkpoint(0).unlink()
    longer = dataclasses.replace(setting, recipe=dataclasses.replace(setting.recipe, epochs=3))
    with pytest.raises(FileError, match="made with other weights"):
        collect.collect(longer, [0])
    assert scores.manifest == before
    # One file that is made again and the others not, as after a kill: no estimate comes of the mixture.
    scores.path("contrast_4").unlink()
    kept = {path: path.read_bytes() for path in scores.folder.rglob("*.npz")}
    collect.collect(dataclasses.replace(longer, redo=True), [0])
    scores.path("contrast_5").write_bytes(kept[scores.path("contrast_5")])
    with pytest.raises(
        FileError, match=r"contrast_5.npz was made with other weights than .*manifest.json says"
    ):
        bench.run("fashion-mnist", setting.runs, tmp_path / "out")


def test_projnorm_is_of_the_scores_beside_it(setting, tmp_path):
    collect.collect_scores(setting, [0], projnorm_steps=1)
    scores = ScoreFolder.of(setting.runs, "fashion-mnist", "small", 0)
    first = scores.projnorm("projnorm-short/contrast_5")
    collect.collect_scores(setting, [0], projnorm_steps=1)
    with pytest.raises(FileError, match=r"projnorm-short/clean.npz was made with other form; .*--redo"):
        collect.collect_scores(setting, [0], projnorm_steps=3)
    made_by = scores.made_by("projnorm-short/contrast_5")
    assert set(made_by) == {"form", "data", "code", "precision", "initial", "scores"}
    collect.collect_scores(dataclasses.replace(setting, redo=True), [0], projnorm_steps=3)
    assert scores.projnorm("projnorm-short/contrast_5") != first
    fewer = dataclasses.replace(setting, rows=20, redo=True)
    collect.collect(fewer, [0])
    with pytest.raises(FileError, match=r"projnorm-short/.*.npz was made with other scores; .*--redo"):
        bench.run("fashion-mnist", setting.runs, tmp_path / "out")
    collect.collect_scores(fewer, [0], projnorm_steps=3)
    bench.run("fashion-mnist", setting.runs, tmp_path / "out")


def test_a_shard_has_the_projnorm_of_its_own_shifts(setting, tmp_path):
    parts = [tmp_path / "one", tmp_path / "two"]
    for number, part in enumerate(parts, 1):
        shard = dataclasses.replace(setting, runs=part, shard=Shard(number, 2))
        collect.collect_scores(shard, [0, 1], projnorm_steps=1)
    collect.collect_scores(setting, [0, 1], projnorm_steps=1)
    merge(parts, tmp_path / "merged")
    whole, merged = (
        {
            path.relative_to(runs): path.read_bytes()
            for path in (runs / "scores").rglob("*.*")
            if path.is_file()
        }
        for runs in (setting.runs, tmp_path / "merged")
    )
    assert whole == merged


def test_a_checkpoint_of_other_data_is_not_continued(setting):
    collect.trained_network(setting, 0)
    for path in (setting.root / "fashion-mnist").iterdir():
        path.unlink()
    (setting.root / "fashion-mnist").rmdir()
    layouts.fashion(setting.root, seed=5)
    with pytest.raises(FileError, match="made with other data"):
        collect.trained_network(setting, 0)


def test_every_table_names_the_split_and_what_was_used(setting, tmp_path, monkeypatch):
    from shiftgauge.experiments.datasets import DATASETS

    collect.collect(setting, [0])
    monkeypatch.setitem(
        DATASETS, "fashion-mnist", dataclasses.replace(setting.dataset, note="BREEDS split: good.")
    )
    bench.run("fashion-mnist", setting.runs, tmp_path / "out")
    for path in bench.table("fashion-mnist", tmp_path / "out"):
        if path.suffix != ".csv":
            assert "BREEDS split: good." in path.read_text(), path
            assert "Shifted sets: 10 made here." in path.read_text(), path


def test_a_resumed_stage_tells_the_time_of_what_is_left(setting, tmp_path):
    told = []
    say = lambda *said: told.append(said)  # noqa: E731
    collect.collect(setting, [0, 1])
    scores = ScoreFolder.of(setting.runs, "fashion-mnist", "small", 1)
    for name in ("contrast_2", "saturate_5"):
        scores.path(name).unlink()
    collect.collect(dataclasses.replace(setting, progress=say), [0, 1])
    assert [said for said in told if said[0] == "shifts scored"] == [
        ("shifts scored", 11, 12, "contrast_2"),
        ("shifts scored", 12, 12, "saturate_5"),
    ]
    bench.run("fashion-mnist", setting.runs, tmp_path / "out")
    for path in (setting.runs / "estimates").rglob("contrast_3.json"):
        path.unlink()
    told.clear()
    bench.run("fashion-mnist", setting.runs, tmp_path / "out", progress=say)
    # One bar a stage over all seeds; what was kept is done before it begins.
    assert [said for said in told if said[0] == "estimates"] == [
        ("estimates", 21, 22, "seed 0, contrast_3"),
        ("estimates", 22, 22, "seed 1, contrast_3"),
    ]


def test_a_killed_run_leaves_the_results_of_the_last_one_whole(setting, tmp_path):
    collect.collect(setting, [0])

    def dies(stage, done, total, what):
        if stage == "mild-code":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run("fashion-mnist", setting.runs, tmp_path / "out", progress=dies)
    assert not (tmp_path / "out").exists()
