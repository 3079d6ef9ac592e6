"""Networks, recipes, training that resumes bit for bit, ProjNorm against its definition."""

import dataclasses
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from shiftgauge.errors import FileError, InputError  # noqa: E402
from shiftgauge.experiments import bench  # noqa: E402
from shiftgauge.experiments.checkpoints import load_checkpoint  # noqa: E402
from shiftgauge.experiments.examples import ArrayImages, FileImages, Texts, crop_and_mirror  # noqa: E402
from shiftgauge.experiments.networks import NETWORKS, Network, build  # noqa: E402
from shiftgauge.experiments.projnorm import PAPER, TorchRefit, distance, parameters_of, projnorm  # noqa: E402
from shiftgauge.experiments.recipes import RECIPES, SEEDS, Recipe, recipe  # noqa: E402
from shiftgauge.experiments.scoring import Run, score  # noqa: E402
from shiftgauge.experiments.training import make_optimiser, train  # noqa: E402

pytestmark = pytest.mark.torch

SHORT = Recipe("sgd", 0.1, 6, 16, 5e-4, nesterov=True, schedule="onecycle", warmup=0.5, augment=True)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    labels = np.arange(96) % 4
    pixels = np.clip(60 * labels[:, None, None, None] + rng.integers(0, 40, (96, 32, 32, 3)), 0, 255)
    return ArrayImages(pixels.astype(np.uint8), labels)


def weights(network):
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def test_the_papers_recipes():
    cifar = recipe("cifar10")
    assert (cifar.optimiser, cifar.rate, cifar.epochs, cifar.batch, cifar.weight_decay) == (
        "sgd",
        0.1,
        300,
        200,
        5e-4,
    )
    assert [round(cifar.rate_at(e), 9) for e in (0, 99.9, 100, 250)] == [0.1, 0.1, 0.01, 0.001]
    assert (recipe("living17").epochs, recipe("living17").every) == (450, 150)
    assert (recipe("entity30").epochs, recipe("entity30").every) == (300, 100)
    rxrx1 = recipe("rxrx1")
    assert rxrx1.rate_at(5) == pytest.approx(0.5e-4)
    assert rxrx1.rate_at(50) == pytest.approx(1e-4 * (1 + math.cos(math.pi / 2)) / 2)
    assert (recipe("amazon").max_tokens, recipe("civilcomments").max_tokens) == (512, 300)
    assert recipe("imagenet").pretrained
    # The authors' scripts for the correlation table.
    assert [(recipe(f"cifar{n}-pretrained").batch, recipe(f"cifar{n}-pretrained").epochs) for n in (10, 100)] == [
        (64, 20), (64, 40),
    ]  # fmt: skip
    assert SEEDS == (0, 1, 10)
    assert all(0 <= r.rate_at(r.epochs) <= r.rate for r in RECIPES.values())


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("small", 32, 61_338),
        ("resnet20", 32, 272_474),
        ("resnet18", 64, 11_181_642),  # the public ResNet-18 with a head of 10
        ("resnet18-cifar", 32, 11_173_962),
        ("resnet50", 64, 23_528_522),
        ("resnet50-cifar", 32, 23_520_842),
        ("vgg11-cifar", 32, 9_231_114),
        ("vgg11", 64, 128_807_306),  # torchvision's 132,863,336 with a head of 10 instead of 1,000
        ("vgg11-bn", 64, 128_812_810),  # torchvision's 132,868,840
        ("resnet18-224", 32, 11_181_642),
    ],
)
def test_networks_have_the_known_number_of_weights(name, size, count):
    # Shapes without numbers: the large ones would take half a gigabyte each.
    with torch.device("meta"), torch.no_grad():
        network = build(name, 10).eval()
        assert network(torch.rand(2, 3, size, size)).shape == (2, 10)
    assert sum(p.numel() for p in network.parameters()) == count


def test_a_seed_fixes_the_initial_weights_and_leaves_the_global_generator():
    torch.manual_seed(123)
    expected = torch.rand(1)
    torch.manual_seed(123)
    first, again, other = build("small", 4, 0), build("small", 4, 0), build("small", 4, 1)
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(first[1].weight, again[1].weight)
    assert not torch.equal(first[1].weight, other[1].weight)
    with pytest.raises(InputError, match="did you mean 'resnet20'"):
        build("resnet-20", 4)


