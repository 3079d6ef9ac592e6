"""The label-shift test: false alarms under pure label shift, and power against the demo's corruptions.

    python benchmarks/shift_test.py [--quick] [--simulations 2000] [--rows 500 2000 5000] [--classes 3 10] [--json FILE]

The opponent in the same run is a plain chi-square on the same cells that takes the source's cell shares for known. The
time of one test at 500 + 500 rows and 10 classes is compared with the same replicates drawn and fitted one by one.
"""

from __future__ import annotations

import time
from importlib import resources

import numpy as np
from _options import parser_of, save
from scipy.stats import chi2

import shiftgauge as sg
from shiftgauge.inference import shift_test
from shiftgauge.labelshift import confidence_cells, j_test
from shiftgauge.labelshift import shift_test as module


def sample(rng: np.random.Generator, n: int, shares: np.ndarray, sharpness: float = 1.7):
    """Gaussian scores around the label: P(x | y) is the same whatever the shares."""
    y = rng.choice(len(shares), size=n, p=shares)
    z = rng.normal(size=(n, len(shares)))
    z[np.arange(n), y] += sharpness
    p = np.exp(sharpness * (z - z.max(1, keepdims=True)))
    p /= p.sum(1, keepdims=True)
    return p.argmax(1), p.max(1), y


def trial(seed: int, n: int, k: int) -> tuple[float, float]:
    """p-values of the J test and of the plain chi-square on one simulated label shift."""
    rng = np.random.default_rng([seed, n, k])
    pred, conf, y = sample(rng, n, np.full(k, 1 / k))
    pred_t, conf_t, _ = sample(rng, n, rng.dirichlet(np.full(k, 5.0)))
    left, right, cells = confidence_cells((pred, pred_t), (conf, conf_t), k)
    mass = np.full(n, 1 / n)
    found = j_test(left, y, mass, right, mass, cells, k, seed=seed)
    A = np.array([np.bincount(left[y == j], minlength=cells) / (y == j).sum() for j in range(k)]).T
    expected = np.maximum(A @ found.shares, 0.5 / n)
    naive = n * np.sum((np.bincount(right, minlength=cells) / n - expected) ** 2 / expected)
    return found.p_value, float(chi2.sf(naive, cells - k))


def seconds(stack: float, rows: int = 500, k: int = 10, times: int = 5) -> float:
    """The processor time of one bootstrapped test."""
    kept, module.STACK = module.STACK, stack
    begin = time.process_time()
    for seed in range(times):
        trial(seed, rows, k)
    module.STACK = kept
    return (time.process_time() - begin) / times


def main() -> None:
    parser = parser_of(__doc__, "100 simulations of 500 rows, 3 classes")
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 5000])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10])
    given = parser.parse_args()
    if given.quick:
        given.simulations, given.rows, given.classes = 100, [500], [3]
    results = []
    print("false alarms at a nominal 5% under pure label shift")
    for k in given.classes:
        for n in given.rows:
            p = np.array([trial(seed, n, k) for seed in range(given.simulations)])
            ours, plain = (float(np.mean(column <= 0.05)) for column in p.T)
            results.append(
                {"rows": n, "classes": k, "j_test": ours, "plain": plain, "simulations": given.simulations}
            )
            print(
                f"  {n:6d} + {n:6d} rows, {k:3d} classes: {100 * ours:.1f}%   plain chi-square {100 * plain:.1f}%",
                flush=True,
            )
    seconds(module.STACK, times=1)
    stacked, single = seconds(module.STACK), seconds(1.0)
    ratio = single / stacked
    print(
        f"one test at 500 + 500 rows, 10 classes: {stacked:.3f} s; one by one {single:.3f} s, {ratio:.1f} times"
    )
    with resources.files("shiftgauge").joinpath("data/demo.npz").open("rb") as file:
        held = dict(np.load(file, allow_pickle=False))
    source = sg.Source(logits=held["val_logits"], labels=held["val_labels"])
    print("the demo's targets")
    for name in held["shifts"].tolist():
        found = shift_test(source, sg.Target(logits=held[f"{name}_logits"]))
        share = found.test.explained
        print(
            f"  {name:16} p = {found.test.p_value:.3g}, explained {'-' if share is None else f'{100 * share:.0f}%'}"
        )
    save(given, results)


if __name__ == "__main__":
    main()
