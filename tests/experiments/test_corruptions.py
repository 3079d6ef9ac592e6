"""Corruptions against closed forms, scipy, a second implementation, and the published constants."""

import colorsys
from hashlib import sha256

import numpy as np
import pytest
from scipy import ndimage

from shiftgauge.errors import InputError
from shiftgauge.experiments.corruptions import CONSTANTS, NAMES, blur, corrupt, digital, noise, weather
from shiftgauge.experiments.corruptions._kernels import filter_planes
from shiftgauge.experiments.corruptions._operators import _zoom, smooth
from shiftgauge.experiments.corruptions.textures import origin, procedural

RNG = np.random.default_rng(5)
NEEDS_CV2 = {"defocus_blur", "elastic_transform", "frost", "spatter"}


def photos(n=6, size=32, seed=0):
    """Smooth random colour images: noise has no structure to blur."""
    rng = np.random.default_rng(seed)
    x = ndimage.gaussian_filter(rng.random((n, size, size, 3)), (0, 3, 3, 0))
    x = (x - x.min()) / np.ptp(x)
    return (255 * x).astype(np.uint8)


def test_there_are_nineteen_with_five_severities_each():
    assert len(NAMES) == 19
    for constants in CONSTANTS.values():
        assert list(constants) == list(NAMES)
        assert all(len(values) == 5 for values in constants.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_corruption_keeps_shape_repeats_itself_and_leaves_its_input(name):
    if name in NEEDS_CV2:
        pytest.importorskip("cv2")
    if name in ("jpeg_compression", "pixelate"):
        pytest.importorskip("PIL")
    images = photos(4)
    before = images.copy()
    first = corrupt(images, name, 3, seed=1)
    assert first.shape == images.shape
    assert first.dtype == np.uint8
    assert np.array_equal(first, corrupt(images, name, 3, seed=1))
    assert np.array_equal(images, before)
    random = name not in (
        "defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression", "gaussian_blur",
        "saturate",
    )  # fmt: skip
    assert np.array_equal(first, corrupt(images, name, 3, seed=2)) != random


@pytest.mark.parametrize(
    "name", sorted(set(NAMES) - {"impulse_noise", "elastic_transform", "saturate", "glass_blur"})
)
def test_severity_grows(name):
    if name in NEEDS_CV2:
        pytest.importorskip("cv2")
    pytest.importorskip("PIL")
    images = photos(8)
    change = [np.abs(corrupt(images, name, s).astype(int) - images).mean() for s in (1, 5)]
    assert change[1] > change[0]


@pytest.mark.parametrize(
    "name", ["defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur", "contrast"]
)
def test_a_constant_image_cannot_be_blurred(name):
    if name in NEEDS_CV2:
        pytest.importorskip("cv2")
    grey = np.full((2, 32, 32, 3), 100, np.uint8)
    # Truncation may lose one level where sums of weights round below one.
    assert np.abs(corrupt(grey, name, 5).astype(int) - 100).max() <= 2


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("mode", ["nearest", "reflect"])
def test_the_blur_matrix_is_scipys_filter(sigma, mode):
    planes = RNG.random((2, 3, 32, 24)).astype(np.float32)
    expected = ndimage.gaussian_filter(planes.astype(float), (0, 0, sigma, sigma), mode=mode)
    np.testing.assert_allclose(smooth(planes, sigma, mode), expected, atol=1e-5)


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.11, 1.25, 1.75, 2.25])
def test_the_zoom_matrix_is_scipys_zoom(factor):
    image = RNG.random((32, 32))
    crop = int(np.ceil(32 / factor))
    top = (32 - crop) // 2
    zoomed = ndimage.zoom(image[top : top + crop, top : top + crop], factor, order=1)
    trim = (zoomed.shape[0] - 32) // 2
    matrix = _zoom(32, factor).astype(float)
    np.testing.assert_allclose(
        matrix @ image @ matrix.T, zoomed[trim : trim + 32, trim : trim + 32], atol=1e-5
    )