def test_public_weights_load_into_all_but_the_head(tmp_path):
    public = build("resnet18", 1000, 3)
    path = tmp_path / "resnet18.pth"
    torch.save(public.state_dict(), path)
    first, second = build("resnet18", 10, 0, weights=path), build("resnet18", 10, 1, weights=path)
    assert torch.equal(first.layer4[1].conv2.weight, public.layer4[1].conv2.weight)
    assert torch.equal(first.conv1.weight, second.conv1.weight)
    assert not torch.equal(first.fc.weight, second.fc.weight)
    torch.save({"x": torch.zeros(1)}, path)
    with pytest.raises(FileError, match="does not fit"):
        build("resnet18", 10, weights=path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(FileError, match="not a torch state dict"):
        build("resnet18", 10, weights=path)


def test_crops_are_windows_of_the_padded_image():
    image = np.arange(1, 65, dtype=np.uint8).reshape(1, 8, 8, 1).repeat(3, 3)
    padded = np.pad(image, ((0, 0), (2, 2), (2, 2), (0, 0)))[0, ..., 0]
    windows = {padded[i : i + 8, j : j + 8].tobytes() for i in range(5) for j in range(5)}
    windows |= {padded[i : i + 8, j : j + 8][:, ::-1].tobytes() for i in range(5) for j in range(5)}
    draws = np.random.default_rng(0).integers(0, 2**63, 200, np.uint64)
    seen = {crop_and_mirror(image, draws[i : i + 1], 2, True)[0, ..., 0].tobytes() for i in range(200)}
    assert seen <= windows
    assert len(seen) > 40
    together = crop_and_mirror(image.repeat(5, 0), draws[:5], 2, True)
    alone = [crop_and_mirror(image, draws[i : i + 1], 2, True)[0] for i in range(5)]
    assert np.array_equal(together, alone)  # a row's view is its own


@pytest.mark.parametrize("augment", ["crop", "turn"])
def test_an_odd_draw_is_the_mirror_image_of_the_even_one_before(augment, tmp_path):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (1, 40, 40, 3), np.uint8)
    Image.fromarray(pixels[0]).save(tmp_path / "noise.png")
    even = 2 * np.random.default_rng(1).integers(0, 2**62, 20, np.uint64)
    in_memory = ArrayImages(pixels, np.zeros(1, np.int64))
    in_files = FileImages([tmp_path / "noise.png"], np.zeros(1, np.int64), 40, ready=True, augment=augment)
    for images in (in_memory, in_files):
        plain = images.batch(np.zeros(20, np.int64), even)
        assert np.array_equal(images.batch(np.zeros(20, np.int64), even + np.uint64(1)), plain[:, :, ::-1])
        assert len({view.tobytes() for view in plain}) > 3
    # An even draw of a window in the middle is the image itself, not its mirror.
    middle = np.array([2 * (4 + 9 * 4)], np.uint64)
    assert np.array_equal(in_memory.batch(np.zeros(1, np.int64), middle), pixels)


def test_training_learns_and_a_resumed_run_equals_an_uninterrupted_one(images, tmp_path):
    whole = train(build("small", 4, 0), images, SHORT, 0, Run(checkpoint=tmp_path / "whole.pt"))
    # Killed in the middle of an epoch, twice.
    for stop in (4, 9):
        train(build("small", 4, 0), images, SHORT, 0, Run(checkpoint=tmp_path / "part.pt", stop_after=stop))
        assert load_checkpoint(tmp_path / "part.pt")["step"] == stop
    resumed = train(build("small", 4, 0), images, SHORT, 0, Run(checkpoint=tmp_path / "part.pt"))
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(resumed)[name]), name
    assert (score(whole, images).argmax(1) == images.labels).mean() > 0.9
    # A finished checkpoint is loaded, not trained.
    loaded = train(build("small", 4, 5), images, SHORT, 0, Run(checkpoint=tmp_path / "whole.pt"))
    assert np.array_equal(score(loaded, images), score(whole, images))


