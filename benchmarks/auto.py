"""`auto` against each single method and against the median of three, over kinds of shift.

    python benchmarks/auto.py [--scores FILE.npz | FOLDER ...] [--seeds 3] [--quick] [--json FILE]

Without scores: the recorded predictions that ship with the package. FILE holds `val_logits`, `val_labels`, `labels`,
`clean_logits` and any number of `<shift>_logits` of the same rows; FOLDER is one seed's scores as `shiftgauge bench
collect` writes them; several are pooled. Clean targets are random re-splits of all unshifted rows, so that source and
target differ by chance alone. Every set is also used with class proportions drawn from Dirichlet(alpha q), alpha = 50,
10, 1: 20 draws of the clean set, `--seeds` of every other. Printed: mean and worst absolute miss in points, and under
corruption and other proportions together the share of targets missed by more than 25; how often auto's band of
disagreement held the truth, and its mean width. What was tuned on what is in docs/explanation/natural.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.calibration import fit_calibration
from shiftgauge.labelshift import dirichlet_shares, resample_to
from shiftgauge.methods import SCOT, Auto
from shiftgauge.rows import Rows as CalibratedRows

KINDS = ("clean", "corrupt", "clean+50", "clean+10", "clean+1", "corrupt+50", "corrupt+10", "corrupt+1")
LEAST_ROWS = 300
DRAWS = 20
FAR = 0.25
SPLITS = 12

#: Logits and labels of a set of rows.
Rows = tuple[np.ndarray, np.ndarray]


def read(path: Path | None) -> tuple[Rows, dict[str, Rows]]:
    """The source's rows, and those of every set by name; the unshifted one is called clean."""
    if path is not None and path.is_dir():
        source = np.load(path / "source.npz", allow_pickle=False)
        sets = {
            file.stem: np.load(file, allow_pickle=False) for file in sorted((path / "shifts").glob("*.npz"))
        }
        return (source["logits"], source["labels"].astype(int)), {
            name: (held["logits"], held["labels"].astype(int)) for name, held in sets.items()
        }
    shipped = resources.files("shiftgauge").joinpath("data/demo.npz")
    with shipped.open("rb") if path is None else path.open("rb") as file:
        held = dict(np.load(file, allow_pickle=False))
    labels = held["labels"].astype(int)
    names = sorted(k[:-7] for k in held if k.endswith("_logits") and k != "val_logits")
    sets = {name: (held[f"{name}_logits"], labels) for name in names}
    return (held["val_logits"], held["val_labels"].astype(int)), sets


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


class Fitted:
    """auto, fitted to one source."""

    def __init__(self, rows: Rows) -> None:
        source = sg.Source(logits=rows[0], labels=rows[1])
        self.calibration = fit_calibration("temperature", source)
        view = CalibratedRows.of(source).calibrated(self.calibration)
        self.auto, self.scot = Auto().fit_rows(view), SCOT().fit_rows(view)
        self.q = source.label_marginal

    def trial(self, kind: str, shift: str, logits: np.ndarray, labels: np.ndarray) -> dict:
        target = sg.Target(logits=logits)
        view = CalibratedRows.of(target).calibrated(self.calibration)
        found = self.auto.estimate_rows(view)
        answers = dict(found.details["answers"])
        three = [answers["atc-ne"], answers["cott:mlls"], answers["scot:shrunk"]]
        answers |= {
            "scot": self.scot.estimate_rows(view).error,
            "median": float(np.median(three)),
            "auto": found.error,
        }
        truth = float(np.mean(target.predictions != labels))
        band = found.range.to_dict()
        return {
            "kind": kind,
            "shift": shift,
            "truth": truth,
            "answers": answers,
            "choice": found.details["choice"],
            "in_band": bool(band["low"] <= truth <= band["high"]),
            "band_width": band["high"] - band["low"],
        }


def trials(source: Rows, sets: dict[str, Rows], seeds: int, draws: int, splits: int) -> Iterator[dict]:
    logits, labels = (np.concatenate(both) for both in zip(source, sets["clean"], strict=True))
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(labels))
        left, right = np.split(order, [len(source[1])])
        yield Fitted((logits[left], labels[left])).trial("clean", "clean", logits[right], labels[right])
    fitted = Fitted(source)
    for name, (logits, labels) in sets.items():
        for alpha in (50, 10, 1) if name == "clean" else (0, 50, 10, 1):
            for seed in range((draws if name == "clean" else seeds) if alpha else 1):
                rng = np.random.default_rng([zlib.crc32(name.encode()), alpha, seed])
                rows = rows_of(labels, fitted.q, alpha, rng)
                kind = ("clean" if name == "clean" else "corrupt") + (f"+{alpha}" if alpha else "")
                yield fitted.trial(kind, name, logits[rows], labels[rows])


def main() -> None:
    parser = parser_of(__doc__, "the shipped predictions, one draw")
    parser.add_argument("--scores", type=Path, nargs="+", default=[None])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if given.quick:
        given.scores, given.seeds = [None], 1
    draws, splits = (1, 3) if given.quick else (DRAWS, SPLITS)
    found = [t for path in given.scores for t in trials(*read(path), given.seeds, draws, splits)]
    kinds = [k for k in KINDS if any(t["kind"] == k for t in found)]
    table: dict[str, dict[str, list[float]]] = {}
    print(f"{'':13}" + "".join(f"{k:>12}" for k in kinds) + f"{'far off, %':>12}")
    print(f"{'targets':13}" + "".join(f"{sum(t['kind'] == k for t in found):>12}" for k in kinds))
    for method in found[0]["answers"]:
        cells = ""
        for kind in kinds:
            misses = [100 * abs(t["answers"][method] - t["truth"]) for t in found if t["kind"] == kind]
            table.setdefault(method, {})[kind] = [float(np.mean(misses)), float(np.max(misses))]
            cells += f"{f'{np.mean(misses):.1f} [{np.max(misses):.0f}]':>12}"
        both = [t for t in found if t["kind"].startswith("corrupt+")]
        far = float(np.mean([abs(t["answers"][method] - t["truth"]) > FAR for t in both]))
        table[method]["far off"] = [far]
        print(f"{method:13}{cells}{100 * far:>12.1f}")
    for label, key in (("in band, %", "in_band"), ("band width", "band_width")):
        print(
            f"{label:13}"
            + "".join(f"{100 * np.mean([t[key] for t in found if t['kind'] == k]):>12.0f}" for k in kinds)
            + f"   all {100 * np.mean([t[key] for t in found]):.0f}"
        )
    in_band = float(np.mean([t["in_band"] for t in found]))
    save(given, {"misses": table, "in_band": in_band})


if __name__ == "__main__":
    main()