@pytest.mark.parametrize("size", [8, 32, 40])
def test_planes_are_filtered_in_one_order_of_additions(size):
    # BLAS adds in the order of the processor's kind, and a rounded sum decides a grey level.
    planes, rows, columns = (
        RNG.random(shape).astype(np.float32) for shape in ((3, size, size), (size, size), (size, size))
    )
    rows[:, ::3] = 0

    def add(total, product):
        return (total.astype(float) + product).astype(np.float32)

    left = np.zeros_like(planes)
    for k in range(size):
        left = add(left, rows[:, k, None].astype(float) * planes[:, None, k])
    sums = np.zeros((16, *planes.shape), np.float32)
    for k in range(size):
        sums[k % 16] = add(sums[k % 16], left[..., k, None].astype(float) * columns[:, k])
    while len(sums) > 1:
        sums = sums[::2] + sums[1::2]
    filtered = filter_planes(planes, rows, columns)
    assert np.array_equal(filtered, sums[0])
    np.testing.assert_allclose(filtered, rows @ planes @ columns.T, rtol=1e-5)


def test_corrupted_images_are_the_same_on_every_processor():
    images = np.random.default_rng(0).integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)
    digests = {
        name: sha256(corrupt(images, name, severity).tobytes()).hexdigest()[:8]
        for name, severity in (("gaussian_blur", 3), ("glass_blur", 4), ("zoom_blur", 2), ("snow", 5))
    }
    assert digests == {
        "gaussian_blur": "8805175a",
        "glass_blur": "2b41b6f4",
        "zoom_blur": "eeceeb9b",
        "snow": "9fe4acc2",
    }


def test_brightness_and_saturation_agree_with_colorsys():
    images = RNG.integers(0, 256, (1, 8, 8, 3), dtype=np.uint8)
    images[0, 0, 0] = 0
    images[0, 0, 1] = 77  # grey: hue 0 by convention
    for name, severity in (("brightness", 2), ("brightness", 5), ("saturate", 1), ("saturate", 5)):
        c = CONSTANTS["cifar"][name][severity - 1]
        expected = np.zeros(images.shape)
        for index in np.ndindex(1, 8, 8):
            h, s, v = colorsys.rgb_to_hsv(*(images[index] / 255))
            if name == "brightness":
                v = min(v + c, 1)
            else:
                s = min(max(s * c[0] + c[1], 0), 1)
            expected[index] = 255 * np.array(colorsys.hsv_to_rgb(h, s, v))
        assert np.abs(corrupt(images, name, severity) - expected).max() <= 1.01  # truncation


def test_contrast_is_linear_around_the_mean():
    image = np.zeros((1, 2, 2, 3), np.uint8)
    image[0, 0] = 200
    assert corrupt(image, "contrast", 2)[0, :, 0, 0].tolist() == [150, 50]


def test_noise_has_the_published_size():
    grey = np.full((4, 64, 64, 3), 128, np.uint8)
    for name, expected in (
        ("gaussian_noise", 0.08 * 255),
        ("speckle_noise", 0.12 * 128),
        ("shot_noise", np.sqrt(128 / 255 / 100) * 255),
    ):
        found = corrupt(grey, name, 3).std()
        assert found == pytest.approx(expected, rel=0.03), (
            name
        )  # 49,152 values: 1% statistical error, truncation
    salted = corrupt(grey, "impulse_noise", 5)
    assert (salted == 0).mean() == pytest.approx(0.035, abs=0.003)
    assert (salted == 255).mean() == pytest.approx(0.035, abs=0.003)


