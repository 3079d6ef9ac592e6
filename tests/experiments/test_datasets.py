"""Every reader on a tiny copy of the official layout; hostile and broken files; the splits."""

import dataclasses
import os
import pickle
import shutil

import numpy as np
import pytest

from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments.corruptions import NAMES, corrupt
from shiftgauge.experiments.datasets import DATASETS, TABLE_DATASETS, dataset
from shiftgauge.experiments.datasets._hierarchy import read_hierarchy
from shiftgauge.experiments.datasets._idx import read_idx
from shiftgauge.experiments.datasets._pickle import read_pickle
from shiftgauge.experiments.datasets.base import reserve

from . import layouts


def named(known, root):
    return {shift.name: shift for shift in known.shifts(root)}


def test_every_data_set_is_described_and_says_what_is_missing(tmp_path):
    for known in TABLE_DATASETS.values():
        assert known.title
        assert known.origin.startswith("https://")
        assert known.licence
    for known in DATASETS.values():
        assert known.title
        assert known.origin.startswith(("https://", "ImageNet"))
        assert known.licence
        assert known.size
        with pytest.raises(FileError) as caught:
            known.require(tmp_path)
        assert str(tmp_path / known.expects[0]) in str(caught.value)
        assert known.origin in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        dataset("cifar-10")


def test_reserved_rows_are_disjoint_fixed_and_of_the_right_number():
    training, reserved = reserve(1000, 200)
    assert len(reserved) == 200
    assert not set(training) & set(reserved)
    assert np.array_equal(reserved, reserve(1000, 200)[1])
    assert not np.array_equal(reserved, reserve(1000, 200, seed=1)[1])


def test_fashion_mnist(tmp_path):
    layouts.fashion(tmp_path)
    known = dataset("fashion-mnist")
    known.require(tmp_path)
    training, validation = known.training(tmp_path), known.validation(tmp_path)
    assert (len(training), len(validation)) == (200, 40)
    assert training.pixels.shape[1:] == (32, 32, 3)
    assert not training.pixels[:, :2].any()
    assert np.array_equal(training.pixels[..., 0], training.pixels[..., 2])
    shifts = named(known, tmp_path)
    assert len(shifts) == 96
    assert np.array_equal(shifts["saturate_1"].load().pixels, shifts["clean"].load().pixels)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b broken", "not a whole gzip"),
        (b"", "not an IDX file"),
        (b"\0\0\x0d\x01\0\0\0\0", "not an IDX file"),
        (b"\0\0\x08\x01\0\0\0\x09abc", "holds 3"),
    ],
)
def test_broken_idx_files(tmp_path, content, said):
    path = tmp_path / ("x.gz" if content[:1] == b"\x1f" else "x")
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_idx(path)
    assert said in str(caught.value)


def test_cifar10_with_made_and_with_published_corruptions(tmp_path):
    layouts.cifar(tmp_path)
    known = dataset("cifar10")
    assert (len(known.training(tmp_path)), len(known.validation(tmp_path))) == (80, 20)
    made = named(known, tmp_path)
    assert [name for name, shift in made.items() if shift.absent] == [
        "cifar10.2",
        "cifar10.1_v4",
        "cifar10.1_v6",
    ]
    assert len(made) == 99
    assert made["fog_2"].kind == "synthetic"
    layouts.cifar_c(tmp_path, NAMES)
    natural = tmp_path / "CIFAR-10.1"
    natural.mkdir()
    (natural / "datasets").mkdir()  # v4 from a clone, v6 as loose files
    for at, version, n in ((natural / "datasets", "v4", 7), (natural, "v6", 5)):
        np.save(at / f"cifar10.1_{version}_data.npy", np.zeros((n, 32, 32, 3), np.uint8))
        np.save(at / f"cifar10.1_{version}_labels.npy", np.arange(n))
    published = named(known, tmp_path)
    assert len(published) == 99
    assert published["cifar10.2"].absent
    newer = tmp_path / "CIFAR-10.2"
    newer.mkdir()
    objects = np.array([{"url": 1}], object)
    np.savez(
        newer / "cifar102_train.npz",
        images=np.ones((4, 32, 32, 3), np.uint8),
        labels=np.arange(4),
        urls=objects,
    )
    published = named(known, tmp_path)
    assert (len(published["cifar10.2"].load()), published["cifar10.2"].kind) == (4, "natural")
    assert published["fog_1"].origin == "published"
    assert made["fog_1"].origin == "made here"
    (tmp_path / "CIFAR-10-C" / "snow.npy").unlink()
    assert [s.name for s in known.shifts(tmp_path) if s.absent] == [f"snow_{i}" for i in range(1, 6)]
    third = published["fog_3"].load()
    assert np.unique(third.pixels[:, 0, 0, 0]).tolist() == [3]
    assert (third.pixels[:, 5, 5, 0] == NAMES.index("fog")).all()
    assert [len(published[f"cifar10.1_{v}"].load()) for v in ("v4", "v6")] == [7, 5]
    assert published["cifar10.1_v6"].kind == "cifar10.1-v6"


