"""Why SCOT's regularisation is 1: the strength from exact transport to independence, and paired differences of methods.

    python benchmarks/scot_strength.py [--runs RUNS] [--results results] [--tables FILE.npz ...] [--logits FILE.npz ...]
                                       [--quick] [--max-rows 2000] [--json FILE] [--figure FILE.png]

SCOT transports rows to labels at cost -log p with entropic regularisation eps = 1. Here eps runs from 0 (exact
transport, solved by POT) over 1 to infinity (every row gets the label shares q, whatever its scores: the estimate
is 1 - sum_j h_j q_j with the predicted shares h). p is temperature-scaled on the source; q are the source's label
shares on shifted sets. Under label shift, half of a source is resampled to Dirichlet(alpha = 10) shares, and q are the
target's own shares: p and q are then right, as the derivation assumes, and only eps can be wrong. "no shift" is the
same half without resampling. Printed: the mean absolute error and the mean error (bias) in percentage points.

The second table compares methods pair by pair: the mean over targets of |error of the other| - |error of SCOT|, with
a 95% interval from 2,000 bootstrap draws of whole families (a corruption with all severities, a table with all its
groups and models), since targets of one family are not independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import ot
from _options import parser_of, save
from _shifts import Task, add_arguments, tasks

import shiftgauge as sg
from shiftgauge.calibration import fit_calibration
from shiftgauge.labelshift import resample_to
from shiftgauge.methods import METHODS
from shiftgauge.methods.registry import accepts, make

STRENGTHS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, np.inf)
OTHERS = ("unchanged", "ac", "doc", "im", "atc-mc", "atc-ne", "cot", "cott", "auto")
DRAWS = 2_000
#: kind, family, log-probabilities up to a constant per row (n, K), labels (n,), label shares (K,)
Case = tuple[str, str, np.ndarray, np.ndarray, np.ndarray]


def shares_of(labels: np.ndarray, k: int) -> np.ndarray:
    """Label proportions (K,)."""
    return np.bincount(labels, minlength=k) / len(labels)


def strength_estimate(z: np.ndarray, q: np.ndarray, strength: float) -> float:
    """Mass that the plan of this strength takes off the predictions."""
    z = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    predicted = z.argmax(1)
    if strength == np.inf:
        return float(1 - q[predicted].mean())
    if strength == 0:
        used = q > 0
        plan = np.zeros_like(z)
        plan[:, used] = ot.emd(np.full(len(z), 1 / len(z)), q[used], -z[:, used], numItermax=1_000_000)
        return float(1 - plan[np.arange(len(z)), predicted].sum())
    scot = make("scot", calibration="none", marginal=q)
    # x_ij is proportional to p_ij^(1 / eps) w_j, so the strength is a temperature of the target's scores.
    unused = sg.Source(logits=2 * np.eye(len(q)), labels=np.arange(len(q)))
    return float(scot.fit(unused).estimate(sg.Target(logits=z / strength)).error)


def cases(task: Task, most: int, rng: np.random.Generator) -> Iterator[Case]:
    """The task's shifted sets; and its source, halved, with and without label shift."""
    calibration = fit_calibration("temperature", task.source)
    labels, k = np.asarray(task.source.labels, int), task.source.k
    kind = "images, corrupted" if task.kind == "corrupted" else "tables, natural"
    for name, (target, truth) in shifted(task):
        rows = rng.permutation(target.n)[:most]
        z = calibration.log_probs(target.scores[rows], target.kind)
        yield kind, family_of(task, name), z, truth[rows], shares_of(labels, k)
    half, other = np.array_split(rng.permutation(len(labels)), 2)
    if len(set(labels[half])) < k or len(other) < 200:
        return
    calibration = fit_calibration("temperature", task.source.take(half))
    z = calibration.log_probs(task.source.scores[other], task.source.kind)
    what = kind.partition(",")[0]
    yield f"{what}, no shift", task.family, z[:most], labels[other][:most], shares_of(labels[other][:most], k)
    for _ in range(5):
        wanted = rng.dirichlet(10 * k * shares_of(labels, k))
        drawn = resample_to(labels[other], wanted, seed=rng)[:most]
        if len(drawn) >= 100:
            truth = labels[other][drawn]
            yield f"{what}, label shift", task.family, z[drawn], truth, shares_of(truth, k)


def shifted(task: Task) -> Iterator[tuple[str, tuple[sg.Target, np.ndarray]]]:
    """The task's targets but for clean images."""
    return ((n, t) for n, t in task.targets.items() if task.kind != "corrupted" or n != "clean")


def family_of(task: Task, name: str) -> str:
    """Targets that are not independent: the severities of a corruption, the groups and models of a table."""
    return f"{task.family}/{name.rpartition('_')[0]}" if task.kind == "corrupted" else task.family