def test_another_seed_is_another_network_and_another_recipe_is_refused(images, tmp_path):
    run = Run(checkpoint=tmp_path / "a.pt", stop_after=2)
    first = weights(train(build("small", 4, 0), images, SHORT, 0, run))
    other = weights(train(build("small", 4, 0), images, SHORT, 1, Run(stop_after=2)))
    assert not torch.equal(first["1.weight"], other["1.weight"])
    with pytest.raises(FileError, match=r"was made with other rate; delete it"):
        train(build("small", 4, 0), images, dataclasses.replace(SHORT, rate=0.2), 0, run)
    with pytest.raises(FileError, match="was made with other precision"):
        train(build("small", 4, 0), images, SHORT, 0, dataclasses.replace(run, precision="bfloat16"))
    # A note is no setting.
    train(build("small", 4, 0), images, dataclasses.replace(SHORT, note="other words"), 0, run)
    (tmp_path / "a.pt").write_bytes(b"\x80\x04junk")
    with pytest.raises(FileError, match="not a checkpoint"):
        train(build("small", 4, 0), images, SHORT, 0, run)


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_the_other_optimisers_learn(images, optimiser):
    how = Recipe(optimiser, 3e-3, 3, 16, 1e-5, schedule="linear")
    network = train(build("small", 4, 0), images, how, 0)
    assert (score(network, images).argmax(1) == images.labels).mean() > 0.8


def test_projnorm_is_the_norm_of_the_difference(images):
    network = build("small", 4, 0).eval()
    initial = parameters_of(network)
    refit = TorchRefit(network, steps=3, batch=32, rate=0.05)
    pseudo = np.random.default_rng(0).permutation(images.labels)
    a, b = refit(initial, images, images.labels), refit(initial, images, pseudo)
    by_hand = np.sqrt(sum(((a[k].astype(float) - b[k]) ** 2).sum() for k in a))
    value = projnorm(refit, initial, (images, images.labels), (images, pseudo))
    assert value == pytest.approx(by_hand, rel=1e-12)
    assert value > 0
    assert projnorm(refit, initial, (images, images.labels), (images, images.labels)) == 0
    assert all(np.array_equal(v, parameters_of(network)[k]) for k, v in initial.items())  # untouched


class Dropping(torch.nn.Module):
    """One linear layer behind dropout, which draws from torch's global generator."""

    def __init__(self):
        super().__init__()
        self.drop, self.out = torch.nn.Dropout(0.5), torch.nn.Linear(3, 4)

    def forward(self, x):
        return self.out(self.drop(x.mean((2, 3))))


def test_a_refit_does_not_depend_on_what_was_drawn_before(images):
    network = Dropping()
    initial, refit = parameters_of(network), TorchRefit(network, steps=5, batch=32, rate=0.05, seed=3)
    first = refit(initial, images, images.labels)
    before = torch.random.get_rng_state()
    torch.rand(7)
    drawn = torch.random.get_rng_state()
    again = refit(initial, images, images.labels)
    assert all(np.array_equal(value, again[name]) for name, value in first.items())
    assert torch.equal(torch.random.get_rng_state(), drawn)  # and leaves the generator as it was
    assert not torch.equal(before, drawn)
    other = TorchRefit(network, steps=5, batch=32, rate=0.05, seed=4)(initial, images, images.labels)
    assert not np.array_equal(first["out.weight"], other["out.weight"])


def test_a_refit_takes_the_precision_of_the_run(images):
    network = build("small", 4, 0)
    initial = parameters_of(network)

    def refit(precision):
        return TorchRefit(network, steps=5, batch=32, run=Run(precision=precision))(
            initial, images, images.labels
        )

    plain, rounded = refit("auto"), refit("bfloat16")
    assert all(np.array_equal(value, plain[name]) for name, value in refit("float32").items())
    assert 0 < distance(plain, rounded) < 0.2 * distance(plain, initial)
    assert all(value.dtype == np.float32 for value in rounded.values())  # bfloat16 activations, not weights
    with pytest.raises(InputError, match="float16 needs a GPU"):
        refit("float16")


def test_a_refit_goes_through_whole_shuffled_orders(images):
    asked = []

    class Watched:
        def batch(self, rows):
            asked.append(rows)
            return images.batch(rows)

    network = build("small", 4, 0)
    initial, refit = parameters_of(network), TorchRefit(network, steps=7, batch=40)
    refit(initial, Watched(), images.labels)
    assert [len(rows) for rows in asked] == [40, 40, 16, 40, 40, 16, 40]
    first, second = np.concatenate(asked[:3]), np.concatenate(asked[3:6])
    assert sorted(first) == sorted(second) == list(range(96))
    assert not np.array_equal(first, second)
    with pytest.raises(InputError, match="no examples"):
        refit(initial, Watched(), images.labels[:0])


