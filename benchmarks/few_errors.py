"""Small samples without shift: how often the range of `auto` holds the true error, beside Wilson's from the source.

Source and target are drawn from one population whose true error is 1 to 20%, with 10 to 100 rows each. Wilson's
interval is the named opponent: it takes the labelled source rows alone and asks whether the target's error lies in
it. The second table counts only the draws whose source rows show no error at all.

    python benchmarks/few_errors.py [--quick] [--draws 1000]
"""

from __future__ import annotations

import numpy as np
from _options import parser_of
from scipy.stats import binomtest

import shiftgauge as sg

SIZES = (10, 20, 50, 100)
ERRORS = (0.01, 0.03, 0.06, 0.1, 0.2)
LEVEL = 0.95


def population(error: float, k: int, rng: np.random.Generator) -> float:
    """The noise at which a model of k classes errs so often, found by bisection on many rows."""
    y = rng.integers(k, size=20_000)
    z = rng.normal(size=(20_000, k))
    low, high = 0.1, 20.0
    for _ in range(40):
        noise = (low + high) / 2
        wrong = ((noise * z + 4 * np.eye(k)[y]).argmax(1) != y).mean()
        low, high = (noise, high) if wrong < error else (low, noise)
    return (low + high) / 2


def drawn(n: int, noise: float, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(k, size=n)
    return 3 * (noise * rng.normal(size=(n, k)) + 4 * np.eye(k)[y]), y


def cell(n: int, error: float, draws: int) -> list[tuple[bool, bool, bool, float]]:
    """One entry a draw: whether the source shows no error, whether each range holds, and our width."""
    rng = np.random.default_rng([n, round(1000 * error)])
    noise = {k: population(error, k, rng) for k in (2, 5)}
    out = []
    for number in range(draws):
        k = (2, 5)[number % 2]
        (z, y), (new, truth) = drawn(n, noise[k], k, rng), drawn(n, noise[k], k, rng)
        source = sg.Source(logits=z, labels=y)
        found = sg.estimate(source, sg.Target(logits=new), level=LEVEL)
        true = float((new.argmax(1) != truth).mean())
        wilson = binomtest(round(source.error * n), n).proportion_ci(LEVEL, method="wilson")
        held = found.range.low <= true <= found.range.high
        out.append(
            (
                source.error == 0.0,
                held,
                wilson.low <= true <= wilson.high,
                found.range.high - found.range.low,
            )
        )
    return out


def main() -> None:
    parser = parser_of(__doc__, "30 draws a cell", numbers=False)
    parser.add_argument("--draws", type=int, default=1000)
    arguments = parser.parse_args()
    draws = 30 if arguments.quick else arguments.draws
    print(f"{draws} draws a cell; the share in which the {LEVEL:.0%} range holds the target's error")
    head = f"{'rows':>5} {'true':>6} {'auto':>7} {'width':>7} {'Wilson':>7} | no source error: "
    print(head + f"{'auto':>7} {'Wilson':>7}")
    every = []
    for n in SIZES:
        for error in ERRORS:
            found = cell(n, error, draws)
            every += found
            none = [one for one in found if one[0]]
            line = f"{n:>5} {error:>6.0%} {mean(found, 1):>7} {mean(found, 3):>7} {mean(found, 2):>7} | "
            print(line + f"{len(none):>16} {mean(none, 1):>7} {mean(none, 2):>7}", flush=True)
    none = [one for one in every if one[0]]
    print(f"all: auto {mean(every, 1)}, Wilson {mean(every, 2)}")
    print(f"no source error: auto {mean(none, 1)}, Wilson {mean(none, 2)}")


def mean(found: list[tuple[bool, bool, bool, float]], column: int) -> str:
    return f"{100 * np.mean([one[column] for one in found]):.1f}%" if found else "-"


if __name__ == "__main__":
    main()