def method_errors(
    task: Task, most: int, rng: np.random.Generator
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(kind, family, signed error by method) of every shifted set."""
    fitted = {}
    for name in ("scot", *OTHERS):
        options = {"marginal": "source"} if accepts(METHODS[name], "marginal") else {}
        fitted[name] = make(name, **options).fit(task.source)
    for name, (target, labels) in shifted(task):
        rows = rng.permutation(target.n)[:most]
        sample = target.take(rows)
        truth = float((sample.predictions != labels[rows]).mean())
        errors = {m: e.estimate(sample).error - truth for m, e in fitted.items()}
        yield task.kind, family_of(task, name), errors


def interval(values: np.ndarray, families: list[str], rng: np.random.Generator) -> tuple[float, float]:
    """95% interval of the mean from bootstrap draws of whole families; none for one family."""
    names, index = np.unique(families, return_inverse=True)
    sums = np.bincount(index, weights=values)
    counts = np.bincount(index)
    draws = rng.integers(0, len(names), (DRAWS, len(names)))
    means = sums[draws].sum(1) / counts[draws].sum(1)
    if len(names) == 1:
        return np.nan, np.nan
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def sweep(all_tasks: list[Task], most: int) -> list[dict]:
    """Mean absolute error and bias of every strength by kind of case."""
    rng = np.random.default_rng(0)
    errors: dict[str, list[list[float]]] = defaultdict(list)
    families: dict[str, list[str]] = defaultdict(list)
    for task in all_tasks:
        for kind, family, z, labels, q in cases(task, most, rng):
            truth = float((z.argmax(1) != labels).mean())
            errors[kind].append([strength_estimate(z, q, s) - truth for s in STRENGTHS])
            families[kind].append(family)
    rows = []
    for kind, values in errors.items():
        table = 100 * np.array(values)
        one = np.abs(table[:, STRENGTHS.index(1.0)])
        for j, strength in enumerate(STRENGTHS):
            low, high = interval(np.abs(table[:, j]) - one, families[kind], rng)
            rows.append({
                "kind": kind, "strength": str(strength), "targets": len(table), "families": len(set(families[kind])),
                "mae": float(np.abs(table[:, j]).mean()), "bias": float(table[:, j].mean()),
                "over_scot": [low, high],
            })  # fmt: skip
    return rows


def pairs(all_tasks: list[Task], most: int) -> list[dict]:
    """Paired differences of the absolute errors: the other method minus SCOT."""
    rng = np.random.default_rng(0)
    errors: dict[str, list[dict[str, float]]] = defaultdict(list)
    families: dict[str, list[str]] = defaultdict(list)
    for task in all_tasks:
        for kind, family, by_method in method_errors(task, most, rng):
            errors[kind].append(by_method)
            families[kind].append(family)
    rows = []
    for kind, values in errors.items():
        scot = np.array([100 * abs(v["scot"]) for v in values])
        for method in OTHERS:
            other = np.array([100 * abs(v[method]) for v in values])
            low, high = interval(other - scot, families[kind], rng)
            rows.append({
                "kind": kind, "method": method, "targets": len(values), "families": len(set(families[kind])),
                "scot": float(scot.mean()), "other": float(other.mean()), "difference": float((other - scot).mean()),
                "interval": [low, high], "scot_nearer": float((other > scot).mean()),
            })  # fmt: skip
    return rows


def draw(rows: list[dict], path: Path) -> None:
    """Mean absolute error against the strength, one line per kind; FILE.png and, for dark pages, FILE-dark.png."""
    import matplotlib.pyplot as plt

    places = np.arange(len(STRENGTHS))
    for style, file in (("default", path), ("dark_background", path.with_stem(f"{path.stem}-dark"))):
        with plt.style.context(style):
            figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
            for kind in dict.fromkeys(row["kind"] for row in rows):
                axes.plot(places, [row["mae"] for row in rows if row["kind"] == kind], marker="o", label=kind)
            axes.axvline(STRENGTHS.index(1.0), color="0.6", linestyle=":")
            axes.set_xticks(places, ["0 (exact)", *(f"{s:g}" for s in STRENGTHS[1:-1]), "infinite"])
            axes.set(xlabel="entropic regularisation", ylabel="mean absolute error, points", yscale="log")
            axes.legend(fontsize=8)
            figure.savefig(file, dpi=110)


def main() -> None:
    """Run both comparisons and print them."""
    parser = parser_of(__doc__, "the shipped predictions only")
    add_arguments(parser)
    parser.add_argument("--max-rows", type=int, default=2_000)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    all_tasks = list(tasks(options))
    strengths = sweep(all_tasks, options.max_rows)
    print(
        f"{'kind':26}{'strength':>9}{'targets':>8}{'families':>9}{'MAE':>8}{'bias':>8}  MAE minus SCOT's, 95%"
    )
    for row in strengths:
        low, high = row["over_scot"]
        print(
            f"{row['kind']:26}{row['strength']:>9}{row['targets']:8}{row['families']:9}{row['mae']:8.2f}"
            f"{row['bias']:+8.2f}  {low:+.2f} to {high:+.2f}",
            flush=True,
        )
    compared = pairs(all_tasks, options.max_rows)
    print(f"\n{'kind':12}{'method':10}{'MAE':>7}{'SCOT':>7}{'difference':>11}  95%{'':14}SCOT nearer")
    for row in compared:
        low, high = row["interval"]
        print(
            f"{row['kind']:12}{row['method']:10}{row['other']:7.2f}{row['scot']:7.2f}{row['difference']:+11.2f}"
            f"  {low:+.2f} to {high:+.2f}{'':4}{row['scot_nearer']:8.0%}",
            flush=True,
        )
    save(options, {"strength": strengths, "pairs": compared})
    if options.figure:
        draw(strengths, options.figure)


if __name__ == "__main__":
    main()
