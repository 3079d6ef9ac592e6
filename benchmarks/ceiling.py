"""The ceiling, with whole families left out: how often it holds, and how far above the truth it lies.

    python benchmarks/ceiling.py [--tables FILE.npz ...] [--runs RUNS] [--logits FILE.npz ...] [--quick] [--json FILE]

Compared: the largest of all methods with no margin; the shipped ceiling; the same with its margin scaled anew so that
it holds in 95% of the other families' targets (the family at hand left out); the critic's bound (disagreement
discrepancy).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from _options import parser_of, save
from _shifts import Task, add_arguments, tasks

from shiftgauge.inference.decisions import ceiling

LEVEL = 0.95


def entries(task: Task) -> Iterator[dict]:
    """The truth, the ceiling, its margin and the critic's bound of every target."""
    for target, labels in task.targets.values():
        found = ceiling(task.source, target)
        yield {
            "family": task.family,
            "truth": float(np.mean(target.predictions != labels)),
            "high": found.value,
            "margin": found.margin,
            "critic": found.critic_bound,
        }


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
    parser = parser_of(__doc__, "the shipped predictions only")
    add_arguments(parser)
    given = parser.parse_args()
    found: dict[str, list[dict]] = {}
    for task in tasks(given):
        found.setdefault(task.kind, []).extend(entries(task))
    table: dict[str, dict] = {}
    for name, held in found.items():
        truth, high, margin, critic = (
            np.array([t[k] for t in held]) for k in ("truth", "high", "margin", "critic")
        )
        kinds = {"largest of all methods": high - margin, "ceiling": high, "critic": critic}
        if len({t["family"] for t in held}) > 1:
            kinds["ceiling, families left out"] = np.array(left_out(held))
        for kind, top in kinds.items():
            holds, excess = float(np.mean(truth <= top + 1e-12)), 100 * float(np.mean(top - truth))
            table.setdefault(name, {})[kind] = {"holds": holds, "excess": excess, "targets": len(held)}
            print(
                f"{name:16} {kind:28} holds in {100 * holds:5.1f}% of {len(held)}, mean excess {excess:5.1f}"
            )
    save(given, table)


if __name__ == "__main__":
    main()
