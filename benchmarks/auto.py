"""`auto` against each single method and against the median of three, over kinds of shift.

    python benchmarks/auto.py [--scores FILE.npz] [--seeds 3] [--json FILE]

Without FILE: the recorded predictions that ship with the package (on which auto's two thresholds were tuned). FILE
holds `val_logits`, `val_labels`, `labels`, `clean_logits` and any number of `<shift>_logits` of the same rows. Every
set is used as it is and with class proportions drawn from Dirichlet(alpha q), alpha = 50, 10, 1. Printed: mean and
worst absolute miss in points; how often auto's band of disagreement held the truth, and its mean width.
"""

from __future__ import annotations

import argparse
import json
import zlib
from importlib import resources
from pathlib import Path

import numpy as np

import labelfree as lf
from labelfree.calibration import fit_calibration
from labelfree.estimators import Auto
from labelfree.estimators.view import View
from labelfree.labelshift import dirichlet_shares, resample_to

KINDS = ("clean", "corrupt", "clean+50", "clean+10", "clean+1", "corrupt+50", "corrupt+10", "corrupt+1")
LEAST_ROWS = 300


def rows_of(labels: np.ndarray, q: np.ndarray, alpha: int, rng: np.random.Generator) -> np.ndarray:
    """All rows, or those of a Dirichlet draw of class proportions that leaves enough of them."""
    if not alpha:
        return np.arange(len(labels))
    shares = dirichlet_shares(q, alpha, seed=rng)
    rows = resample_to(labels, shares, seed=rng)
    if len(rows) < LEAST_ROWS:
        shares = np.maximum(dirichlet_shares(q, alpha, seed=rng), 0.003)
        rows = resample_to(labels, shares / shares.sum(), seed=rng)
    return rows


def trials(held: dict[str, np.ndarray], seeds: int) -> list[dict]:
    source = lf.Source(logits=held["val_logits"], labels=held["val_labels"])
    view = View(source, fit_calibration("temperature", source))
    auto = Auto().fit_view(view)
    labels = held["labels"].astype(int)
    out = []
    for name in sorted(k[:-7] for k in held if k.endswith("_logits") and k != "val_logits"):
        for alpha in (0, 50, 10, 1):
            for seed in range(seeds if alpha else 1):
                rng = np.random.default_rng([zlib.crc32(name.encode()), alpha, seed])
                rows = rows_of(labels, source.label_marginal, alpha, rng)
                target = lf.Target(logits=held[f"{name}_logits"][rows])
                found = auto.estimate_view(View(target, view.calibration))
                answers = dict(found.details["answers"])
                answers["median"] = float(
                    np.median([answers["atc-ne"], answers["cott:mlls"], answers["scot"]])
                )
                answers["auto"] = found.error
                band = found.details["band"]
                truth = float(np.mean(target.predictions != labels[rows]))
                kind = ("clean" if name == "clean" else "corrupt") + (f"+{alpha}" if alpha else "")
                held_in = bool(band["low"] <= truth <= band["high"])
                out.append(
                    {
                        "kind": kind,
                        "shift": name,
                        "truth": truth,
                        "answers": answers,
                        "choice": found.details["choice"],
                        "in_band": held_in,
                        "band_width": band["high"] - band["low"],
                    }
                )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.scores is None:
        with resources.files("labelfree").joinpath("data/demo.npz").open("rb") as file:
            held = dict(np.load(file, allow_pickle=False))
    else:
        held = dict(np.load(given.scores, allow_pickle=False))
    found = trials(held, given.seeds)
    kinds = [k for k in KINDS if any(t["kind"] == k for t in found)]
    table: dict[str, dict[str, list[float]]] = {}
    print(f"{'':13}" + "".join(f"{k:>12}" for k in kinds))
    print(f"{'targets':13}" + "".join(f"{sum(t['kind'] == k for t in found):>12}" for k in kinds))
    for method in found[0]["answers"]:
        cells = ""
        for kind in kinds:
            misses = [100 * abs(t["answers"][method] - t["truth"]) for t in found if t["kind"] == kind]
            table.setdefault(method, {})[kind] = [float(np.mean(misses)), float(np.max(misses))]
            cells += f"{f'{np.mean(misses):.1f} [{np.max(misses):.0f}]':>12}"
        print(f"{method:13}{cells}")
    for label, key, scale in (("in band, %", "in_band", 100), ("band width", "band_width", 100)):
        print(
            f"{label:13}"
            + "".join(f"{scale * np.mean([t[key] for t in found if t['kind'] == k]):>12.0f}" for k in kinds)
            + f"   all {scale * np.mean([t[key] for t in found]):.0f}"
        )
    if given.json:
        in_band = float(np.mean([t["in_band"] for t in found]))
        given.json.write_text(json.dumps({"misses": table, "in_band": in_band}, indent=1) + "\n")


if __name__ == "__main__":
    main()