def test_cifar_pixels_are_red_plane_first(tmp_path):
    layouts.cifar(tmp_path, per_batch=10)
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    row = np.zeros(3072, np.uint8)
    row[33] = 200  # red plane, second line, second column
    path.write_bytes(pickle.dumps({b"data": row[None], b"labels": [3]}))
    image = named(dataset("cifar10"), tmp_path)["clean"].load()
    assert image.pixels[0, 1, 1].tolist() == [200, 0, 0]
    assert image.labels.tolist() == [3]


def test_cifar100(tmp_path):
    layouts.cifar(tmp_path, per_batch=100, hundred=True)
    known = dataset("cifar100")
    assert (len(known.training(tmp_path)), len(known.validation(tmp_path))) == (80, 20)
    assert known.training(tmp_path).labels.max() > 10


class Hostile:
    def __reduce__(self):
        return os.system, ("touch owned",)


@pytest.mark.parametrize("payload", [Hostile(), {b"data": Hostile()}, [os.path.join], pickle.Unpickler])
def test_a_hostile_pickle_is_refused(tmp_path, payload, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps(payload))
    with pytest.raises(FileError, match="was refused"):
        read_pickle(path)
    assert not (tmp_path / "owned").exists()


def test_a_pickle_of_arrays_written_by_old_numpy_is_read(tmp_path):
    plain = pickle.dumps({b"data": np.arange(6, dtype=np.uint8)}, protocol=2)
    old = plain.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    path = tmp_path / "batch"
    path.write_bytes(old)
    assert read_pickle(path)[b"data"].tolist() == list(range(6))


