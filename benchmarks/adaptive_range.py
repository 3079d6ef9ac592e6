"""The monitor's adaptive range: does it cover the observed error as often as asked for, also when labels come late?

    python benchmarks/adaptive_range.py [--tables TABLES.npz ...] [--logits CIFAR.npz ...] [--quick]

Windows of 300 rows are drawn from recorded predictions and estimated as the monitor does; two rows of three get
labels. The predictions: those that ship with the package; natural tables as `benchmarks/natural.py --export` writes
them, made first where none are given; files of logits as `benchmarks/auto.py` reads them. Sequences of 120 windows
are made of them: they start without shift, then another group or corruption follows every 3 to 14 windows, with
unshifted windows in between. The adaptive range of a sequence knows nothing of its family of data: its prior misses
are those of the other families, with equal weights (with `--as-shipped`, the monitor's own). In the same run: the range
of `auto` itself, which does not adapt, and split conformal intervals, which do not adapt either (the quantile of all
misses known so far). Printed: the coverage of windows 1 to 30, 31 to 60 and after, mean half-widths in percentage
points, the least and the largest coverage of a family after window 30, and the coverage of windows 31 to 90 that one
sequence in twenty falls below; then the twenty prior misses of all families together.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from _options import parser_of, save
from natural import targets

import shiftgauge as sg
from shiftgauge.monitor.estimate.adaptive_range import (
    MIN_HALF_WIDTH,
    PRIOR_MISSES,
    Miss,
    miss_quantile,
    range_half_width,
)

ROWS, LABELLED, LENGTH, UNSHIFTED = 300, 2 / 3, 120, "unshifted"

#: Of each group of a task: its windows, each a miss in units of the half-width and the half-width.
Task = dict[str, np.ndarray]
Rule = Callable[[Sequence[Miss], float], float]


def window(source: sg.Source, target: sg.Target, labels: np.ndarray, rng: np.random.Generator) -> list[float]:
    """The miss in units of the half-width, and the half-width, of one window drawn from a target."""
    rows = rng.choice(len(labels), min(ROWS, len(labels)), replace=False)
    drawn = sg.Target(**{target.kind: target.scores[rows]})
    estimate = sg.estimate(source, drawn)
    values = {"scores_low": estimate.range.low, "scores_high": estimate.range.high}
    known = rng.random(len(rows)) < LABELLED
    observed = np.mean(drawn.predictions[known] != labels[rows][known])
    return [abs(observed - estimate.error) / range_half_width(values), range_half_width(values)]


def recorded(path: Path | None) -> tuple[sg.Source, Iterator[tuple[str, sg.Target, np.ndarray]]]:
    """Source and targets of a file of logits; those that ship with the package without one."""
    if path is None:
        demo = sg.demo_data()
        place = {name: j for j, name in enumerate(demo.source.classes)}
        labels = np.array([place[name] for name in demo.labels])
        return demo.source, ((UNSHIFTED if n == "clean" else n, t, labels) for n, t in demo.targets.items())
    arrays = np.load(path, allow_pickle=False)
    names = [k[:-7] for k in arrays.files if k.endswith("_logits") and k != "val_logits"]
    source = sg.Source(
        logits=arrays["val_logits"].astype(np.float32), labels=arrays["val_labels"].astype(int)
    )
    labels = arrays["labels"].astype(int)
    sets = ((n, sg.Target(logits=arrays[f"{n}_logits"].astype(np.float32))) for n in names)
    return source, ((UNSHIFTED if n == "clean" else n, target, labels) for n, target in sets)


def halves(source: sg.Source) -> tuple[sg.Source, sg.Target, np.ndarray]:
    """Half of a source's rows as the source, the others as an unshifted target."""
    order = np.random.default_rng(1).permutation(source.n)
    first, rest = order[: source.n // 2], order[source.n // 2 :]
    first_half = sg.Source(**{source.kind: source.scores[first]}, labels=source.labels[first])
    return first_half, sg.Target(**{source.kind: source.scores[rest]}), source.labels[rest]


def tasks(options: argparse.Namespace) -> Iterator[tuple[str, Task]]:
    """Every task: the family of its data, and the windows of its groups."""
    count, rng = 2 if options.quick else options.windows, np.random.default_rng(0)

    def drawn(source: sg.Source, sets: Iterator[tuple[str, sg.Target, np.ndarray]], count: int) -> Task:
        return {n: np.array([window(source, t, y, rng) for _ in range(count)]) for n, t, y in sets}

    for path in [None, *options.logits]:
        yield (
            "shipped" if path is None else path.stem,
            drawn(*recorded(path), count if path is None else count // 2),
        )
    for path in options.tables or [None]:
        for key, whole, sets in targets(path, options.quick):
            source, target, labels = halves(whole)
            unshifted = [(UNSHIFTED, target, labels)]
            yield key.split("_")[0], drawn(source, iter([*unshifted, *sets]), count)


def sequence(task: Task, rng: np.random.Generator) -> np.ndarray:
    """(LENGTH, 2) misses and half-widths of windows that follow one another."""
    out, at, left = [], UNSHIFTED, rng.integers(10, 26)
    while len(out) < LENGTH:
        if not left:
            back = at != UNSHIFTED and rng.random() < 0.4
            at, left = UNSHIFTED if back else list(task)[rng.integers(len(task))], rng.integers(3, 15)
        out.append(task[at][rng.integers(len(task[at]))])
        left -= 1
    return np.array(out)


def replay_history(
    windows: np.ndarray, rule: Rule, level: float, delay: int
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each window's range covered, and its half-width; the labels of a window come `delay` windows later."""
    past: list[Miss] = []
    half = np.empty(len(windows))
    for t, (size, unit) in enumerate(windows):
        known = max(0, t - delay)
        q = rule([*past[:known], *(Miss(m.window_id, m.time, None) for m in past[known:])], level)
        past.append(Miss(t, t, bool(size <= q), float(size)))
        half[t] = min(q * unit, 1.0)
    return np.array([miss.covered for miss in past]), half


def miss_quantiles(pool: Sequence[np.ndarray]) -> tuple[float, ...]:
    """Twenty quantiles of many misses; each array has the same weight."""
    sizes = np.concatenate(pool)
    order, weight = np.argsort(sizes), np.concatenate([np.full(len(p), 1 / len(p) / len(pool)) for p in pool])
    below = np.cumsum(weight[order])
    at = [*np.arange(1, 20) / 20, 0.995]
    return tuple(round(float(sizes[order][np.searchsorted(below, share)]), 2) for share in at)


def adaptive(others: Sequence[np.ndarray]) -> Rule:
    """The monitor's rule, starting from the misses of other families."""
    prior = miss_quantiles(others) if others else PRIOR_MISSES
    return lambda past, level: miss_quantile(past, level, prior)


def not_adapted(past: Sequence[Miss], level: float) -> float:
    """Split conformal: the quantile of the misses known so far, everything before there are enough."""
    sizes = sorted(miss.size for miss in past if miss.size is not None)
    rank = math.ceil((len(sizes) + 1) * level - 1e-9)
    return sizes[rank - 1] if rank <= len(sizes) else math.inf


def main() -> None:
    """Print a block for every level and delay."""
    parser = parser_of(__doc__, "one level and delay, two windows a group")
    parser.add_argument("--tables", type=Path, nargs="+", default=[])
    parser.add_argument("--logits", type=Path, nargs="+", default=[])
    parser.add_argument("--runs", type=int, default=6, help="sequences of every task")
    parser.add_argument("--windows", type=int, default=8, help="drawn from every group")
    parser.add_argument("--as-shipped", action="store_true", help="start from the monitor's own misses")
    options = parser.parse_args()
    families: dict[str, list[Task]] = {}
    for family, task in tasks(options):
        families.setdefault(family, []).append(task)
    sizes = {
        f: np.concatenate([w[:, 0] for task in each for w in task.values()]) for f, each in families.items()
    }
    rules: dict[str, Callable[[str], Rule]] = {
        "adaptive range": lambda family: adaptive(
            [s for f, s in sizes.items() if f != family and not options.as_shipped]
        ),
        "range of auto": lambda _: lambda past, level: 1.0,
        "conformal, not adapted": lambda _: not_adapted,
    }
    results = []
    for level in [0.9] if options.quick else [0.8, 0.9, 0.95]:
        for delay in [14] if options.quick else [0, 5, 14, 30]:
            print(f"level {level:.0%}, labels {delay} windows late")
            for name, rule in rules.items():
                each = {f: runs(families[f], rule(f), level, delay, options) for f in families}
                results.append({"level": level, "delay": delay, "rule": name, **summary(each)})
                print(f"  {name:24s} {line(results[-1])}", flush=True)
    prior = miss_quantiles(list(sizes.values()))
    print(
        f"misses in units of the half-width (at least {MIN_HALF_WIDTH:.0%}) of {', '.join(families)}: {prior}"
    )
    save(options, results)


def runs(
    each: Sequence[Task], rule: Rule, level: float, delay: int, options: argparse.Namespace
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage and half-width of all sequences of a family, as many for each family whatever its tasks."""
    count = math.ceil((2 if options.quick else 6 * options.runs) / len(each))
    made = [
        replay_history(sequence(task, np.random.default_rng([i, number])), rule, level, delay)
        for number, task in enumerate(each)
        for i in range(count)
    ]
    return np.array([h for h, _ in made]), np.array([w for _, w in made])


def summary(each: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, object]:
    """Means over families."""
    parts = (slice(0, 30), slice(30, 60), slice(60, None))
    return {
        "coverage": [float(np.mean([h[:, part].mean() for h, _ in each.values()])) for part in parts],
        "half": [float(np.mean([w[:, part].mean() for _, w in each.values()])) for part in parts],
        "families": {f: float(h[:, 30:].mean()) for f, (h, _) in each.items()},
        "one_in_twenty": float(
            np.quantile([run for h, _ in each.values() for run in h[:, 30:90].mean(1)], 0.05)
        ),
    }


def line(row: dict) -> str:
    """A result as text."""
    coverage = " ".join(f"{share:5.1%}" for share in row["coverage"])
    half = " ".join(f"{100 * width:4.1f}" for width in row["half"])
    least, most = (pick(row["families"].values()) for pick in (min, max))
    rare = f"1 in 20 {row['one_in_twenty']:.0%}"
    return f"coverage {coverage}  half-width {half}  families {least:.0%} to {most:.0%}  {rare}"


if __name__ == "__main__":
    main()
