"""Coverage of the intervals of large targets, whose replicates draw from a subsample, beside those of all rows.

    python benchmarks/subsample_coverage.py [--quick] [--simulations 200] [--replicates 100] [--rows 10000]
        [--subsample 1000]

Data as in interval_coverage.py: a model of three classes that is overconfident, a source of 500 rows, and a target of
`--rows` rows, shifted or not. Both intervals are made for the same data: by resampling all rows of source and target,
and as for a large target, whose replicates draw from `--subsample` of its rows, as many as the target has. The truth is
the method's own value without sampling error.
"""

import numpy as np
from _options import parser_of
from interval_coverage import OPTIONS, rows, truth

import shiftgauge as sg
from shiftgauge.methods import pair

K, SOURCE = 3, 500


def intervals(method, number, shifted, options):
    """(2, 2) low and high: of all rows, and of a subsample."""
    rng = np.random.default_rng([number, options.rows, int(shifted)])
    z, y = rows(rng, SOURCE, K, False)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=rows(rng, options.rows, K, shifted)[0])
    settings = {"interval": True, "replicates": options.replicates, "seed": number, **OPTIONS[method]}
    found = []
    for drawn in (options.rows, options.subsample):
        pair.BOOTSTRAP_ENTRIES = drawn * K
        found.append(sg.estimate(source, target, method, **settings).interval)
    return [(one.low, one.high) for one in found]


def main():
    """Print a line per method and shift."""
    parser = parser_of(__doc__, "20 simulations", numbers=False)
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--subsample", type=int, default=1_000)
    parser.add_argument("--methods", nargs="+", default=["ac", "scot"])
    options = parser.parse_args()
    count = 20 if options.quick else options.simulations
    print(
        f"{count} simulations, {SOURCE} source rows, {options.rows:,} target rows, a subsample of {options.subsample:,}"
    )
    print(f"{'method':8} {'shift':6} {'all rows':>9} {'some':>6} {'width of all':>13} {'of some':>8}")
    for method in options.methods:
        for shifted in (False, True):
            true = truth(method, K, shifted, 0)
            found = np.array([intervals(method, number, shifted, options) for number in range(count)])
            covered = ((found[..., 0] <= true) & (true <= found[..., 1])).mean(axis=0)
            width = 100 * (found[..., 1] - found[..., 0]).mean(axis=0)
            print(
                f"{method:8} {'yes' if shifted else 'no':6} {covered[0]:9.3f} {covered[1]:6.3f} "
                f"{width[0]:13.2f} {width[1]:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
