"""SCOT's class weights against POT's log-domain Sinkhorn on the same problem, in one run.

    python benchmarks/scot.py [--quick] [--json FILE]

Both solve entropic transport with ground cost -log p and regularisation 1. Ours must meet the label shares
to 1e-10; POT is asked for 1e-10 too, and its error is printed beside. `scale` is the spread of the logits:
at 30 rows are all but certain, where iterative scaling crawls. Times are processor time, the best of three (POT: one).
"""

import argparse
import json
import time
from functools import partial

import numpy as np
import ot

from shiftgauge.rows import Block, Rows, run
from shiftgauge.transport import soft_transport


def problem(n, k, scale, seed=0):
    """An overconfident model whose predictions drift away from the label shares."""
    rng = np.random.default_rng(seed)
    z = scale * (rng.normal(size=(n, k)) + rng.normal(size=k) / 3)
    top = z.max(axis=1, keepdims=True)
    log_probs = z - top - np.log(np.exp(z - top).sum(axis=1, keepdims=True))
    return log_probs, rng.dirichlet(np.full(k, 30.0)), np.full(n, 1.0 / n)


def ours_of(probs, q):
    """Rows are made anew each time: they remember their plan."""
    return run(soft_transport(Rows.of_block(Block(probs)), q))


def timed(task, repeats):
    best, result = np.inf, None
    for _ in range(repeats):
        begun = time.process_time()
        result = task()
        best = min(best, time.process_time() - begun)
    return best, result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--json", help="write the results here too")
    options = parser.parse_args()
    sizes = [(10_000, 10, 3.0), (10_000, 10, 30.0), (5_000, 100, 3.0)]
    if not options.quick:
        sizes += [(100_000, 10, 3.0), (1_000_000, 10, 3.0), (50_000, 1_000, 3.0)]
    rows = []
    print(
        f"{'n x K':>18} {'scale':>6} {'ours s':>8} {'passes':>7} {'error':>9} {'POT s':>8} {'error':>9} {'ratio':>7}"
    )
    for n, k, scale in sizes:
        log_probs, q, mass = problem(n, k, scale)
        ours, plan = timed(partial(ours_of, np.exp(log_probs), q), 3)
        theirs, other = timed(
            partial(ot.sinkhorn, mass, q, -log_probs, reg=1.0, stopThr=1e-10, numItermax=10_000), 1
        )
        error = float(np.abs(other.sum(axis=0) - q).max())
        row = {
            "n": n,
            "k": k,
            "logit_scale": scale,
            "ours": ours,
            "passes": plan.passes,
            "error": plan.marginal_error,
        }
        row |= {"pot": theirs, "pot_error": error, "ratio": theirs / ours}
        rows.append(row)
        print(
            f"{n:>10,} x {k:<5,} {scale:6g} {ours:8.3f} {plan.passes:7d} {plan.marginal_error:9.1e} "
            f"{theirs:8.3f} {error:9.1e} {theirs / ours:7.1f}",
            flush=True,
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
