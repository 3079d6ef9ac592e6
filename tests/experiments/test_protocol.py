"""Collected scores, the protocol, summaries and tables against numbers worked by hand or by sg.estimate."""

import csv

import numpy as np
import pytest
from scipy import stats

import shiftgauge as sg
from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments import bench, protocol, published, tables
from shiftgauge.experiments.datasets import DATASETS
from shiftgauge.experiments.digests import digest
from shiftgauge.experiments.protocol import (
    ESTIMATES,
    FittedMethods,
    estimates_sweep,
    pseudo_label_shift,
)
from shiftgauge.experiments.scores import SOURCE, ScoredSet, ScoreFolder, seeds_of
from shiftgauge.experiments.storage import read_mapping, read_table, replacing, write_table
from shiftgauge.experiments.summaries import (
    correlation_table,
    correlations,
    mae_table,
    thresholding_table,
    with_absolute_error,
)

K = 4


def recorded(rng, n, noise, kind="synthetic", bias=0.0):
    labels = rng.integers(0, K, n)
    logits = 3 * np.eye(K)[labels] + noise * rng.normal(size=(n, K)) + bias * np.arange(K)
    return ScoredSet(logits.astype(np.float16), labels, kind)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds, a clean set and three shifts."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        scores = ScoreFolder.of(root, "cifar10", "resnet20", seed)
        scores.write_manifest(shifts=["clean", "fog_1", "fog_5", "snow_5"], seed=seed)
        source = recorded(rng, 400, 1.5)
        scores.write(SOURCE, source.scores, source.labels)
        for name, noise, bias in (("clean", 1.5, 0), ("fog_1", 2, 0), ("fog_5", 3, 0.3), ("snow_5", 3, 1)):
            labels = np.random.default_rng(9).integers(0, K, 300)
            logits = 3 * np.eye(K)[labels] + noise * rng.normal(size=(300, K)) + bias * np.arange(K)
            scores.write(name, logits, labels, "clean" if name == "clean" else "synthetic")
            scores.write_projnorm(f"projnorm/{name}", noise + bias, 3, {"scores": digest({})})
    return root


def test_what_is_written_is_whole_or_absent(tmp_path):
    path = tmp_path / "a" / "b.txt"

    def killed():
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        killed()
    assert list(path.parent.iterdir()) == []
    with replacing(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"


def test_scores_come_back_in_their_order(runs):
    scores = ScoreFolder.of(runs, "cifar10", "resnet20", 0)
    assert scores.shifts() == ["clean", "fog_1", "fog_5", "snow_5"]
    assert seeds_of(runs, "cifar10", "resnet20") == [0, 1]
    assert scores.read("fog_1").kind == "synthetic"
    assert scores.projnorms("fog_1") == ["projnorm/fog_1"]
    assert scores.projnorm("projnorm/fog_1") == 2.0
    assert scores.projnorms("nothing") == []
    with pytest.raises(FileError, match="no collected scores"):
        seeds_of(runs, "cifar10", "vgg11")


def test_unfit_scores_are_refused(tmp_path):
    scores = ScoreFolder.of(tmp_path, "x", "y", 0)
    with pytest.raises(FileError, match="not finite"):
        scores.write(SOURCE, np.full((2, 2), 1e9), np.zeros(2))
    scores.path().parent.mkdir(parents=True, exist_ok=True)
    scores.path().write_bytes(b"PK broken")
    with pytest.raises(FileError, match="not a readable"):
        scores.read()
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FileError, match="not valid JSON"):
        read_mapping(tmp_path / "bad.json")


def test_the_panel_says_what_the_library_says(runs):
    scores = ScoreFolder.of(runs, "cifar10", "resnet20", 0)
    source, target = scores.read(), scores.read("fog_5")
    second = ScoreFolder.of(runs, "cifar10", "resnet20", 1).read("fog_5").predictions
    found = FittedMethods(source).estimate(target, second)
    s, t = (
        sg.Source(logits=source.scores, labels=source.labels),
        sg.Target(logits=target.scores, second=second),
    )
    for estimate in sg.compare(s, t).estimates:
        value, is_score = found[estimate.method]
        assert value == (estimate.score if estimate.error is None else estimate.error), estimate.method
        assert is_score == (estimate.error is None)
    for name in ("cot", "cott", "scot"):
        assert found[f"{name}+shrunk"][0] == sg.estimate(s, t, method=name, marginal="shrunk").error