def test_imagenet_and_its_shifts(tmp_path):
    pytest.importorskip("PIL")
    layouts.imagenet(tmp_path)
    known = dataset("imagenet")
    with pytest.raises(FileError, match=r"8 of 1000 class folders.*dataset_class_info.json"):
        known.training(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    training, validation = known.training(tmp_path), known.validation(tmp_path)
    assert (len(training), len(validation)) == (64, 16)
    assert not set(training.paths) & set(validation.paths)
    assert training.batch(np.arange(2)).shape == (2, 224, 224, 3)
    assert training.batch(np.arange(2), np.array([5, 6], np.uint64)).shape == (2, 224, 224, 3)
    shifts = named(known, tmp_path)
    present = {name: shift for name, shift in shifts.items() if not shift.absent}
    assert {name: shift.kind for name, shift in present.items()} == {
        "clean": "clean", "fog_1": "synthetic", "fog_5": "synthetic", "v2_matched_frequency": "natural",
        "sketch": "natural",
    }  # fmt: skip
    assert len(shifts) == 1 + 95 + 4
    assert str(tmp_path / "ImageNet-C" / "fog" / "2") in shifts["fog_2"].absent
    # The archives unpacked each in its own folder are found too.
    (tmp_path / "ImageNet-C" / "weather").mkdir()
    (tmp_path / "ImageNet-C" / "fog").rename(tmp_path / "ImageNet-C" / "weather" / "fog")
    assert not named(known, tmp_path)["fog_5"].absent
    for shift in (shift for shift in named(known, tmp_path).values() if not shift.absent):
        examples = shift.load()
        assert sorted(set(examples.labels.tolist())) == list(range(8))
        assert examples.batch(np.arange(1)).shape == (1, 224, 224, 3)


def test_the_file_that_decides_the_classes_is_among_the_files_of_every_set(tmp_path):
    pytest.importorskip("PIL")
    from shiftgauge.experiments.datasets import breeds

    layouts.imagenet(tmp_path)
    known = dataset("imagenet")
    assert known.files(tmp_path) == (tmp_path / "imagenet" / "train", tmp_path / "imagenet" / "val")
    layouts.hierarchy(tmp_path / "breeds")
    told = tmp_path / "breeds" / "dataset_class_info.json"
    for made_here in (False, True):
        if made_here:
            shutil.rmtree(tmp_path / "ImageNet-C")
        every = [*known.shifts(tmp_path), *breeds._Task(1, 4).shifts(tmp_path)]
        assert all(told in shift.files for shift in every)
    assert all(told in DATASETS[name].files(tmp_path) for name in ("imagenet", "living17", "entity30-rand"))
    # The tree decides which classes BREEDS' sets hold.
    tree = tmp_path / "breeds" / "class_hierarchy.txt"
    assert all(tree in shift.files for shift in breeds._Task(1, 4).shifts(tmp_path))


def through_256(pixels):
    """Resize(256) and CenterCrop(224) of torchvision on a square image, by hand."""
    from PIL import Image

    large = Image.fromarray(pixels).resize((256, 256), Image.Resampling.BILINEAR)
    return np.asarray(large.crop((16, 16, 240, 240)))


def test_published_corrupted_files_are_resized_and_cut_as_any_other(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from shiftgauge.experiments.datasets import breeds

    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    same = {shift.name: shift for shift in breeds._Task(1, 4).shifts(tmp_path)}["same_fog_1"]
    for shift in (named(dataset("imagenet"), tmp_path)["fog_1"], same):
        examples = shift.load()
        with image.open(examples.paths[0]) as file:
            published = np.asarray(file.convert("RGB"))
        assert published.shape == (224, 224, 3)
        assert np.array_equal(examples.batch(np.arange(1))[0], through_256(published))


def test_imagenet_is_corrupted_here_where_the_published_files_are_missing(tmp_path):
    pytest.importorskip("PIL")
    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    shutil.rmtree(tmp_path / "ImageNet-C")
    shifts = named(dataset("imagenet"), tmp_path)
    assert sum(shift.kind == "synthetic" for shift in shifts.values()) == 95
    clean, made = shifts["clean"].load(), shifts["contrast_5"].load()
    rows = np.arange(2)
    # As the published files: the middle of the image, corrupted, then resized and cut once more.
    corrupted = corrupt(clean.batch(rows), "contrast", 5, constants="imagenet")
    assert np.array_equal(made.batch(rows), [through_256(image) for image in corrupted])
    assert len(made.take(rows)) == 2


@pytest.mark.parametrize("name", ["snow", "frost", "fog", "elastic_transform", "gaussian_noise"])
def test_a_corrupted_image_does_not_depend_on_what_is_taken_with_it(name):
    from shiftgauge.experiments.examples import ArrayImages, CorruptedFiles

    rng = np.random.default_rng(0)
    images = ArrayImages(rng.integers(0, 256, (9, 32, 32, 3), dtype=np.uint8), np.arange(9))
    shifted = CorruptedFiles(images, name, 3, "cifar")
    whole = shifted.batch(np.arange(9))
    for rows in (np.arange(4), np.array([7]), np.array([8, 2, 5])):
        part = shifted.take(rows)
        assert np.array_equal(part.batch(np.arange(len(rows))), whole[rows])
        assert np.array_equal(part.labels, rows)
        assert np.array_equal(part.take(np.array([0])).batch(np.array([0])), whole[rows[:1]])
        assert np.array_equal(shifted.batch(rows), whole[rows])
    # Each image has noise of its own.
    twice = ArrayImages(images.pixels[[0, 0]], np.arange(2))
    first, second = CorruptedFiles(twice, name, 3, "cifar").batch(np.arange(2))
    assert not np.array_equal(first, second)


def test_reserved_images_of_a_class_do_not_depend_on_the_other_folders(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    from shiftgauge.experiments.datasets import breeds, imagenet

    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    assert imagenet.RESERVED * imagenet.CLASSES == 50_000
    monkeypatch.setattr(imagenet, "RESERVED", 1)
    whole = dataset("imagenet").validation(tmp_path).paths
    # As many of every class, and not the same places in all of them.
    assert sorted(path.parent.name for path in whole) == layouts.WNIDS
    assert len({path.stem.split("_")[1] for path in whole}) > 1
    task = breeds._Task(1, 4)
    source = task.validation(tmp_path).paths
    assert set(source) < set(whole)
    for name in ("n02", "n04", "n07", "n08"):
        shutil.rmtree(tmp_path / "imagenet" / "train" / name)
    assert source == [path for path in whole if path.parent.name in ("n01", "n03", "n05", "n06")]
    assert task.validation(tmp_path).paths == source
    # A small class gives a fifth at most.
    monkeypatch.setattr(imagenet, "RESERVED", 50)
    assert len(task.validation(tmp_path)) == 4 * 2
    assert not set(task.training(tmp_path).paths) & set(task.validation(tmp_path).paths)


@pytest.mark.torch
def test_some_rows_of_folders_are_of_all_classes(tmp_path):
    pytest.importorskip("PIL")
    pytest.importorskip("torch")
    from shiftgauge.experiments import collect
    from shiftgauge.experiments.recipes import recipe
    from shiftgauge.experiments.setting import Setting

    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    known = dataset("imagenet")
    setting = Setting(known, "resnet50", recipe("imagenet"), tmp_path, tmp_path / "runs", rows=8)
    for shift in known.shifts(tmp_path):
        if not shift.absent:
            assert collect.load(setting, shift).labels.tolist() == list(range(8)), shift.name
    layouts.cifar(tmp_path)
    setting = dataclasses.replace(setting, dataset=dataset("cifar10"), rows=7)
    for shift in dataset("cifar10").shifts(tmp_path)[
        :2
    ]:  # the test set is shuffled: its first rows are a sample
        assert collect.load(setting, shift).labels.tolist() == list(range(7)), shift.name
    assert len(collect.load(dataclasses.replace(setting, rows=10**6), shift)) == 20


def test_a_set_that_was_unpacked_by_half_is_refused(tmp_path):
    pytest.importorskip("PIL")
    from shiftgauge.experiments.datasets import breeds

    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    imagenet, task = dataset("imagenet"), breeds._Task(1, 4)
    shutil.rmtree(tmp_path / "imagenet" / "train" / "n02")
    said = (
        r"train has no image of 1 of the 8 classes that are read from it \(n02\); was it unpacked completely"
    )
    for read in (imagenet.training, imagenet.validation):
        with pytest.raises(FileError, match=said):
            read(tmp_path)
    assert len(task.training(tmp_path))  # n02 is none of its source classes
    for path in (tmp_path / "imagenet" / "val" / "n01").iterdir():
        path.unlink()
    for shift in (imagenet.shifts(tmp_path)[0], task.shifts(tmp_path)[0]):
        with pytest.raises(FileError, match=r"val has no image of 1 of the \d classes .*\(n01\)"):
            shift.load()
    shutil.rmtree(tmp_path / "imagenetv2-matched-frequency-format-val" / "3")
    (v2,) = [shift for shift in imagenet.shifts(tmp_path) if shift.name == "v2_matched_frequency"]
    with pytest.raises(FileError, match=r"of the 8 classes .*\(3\)"):
        v2.load()


def test_imagenet_v2_is_read_with_numbers_and_with_wordnet_names(tmp_path):
    pytest.importorskip("PIL")
    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    folder = tmp_path / "imagenetv2-matched-frequency-format-val"
    known, name = dataset("imagenet"), "v2_matched_frequency"
    numbered = named(known, tmp_path)[name].load()
    assert numbered.labels.tolist() == list(range(8))
    for number, wnid in enumerate(layouts.WNIDS):
        (folder / str(number)).rename(folder / wnid)
    assert named(known, tmp_path)[name].load().labels.tolist() == list(range(8))


def test_an_image_folder_of_no_known_class_says_what_was_found_and_what_is_wanted(tmp_path):
    pytest.importorskip("PIL")
    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    known = dataset("imagenet")
    for folder in ("imagenetv2-matched-frequency-format-val", "sketch", "imagenet/train"):
        for number, place in enumerate(sorted((tmp_path / folder).iterdir())):
            place.rename(place.with_name(f"class{number}"))
    shifts = named(known, tmp_path)
    with pytest.raises(FileError, match=r"val holds no image.*8 folders.*class0 or class7.*like 0 or 7"):
        shifts["v2_matched_frequency"].load()
    with pytest.raises(FileError, match=r"sketch holds no image of a known class.*like n01 or n08"):
        shifts["sketch"].load()
    with pytest.raises(FileError, match=r"train holds no image of a known class"):
        known.training(tmp_path)


def test_the_hierarchy_splits_superclasses_into_disjoint_halves(tmp_path):
    layouts.hierarchy(tmp_path / "breeds")
    tree = read_hierarchy(tmp_path / "breeds")
    assert "unused" not in tree.levels
    assert tree.levels["n01"] == 4
    assert tree.leaves("sA") == ["n01", "n02", "n03", "n04"]
    split = tree.split(1, 4, how="rand")
    assert split.superclasses == ["sA", "sB"]
    for source, target, numbers in zip(split.source, split.target, ({0, 1, 2, 3}, {4, 5, 6, 7}), strict=True):
        assert set(source) | set(target) == numbers
        assert len(source) == len(target) == 2
    # The reference draws with numpy's legacy generator, superclass after superclass.
    rng = np.random.RandomState(2)
    assert (
        split.source[0]
        == [int(w[1:]) - 1 for w in rng.choice(["n01", "n02", "n03", "n04"], 4, replace=False)][:2]
    )


def test_the_good_split_spreads_similar_classes(tmp_path):
    layouts.hierarchy(tmp_path / "breeds")
    split = read_hierarchy(tmp_path / "breeds").split(1, 4, how="good")
    # By hand: a1 = {0, 1} and a2 = {2, 3} give one class to either side; the single classes 4 to 7 fill one by one.
    assert split.source == [[0, 2], [4, 5]]
    assert split.target == [[1, 3], [6, 7]]
    with pytest.raises(InputError, match="known: good, rand"):
        read_hierarchy(tmp_path / "breeds").split(1, 4, how="bad")


def test_breeds_classes_do_not_depend_on_which_folders_are_there(tmp_path):
    pytest.importorskip("PIL")
    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    from shiftgauge.experiments.datasets import breeds

    task = breeds._Task(1, 4)
    shutil.rmtree(tmp_path / "imagenet" / "val" / "n02")
    shutil.rmtree(tmp_path / "imagenet" / "train" / "n04")
    label_of = {"n01": 0, "n03": 0, "n05": 1, "n06": 1}
    for examples in (task.training(tmp_path), {s.name: s for s in task.shifts(tmp_path)}["clean"].load()):
        found = {
            path.parent.name: int(label) for path, label in zip(examples.paths, examples.labels, strict=True)
        }
        assert found == label_of
    with pytest.raises(FileError, match=r"gives 2 superclasses instead of 17.*modified"):
        breeds._Task(1, 4, classes=17).split(tmp_path)


def test_breeds_same_and_novel(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    layouts.imagenet(tmp_path)
    layouts.hierarchy(tmp_path / "breeds")
    from shiftgauge.experiments.datasets import breeds

    task = breeds._Task(1, 4)
    split = task.split(tmp_path)
    training = task.training(tmp_path)
    assert set(training.labels.tolist()) == {0, 1}
    folders = {path.parent.name for path in training.paths}
    assert folders == {layouts.WNIDS[number] for half in split.source for number in half}
    validation = task.validation(tmp_path)
    assert not set(validation.paths) & set(training.paths)
    shifts = {shift.name: shift for shift in task.shifts(tmp_path)}
    assert len(shifts) == 1 + 95 + 1 + 95
    assert [f"{s.name}:{s.kind}" for s in shifts.values() if not s.absent] == [
        "clean:clean", "same_fog_1:same", "same_fog_5:same", "novel_clean:novel", "novel_fog_1:novel",
        "novel_fog_5:novel",
    ]  # fmt: skip
    novel = shifts["novel_fog_1"].load()
    assert {path.parent.name for path in novel.paths} == {
        layouts.WNIDS[n] for half in split.target for n in half
    }


@pytest.mark.parametrize(
    ("name", "layout", "source", "novel"),
    [
        ("cifar10", layouts.cifar, [{2, 3, 4}, {0, 1}], [{5, 6, 7}, {8, 9}]),
        ("fashion-mnist", layouts.fashion, [{0, 2}, {7}, {3}], [{4, 6}, {9}, {1}]),
    ],
)
def test_superclasses_same_and_novel(name, layout, source, novel, tmp_path):
    """Images are those of the plain data set, labelled by superclass; the halves share no class."""
    layout(tmp_path)
    plain, known = dataset(name), dataset(f"{name}-superclasses")
    shifts, test = named(known, tmp_path), named(plain, tmp_path)["clean"].load()
    assert known.classes == len(source)
    assert [f"{s.name}:{s.kind}" for s in shifts.values()][:2] == [
        "clean:clean",
        "same_gaussian_noise_1:same",
    ]
    assert [s.kind for s in shifts.values()].count("same") == 95
    assert [s.kind for s in shifts.values()].count("novel") == 96
    for some, everything, half in (
        (known.training(tmp_path), plain.training(tmp_path), source),
        (known.validation(tmp_path), plain.validation(tmp_path), source),
        (shifts["clean"].load(), test, source),
        (shifts["novel_clean"].load(), test, novel),
    ):
        for label, numbers in enumerate(half):
            wanted = everything.pixels[np.isin(everything.labels, list(numbers))]
            assert np.array_equal(some.pixels[some.labels == label], wanted)
        assert len(some) == np.isin(everything.labels, list(set().union(*half))).sum()
    foggy = shifts["novel_fog_3"].load()
    assert np.array_equal(foggy.labels, shifts["novel_clean"].load().labels)
    assert np.array_equal(
        foggy.pixels, corrupt(shifts["novel_clean"].load().pixels, "fog", 3, constants="cifar")
    )


def test_camelyon17(tmp_path):
    pytest.importorskip("PIL")
    layouts.camelyon17(tmp_path)
    known = dataset("camelyon17")
    train, val = known.training(tmp_path), known.validation(tmp_path)
    assert len(train) + len(val) == 12  # hospitals 0, 3, 4
    assert train.batch(np.arange(1), np.array([5], np.uint64)).shape == (1, 96, 96, 3)
    assert [len(shift.load()) for shift in known.shifts(tmp_path)] == [4, 4]


def test_rxrx1(tmp_path):
    pytest.importorskip("PIL")
    layouts.rxrx1(tmp_path)
    known = dataset("rxrx1")
    assert all(path.name.endswith("s1.png") for path in known.training(tmp_path).paths)
    assert all(path.name.endswith("s2.png") for path in known.validation(tmp_path).paths)
    assert [len(shift.load()) for shift in known.shifts(tmp_path)] == [6, 3]
    assert known.training(tmp_path).batch(np.arange(2), np.array([5, 6], np.uint64)).shape == (2, 256, 256, 3)


def test_amazon(tmp_path):
    layouts.amazon(tmp_path)
    known = dataset("amazon")
    train = known.training(tmp_path)
    assert len(train) == 10
    assert train.batch(np.array([0])) == ['Review 1, "quoted",\nsecond line']
    assert train.labels[0] == 1
    assert [len(shift.load()) for shift in known.shifts(tmp_path)] == [5, 5]
    assert len(known.validation(tmp_path)) == 5


def test_civilcomments(tmp_path):
    layouts.civilcomments(tmp_path)
    known = dataset("civilcomments")
    assert len(known.training(tmp_path)) == 12
    validation = known.validation(tmp_path)
    assert validation.labels.tolist() == [0, 1, 0, 0, 1, 0]  # toxicity .2 .6 .0 .4 .8 .2
    shifts = named(known, tmp_path)
    assert [name for name, shift in shifts.items() if shift.kind == "natural"] == [
        "male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black",
    ]  # fmt: skip
    assert len(shifts["test"].load()) == 6
    assert shifts["male"].load().texts == ["comment 3", "comment 15"]
    assert shifts["female"].load().texts == ["comment 11", "comment 23"]


def test_metadata_without_its_columns_is_one_clear_line(tmp_path):
    layouts.write_csv(tmp_path / "civilcomments_v1.0" / "all_data_with_identities.csv", ["a"], [[1]])
    with pytest.raises(FileError, match="not the metadata WILDS distributes"):
        dataset("civilcomments").training(tmp_path)


def test_the_first_rows_of_a_made_set_cost_their_share_and_are_those_of_the_whole(tmp_path, monkeypatch):
    from shiftgauge.experiments.corruptions import chunk_rows
    from shiftgauge.experiments.datasets import _generated
    from shiftgauge.experiments.examples import ArrayImages

    rng = np.random.default_rng(0)
    images = ArrayImages(rng.integers(0, 256, (2500, 32, 32, 3), dtype=np.uint8), np.arange(2500) % 10)
    made = _generated.CorruptedArray(images, "fog", 3, "cifar")
    asked = []
    corrupt = _generated.corrupt
    monkeypatch.setattr(
        _generated, "corrupt", lambda x, *rest, **how: asked.append(len(x)) or corrupt(x, *rest, **how)
    )
    for rows in (np.arange(300), np.arange(1200), np.array([5, 2499])):
        part = made.take(rows)
        assert np.array_equal(part.pixels, made.pixels[rows])
        assert np.array_equal(part.labels, images.labels[rows])
    # Whole chunks that share a generator; the whole set was made once, for the comparison.
    assert sorted(asked) == [chunk_rows(images.pixels), 2 * chunk_rows(images.pixels), 2500, 2500]
    assert np.array_equal(made.batch(np.arange(7, 9)), made.pixels[7:9])
    assert len(made.take(np.arange(0))) == 0
