"""What the command promises beyond the library: the limit, the level, the truth only where it is asked for."""

import re

import numpy as np
import pytest

import shiftgauge as sg


@pytest.fixture
def scot(source, target):
    return sg.estimate(source, target, "scot").error


def test_a_limit_that_is_met_exactly_is_not_exceeded(shiftgauge, files, scot):
    words = ("estimate", *files, "-m", "scot", "--replicates", 0, "--fail-above")
    assert shiftgauge(*words, repr(scot)).code == 0
    assert shiftgauge(*words, repr(float(np.nextafter(scot, 0)))).code == 1
    told = shiftgauge(*words, repr(scot), "--json").json["limit"]
    assert (told["value"], told["exceeded"]) == (scot, False)


def test_the_interval_has_the_level_asked_for(shiftgauge, files, source, target):
    words = ("estimate", *files, "-m", "scot", "--replicates", 40, "--json")
    for level in (0.5, 0.95):
        found = shiftgauge(*words, "--level", level).json["estimates"][0]["interval"]
        expected = sg.interval(source, target, "scot", replicates=40, level=level).interval
        assert found == expected.to_dict()


def test_the_truth_is_shown_only_to_those_who_check(shiftgauge, files):
    words = ("estimate", *files, "-m", "scot", "--replicates", 0)
    blind = shiftgauge(*words)
    assert "truth" not in blind.out
    assert "miss" not in blind.out
    assert "true_error" not in shiftgauge(*words, "--json").json["target"]
    assert "truth" in shiftgauge(*words, "--check").out
    assert shiftgauge(*words, "--check", "--json").json["target"]["true_error"] > 0


def test_what_speaks_against_a_method_is_shown(shiftgauge, tmp_path):
    """Only class proportions changed, and SCOT takes the source's: said with and without an interval."""
    rng = np.random.default_rng(1)
    y, y_t = rng.choice(3, 3000, p=[0.6, 0.3, 0.1]), rng.choice(3, 3000, p=[0.1, 0.2, 0.7])
    for name, labels in (("s.npz", y), ("t.npz", y_t)):
        np.savez(tmp_path / name, logits=rng.normal(size=(3000, 3)) + 2.0 * np.eye(3)[labels], labels=labels)
    for replicates in (0, 20):
        words = ("estimate", tmp_path / "s.npz", tmp_path / "t.npz", "-m", "scot", "--replicates", replicates)
        assert "only class proportions seem to have changed" in shiftgauge(*words).out
        assert any("only class" in w for w in shiftgauge(*words, "--json").json["estimates"][0]["warnings"])


@pytest.mark.parametrize(
    "named",
    [("label-shift", "source"), ("scot", "mlls"), ("cott", "bbse"), ("cot", "rlls")],
    ids=" ".join,
)
def test_a_shift_of_more_than_proportions_speaks_against_those_that_assume_no_other(named):
    """Inputs changed and class proportions did not: whoever explains it by proportions is told so, others are not."""
    rng = np.random.default_rng(2)
    y, y_t = rng.choice(3, (2, 3000), p=[0.5, 0.3, 0.2])
    noise = rng.normal(size=(2, 3000, 3))
    source = sg.Source(noise[0] + 2.5 * np.eye(3)[y], y)
    target = sg.Target(2.0 * noise[1] + 2.5 * np.eye(3)[y_t])
    doubt = "more than class proportions changed, and this assumes that only they did"
    method, marginal = named
    options = {} if method == "label-shift" else {"marginal": marginal}
    assert any(doubt in w for w in sg.estimate(source, target, method, **options).warnings)
    for other in ("ac", "scot", "auto"):
        assert not any(doubt in w for w in sg.estimate(source, target, other).warnings)


def test_warnings_are_shown_by_every_command(shiftgauge, tmp_path):
    rng = np.random.default_rng(1)
    y, y_t = rng.choice(3, 2000, p=[0.6, 0.3, 0.1]), rng.choice(3, 2000, p=[0.1, 0.2, 0.7])
    for name, labels in (("s.npz", y), ("t.npz", y_t)):
        logits = rng.normal(size=(2000, 3)) + 2.0 * np.eye(3)[labels]
        np.savez(tmp_path / name, logits=logits, labels=labels, half=np.arange(2000) % 2)
    pair = (tmp_path / "s.npz", tmp_path / "t.npz")
    doubt = "only class proportions seem to have changed"
    assert doubt in shiftgauge("metrics", *pair, "-m", "scot").out
    assert doubt in shiftgauge("slices", *pair, "-m", "scot", "--by", "half", "--replicates", 20).out
    both = shiftgauge("compare", *pair, "-m", "scot", "-m", "cot", "--replicates", 0)
    assert both.out.count(doubt) == 1  # what all methods are warned of is said once
    assert "gde left out" in shiftgauge("compare", *pair).out