def test_every_method_on_every_shift(runs):
    rows = estimates_sweep().run(runs, "cifar10", "resnet20")
    methods = set(rows.method)
    assert methods == {*sg.methods.METHODS, "cot+shrunk", "cott+shrunk", "scot+shrunk", "projnorm"}
    assert len(rows) == 2 * 4 * len(methods)
    disagreement = [
        float(np.mean(a.predictions != b.predictions))
        for a, b in [[ScoreFolder.of(runs, "cifar10", "resnet20", seed).read("snow_5") for seed in (0, 1)]]
    ]
    gde = rows[(rows.method == "gde") & (rows["shift"] == "snow_5")]
    assert gde.estimate.tolist() == disagreement * 2


def test_the_table_of_estimates_survives_its_file(runs, tmp_path):
    rows = estimates_sweep().run(runs, "cifar10", "resnet20")
    write_table(tmp_path / "e.csv", rows)
    again = read_table(tmp_path / "e.csv", ESTIMATES)
    assert again.dtypes.equals(rows.dtypes)
    assert again.method.tolist() == rows.method.tolist()
    np.testing.assert_allclose(again.estimate, rows.estimate, atol=5e-7)
    assert set(again[again.is_score].method) == {"entropy", "nuclear-norm", "mano", "projnorm"}
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="not a table of estimates: it has no column 'dataset'"):
        read_table(tmp_path / "e.csv", ESTIMATES)
    with pytest.raises(FileError, match="run `shiftgauge bench run` first"):
        read_table(tmp_path / "none.csv", ESTIMATES)


def row(seed, shift, method, estimate, truth, kind="synthetic", is_score=False):
    return ("cifar10", "resnet20", seed, shift, kind, 100, truth, 0.1, method, estimate, is_score)


def table(rows):
    return estimates_sweep().table([dict(zip(ESTIMATES, values, strict=True)) for values in rows])


def test_mae_by_hand():
    rows = [
        row(0, "a", "ac", 0.1, 0.2), row(0, "b", "ac", 0.5, 0.2), row(1, "a", "ac", 0.2, 0.2),
        row(1, "b", "ac", 0.3, 0.2),
        row(0, "clean", "ac", 0.9, 0.1, "clean"), row(0, "a", "entropy", 2.0, 0.2, is_score=True),
    ]  # fmt: skip
    (entry,) = mae_table(table(rows)).itertuples()
    assert entry.mae == pytest.approx((0.2 + 0.05) / 2)
    assert entry.std == pytest.approx(0.075)
    assert entry.worst == pytest.approx(0.3)
    assert entry.median == pytest.approx((0.2 + 0.05) / 2)
    assert (entry.shifts, entry.fewest_shifts, entry.seeds, entry.rows_least, entry.rows_most) == (
        2,
        2,
        2,
        100,
        100,
    )
    (short,) = mae_table(table(rows[:3])).itertuples()
    assert (short.shifts, short.fewest_shifts) == (2, 1)


def test_correlations_are_scipys():
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    y += x
    r2, rho = correlations(x, y)
    assert r2 == pytest.approx(stats.pearsonr(x, y).statistic ** 2)
    assert rho == pytest.approx(stats.spearmanr(x, y).statistic)
    assert correlations(np.zeros(3), np.arange(3.0)) == (0.0, 0.0)
    rows = [
        row(0, f"s{i}", "entropy", float(a), float(b), is_score=True)
        for i, (a, b) in enumerate(zip(x, y, strict=True))
    ]
    (entry,) = correlation_table(table(rows)).itertuples()
    assert entry.r2 == pytest.approx(r2)


def test_thresholding_by_hand():
    rows = [row(0, "a", m, e, 0.3) for m, e in (("ac", 0.1), ("atc-mc", 0.2), ("cot", 0.25), ("cott", 0.4))]
    (entry,) = thresholding_table(table(rows)).itertuples()
    assert (entry.ac, entry.atc, entry.cot, entry.cott) == pytest.approx((0.2, 0.1, 0.05, 0.1))


def test_pseudo_label_shift_by_hand():
    target = ScoredSet(np.eye(4, dtype=np.float16)[[0, 0, 0, 1]], np.array([0, 1, 2, 3]))
    assert pseudo_label_shift(target) == pytest.approx(0.5)
    assert target.error == 0.75


