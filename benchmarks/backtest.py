"""How sure the backtest is of its recommendation, where methods are about equally good.

    python benchmarks/backtest.py [--quick] [--sets 20] [--seeds 8] [--rows 600] [--repeats 2] [--json FILE]

Calibrated synthetic scores: `ac`, `doc` and `im` are about equally good there, so no seed should be very sure of one
of them, and seeds that are should not contradict each other. The opponent in the same run resamples the made targets
alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import labelfree as lf

METHODS = ("ac", "doc", "im", "label-shift")
SURE = 0.9


def source(seed: int, n: int) -> lf.Source:
    rng = np.random.default_rng([7, seed])
    z = 2.0 * rng.normal(size=(n, 3))
    return lf.Source(logits=z, labels=(z + rng.gumbel(size=z.shape)).argmax(axis=1))


def by_targets_alone(trials: tuple, seed: int, draws: int = 400) -> float:
    """How often the best method stays the best when each kind's targets are drawn with replacement."""
    kinds = list(dict.fromkeys(t.kind for t in trials))
    misses = [
        np.array([[abs(t.miss) for t in trials if t.kind == kind and t.method == m] for m in METHODS])
        for kind in kinds
    ]
    best = np.argmin(np.mean([m.mean(axis=1) for m in misses], axis=0))
    rng = np.random.default_rng(seed)
    won = 0
    for _ in range(draws):
        drawn = [m[:, rng.integers(m.shape[1], size=m.shape[1])].mean(axis=1) for m in misses]
        won += np.argmin(np.mean(drawn, axis=0)) == best
    return won / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 data sets, 3 seeds")
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.quick:
        given.sets, given.seeds = 2, 3
    runs = []
    for number in range(given.sets):
        known = source(number, given.rows)
        for seed in range(given.seeds):
            found = lf.backtest(known, methods=METHODS, seed=seed, repeats=given.repeats)
            runs.append((number, found.recommended, found.sureness, by_targets_alone(found.trials, seed)))
    results = {}
    for name, place in (("labelfree", 2), ("targets alone", 3)):
        sure = [run for run in runs if run[place] is not None and run[place] > SURE]
        torn = sum(len({run[1] for run in sure if run[0] == number}) > 1 for number in range(given.sets))
        results[name] = {"runs": len(runs), "sure": len(sure), "sets": given.sets, "contradictory": torn}
        print(
            f"{name:14} above {100 * SURE:.0f}% in {len(sure)} of {len(runs)} runs; "
            f"different methods on the same data in {torn} of {given.sets} data sets"
        )
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
