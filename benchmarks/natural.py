"""Every method on natural shifts of tables, by family, against believing that nothing changed.

    python benchmarks/natural.py [TABLES.npz ...] [--proportions same changed] [--quick] [--json FILE]

TABLES as `benchmarks/natural_tables.py` writes them; without any, they are made first. Printed: mean, median and worst
miss in points over all targets, and the mean by family; then how often the range held, and how often and by how much
the ceiling lay above the truth; for scores, Spearman's rho with the true error within each task, averaged. With
`--proportions`, `auto` is told what is known of the class proportions, and its mean is printed by how far they really
moved.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from natural_tables import made
from scipy.stats import spearmanr

import shiftgauge as sg

ERRORS = {
    "unchanged": ("unchanged", {}),
    "AC": ("ac", {}),
    "DoC": ("doc", {}),
    "IM": ("im", {}),
    "CBPE": ("cbpe", {}),
    "ATC-MC": ("atc-mc", {}),
    "ATC-NE": ("atc-ne", {}),
    "COT": ("cot", {}),
    "COTT": ("cott", {}),
    "SCOT": ("scot", {}),
    "SCOT shrunk": ("scot", {"marginal": "shrunk"}),
    "label-shift": ("label-shift", {}),
}
SCORES = ("entropy", "nuclear-norm", "mano")
MOVED = (0.05, 0.1, 0.2)


def targets(
    path: Path | None, quick: bool
) -> Iterator[tuple[str, sg.Source, Iterator[tuple[str, sg.Target, np.ndarray]]]]:
    """Each task and model: its source, and its targets with their labels."""
    held = made(["computers"] if quick else []) if path is None else dict(np.load(path, allow_pickle=False))

    def groups(key: str) -> Iterator[tuple[str, sg.Target, np.ndarray]]:
        for name in held:
            if name.startswith(f"{key}__") and name.endswith("_probs") and not name.endswith("__val_probs"):
                group = name[len(key) + 2 : -len("_probs")]
                yield group, sg.Target(probs=held[name]), held[name[: -len("probs")] + "labels"].astype(int)

    for key in (name[: -len("__val_probs")] for name in held if name.endswith("__val_probs")):
        labels = held[f"{key}__val_labels"].astype(int)
        yield key, sg.Source(probs=held[f"{key}__val_probs"], labels=labels), groups(key)


def trials(path: Path | None, proportions: list[str], quick: bool = False) -> Iterator[dict[str, Any]]:
    for key, source, groups in targets(path, quick):
        first: sg.Pair | None = None
        for group, target, labels in groups:
            first = pair = sg.Pair(source, target) if first is None else first.with_target(target)
            found = {
                p: pair.estimate("auto", proportions=p) for p in dict.fromkeys(["unknown", *proportions])
            }
            top = sg.ceiling(pair)
            q, moved = source.label_marginal, np.bincount(labels, minlength=source.k) / len(labels)
            yield {
                "task": key,
                "family": key.split("_")[0],
                "group": group,
                "truth": float(np.mean(target.predictions != labels)),
                "moved": float(np.abs(q - moved).sum() / 2),
                "errors": {name: pair.error(method, **options) for name, (method, options) in ERRORS.items()}
                | {"auto": found["unknown"].error}
                | {f"auto ({p})": found[p].error for p in proportions if p != "unknown"},
                "scores": {name: pair.estimate(name).score for name in SCORES},
                "band": found["unknown"].range.to_dict(),
                "margin": top.margin,
                "critic": top.critic_bound,
            }


def by_family(held: list[dict], name: str) -> dict[str, float]:
    """Mean miss in points by family."""
    out: dict[str, list[float]] = {}
    for t in held:
        out.setdefault(t["family"], []).append(100 * abs(t["errors"][name] - t["truth"]))
    return {family: float(np.mean(misses)) for family, misses in sorted(out.items())}


def rho(held: list[dict], score: str) -> float:
    """Spearman's rho of a score with the true error, within tasks of five targets or more."""
    tasks: dict[str, list[dict]] = {}
    for t in held:
        tasks.setdefault(t["task"], []).append(t)
    kept = [[(t["scores"][score], t["truth"]) for t in some] for some in tasks.values() if len(some) >= 5]
    return (
        float(np.nanmean([spearmanr(*np.array(pairs).T).statistic for pairs in kept]))
        if kept
        else float("nan")
    )


def bound(held: list[dict], high: list[float]) -> tuple[float, float]:
    """How often the truth is at most this, and the mean excess in points."""
    truth, top = np.array([t["truth"] for t in held]), np.array(high)
    return float(np.mean(truth <= top + 1e-12)), 100 * float(np.mean(top - truth))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path, nargs="*")
    parser.add_argument("--quick", action="store_true", help="the computers only")
    parser.add_argument("--proportions", nargs="*", default=["same", "changed"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    held = [t for path in given.tables or [None] for t in trials(path, given.proportions, given.quick)]
    families = sorted({t["family"] for t in held})
    print(
        f"{len(held)} targets\n{'':16}{'mean':>7}{'median':>8}{'worst':>7}  "
        + "".join(f"{f[:9]:>10}" for f in families)
    )
    table = {}
    for name in held[0]["errors"]:
        misses = np.array([100 * abs(t["errors"][name] - t["truth"]) for t in held])
        parts = by_family(held, name)
        table[name] = {
            "mean": misses.mean(),
            "median": float(np.median(misses)),
            "worst": misses.max(),
            "families": parts,
        }
        row = f"{name:16}{misses.mean():>7.1f}{np.median(misses):>8.1f}{misses.max():>7.0f}  "
        print(row + "".join(f"{parts[f]:>10.1f}" for f in families))
    band = [t["band"] for t in held]
    inside = np.mean([b["low"] <= t["truth"] <= b["high"] for b, t in zip(band, held, strict=True)])
    width = 100 * np.mean([b["high"] - b["low"] for b in band])
    print(f"range: holds in {100 * inside:.1f}%, mean width {width:.1f}")
    for name, high in (("ceiling", [b["high"] for b in band]), ("critic", [t["critic"] for t in held])):
        share, excess = bound(held, high)
        table[name] = {"holds": share, "excess": excess}
        print(f"{name}: holds in {100 * share:.1f}%, mean excess {excess:.1f}")
    for name in SCORES:
        table[name] = {"rho": rho(held, name)}
        print(f"{name}: Spearman's rho with the error, within tasks, {table[name]['rho']:.2f}")
    names = ["unchanged", *[n for n in held[0]["errors"] if n.startswith("auto")]]
    print("mean miss by how far the class proportions moved (TV)")
    for low, high in zip((0.0, *MOVED), (*MOVED, 1.0), strict=True):
        some = [t for t in held if low <= t["moved"] < high]
        cells = [
            np.mean([100 * abs(t["errors"][n] - t["truth"]) for t in some]) if some else np.nan for n in names
        ]
        print(
            f"  {low:.2f} to {high:.2f} ({len(some)}): "
            + ", ".join(f"{n} {c:.1f}" for n, c in zip(names, cells, strict=True))
        )
    if given.json:
        given.json.write_text(json.dumps({"table": table, "trials": held}, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