def test_batches_are_drawn_with_replacement_and_cover_the_size():
    rng = np.random.default_rng(0)
    assert [len(rows) for rows in protocol.batch_rows(25_000, rng)] == [10_000] * 3
    assert protocol.batch_rows(10_000, rng) == []  # the paper batches only beyond 10,000
    assert len(np.unique(protocol.batch_rows(300, rng, 299)[0])) < 299


def test_mild_label_shift_moves_the_labels_both_ways(runs):
    rows = {
        scale: protocol.mild_label_shift_sweep(scale).run(runs, "cifar10", "resnet20")
        for scale in protocol.SCALES
    }
    for found in rows.values():
        assert set(found["shift"]) == {"clean", "fog_1", "fog_5", "snow_5"}
        assert (found.n < 300).all()
    assert set(rows["text"].n) != set(rows["code"].n)
    with pytest.raises(InputError):
        protocol.resampled_rows(np.arange(4), 4, np.random.default_rng(0), scale="other")


def test_the_papers_numbers_stand_beside_ours():
    assert published.mae("cifar10", "synthetic", "ac") == (9.1, 0.25)
    assert published.mae("cifar10", "synthetic", "scot") is None
    assert published.mae("living17", "novel", "ac") == (published.mae("entity13", "novel", "ac")[0], 3.76)
    assert published.mae("cifar10", "synthetic", "cott", "mild_label_shift") == (4.0, 0.3)
    assert published.correlation("cifar100", "vgg11-cifar", "atc-ne") == (0.736, 0.975)
    assert {name for name, _ in published.rows()} == set(DATASETS) - {
        name for name in DATASETS if name.endswith(("-rand", "-superclasses", "fashion-mnist"))
    }


def test_tables_in_three_forms(runs, tmp_path):
    rows = estimates_sweep().run(runs, "cifar10", "resnet20")
    main = tables.main_table(rows)
    text = main.markdown()
    paper = next(line for line in main.rows if line[1] == "paper")
    assert paper[main.header.index("AC")] == "9.10 ± 0.25"
    assert paper[main.header.index("SCOT")] == ""
    assert "Living17-Novel repeats" in text
    assert "%" not in "".join("".join(line) for line in main.rows)
    assert main.latex().count(r"\\") == 1 + len(main.rows)
    assert "_" not in main.latex().replace(r"\_", "")
    records = list(csv.DictReader(main.csv().splitlines()))
    cott = next(r for r in records if r["method"] == "cott")
    assert float(cott["mae"]) == pytest.approx(
        with_absolute_error(rows[(rows.method == "cott") & (rows.kind == "synthetic")]).absolute_error.mean(),
        abs=1e-6,
    )
    assert float(cott["paper_mae"]) == 0.017  # fractions in data, percent on screen
    paths = tables.correlations(rows).write(tmp_path)
    assert [path.suffix for path in paths] == [".md", ".tex", ".csv"]
    assert "R^2" in paths[0].read_text()


@pytest.mark.slow
def test_the_chain_after_collecting(runs, tmp_path):
    folder = bench.run("cifar10", runs, tmp_path, "resnet20")
    assert sorted(path.name for path in folder.iterdir()) == [
        "batches_estimates.csv", "estimates.csv", "manifest.json", "mild_label_shift_code.csv",
        "mild_label_shift_text.csv",
    ]  # fmt: skip
    made = bench.table("cifar10", tmp_path, "resnet20")
    assert len(made) == 21
    text = (folder / "tables" / "mae.md").read_text()
    assert "Label shares transported to: uniform." in text
    assert "resnet20, 2 seeds, 3 shifts of 300 rows" in text
    assert "No set here has more than 10,000 rows" in (folder / "tables" / "batches.md").read_text()
    drawn = bench.figures("cifar10", runs, tmp_path, "resnet20")
    assert {path.suffix for path in drawn} == {".png", ".svg"}
    assert {path.stem for path in drawn} >= {"figure1_mild", "figure2", "figure3", "figure4", "costs_severe"}
    assert all(path.stat().st_size > 2000 for path in drawn)


def test_the_same_figure_gives_the_same_files(tmp_path):
    from shiftgauge import plots
    from shiftgauge.experiments.figures import save

    made = []
    for again in ("one", "two"):
        (tmp_path / again).mkdir()
        figure = plots.scatter({"AC": (np.array([0.1, 0.3]), np.array([0.2, 0.3]))})
        made.append([path.read_bytes() for path in save(figure, tmp_path / again, "figure")])
    assert made[0] == made[1]
