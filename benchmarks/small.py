"""Small batches: `auto` on 30 to 500 rows, with and without another class mix, with and without a natural shift.

    python benchmarks/small.py --tables 302.npz 527.npz [--logits cifar10c.npz] [--draws 2] [--quick]

Half of each source is the source; targets are drawn from the other half (no shift) or from another group (a natural
shift, or a corruption), as they are or with 70% of one class. Printed for each cell: the mean absolute error
in points and its 95th percentile, of `auto` and of AC, DoC, label-shift and SCOT, and how far `auto` is behind
the best of the first three.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from _options import parser_of
from _shifts import Task, add_arguments, tasks

import shiftgauge as sg

SIZES = (30, 80, 200, 500)
METHODS = ("auto", "ac", "doc", "label-shift", "scot")
MIX = 0.7


def mixed(labels: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray | None:
    """n rows of which 70% are of one class; None if no class has enough rows."""
    for one in rng.permutation(np.unique(labels)):
        inside, outside = np.flatnonzero(labels == one), np.flatnonzero(labels != one)
        count = round(MIX * n)
        if len(inside) >= count and len(outside) >= n - count and len(inside) < 0.6 * len(labels):
            return np.concatenate(
                [rng.choice(inside, count, replace=False), rng.choice(outside, n - count, replace=False)]
            )
    return None


def trials(task: Task, draws: int, rng: np.random.Generator):
    """(size, mixed, shifted), and the absolute error of every method."""
    s = task.source
    order = rng.permutation(s.n)
    first, rest = order[: s.n // 2], order[s.n // 2 :]
    if len(np.unique(s.labels[first])) < s.k:
        return
    source = sg.Source(**{s.kind: s.scores[first]}, labels=s.labels[first])
    target, labels = list(task.targets.values())[rng.integers(len(task.targets))]
    sets = {False: (s.scores[rest], s.labels[rest]), True: (target.scores, labels)}
    pair = None
    for n in SIZES:
        for shifted, (scores, y) in sets.items():
            for mix in (False, True):
                for _ in range(draws):
                    rows = (
                        mixed(y, n, rng)
                        if mix
                        else rng.choice(len(y), n, replace=False)
                        if len(y) >= n
                        else None
                    )
                    if rows is None:
                        continue
                    drawn = sg.Target(**{s.kind: scores[rows]})
                    pair = sg.Pair(source, drawn) if pair is None else pair.with_target(drawn)
                    truth = float(np.mean(drawn.predictions != y[rows]))
                    yield (n, mix, shifted), {m: abs(pair.error(m) - truth) for m in METHODS}


def main() -> None:
    parser = parser_of(__doc__, "the shipped predictions only", numbers=False)
    add_arguments(parser)
    parser.add_argument("--draws", type=int, default=2)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    cells: dict[tuple, dict[tuple, list]] = defaultdict(lambda: defaultdict(list))
    for task in tasks(options):
        draws = 1 if options.quick else options.draws * (30 if task.kind == "corrupted" else 1)
        for cell, misses in trials(task, draws, rng):
            cells[task.kind][cell].append(misses)
    for kind, of_kind in cells.items():
        print(
            f"{kind}\n{'rows':>5} {'70% one class':>14} {'shifted':>8} {'trials':>7}"
            + "".join(f"{m:>13}" for m in METHODS)
            + "  behind"
        )
        for (n, mix, shifted), some in sorted(of_kind.items()):
            mean = {m: 100 * np.mean([t[m] for t in some]) for m in METHODS}
            high = {m: 100 * np.quantile([t[m] for t in some], 0.95) for m in METHODS}
            text = "".join(f"{f'{mean[m]:.1f} [{high[m]:.0f}]':>13}" for m in METHODS)
            behind = mean["auto"] - min(mean[m] for m in ("ac", "doc", "label-shift"))
            print(f"{n:>5} {mix!s:>14} {shifted!s:>8} {len(some):>7}{text} {behind:>+7.1f}")


if __name__ == "__main__":
    main()
