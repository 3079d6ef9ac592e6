"""A backtest that fits its methods once per split, against one that fits everything anew for each made target.

    python benchmarks/backtest.py [--quick] [--rows 2000] [--classes 10] [--repeats 2] [--json FILE]

The opponent answers the same trials by `shiftgauge.estimate`, one source and one target at a time; both must agree.
"""

from __future__ import annotations

import time

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.inference import backtests


def source(n: int, k: int) -> sg.Source:
    rng = np.random.default_rng(7)
    z = 2.0 * rng.normal(size=(n, k))
    return sg.Source(logits=z, labels=(z + rng.gumbel(size=z.shape)).argmax(axis=1))


def anew(pair, asked, names, settings, made):
    """Every method on one target, from scratch."""
    known, truth = pair.source_sample, float(np.mean(pair.target_block.predictions != asked.labels))
    if isinstance(asked, sg.Source):
        unknown = sg.Target(**{asked.kind: asked.scores}, predictions=asked.predictions)
    else:
        unknown = sg.Target(logits=asked.logits, predictions=asked.predictions)
    errors = [sg.estimate(known, unknown, name).error for name in names]
    return [backtests.Trial(*made, name, e, truth, None) for name, e in zip(names, errors, strict=True)]


def timed(known: sg.Source, repeats: int) -> tuple[float, list[float]]:
    begun = time.perf_counter()
    found = sg.backtest(known, repeats=repeats)
    return time.perf_counter() - begun, [t.error for t in found.trials]


def main() -> None:
    parser = parser_of(__doc__, "600 rows, one split")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.quick:
        given.rows, given.repeats = 600, 1
    known = source(given.rows, given.classes)
    timed(source(300, 3), 1)  # compile
    ours, errors = timed(known, given.repeats)
    shared = backtests._try_methods
    backtests._try_methods = anew
    theirs, expected = timed(known, given.repeats)
    backtests._try_methods = shared
    apart = float(np.abs(np.subtract(errors, expected)).max())
    print(
        f"{len(errors)} trials: {ours:.1f} s; fitted anew for each: {theirs:.1f} s; {theirs / ours:.1f} times"
    )
    print(f"largest difference of an estimate: {apart:.1e}")
    save(given, {"seconds": ours, "anew": theirs, "apart": apart})


if __name__ == "__main__":
    main()
