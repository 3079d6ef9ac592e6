"""What labels are worth: `auto` with 0 to 200 labels, beside the labels alone and prediction-powered inference alone.

    python benchmarks/labels.py --tables 90.npz 302.npz 527.npz --logits cifar10c.npz [--draws 6] [--json FILE]

For each target, labels of rows are drawn at random (and by `shiftgauge.label_plan`'s design, "spread").
Printed by set: mean absolute error in points of the combined answer; of the labels alone (with Wilson's
interval); of prediction-powered inference alone (`ppi-python`, power-tuned, with the confidence as the
prediction); how often the 90% and 95% ranges hold and the mean width at 90%. Range constants are those of
`fit_auto.py`, fitted without the family of each target. Also shown: targets without shift (random halves of
the sources), and targets with other class proportions.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fit_auto
import numpy as np
from _options import parser_of, save
from _shifts import Task, add_arguments, from_tables, tasks

import shiftgauge as sg
from shiftgauge.binomial import wilson
from shiftgauge.inference.label_plans import spread_rows
from shiftgauge.labelshift import dirichlet_shares, resample_to
from shiftgauge.methods.labels import at_level, with_labels
from shiftgauge.rows import run
from shiftgauge.validation.target_labels import RANDOM, TargetLabels

COUNTS = (0, 10, 20, 50, 100, 200)
Z = 1.6448536269514722


def ppi(wrong: np.ndarray, probability: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Estimate and 90% interval of ppi-python."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        point = float(np.squeeze(ppi_mean_pointestimate(wrong, probability, others)))
        low, high = ppi_mean_ci(wrong, probability, others, alpha=0.1)
    return point, float(np.squeeze(low)), float(np.squeeze(high))


def trial(estimate: sg.Estimate, pair: sg.Pair, labels: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """One draw of labels: errors and ranges of the combined answer, of the labels and of PPI alone."""
    block = pair.target_block
    wrong = (block.predictions != labels).astype(float)
    truth, probability = float(wrong.mean()), 1.0 - block.confidence
    found = estimate
    if len(rows):
        found = run(with_labels(estimate, pair.target, TargetLabels(rows, labels[rows], False, RANDOM)))
    n = pair.source.n_effective, pair.target.n_effective
    ends, sure = (at_level(found, *n, level).range for level in (0.9, 0.95))
    out = {
        "miss": abs(found.error - truth),
        "width": ends.high - ends.low,
        "holds90": ends.low <= truth <= ends.high,
        "holds95": sure.low <= truth <= sure.high,
    }
    if len(rows):
        mine = float(wrong[rows].mean())
        low, high = wilson(mine, len(rows), Z)
        rest = np.delete(probability, rows)
        point, ppi_low, ppi_high = ppi(wrong[rows], probability[rows], rest)
        out |= {
            "alone": abs(mine - truth),
            "alone_holds": low <= truth <= high,
            "alone_width": high - low,
            "ppi": abs(point - truth),
            "ppi_holds": ppi_low <= truth <= ppi_high,
        }
    return out


def no_shift(task: Task, rng: np.random.Generator, alpha: float | None) -> Task:
    """Half of a source as the source, the other half as its target; with other class proportions by alpha."""
    s = task.source
    order = rng.permutation(s.n)
    first, rest = order[: s.n // 2], order[s.n // 2 :]
    if alpha is not None:
        shares = dirichlet_shares(s.label_marginal, alpha, seed=rng)
        rest = rest[resample_to(s.labels[rest], shares, seed=rng)]
    source = sg.Source(**{s.kind: s.scores[first]}, labels=s.labels[first])
    targets = (
        {"held out": (sg.Target(**{s.kind: s.scores[rest]}), s.labels[rest])} if len(rest) >= 150 else {}
    )
    return replace(task, source=source, targets=targets)


def with_made(all_tasks: Iterator[Task]) -> Iterator[tuple[str, Task]]:
    """Every task under the name of its set; and targets made of its source: no shift, other proportions."""
    rng = np.random.default_rng(0)
    for task in all_tasks:
        yield task.family.split("/")[0], task
        yield "no shift", no_shift(task, rng, None)
        yield "other proportions", no_shift(task, rng, 2.0)


def main() -> None:
    parser = parser_of(__doc__, "the shipped predictions only")
    add_arguments(parser)
    parser.add_argument(
        "--validate", type=Path, nargs="+", default=[], help="sets that no constant was fitted on, .npz"
    )
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args()
    some = list(tasks(options))
    without: dict[str, Any] = {}
    if len({t.family for t in some}) > fit_auto.PARTS:
        without = fit_auto.left_out(fit_auto.records(iter(some)))
    named = [*with_made(iter(some)), *((p.stem, t) for p in options.validate for t in from_tables(p))]
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for name, task in named:
        for target, labels in task.targets.values():
            pair = sg.Pair(task.source, target)
            estimate = pair.estimate("auto")
            if task.family in without:
                around = fit_auto.distribution(fit_auto.record("", "", pair, labels), without[task.family])
                scales = {"scale_low": around.scale_low, "scale_high": around.scale_high}
                estimate = replace(estimate, details={**estimate.details, **scales})
            probability = 1.0 - pair.target_block.confidence
            rng = np.random.default_rng(len(labels))
            for count in COUNTS:
                if count > 0.8 * len(labels):
                    continue
                for design in ("random", "spread") if count else ("random",):
                    for _ in range((1 if options.quick else options.draws) if count else 1):
                        rows = (
                            rng.choice(len(labels), count, replace=False)
                            if design == "random"
                            else spread_rows(probability, count, rng)
                        )
                        found[name, design, count].append(trial(estimate, pair, labels, np.sort(rows)))
    shown = {
        "miss": 9,
        "spread": 8,
        "alone": 7,
        "ppi": 6,
        "holds90": 9,
        "holds95": 9,
        "width": 7,
        "alone_width": 13,
    }
    print(f"{'set':20}{'labels':>7}" + "".join(f"{name:>{wide}}" for name, wide in shown.items()))
    table = []
    for name, design, count in sorted(found, key=lambda key: (key[0], key[2])):
        if design != "random":
            continue
        some = found[name, design, count]
        row = {key: float(np.mean([t[key] for t in some])) for key in some[0]}
        others = found.get((name, "spread", count), [{"miss": np.nan}])
        row["spread"] = float(np.mean([t["miss"] for t in others]))
        table.append({"set": name, "labels": count, "trials": len(some), **row})
        cells = (f"{100 * row.get(key, np.nan):>{wide}.1f}" for key, wide in shown.items())
        print(f"{name:20}{count:>7}" + "".join(cells))
    save(options, table)


if __name__ == "__main__":
    main()
