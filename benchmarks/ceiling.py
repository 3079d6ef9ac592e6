"""The ceiling, with whole families left out: how often it holds, and how far above the truth it lies.

    python benchmarks/ceiling.py [--tables FILE.npz ...] [--scores FILE.npz ...] [--quick] [--json FILE]

TABLES and SCORES as in `benchmarks/silent.py`; with no tables, those of the folder `runs`
(`benchmarks/natural.py`); the shipped predictions always count. Compared: the largest of all methods with no
margin; the shipped ceiling; the same with its margin scaled anew so that it holds in 95% of the other
families' targets (the family at hand left out); the critic's bound (disagreement discrepancy). Families count
by their targets.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from natural import trials as table_trials
from silent import recorded

import shiftgauge as sg
from shiftgauge.inference.decisions import ceiling

LEVEL = 0.95


def corruptions(path: Path | None) -> Iterator[dict]:
    """The ceilings of recorded predictions under corruption."""
    for kind, family, source, target in recorded(path):
        if kind == "corruption":
            left = sg.Source(logits=source[0], labels=source[1])
            found = ceiling(left, sg.Target(logits=target[0]))
            truth = float(np.mean(target[0].argmax(axis=1) != target[1]))
            yield entry(f"corruption {family}", truth, found.value, found.margin, found.critic_bound)


def entry(family: str, truth: float, high: float, margin: float, critic: float) -> dict:
    return {"family": family, "truth": truth, "high": high, "margin": margin, "critic": critic}


def naturals(path: Path | None, quick: bool) -> Iterator[dict]:
    for t in table_trials(path, [], quick):
        yield entry(t["family"], t["truth"], t["band"]["high"], t["margin"], t["critic"])


def left_out(held: list[dict]) -> list[float]:
    """Each target's ceiling with the margin that the other families call for."""
    needed = [(t["truth"] - t["high"]) / t["margin"] + 1.0 if t["margin"] > 0 else 0.0 for t in held]
    out = []
    for t in held:
        others = [n for n, o in zip(needed, held, strict=True) if o["family"] != t["family"]]
        factor = float(np.quantile(others, LEVEL)) if others else 1.0
        out.append(min(1.0, t["high"] + (factor - 1.0) * t["margin"]))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, nargs="*", default=[])
    parser.add_argument("--scores", type=Path, nargs="*", default=[])
    parser.add_argument("--quick", action="store_true", help="the computers, and the shipped predictions")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    natural = [t for path in given.tables or [None] for t in naturals(path, given.quick)]
    corrupt = [t for path in (None, *given.scores) for t in corruptions(path)]
    table: dict[str, dict] = {}
    for name, held in (("natural tables", natural), ("corruptions", corrupt)):
        truth, high, margin, critic = (
            np.array([t[k] for t in held]) for k in ("truth", "high", "margin", "critic")
        )
        kinds = {"largest of all methods": high - margin, "ceiling": high, "critic": critic}
        if name == "natural tables":
            kinds["ceiling, families left out"] = np.array(left_out(held))
        for kind, top in kinds.items():
            holds, excess = float(np.mean(truth <= top + 1e-12)), 100 * float(np.mean(top - truth))
            table.setdefault(name, {})[kind] = {"holds": holds, "excess": excess, "targets": len(held)}
            print(
                f"{name:16} {kind:28} holds in {100 * holds:5.1f}% of {len(held)}, mean excess {excess:5.1f}"
            )
    if given.json:
        given.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
