"""The label budget on recorded predictions whose labels are known: bias, coverage, and what the strata save.

    python benchmarks/budget.py [--quick] [--margin 0.03] [--draws 200] [--json FILE]

Each of the demo's targets is planned again and again with other seeds, its picks are labelled with their true labels,
and the combined estimate is compared with the error on all its rows. The opponent in the same run labels as many rows,
drawn at random, and takes the share of errors among them with the textbook interval (finite population, z).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import shiftgauge as sg
from shiftgauge.inference import budget, with_labels


def trial(source: sg.Source, target: sg.Target, labels: np.ndarray, margin: float, seed: int) -> list[float]:
    """(estimate, half-width, covered) of ours, then of plain sampling, and how many labels."""
    names = np.asarray(source.classes)
    wrong = names[target.predictions] != labels
    truth = float(wrong.mean())
    plan = budget(source, target, margin=margin, seed=seed)
    found = with_labels(plan, target, {int(i): labels[i] for i in plan.rows})
    ends = found.interval
    m = len(plan.rows)
    drawn = wrong[np.random.default_rng([seed, 1]).permutation(target.n)[:m]].mean()
    half = 1.96 * np.sqrt(drawn * (1 - drawn) / (m - 1) * (1 - m / target.n))
    ours = [found.error - truth, (ends.high - ends.low) / 2, float(ends.low <= truth <= ends.high)]
    return [*ours, drawn - truth, half, float(abs(drawn - truth) <= half), m]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 targets, 10 draws")
    parser.add_argument("--margin", type=float, default=0.03)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    demo = sg.demo_data()
    shifts = list(demo.targets)
    if given.quick:
        given.draws, shifts = 10, shifts[:3]
    labels = np.asarray(demo.labels)
    rows = []
    print(
        f"{'target':18}{'labels':>7}   {'bias':>6}{'half':>7}{'cover':>7}   plain:{'bias':>6}{'half':>7}{'cover':>7}"
    )
    for shift in shifts:
        found = np.array(
            [trial(demo.source, demo.targets[shift], labels, given.margin, s) for s in range(given.draws)]
        )
        bias, half, cover, plain_bias, plain_half, plain_cover, m = found.mean(axis=0)
        spread, plain_spread = found[:, 0].std(), found[:, 3].std()
        rows.append(
            {
                "target": shift,
                "labels": m,
                "bias": bias,
                "bias_error": spread / np.sqrt(given.draws),
                "half": half,
                "coverage": cover,
                "plain_half": plain_half,
                "plain_coverage": plain_cover,
                "variance_ratio": (plain_spread / spread) ** 2,
            }
        )
        print(
            f"{shift:18}{m:7.0f}   {100 * bias:+6.2f}{100 * half:7.2f}{100 * cover:6.1f}%   "
            f"      {100 * plain_bias:+6.2f}{100 * plain_half:7.2f}{100 * plain_cover:6.1f}%   "
            f"variance {rows[-1]['variance_ratio']:.2f} times smaller",
            flush=True,
        )
    mean = {key: float(np.mean([row[key] for row in rows])) for key in ("coverage", "plain_coverage")}
    ratio = float(np.exp(np.mean([np.log(row["variance_ratio"]) for row in rows])))
    far = max(abs(row["bias"]) / row["bias_error"] for row in rows)
    print(
        f"coverage {100 * mean['coverage']:.1f}% (plain {100 * mean['plain_coverage']:.1f}%); variance {ratio:.2f} "
        f"times smaller; largest bias {far:.1f} standard errors"
    )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
