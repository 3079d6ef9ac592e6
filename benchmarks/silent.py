"""Confidently wrong, counted: how often is the truth outside the range shown while nothing warned?

    python benchmarks/silent.py [--tables FILE.npz ...] [--scores FILE.npz ...] [--repeats 2] [--quick] [--json FILE]

Settings: natural shifts of tables (TABLES: `TASK__MODEL__val_probs`, `..._val_labels` and, for each group,
`TASK__MODEL__GROUP_probs` and `..._labels`), corruptions of recorded predictions (SCORES as in `benchmarks/auto.py`,
and those that ship with the package), label shift (Dirichlet, alpha 10 and 1), both at once, and none; sources of 500
to 5,000 rows and targets of 200 to 5,000, drawn at random. The truth is the error of just these target rows. Printed
per kind of shift: the mean miss of `auto`, how often the truth lay outside its sampling interval (two standard
errors), outside its range, above its ceiling, and outside the range while the grade was "ok" (silent); the grades
given; how often "ok" was right (miss below 3 points, or inside the range), how many of the misses below 3 points were
given "ok", and how many of those above 15 points "stop".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
from _options import parser_of, save

import shiftgauge as sg
from shiftgauge.labelshift import dirichlet_shares, resample_to
from shiftgauge.methods import Auto

SOURCE_ROWS, TARGET_ROWS = (500, 1000, 2000, 5000), (200, 500, 1000, 2000, 5000)
LEAST_ROWS = 150

#: Scores, their labels, and whether the scores are logits.
Rows = tuple[np.ndarray, np.ndarray, bool]
Setting = tuple[str, str, Rows, Rows]


def tables(path: Path) -> Iterator[Setting]:
    """Every group of every table, with the family's name."""
    held = np.load(path, allow_pickle=False)
    for key in (name[: -len("__val_probs")] for name in held.files if name.endswith("__val_probs")):
        source = held[f"{key}__val_probs"], held[f"{key}__val_labels"].astype(int), False
        for name in held.files:
            if name.startswith(f"{key}__") and name.endswith("_probs") and not name.endswith("__val_probs"):
                labels = held[name[: -len("probs")] + "labels"].astype(int)
                yield "natural", key.split("_")[0], source, (held[name], labels, False)


def recorded(path: Path | None) -> Iterator[Setting]:
    """Corruptions, label shift, both, and none, of recorded predictions."""
    shipped = resources.files("shiftgauge").joinpath("data/demo.npz")
    with shipped.open("rb") if path is None else path.open("rb") as file:
        held = dict(np.load(file, allow_pickle=False))
    family, labels = "demo" if path is None else path.stem, held["labels"].astype(int)
    source = held["val_logits"], held["val_labels"].astype(int), True
    q = np.bincount(source[1]) / len(source[1])
    names = sorted(k[:-7] for k in held if k.endswith("_logits") and k not in ("val_logits", "clean_logits"))
    for name in names:
        yield "corruption", family, source, (held[f"{name}_logits"], labels, True)
    for number, name in enumerate(names[:40]):
        rng = np.random.default_rng([zlib.crc32(name.encode()), 7])
        for kind, scores in (("label shift", held["clean_logits"]), ("both", held[f"{name}_logits"])):
            shares = np.maximum(dirichlet_shares(q, (10, 1)[number % 2], seed=rng), 0.003)
            rows = resample_to(labels, shares / shares.sum(), seed=rng)
            yield kind, family, source, (scores[rows], labels[rows], True)
        both = np.concatenate([source[0], held["clean_logits"]]), np.concatenate([source[1], labels])
        left, right = np.array_split(rng.permutation(len(both[1])), 2)
        yield "none", family, (both[0][left], both[1][left], True), (both[0][right], both[1][right], True)


def drawn(rows: Rows, sizes: tuple[int, ...], rng: np.random.Generator) -> Rows:
    """So many rows at random, of the sizes that there are rows for."""
    n = min(int(rng.choice(sizes)), len(rows[1]))
    kept = rng.permutation(len(rows[1]))[:n]
    return rows[0][kept], rows[1][kept], rows[2]


def trial(setting: Setting, seed: int) -> dict:
    kind, family, source, target = setting
    rng = np.random.default_rng(seed)
    left, right = drawn(source, SOURCE_ROWS, rng), drawn(target, TARGET_ROWS, rng)
    name = "logits" if left[2] else "probs"
    found = Auto().fit(sg.Source(**{name: left[0]}, labels=left[1])).estimate(sg.Target(**{name: right[0]}))
    truth = float(np.mean(right[0].argmax(axis=1) != right[1]))
    band = {**found.range.to_dict(), "sampling": (found.sampling.high - found.sampling.low) / 2}
    return {
        "kind": kind,
        "family": family,
        "n_source": len(left[1]),
        "n_target": len(right[1]),
        "truth": truth,
        "error": found.error,
        "source_error": found.details["source_error"],
        "classes": int(left[0].shape[1]),
        "band": band,
        "grade": found.details["grade"],
        "details": {
            k: found.details[k]
            for k in ("shift", "excess_mass", "unexplained_mass", "ks_distance", "answers", "p_value")
        },
    }


def summary(trials: list[dict]) -> dict:
    """The rates of one kind of shift; see the head of this file."""
    truth, error = (np.array([t[k] for t in trials]) for k in ("truth", "error"))
    low, high, noise = (np.array([t["band"][k] for t in trials]) for k in ("low", "high", "sampling"))
    grade = np.array([t["grade"] for t in trials])
    miss, outside = np.abs(truth - error), (truth < low - 1e-12) | (truth > high + 1e-12)
    ok, small, large = grade == "ok", miss < 0.03, miss > 0.15

    def share(of: np.ndarray, among: np.ndarray | None = None) -> float | None:
        kept = of if among is None else of[among]
        return float(kept.mean()) if len(kept) else None

    return {
        "settings": len(trials),
        "mean miss": 100 * float(miss.mean()),
        "outside interval": share(miss > noise),
        "outside range": share(outside),
        "above ceiling": share(truth > high + 1e-12),
        "range width": 100 * float((high - low).mean()),
        "silent": share(outside & ok),
        "ok": share(ok),
        "caution": share(grade == "caution"),
        "stop": share(grade == "stop"),
        "ok is right": share(small | ~outside, ok),
        "small misses given ok": share(ok, small),
        "large misses given stop": share(grade == "stop", large),
    }


def main() -> None:
    parser = parser_of(__doc__, "the shipped predictions, once")
    parser.add_argument("--tables", type=Path, nargs="*", default=[])
    parser.add_argument("--scores", type=Path, nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    made = [s for path in given.tables for s in tables(path)]
    made += [s for path in (None, *given.scores) for s in recorded(path)]
    repeats = 1 if given.quick else given.repeats
    trials = [trial(s, 1000 * r + i) for r in range(repeats) for i, s in enumerate(made)]
    kinds = list(dict.fromkeys(t["kind"] for t in trials))
    table = {kind: summary([t for t in trials if t["kind"] == kind]) for kind in kinds}
    table["all"] = summary(trials)
    print(f"{'':24}" + "".join(f"{kind:>13}" for kind in table))
    for name in table["all"]:
        cells = [held[name] for held in table.values()]
        form = [
            "-"
            if v is None
            else f"{v:.1f}"
            if name in ("mean miss", "range width")
            else f"{v:d}"
            if isinstance(v, int)
            else f"{100 * v:.0f}%"
            for v in cells
        ]
        print(f"{name:24}" + "".join(f"{cell:>13}" for cell in form))
    save(given, {"summary": table, "trials": trials})


if __name__ == "__main__":
    main()