def test_projnorm_takes_any_framework():
    def refit(initial, inputs, labels):
        # Linear least squares, one gradient step, in numpy.
        w = initial["w"]
        return {"w": w - 0.1 * inputs.T @ (inputs @ w - labels) / len(labels)}

    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(20, 3)), rng.normal(size=20), rng.normal(size=20)
    expected = np.linalg.norm(0.1 * x.T @ (y - z) / 20)
    assert projnorm(refit, {"w": np.zeros(3)}, (x, y), (x, z)) == pytest.approx(expected)
    with pytest.raises(InputError, match="do not have the same weights"):
        distance({"a": np.zeros(1)}, {"b": np.zeros(1)})


def test_vgg_has_torchvisions_keys():
    # As published: convolutions (and norms) by their place in `features`, linear layers at 0, 3 and 6.
    with torch.device("meta"):
        plain, normed = build("vgg11", 10).state_dict(), build("vgg11-bn", 10).state_dict()
    linear = {f"classifier.{i}.{what}" for i in (0, 3, 6) for what in ("weight", "bias")}
    assert set(plain) == linear | {
        f"features.{i}.{what}" for i in (0, 3, 6, 8, 11, 13, 16, 18) for what in ("weight", "bias")
    }
    places = (0, 4, 8, 11, 15, 18, 22, 25)
    norms = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert set(normed) == (
        linear
        | {f"features.{i}.{what}" for i in places for what in ("weight", "bias")}
        | {f"features.{i + 1}.{what}" for i in places for what in norms}
    )


def test_initial_weights_are_torchvisions():
    from torch import nn

    from shiftgauge.experiments.networks._parts import Head, initialise

    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.Linear(500, 400), Head(400, 50))
    head = {name: value.clone() for name, value in network[3].state_dict().items()}
    initialise(network)
    convolution, norm, linear, _ = network
    # He, by the outputs: variance 2 / (32 * 9). The spread of 4,608 draws is known to 1%, of 200,000 to 0.2%.
    assert convolution.weight.std().item() == pytest.approx(math.sqrt(2 / (32 * 9)), rel=0.05)
    assert linear.weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert not any(part.bias.any() for part in (convolution, norm, linear))
    assert (norm.weight == 1).all()
    # The authors put a new last layer in place of torchvision's: it starts as torch makes it.
    assert all(torch.equal(value, network[3].state_dict()[name]) for name, value in head.items())
    assert head["bias"].any()


def test_vggs_hidden_layers_are_initialised(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        torch.nn.init, "normal_", lambda weight, **how: drawn.append((tuple(weight.shape), how))
    )
    with torch.device("meta"):
        build("vgg11-224", 10)
    assert drawn == [((4096, 25088), {"std": 0.01}), ((4096, 4096), {"std": 0.01})]


