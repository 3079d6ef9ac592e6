"""Every metric without labels against the true labels, over shifts; the opponent assumes that nothing changed.

    python benchmarks/metrics.py [--scores FILE.npz | FOLDER ...] [--quick] [--json FILE]

Scores are read as by `benchmarks/auto.py`: without any, the recorded predictions that ship with the package; several
are pooled. The source is the validation set, and every set, the clean one too, is a target once. The opponent is the
source's own value of the same metric. Two-class metrics come from merging the classes into halves, the later half
being the positive class. Costs are drawn once, from 0 to 1, and nothing for a right prediction. Slices are four at
random, and four that follow the true class in two rows of three, so that each has a class mix of its own. Printed: mean
and worst absolute miss in points; per class and per slice, each one counts.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from auto import Rows, read

import shiftgauge as sg
from shiftgauge.inference.confusion import Metrics, soft_auc, soft_average_precision

SLICES = 4
#: How many rows go to the slice of their class; the others go anywhere.
FOLLOW = 2 / 3

#: One or more values by the name of their metric.
Values = dict[str, np.ndarray]


def halves(rows: Rows) -> Rows:
    """The same rows with the classes merged into two halves: log-odds add up as probabilities do."""
    logits, labels = rows
    parts = np.array_split(np.asarray(logits, dtype=np.float64), [logits.shape[1] // 2], axis=1)
    merged = np.column_stack([np.logaddexp.reduce(part, axis=1) for part in parts])
    return merged, (labels >= logits.shape[1] // 2).astype(int)


def groups(labels: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Slices that know nothing of the classes, and slices that follow them."""
    rng = np.random.default_rng(seed)
    at_random = rng.integers(SLICES, size=len(labels))
    follow = rng.random(len(labels)) < FOLLOW
    return {"slices, random": at_random, "slices, by class": np.where(follow, labels % SLICES, at_random)}


def of_confusion(found: Metrics, costs: np.ndarray) -> Values:
    averages = found.averages()
    return {
        "error": np.array([found.error]),
        "precision, per class": found.precision,
        "recall, per class": found.recall,
        "F1, per class": found.f1,
        "macro F1": np.array([averages["f1"]["macro"]]),
        "weighted F1": np.array([averages["f1"]["weighted"]]),
        "kappa": np.array([found.kappa]),
        "mean cost": np.array([(found.confusion * costs).sum()]),
    }


def counted(rows: Rows, costs: np.ndarray, seed: int) -> Values:
    """Every metric by the true labels."""
    logits, labels = rows
    k, said = logits.shape[1], logits.argmax(axis=1)
    confusion = np.zeros((k, k))
    np.add.at(confusion, (labels, said), 1.0 / len(labels))
    error = float(np.mean(said != labels))
    merged, positive = halves(rows)
    score, even = merged[:, 1] - merged[:, 0], np.full(len(labels), 1.0 / len(labels))
    return {
        **of_confusion(Metrics(confusion, tuple(range(k)), error, error), costs),
        "ROC-AUC, halves": np.array([soft_auc(score, positive.astype(float), even)]),
        "average precision, halves": np.array([soft_average_precision(score, positive.astype(float), even)]),
        **{
            name: np.array([np.mean((said != labels)[group == g]) for g in range(SLICES)])
            for name, group in groups(labels, seed).items()
        },
    }


def estimated(source: Rows, target: Rows, costs: np.ndarray, seed: int) -> Values:
    """The same without the target's labels, which only make the slices."""
    known, unknown = sg.Source(logits=source[0], labels=source[1]), sg.Target(logits=target[0])
    found = sg.metrics(known, unknown)
    (left, y), (right, _) = halves(source), halves(target)
    two = sg.metrics(sg.Source(logits=left, labels=y), sg.Target(logits=right))
    return {
        **of_confusion(found, costs),
        "error (COTT)": np.array([found.cott_error]),
        "ROC-AUC, halves": np.array([two.roc_auc]),
        "average precision, halves": np.array([two.average_precision]),
        **{
            name: np.array([s.error for s in sg.slices(known, unknown, group, replicates=20).slices])
            for name, group in groups(target[1], seed).items()
        },
    }


def misses(source: Rows, sets: dict[str, Rows]) -> Iterator[dict[str, tuple[np.ndarray, np.ndarray]]]:
    """For every target: each metric's absolute misses, and those of the source's own value."""
    costs = np.random.default_rng(0).random((source[0].shape[1],) * 2)
    np.fill_diagonal(costs, 0.0)
    unchanged = counted(source, costs, seed=0)
    for name, target in sets.items():
        seed = zlib.crc32(name.encode())
        truth, found = counted(target, costs, seed), estimated(source, target, costs, seed)
        truth["error (COTT)"], unchanged["error (COTT)"] = truth["error"], unchanged["error"]
        yield {m: (np.abs(found[m] - truth[m]), np.abs(unchanged[m] - truth[m])) for m in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, nargs="+", default=[None])
    parser.add_argument("--quick", action="store_true", help="four of the shipped sets")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    for path in [None] if given.quick else given.scores:
        source, sets = read(path)
        chosen = dict(list(sets.items())[::4]) if given.quick else sets
        found += list(misses(source, chosen))
    print(f"{len(found)} targets; mean absolute miss in points [worst]")
    print(f"{'':27}{'shiftgauge':>14}{'nothing changed':>18}")
    table = {}
    for metric in found[0]:
        cells = [100 * np.concatenate([one[metric][i] for one in found]) for i in (0, 1)]
        table[metric] = {
            who: {"mean": float(v.mean()), "worst": float(v.max())}
            for who, v in zip(("shiftgauge", "nothing changed"), cells, strict=True)
        }
        shown = [f"{v.mean():.1f} [{v.max():.0f}]" for v in cells]
        print(f"{metric:27}{shown[0]:>14}{shown[1]:>18}")
    if given.json:
        given.json.write_text(json.dumps({"targets": len(found), "misses": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
