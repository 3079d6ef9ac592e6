"""Coverage of the intervals of label shares, by simulation under pure label shift.

    python benchmarks/share_coverage.py [--quick] [--simulations 400] [--replicates 100] [--rows 400] [--classes 3 10]
                                        [--methods bbse rlls mlls bcts] [--processes 2] [--json FILE]

The source's classes are equally frequent; the target's shares are 70, 25 and 5% (3 classes), or six times 5, then 10,
15, 20 and 25% (10 classes). Scores are the true log-posteriors of normal classes. The opponent in the same run is the
basic interval 2 pi - pi* of the same replicates. Printed for every size of share: coverage of a nominal 95% interval,
and how often the estimate was exactly 0.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.inference.proportions import bounds, draws
from shiftgauge.inference.resampling import Resampling
from shiftgauge.methods import Pair

LEVEL = 0.95
#: The target's shares, and how far classes lie apart.
SETTINGS = {3: ([0.7, 0.25, 0.05], 1.5), 10: ([0.05] * 6 + [0.1, 0.15, 0.2, 0.25], 2.5)}


def rows(rng: np.random.Generator, n: int, shares: np.ndarray, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """(n, K) log-posteriors under equal shares, and (n,) labels."""
    labels = rng.choice(len(shares), size=n, p=shares)
    z = rng.normal(size=(n, len(shares)))
    z[np.arange(n), labels] += apart
    return apart * z, labels


def basic(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The opponent."""
    low, high = np.quantile(drawn[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return np.clip(2 * drawn[0] - high, 0.0, 1.0), np.clip(2 * drawn[0] - low, 0.0, 1.0)


def simulate(task: tuple[str, int, int, int, int]) -> np.ndarray:
    """(3, K) of one data set: held by the interval, held by the basic one, estimated as 0."""
    method, k, n, replicates, number = task
    shares, apart = SETTINGS[k]
    truth = np.array(shares)
    rng = np.random.default_rng([k, n, 0, number])
    z, y = rows(rng, n, np.full(k, 1 / k), apart)
    z_t, _ = rows(rng, n, truth, apart)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    name = "mlls" if method == "bcts" else method
    drawn = draws(
        Pair(source, target), name, Resampling(replicates, seed=number), bias_correction=method == "bcts"
    )
    held = [(low <= truth) & (truth <= high) for low, high in (bounds(drawn, LEVEL, n), basic(drawn))]
    return np.array([*held, drawn[0] < 1e-6])


def main() -> None:
    parser = parser_of(__doc__, "20 simulations of 3 classes")
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--rows", type=int, nargs="+", default=[400])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10], choices=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=["bbse", "rlls", "mlls", "bcts"])
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    if given.quick:
        given.simulations, given.classes = 20, [3]
    found = []
    print(f"{'method':8}{'classes':>8}{'rows':>6}{'share':>7}{'coverage':>10}{'basic':>8}{'zero':>7}   (%)")
    with ProcessPoolExecutor(given.processes) as pool:
        for k in given.classes:
            truth = np.array(SETTINGS[k][0])
            for n in given.rows:
                for method in given.methods:
                    tasks = [(method, k, n, given.replicates, i) for i in range(given.simulations)]
                    mean = 100 * np.mean(list(pool.map(simulate, tasks, chunksize=5)), axis=0)
                    for share in sorted(set(SETTINGS[k][0])):
                        held, by_basic, zero = mean[:, truth == share].mean(axis=1)
                        print(
                            f"{method:8}{k:>8}{n:>6}{100 * share:>7.0f}{held:>10.1f}{by_basic:>8.1f}{zero:>7.1f}"
                        )
                        found.append(
                            {"method": method, "classes": k, "rows": n, "share": share, "coverage": held}
                            | {"basic": by_basic, "zero": zero}
                        )
    save(given, found)


if __name__ == "__main__":
    main()