def test_cifar_at_224_pixels_is_normalised_as_the_authors_do(tmp_path):
    """By the statistics of CIFAR-10, or by those of the public weights where training starts from them."""
    public, name = tmp_path / "public.pth", "resnet18-224"
    with pytest.raises(FileError, match="does not exist"):
        build(name, 10, weights=public)
    fresh = build(name, 10)
    torch.save(fresh.state_dict(), public)
    for network, mean, std in (
        (fresh, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
        (build(name, 10, weights=public), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ):
        mean, std = (torch.tensor(value).view(1, 3, 1, 1) for value in (mean, std))
        middle, one_off = (network.normalise(image.expand(1, 3, 32, 32)) for image in (mean, mean + std))
        assert middle.shape == (1, 3, 224, 224)
        torch.testing.assert_close(middle, torch.zeros_like(middle), atol=1e-5, rtol=0)
        torch.testing.assert_close(one_off, torch.ones_like(middle), atol=1e-5, rtol=0)


def test_enlarged_images_are_pillows_bilinear():
    from PIL import Image

    from shiftgauge.experiments.networks._parts import Resize

    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    theirs = np.asarray(Image.fromarray(pixels).resize((224, 224), Image.Resampling.BILINEAR), float)
    ours = Resize(224)(torch.from_numpy(pixels).permute(2, 0, 1)[None].float())[0].permute(1, 2, 0).numpy()
    assert np.abs(theirs - ours).max() <= 1  # pillow rounds to whole grey levels


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_workers_change_nothing_but_speed(images, precision):
    losses = {}
    for workers in (0, 2):
        seen = losses.setdefault(workers, [])
        run = Run(
            workers=workers, precision=precision, on_step=lambda step, loss, seen=seen: seen.append(loss)
        )
        train(build("small", 4, 0), images, dataclasses.replace(SHORT, epochs=1), 0, run)
    assert losses[0] == losses[2]
    with pytest.raises(InputError, match="float16 needs a GPU"):
        train(build("small", 4, 0), images, SHORT, 0, Run(precision="float16"))


@pytest.mark.parametrize("name", ["small", "resnet20", "vgg11-cifar"])
def test_logits_keep_their_digits_in_mixed_precision(images, name):
    """A last layer in bfloat16 would give numbers of eight bits, which tie."""
    network = build(name, 4, 0)
    exact, mixed = (score(network, images, run=Run(precision=p)) for p in ("float32", "bfloat16"))
    assert (mixed == torch.from_numpy(mixed).bfloat16().float().numpy()).mean() < 0.1
    np.testing.assert_allclose(mixed, exact, atol=0.1 * np.abs(exact).max())


def test_scores_are_of_single_precision_unless_another_is_asked_for(images, monkeypatch):
    gpu = Run(device="cuda")
    assert (gpu.training_dtype, gpu.scoring_dtype) == ("float16", "float32")
    for name in ("float32", "bfloat16"):
        asked = Run(precision=name)
        assert (asked.training_dtype, asked.scoring_dtype) == (name, name)
    network = build("small", 4, 0)
    exact = score(network, images, run=Run(precision="float32"))
    # A device where training would be in mixed precision by itself.
    monkeypatch.setattr(Run, "training_dtype", property(lambda _: "bfloat16"))
    assert np.array_equal(score(network, images), exact)
    assert not np.array_equal(score(network, images, run=Run(precision="bfloat16")), exact)


def test_exempt_weights_do_not_decay():
    network = build("small", 4, 0)
    groups = make_optimiser(network, dataclasses.replace(SHORT, exempt=("bias",))).param_groups
    assert [group["weight_decay"] for group in groups] == [5e-4, 0.0]
    biases = sum(name.endswith("bias") for name, _ in network.named_parameters())
    assert len(groups[1]["params"]) == biases > 0
    assert len(make_optimiser(network, SHORT).param_groups) == 1


def test_text_rates_fall_once_an_epoch():
    amazon = recipe("amazon")
    rates = [amazon.rate_at(e) for e in (0.0, 0.9, 1.0, 2.5)]
    assert rates == pytest.approx([1e-5, 1e-5, 1e-5 * 2 / 3, 1e-5 / 3])
    assert not recipe("cifar10").augment
    assert recipe("rxrx1").augment


def test_projnorms_cosine_is_torchs():
    network = torch.nn.Linear(1, 1)
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=10)
    refit = TorchRefit(network, steps=10, rate=1e-3, cosine=True)
    for step in range(10):
        assert refit.rate_at(step) == pytest.approx(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert PAPER.steps_for(10_000) == 1000


def test_a_network_says_in_one_line_what_it_starts_from_and_reads(tmp_path, monkeypatch):
    """Public weights and texts belong to the entry in the registry: nothing else names networks."""
    monkeypatch.setitem(NETWORKS, "mine", Network(".resnet", "resnet18", weights="mine.pth"))
    pretrained = bench.setting("cifar10", tmp_path, tmp_path, "mine", "cifar10-pretrained")
    assert pretrained.initial_weights() == tmp_path / "weights" / "mine.pth"
    monkeypatch.setitem(NETWORKS, "reader", Network(".distilbert", "distilbert", text=True))
    assert bench.setting("amazon", tmp_path, tmp_path, "reader").network == "reader"
    with pytest.raises(InputError, match="choose one of --network distilbert, reader"):
        bench.setting("amazon", tmp_path, tmp_path, "mine")


def test_distilbert_trains_and_scores_texts(tmp_path):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "book"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    config = transformers.DistilBertConfig(vocab_size=8, dim=16, hidden_dim=32, n_layers=1, n_heads=2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.DistilBertModel(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "DistilBertTokenizer"}')
    texts = Texts(["good book", "bad book"] * 16, np.array([1, 0] * 16))
    network = build("distilbert", 2, 0, weights=tmp_path, max_tokens=8)
    how = Recipe("adamw", 1e-2, 20, 8, 1e-2, schedule="linear", max_tokens=8)
    network = train(network, texts, how, 0)
    assert (score(network, texts).argmax(1) == texts.labels).mean() == 1.0
    with pytest.raises(FileError, match="no DistilBERT at"):
        build("distilbert", 2, weights=tmp_path / "nothing")
