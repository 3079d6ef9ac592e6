#!/usr/bin/env python3
"""Run the protocol on recorded logits of a CIFAR-10 network, without images or training.

    python scripts/check_recorded_logits.py FILE.npz [--out results] [--runs DIR]

FILE holds ``val_logits``, ``val_labels``, ``labels``, ``clean_logits`` and ``<corruption>_<severity>_logits``
for the 19 common corruptions. Writes estimates, tables and figures to <out>/cifar10/resnet20-recorded and prints
the mean absolute errors beside those of an independent look at the same logits (two decimals, percentage points).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from shiftgauge.experiments import bench, protocol
from shiftgauge.experiments.corruptions import NAMES
from shiftgauge.experiments.digests import files_digest
from shiftgauge.experiments.progress import lines
from shiftgauge.experiments.scores import ScoreFolder
from shiftgauge.experiments.storage import read_table
from shiftgauge.experiments.summaries import mae_table

NETWORK = "resnet20-recorded"
INDEPENDENT = {
    "ac": 6.00, "doc": 5.97, "im": 6.35, "atc-mc": 3.00, "atc-ne": 2.21, "cot": 2.02, "cott": 1.53, "scot": 1.34,
}  # fmt: skip


def record(path: Path, runs: Path) -> None:
    """Write the file's logits in the layout of collected scores."""
    scores = ScoreFolder.of(runs, "cifar10", NETWORK, 0)
    names = [f"{name}_{severity}" for name in NAMES for severity in range(1, 6)]
    with np.load(path, allow_pickle=False) as arrays:
        scores.write_manifest(
            seed=0,
            shifts=["clean", *names],
            origins=dict.fromkeys(["clean", *names], "recorded elsewhere"),
            dataset="cifar10",
            network=NETWORK,
            file=files_digest([path]),
        )
        scores.write(None, arrays["val_logits"], arrays["val_labels"])
        scores.write("clean", arrays["clean_logits"], arrays["labels"], "clean")
        for name in names:
            scores.write(name, arrays[f"{name}_logits"], arrays["labels"], "synthetic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "shiftgauge-recorded")
    given = parser.parse_args()
    record(given.file, given.runs)
    # The source's own label shares, as in the independent look at these logits.
    folder = bench.run("cifar10", given.runs, given.out, NETWORK, marginal="source", progress=lines())
    bench.table("cifar10", given.out, NETWORK)
    bench.figures("cifar10", given.runs, given.out, NETWORK)
    for entry in mae_table(read_table(folder / bench.ESTIMATES, protocol.ESTIMATES)).itertuples():
        other = INDEPENDENT.get(entry.method)
        mae = 100 * entry.mae
        comparison = "" if other is None else f"   independent {other:.2f}   difference {mae - other:+.3f}"
        print(f"{entry.method:12s} {mae:6.3f} [{100 * entry.worst:.1f}]{comparison}")


if __name__ == "__main__":
    main()