def test_glass_blur_equals_the_published_loop_on_the_same_moves():
    images = RNG.integers(0, 256, (2, 12, 12, 3), dtype=np.uint8)
    reach, sigma = 1, 0.4
    moves = RNG.integers(-reach, reach, size=(2, 100, 2), dtype=np.int8)

    class Fixed:
        def integers(self, *args, **kwargs):
            return moves

    ours = blur.glass_blur(images, (sigma, reach, 1), Fixed())
    for i, image in enumerate(images):
        x = np.uint8(ndimage.gaussian_filter(image / 255.0, (sigma, sigma, 0), mode="nearest") * 255 + 1e-4)
        step = 0
        for h in range(12 - reach, reach, -1):
            for w in range(12 - reach, reach, -1):
                dx, dy = moves[i, step]
                x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
                step += 1
        x = np.clip(ndimage.gaussian_filter(x / 255.0, (sigma, sigma, 0), mode="nearest"), 0, 1) * 255
        assert np.abs(ours[i] - x).max() <= 2  # two truncations, float32 against float64


def test_motion_blur_along_a_row_is_a_one_sided_gaussian():
    planes = np.zeros((1, 1, 9, 21), np.float32)
    planes[0, 0, 4, 10] = 1
    moved = blur.along(planes, 3, 1.5, np.array([0.0]))[0, 0, 4]
    kernel = np.exp(-(np.arange(7) ** 2) / (2 * 1.5**2))
    np.testing.assert_allclose(moved[4:11][::-1], kernel / kernel.sum(), atol=1e-6)


def test_defocus_kernel_sums_to_one_and_is_symmetric():
    pytest.importorskip("cv2")
    for radius, softness in (*CONSTANTS["cifar"]["defocus_blur"], *CONSTANTS["imagenet"]["defocus_blur"]):
        kernel = blur.disk(radius, softness)
        # From radius 8 the disk touches the kernel's edge, and the published softening mirrors mass back in.
        assert kernel.sum() == pytest.approx(1, abs=1e-4 if radius < 8 else 0.02)
        np.testing.assert_allclose(kernel, kernel.T, atol=1e-6)


def test_plasma_fills_the_unit_interval_and_fog_keeps_black_white_order():
    maps = weather.plasma(3, 32, 2.0, np.random.default_rng(0))
    assert maps.shape == (3, 32, 32)
    np.testing.assert_allclose(maps.min(axis=(1, 2)), 0, atol=1e-7)
    np.testing.assert_allclose(maps.max(axis=(1, 2)), 1, atol=1e-7)
    assert len(np.unique(maps[0])) > 900


def test_grey_images_are_untouched_by_three_of_the_five_saturations():
    grey = np.repeat(RNG.integers(0, 256, (2, 32, 32, 1), dtype=np.uint8), 3, axis=3)
    same = [np.array_equal(corrupt(grey, "saturate", s), grey) for s in range(1, 6)]
    assert same == [True, True, True, False, False]


@pytest.mark.slow
def test_imagenet_sizes_work():
    pytest.importorskip("cv2")
    images = photos(1, 224)
    for name in (
        "fog",
        "snow",
        "zoom_blur",
        "glass_blur",
        "elastic_transform",
        "frost",
        "spatter",
        "motion_blur",
    ):
        assert corrupt(images, name, 5, constants="imagenet").shape == images.shape


def test_frost_says_where_its_textures_come_from():
    assert origin() in ("photographs", "procedural")
    texture = procedural(0, 100)
    assert texture.shape == (100, 100, 3)
    assert texture.std() > 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "fogg"}, "did you mean 'fog'"),
        ({"severity": 6}, "1, 2, 3, 4 or 5"),
        ({"constants": "mnist"}, "'cifar' or 'imagenet'"),
        ({"images": np.zeros((2, 8, 8), np.uint8)}, "(n, height, width, 3)"),
        ({"images": np.zeros((2, 8, 8, 3))}, "uint8"),
    ],
)
def test_bad_input_is_one_clear_line(change, said):
    given = {"images": photos(1), "name": "fog", "severity": 1, **change}
    with pytest.raises(InputError) as caught:
        corrupt(**given)
    assert said in str(caught.value)


def test_unused_rng_functions_are_pure():
    images = photos(2)
    assert np.array_equal(digital.contrast(images, 0.5, None), digital.contrast(images, 0.5, None))
    assert noise.impulse_noise(images, 0.0, np.random.default_rng(0)).tolist() == images.tolist()
