"""Refusals of wide files and long names are one line of less than 600 letters."""

import numpy as np
import pytest

CLASSES = [f"a rather long class name {j}" for j in range(800)]
LONG, SPACED = "x" * 5000, "many words " * 500
REFUSED = """
estimate s.csv other.csv
estimate other.csv s.csv
estimate s.csv unprefixed.csv
estimate unprefixed.csv s.csv
estimate t.csv t.csv
estimate other_label.csv t.csv
estimate number_label.csv t.csv
estimate probs.csv probs.csv
estimate twice.csv t.csv
estimate long_column.csv small.csv
estimate long_label.csv small.csv
estimate spaced_label.csv small.csv
estimate long_cell.csv small.csv
estimate spaced_cell.csv small.csv
estimate long_prediction.csv small.csv
estimate small.csv s.csv
estimate s.csv small.csv
estimate small.csv small.csv --marginal marginal.csv -m scot
estimate s.csv t.csv --marginal long_marginal.csv -m scot
estimate keys.npz small.csv
estimate same_classes.npz small.csv
estimate long_class.npz small.csv
estimate long.jsonl small.csv
estimate small.csv extra.jsonl
estimate twice.jsonl small.csv
estimate s.csv t.csv --weight-column nothing
estimate s.csv t.csv --id nothing
estimate s.csv t.csv --label-column nothing
estimate s.csv t.csv --groups nothing
estimate s.csv t.csv -m LONG
estimate s.csv t.csv --calibration LONG
estimate s.csv t.csv --proportions LONG
estimate s.csv t.csv --save-rows LONG
estimate s.csv t.csv --fail-above LONG
estimate s.csv t.csv --LONG
estimate s.csv t.csv --source-labels keys.npz
estimate small.csv small.csv --threshold LONG=0.5
estimate LONG t.csv
metrics s.csv t.csv --cost LONG
metrics s.csv t.csv --shares LONG
slices small.csv groups.csv --by site
slices s.csv t.csv --by nothing
slices small.csv groups.csv --by site:LONG
backtest s.csv --by nothing
backtest s.csv --time nothing
doctor other_label.csv t.csv
estimate s.csv t.csv --labels s.csv
estimate s.csv t.csv --labels LONG
label-progress LONG s.csv
report s.csv t.csv --format LONG
push small.csv --url LONG --model m --version v
LONG
"""


def write(path, names, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("wide")
    z = np.random.default_rng(0).normal(size=(12, len(CLASSES))).round(2).tolist()
    scores = [f"logit_{name}" for name in CLASSES]
    labelled = [*scores, "label"]
    write(made / "s.csv", labelled, [[*row, CLASSES[i]] for i, row in enumerate(z)])
    write(made / "t.csv", scores, z)
    write(made / "other.csv", [f"logit_x{name}" for name in CLASSES], z)
    write(made / "unprefixed.csv", CLASSES, z)
    write(made / "other_label.csv", labelled, [[*row, "no such class"] for row in z])
    write(made / "number_label.csv", labelled, [[*row, 99999] for row in z])
    write(made / "probs.csv", [f"prob_{name}" for name in CLASSES], np.full((12, len(CLASSES)), 0.1).tolist())
    write(made / "twice.csv", [*labelled, scores[0]], [[*row, CLASSES[0], 0.5] for row in z])
    write(made / "small.csv", ["logit_a", "logit_b", "label"], [[1, 2, "a"], [2, 1, "b"]] * 10)
    write(made / "long_column.csv", [f"logit_{LONG}", "logit_b", "label"], [[1, 2, "b"]] * 12)
    for name, text in (("long", LONG), ("spaced", SPACED)):
        write(made / f"{name}_label.csv", ["logit_a", "logit_b", "label"], [[1, 2, text]] * 12)
        write(made / f"{name}_cell.csv", ["logit_a", "logit_b", "label"], [[1, text, "a"]] * 12)
    decided = ["logit_a", "logit_b", "label", "prediction"]
    write(made / "long_prediction.csv", decided, [[1, 2, "a", LONG]] * 12)
    write(made / "marginal.csv", ["class", "mass"], [[name, 1 / len(CLASSES)] for name in CLASSES])
    write(made / "long_marginal.csv", ["class", "mass"], [[LONG, 1.0]])
    sites = [[1, 2, "a", f"site {i} {'s' * 300}"] for i in range(400)]
    write(made / "groups.csv", ["logit_a", "logit_b", "label", "site"], sites)
    np.savez(made / "keys.npz", **{f"a key of some length {j}": np.zeros(2) for j in range(300)})
    labels = np.zeros(12, int)
    np.savez(made / "same_classes.npz", logits=z, labels=labels, classes=[CLASSES[0]] * len(CLASSES))
    np.savez(made / "long_class.npz", logits=np.zeros((12, 2)), labels=labels, classes=["a", LONG])
    (made / "long.jsonl").write_text(f'{{"{LONG}": 1}}\n')
    (made / "extra.jsonl").write_text(
        f'{{"logit_a": 1, "logit_b": 2}}\n{{"logit_a": 1, "logit_b": 2, "{LONG}": 1}}\n'
    )
    (made / "twice.jsonl").write_text(f'{{"{LONG}": 1, "{LONG}": 2}}\n')
    return made


@pytest.mark.parametrize("words", REFUSED.split("\n")[1:-1])
def test_refusals_are_short(shiftgauge, folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    ran = shiftgauge(*(word.replace("LONG", LONG) for word in words.split()))
    assert (ran.code, ran.err.count("\n"), "internal" in ran.err) == (2, 1, False), ran.err[:600]
    assert len(ran.err) < 600
