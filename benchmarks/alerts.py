"""Alerts: how many targets beyond a limit three rules detect, and how often they fire within it.

    python benchmarks/alerts.py [TABLES.npz ...] [--scores LOGITS.npz ...] [--quick] [--json FILE]

The limit is the source's error plus 5 points. A rule fires where the number it reads exceeds the limit: the estimate of
`auto`, the estimate minus its sampling part (the monitor's rule), or the lower end of the range; range and sampling
part are at the monitor's level, 90%. Detected: of the targets whose true error lies at least 5 points beyond the limit,
the share for which the rule fires. False alarms: the same share of the targets whose true error lies within the limit.
The targets between count for neither. Each target is one window with all its rows.

TABLES as `benchmarks/natural.py --export` writes them; without any, those of the first
are made. LOGITS as `benchmarks/auto.py` takes them; the corruptions that ship with the package are always a set.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _options import parser_of, save
from natural import targets
from silent import recorded

import shiftgauge as sg
from shiftgauge.monitor.settings import Settings

MARGIN, BEYOND, LEVEL = 0.05, 0.05, Settings().level
RULES = {
    "estimate": lambda found: found.error,
    "sampling": lambda found: found.error - (found.sampling.high - found.sampling.low) / 2,
    "range": lambda found: found.range.low,
}


def natural(path: Path | None, quick: bool) -> Iterator[tuple[sg.Source, sg.Target, np.ndarray]]:
    for _, source, groups in targets(path, quick):
        for _, target, labels in groups:
            yield source, target, labels


def corrupted(path: Path | None) -> Iterator[tuple[sg.Source, sg.Target, np.ndarray]]:
    source = None
    for kind, _, left, right in recorded(path):
        if kind != "corruption":
            break
        source = source or sg.Source(logits=left[0].astype(np.float32), labels=left[1])
        yield source, sg.Target(logits=right[0].astype(np.float32)), right[1]


def trial(source: sg.Source, target: sg.Target, labels: np.ndarray) -> dict:
    found = sg.estimate(source, target, level=LEVEL)
    limit = source.error + MARGIN
    return {
        "beyond": float(np.mean(target.predictions != labels)) - limit,
        "fires": {name: bool(read(found) > limit) for name, read in RULES.items()},
    }


def rates(trials: list[dict]) -> dict:
    """Detections and false alarms of each rule; None where no target counts."""
    beyond = [t["fires"] for t in trials if t["beyond"] >= BEYOND]
    within = [t["fires"] for t in trials if t["beyond"] <= 0]

    def share(fires: list[dict], name: str) -> float | None:
        return float(np.mean([f[name] for f in fires])) if fires else None

    return {
        "targets": len(trials),
        "beyond": len(beyond),
        "within": len(within),
        "detected": {name: share(beyond, name) for name in RULES},
        "false alarms": {name: share(within, name) for name in RULES},
    }


def main() -> None:
    parser = parser_of(__doc__, "the computers and the shipped corruptions only")
    parser.add_argument("tables", type=Path, nargs="*")
    parser.add_argument("--scores", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    sets = {p.stem if p else "natural tables": natural(p, given.quick) for p in given.tables or [None]}
    sets |= {p.stem if p else "shipped corruptions": corrupted(p) for p in (None, *given.scores)}
    table = {}
    for name, held in sets.items():
        table[name] = found = rates([trial(*one) for one in held])
        print(
            f"{name}: {found['targets']} targets, {found['beyond']} beyond the limit by 5 points or more, "
            f"{found['within']} within it"
        )
        for rule in RULES:
            shares = [found[kind][rule] for kind in ("detected", "false alarms")]
            percents = ["   -" if share is None else f"{100 * share:3.0f}%" for share in shares]
            print(f"    {rule:10} detected {percents[0]}   false alarms {percents[1]}", flush=True)
    save(given, table)


if __name__ == "__main__":
    main()
