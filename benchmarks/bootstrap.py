"""Speed of the bootstrap: 200 replicates of COTT and SCOT at 10,000 x 10, against the plain way in the same run.

    python benchmarks/bootstrap.py [--quick] [--rows 10000] [--classes 10] [--replicates 200] [--json FILE]

The opponent resamples by weights too, but fits and estimates each replicate from scratch with the exact solvers
(`estimator.fit(source).estimate(target)`); it runs `--plain` replicates and is scaled up.
"""

from __future__ import annotations

import os
import time

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.inference import Resampling, bootstrap
from shiftgauge.methods import Pair
from shiftgauge.methods.registry import make


def main() -> None:
    parser = parser_of(__doc__, "2,000 rows, 50 replicates")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--plain", type=int, default=5)
    given = parser.parse_args()
    if given.quick:
        given.rows, given.replicates, given.plain = 2_000, 50, 3
    rng = np.random.default_rng(0)

    def rows(offset: float) -> tuple[np.ndarray, np.ndarray]:
        z = 2.0 * rng.normal(size=(given.rows, given.classes))
        z[np.arange(given.rows), rng.integers(given.classes, size=given.rows)] += 3.0
        z[:, 0] += offset
        return 1.5 * z, (z + rng.gumbel(size=z.shape)).argmax(1)

    z, y = rows(0.0)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=rows(0.5)[0])
    results = []
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for method in ("cott", "scot"):
        estimator = make(method, marginal="shrunk")
        bootstrap(
            Pair(source, target, estimator.calibration), estimator, Resampling(20)
        )  # compiles the kernels
        wall, cpu = time.perf_counter(), time.process_time()
        drawn = bootstrap(
            Pair(source, target, estimator.calibration), estimator, Resampling(given.replicates)
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        plain, plain_cpu = time.perf_counter(), time.process_time()
        for _ in range(given.plain):
            w_s, w_t = (rng.multinomial(given.rows, np.full(given.rows, 1 / given.rows)) for _ in "st")
            again = sg.Source(logits=z, labels=y, weights=w_s)
            make(method, marginal="shrunk").fit(again).estimate(sg.Target(logits=target.scores, weights=w_t))
        scale = given.replicates / given.plain
        plain, plain_cpu = (time.perf_counter() - plain) * scale, (time.process_time() - plain_cpu) * scale
        line = {
            "method": method,
            "rows": given.rows,
            "classes": given.classes,
            "replicates": given.replicates,
            "seconds": wall,
            "cpu_seconds": cpu,
            "plain_seconds": plain,
            "plain_cpu_seconds": plain_cpu,
            "largest_gap": drawn.gap,
        }
        results.append(line)
        print(
            f"{method}: {wall:.2f} s ({cpu:.2f} s of processor) for {given.replicates} replicates; "
            f"plain {plain:.1f} s ({plain_cpu:.1f} s): {plain_cpu / cpu:.1f} times; largest gap {drawn.gap:.1e}",
            flush=True,
        )
    save(given, results)


if __name__ == "__main__":
    main()
