"""Coverage of the intervals, by simulation from calibrated synthetic scores.

    python benchmarks/interval_coverage.py [--quick] [--simulations 2000] [--replicates 200] [--rows 500 2000]
                                  [--classes 3 10] [--methods ac cott scot] [--processes 2]
                                  [--json FILE] [--keep FOLDER]

The model's true posterior is softmax(z); it reports 1.5 z, so that the temperature has something to do.
`none`: target rows come from where the source's come from. `shift`: the target's scores are tilted towards
some classes and blurred, and the truth is what the method's own assumption says: the method's value on a
source and a target so large (200,000 rows) that sampling error is gone. The opponent in the same run is the
plain percentile interval of the same replicates around the same estimate (`percentile`). With `--keep` the
replicates are kept, 100 simulations a file: a run that was stopped goes on, and another rule for the interval's
ends can be tried on the same draws.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.inference.resampling import Draws, Resampling, bootstrap, bounds
from shiftgauge.methods import Pair
from shiftgauge.methods.registry import make

POPULATION = 200_000
BATCH = 100
OPTIONS = {
    "ac": {},
    "cott": {"marginal": "shrunk"},
    "scot": {"marginal": "shrunk"},
    "cot": {"marginal": "shrunk"},
}


def rows(rng: np.random.Generator, n: int, k: int, shifted: bool) -> tuple[np.ndarray, np.ndarray]:
    """(n, K) reported logits and (n,) labels."""
    prior = np.linspace(0.0, 1.0, k)
    z = 1.8 * rng.normal(size=(n, k)) + prior
    z[np.arange(n), rng.integers(k, size=n)] += 2.5
    if shifted:
        z = 0.85 * z + np.where(np.arange(k) < k / 3, 0.8, 0.0)
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return 1.5 * z, labels


def truth(method: str, k: int, shifted: bool, seed: int) -> float:
    """The value that sampling error moves the estimate away from."""
    rng = np.random.default_rng([seed, k, 99])
    z, y = rows(rng, POPULATION, k, False)
    z_t, y_t = rows(rng, POPULATION, k, shifted)
    if not shifted:
        return float((np.append(z.argmax(1), z_t.argmax(1)) != np.append(y, y_t)).mean())
    options = {"marginal": "source"} if method != "ac" else {}
    return float(
        make(method, **options).fit(sg.Source(logits=z, labels=y)).estimate(sg.Target(logits=z_t)).error
    )


def simulate(task: tuple[str, int, int, bool, int, int, int, Path | None]) -> np.ndarray:
    """Estimate, centre and replicates of a batch of simulated data sets, one per row."""
    method, n, k, shifted, replicates, first, last, folder = task
    name = f"{method}-{n}-{k}-{'shift' if shifted else 'none'}-{replicates}-{first}-{last}.npy"
    if folder is not None and (folder / name).exists():
        return np.load(folder / name)
    out = []
    for number in range(first, last):
        rng = np.random.default_rng([number, n, k, int(shifted)])
        z, y = rows(rng, n, k, False)
        z_t, _ = rows(rng, n, k, shifted)
        source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
        estimator = make(method, **OPTIONS[method])
        point = estimator.fit(source).estimate(target).error
        drawn = bootstrap(
            Pair(source, target, estimator.calibration), estimator, Resampling(replicates, seed=number)
        )
        out.append((point, drawn.centre, *drawn.values))
    if folder is not None:
        unfinished = folder / f".{name}"
        np.save(unfinished, np.array(out))
        unfinished.rename(folder / name)
    return np.array(out)


def intervals(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, 2) our intervals and the percentile intervals of simulations as `simulate` returns them."""
    ours = [bounds(row[0], Draws(row[1], row[2:], 0.0), 0.95) for row in found]
    return np.array(ours), np.quantile(found[:, 2:], [0.025, 0.975], axis=1).T


def main() -> None:
    parser = parser_of(__doc__, "50 simulations of 500 rows, 3 classes")
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--methods", nargs="+", default=["ac", "cott", "scot"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the replicates")
    given = parser.parse_args()
    if given.quick:
        given.simulations, given.replicates, given.rows, given.classes = 50, 100, [500], [3]
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    results = []
    print(
        f"{'method':8}{'rows':>6}{'K':>4} {'shift':6}{'truth':>7}{'bias':>7}{'width':>7}"
        f"{'coverage':>10}{'percentile':>12}"
    )
    with ProcessPoolExecutor(given.processes) as pool:
        for k in given.classes:
            for shifted in (False, True):
                for method in given.methods:
                    goal = truth(method, k, shifted, given.seed)
                    for n in given.rows:
                        begun = time.perf_counter()
                        tasks = [
                            (method, n, k, shifted, given.replicates, a, b, given.keep)
                            for a in range(0, given.simulations, BATCH)
                            for b in [min(a + BATCH, given.simulations)]
                        ]
                        found = np.concatenate(list(pool.map(simulate, tasks)))
                        point = found[:, 0]
                        (low, high), (p_low, p_high) = (ends.T for ends in intervals(found))
                        line = {
                            "method": method,
                            "rows": n,
                            "classes": k,
                            "shift": shifted,
                            "truth": goal,
                            "bias": float(point.mean() - goal),
                            "width": float((high - low).mean()),
                            "coverage": float(((low <= goal) & (goal <= high)).mean()),
                            "percentile_coverage": float(((p_low <= goal) & (goal <= p_high)).mean()),
                            "below": float((high < goal).mean()),
                            "above": float((low > goal).mean()),
                            "simulations": given.simulations,
                            "replicates": given.replicates,
                            "seconds": time.perf_counter() - begun,
                        }
                        results.append(line)
                        print(
                            f"{method:8}{n:6d}{k:4d} {'yes' if shifted else 'no':6}{100 * goal:7.2f}"
                            f"{100 * line['bias']:+7.2f}{100 * line['width']:7.2f}{100 * line['coverage']:9.1f}%"
                            f"{100 * line['percentile_coverage']:11.1f}%   "
                            f"missed low {100 * line['below']:.1f}% high {100 * line['above']:.1f}%",
                            flush=True,
                        )
    save(given, results)


if __name__ == "__main__":
    sys.exit(main())