@pytest.mark.parametrize(
    "words",
    [("auto", "--proportions", "changed"), ("scot", "--marginal", "mlls")],
    ids=" ".join,
)
def test_rows_average_to_the_answer(shiftgauge, files, tmp_path, words):
    rows = tmp_path / "rows.npz"
    asked = ("estimate", *files, "--replicates", 0, "--json", "--save-rows", rows, "-m")
    found = shiftgauge(*asked, *words).json["estimates"][0]["error"]
    assert np.load(rows)["error_probability"].mean() == pytest.approx(found, abs=1e-9)
    assert abs(found - shiftgauge(*asked, words[0]).json["estimates"][0]["error"]) > 1e-4


def write_two_classes(path, seed, order, unlabelled=0):
    """A CSV of two classes with its columns in this order, groups, and some rows without a label."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, 300)
    columns = {"prob_yes": p, "prob_no": 1.0 - p}
    label = np.where(rng.random(300) < p, "yes", "no")
    label[:unlabelled] = ""
    lines = [",".join([*order, "label", "site"])]
    for i in range(300):
        lines.append(",".join([*(repr(float(columns[name][i])) for name in order), label[i], f"s{i // 25}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_threshold_means_the_source_s_second_class_whatever_the_order_of_the_target(shiftgauge, tmp_path):
    source = write_two_classes(tmp_path / "s.csv", 0, ("prob_no", "prob_yes"))
    found = []
    for order in (("prob_no", "prob_yes"), ("prob_yes", "prob_no")):
        target = write_two_classes(tmp_path / "t.csv", 1, order)
        words = ("estimate", source, target, "-m", "ac", "--threshold", 0.9, "--replicates", 0, "--json")
        found.append(shiftgauge(*words).json["estimates"][0]["error"])
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_groups_of_rows_that_were_left_out_are_left_out(tmp_path):
    from shiftgauge.cli.inputs import read_column
    from shiftgauge.io import read_source

    path = write_two_classes(tmp_path / "s.csv", 0, ("prob_no", "prob_yes"), unlabelled=30)
    source = read_source(path, drop_unlabelled=True)
    assert read_column(path, "site", source).tolist() == [f"s{i // 25}" for i in range(30, 300)]


def test_proportions_beside_methods_that_do_not_read_them_are_refused(shiftgauge, files):
    ran = shiftgauge("estimate", *files, "-m", "scot", "--proportions", "same")
    assert ran.code == 2
    assert "--proportions same: scot does not use it; wanted auto" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shares", "foo"), "label shares by 'foo' are not known; wanted one of auto, bbse, rlls, mlls"),
        (("--shares", "bbse", "--bias-correction"), "bias correction belongs to mlls"),
    ],
)
def test_label_shares_that_are_not_known_are_refused(words, said, shiftgauge, files):
    ran = shiftgauge("metrics", *files, *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_gain_by_labels_is_that_of_the_plan(shiftgauge, files, scores, tmp_path):
    """`estimate` promises what the plan that it names then says."""
    np.savez(tmp_path / "vague.npz", logits=scores["shifted"] * 0.2)
    files = files[0], tmp_path / "vague.npz"
    gain = re.compile(r"should shrink from (\d+) to (\d+) points")
    promised = gain.search(" ".join(shiftgauge("estimate", *files, "--verbose").out.split()))
    assert promised.groups() == gain.search(shiftgauge("label-plan", *files, "-n", 20).out).groups()


def test_json_has_every_option_with_its_value(shiftgauge, files, tmp_path):
    (tmp_path / "some.csv").write_text("row,label\n0,1\n1,2\n")
    words = ("estimate", *files, "--labels", tmp_path / "some.csv", "--level", 0.8, "--seed", 3)
    options = shiftgauge(*words, "--json").json["provenance"]["options"]
    assert (options["level"], options["seed"], options["use_labels"]) == (0.8, 3, False)
    assert (options["labels"], options["plan"]) == (str(tmp_path / "some.csv"), None)
    several = shiftgauge("compare", *files, "-m", "ac", "-m", "doc", "--json").json["provenance"]["options"]
    assert several["method"] == ["ac", "doc"]
