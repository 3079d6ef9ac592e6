"""What a `Pair` saves: the functions on one shared pair, against the same functions each on its own, in the same run.

    python benchmarks/functions.py [--quick] [--rows 2000] [--classes 10] [--json FILE]

The opponent is the library's own public functions, called one after the other as a notebook would: each calibrates,
aligns, solves and tests for itself. Shared, everything is computed once. The answers must be equal.
"""

from __future__ import annotations

import os
import time

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.inference.row_tables import row_table


def drawn(rows: int, classes: int) -> tuple[sg.Source, sg.Target]:
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=(2, rows))
    z = (
        2.0 * rng.normal(size=(2, rows, classes))
        + np.array([3.0, 2.0])[:, None, None] * np.eye(classes)[labels]
    )
    return sg.Source(logits=z[0], labels=labels[0]), sg.Target(logits=z[1])


def apart(source: sg.Source, target: sg.Target) -> list[float]:
    estimates = [sg.estimate(source, target, m).error for m in ("cott", "scot", "label-shift", "auto")]
    found = sg.metrics(source, target)
    status = sg.doctor(source, target)
    rows = row_table(sg.Pair(source, target))
    return [*estimates, found.kappa, status.shift_test.test.statistic, float(rows["error_probability"].sum())]


def shared(source: sg.Source, target: sg.Target) -> list[float]:
    pair = sg.Pair(source, target)
    estimates = [e.error for e in sg.compare(pair, methods=["cott", "scot", "label-shift", "auto"])]
    found, status, rows = sg.metrics(pair), sg.doctor(pair), row_table(pair)
    return [*estimates, found.kappa, status.shift_test.test.statistic, float(rows["error_probability"].sum())]


def main() -> None:
    parser = parser_of(__doc__, "600 rows")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--classes", type=int, default=10)
    given = parser.parse_args()
    pair = drawn(600 if given.quick else given.rows, given.classes)
    shared(*pair)  # compiles the kernels
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    line: dict[str, float] = {}
    answers = []
    for name, functions in (("apart", apart), ("shared", shared)):
        cpu = time.process_time()
        answers.append(functions(*pair))
        line[name] = time.process_time() - cpu
    assert np.allclose(*answers, atol=1e-9), answers
    line["ratio"] = line["apart"] / line["shared"]
    print(
        f"six functions on {pair[0].n} + {pair[1].n} rows: {line['apart']:.2f} s of processor apart, "
        f"{line['shared']:.2f} s on one pair: {line['ratio']:.1f} times less, the same answers"
    )
    save(given, line)


if __name__ == "__main__":
    main()
