"""What the command promises beyond the library: the limit, the level, the truth only where it is asked for."""

import numpy as np
import pytest

import labelfree as lf


@pytest.fixture
def scot(source, target):
    return lf.estimate(source, target, "scot").error


def test_a_limit_that_is_met_exactly_is_not_exceeded(labelfree, files, scot):
    words = ("estimate", *files, "-m", "scot", "--replicates", 0, "--fail-above")
    assert labelfree(*words, repr(scot)).code == 0
    assert labelfree(*words, repr(float(np.nextafter(scot, 0)))).code == 1


def test_the_interval_has_the_level_asked_for(labelfree, files, source, target):
    words = ("estimate", *files, "-m", "scot", "--replicates", 40, "--json")
    for level in (0.5, 0.95):
        found = labelfree(*words, "--level", level).json["estimates"][0]["interval"]
        expected = lf.interval(source, target, "scot", replicates=40, level=level).interval
        assert found == expected.to_dict()


def test_the_truth_is_shown_only_to_those_who_check(labelfree, files):
    words = ("estimate", *files, "-m", "scot", "--replicates", 0)
    blind = labelfree(*words)
    assert "truth" not in blind.out
    assert "miss" not in blind.out
    assert "true_error" not in labelfree(*words, "--json").json["target"]
    assert "truth" in labelfree(*words, "--check").out
    assert labelfree(*words, "--check", "--json").json["target"]["true_error"] > 0


def test_many_scores_are_not_resampled_unless_asked(labelfree, files, monkeypatch):
    from labelfree.cli import estimate

    words = ("estimate", *files, "-m", "ac", "--json")
    assert labelfree(*words).json["estimates"][0]["interval"] is not None
    monkeypatch.setattr(estimate, "MANY_SCORES", 5 * (600 + 800) - 1)
    assert labelfree(*words).json["estimates"][0]["interval"] is None
    assert labelfree(*words, "--replicates", 20).json["estimates"][0]["interval"] is not None
    monkeypatch.setattr(estimate, "MANY_SCORES", 5 * (600 + 800))
    assert labelfree(*words).json["estimates"][0]["interval"] is not None


def test_what_speaks_against_a_method_is_shown(labelfree, tmp_path):
    """Only class proportions changed, and SCOT takes the source's: said with and without an interval."""
    rng = np.random.default_rng(1)
    y, y_t = rng.choice(3, 3000, p=[0.6, 0.3, 0.1]), rng.choice(3, 3000, p=[0.1, 0.2, 0.7])
    for name, labels in (("s.npz", y), ("t.npz", y_t)):
        np.savez(tmp_path / name, logits=rng.normal(size=(3000, 3)) + 2.0 * np.eye(3)[labels], labels=labels)
    for replicates in (0, 20):
        words = ("estimate", tmp_path / "s.npz", tmp_path / "t.npz", "-m", "scot", "--replicates", replicates)
        assert "only class proportions seem to have changed" in labelfree(*words).out
        assert any("only class" in w for w in labelfree(*words, "--json").json["estimates"][0]["warnings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shares", "foo"), "label shares by 'foo' are not known; wanted one of bbse, rlls, mlls"),
        (("--shares", "bbse", "--bias-correction"), "bias correction belongs to mlls"),
    ],
)
def test_label_shares_that_are_not_known_are_refused(words, said, labelfree, files):
    ran = labelfree("metrics", *files, *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
