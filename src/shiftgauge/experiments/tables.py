"""The paper's tables, its numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from shiftgauge.experiments import published
from shiftgauge.experiments.ablation import SIZE, Batched
from shiftgauge.experiments.protocol import SHRUNK, Row
from shiftgauge.experiments.summaries import (
    Correlation,
    Mae,
    correlation_table,
    mae_table,
    thresholding_table,
)
from shiftgauge.experiments.table import Table
from shiftgauge.methods import METHODS

ORDER = (
    "unchanged", "ac", "doc", "im", "cbpe", "gde", "atc-mc", "atc-ne", "cot", "cott", "scot",
    "cot+shrunk", "cott+shrunk", "scot+shrunk", "label-shift", "auto",
    "entropy", "nuclear-norm", "mano", "projnorm", "projnorm-short",
)  # fmt: skip


def title_of(method: str) -> str:
    """How a method is printed: ``COTT``, or ``COTT shrunk`` with the noise-aware marginal."""
    name = method.removesuffix(SHRUNK)
    ours = METHODS[name].title if name in METHODS else published.METHODS.get(name, name)
    return ours + (" shrunk" if method.endswith(SHRUNK) else "")


def _sorted(methods: set[str]) -> list[str]:
    return [name for name in ORDER if name in methods] + sorted(methods - set(ORDER))


def main_table(rows: Sequence[Row], name: str = "mae", title: str = "", extra: Sequence[str] = ()) -> Table:
    """MAE per data set and kind of shift, in percentage points; ``name`` says with which of the paper's tables."""
    source = "mild_label_shift" if name.startswith("mild") else "mae"
    found = mae_table(rows)
    methods = _sorted({entry.method for entry in found})
    lines, data, beside = [], [], False
    for group in dict.fromkeys((e.dataset, e.network, e.kind) for e in found):
        entries = {e.method: e for e in found if (e.dataset, e.network, e.kind) == group}
        paper = {m: published.mae(group[0], group[2], m, source) for m in methods}
        beside = beside or any(paper.values())
        lines += _group_lines(group, entries, methods, paper)
        data += [_mae_record(entries[m], paper[m]) for m in methods if m in entries]
    said = "Mean absolute error in percentage points." + (f" Paper: {published.CITATION}." if beside else "")
    notes = (said, *extra, *(published.ERRATA if beside else ()))
    header = ["data set", "run", *map(title_of, methods)]
    return Table(name, title or "Mean absolute error", header, lines, notes, data)


def _group_lines(
    group: tuple[str, str, str],
    entries: Mapping[str, Mae],
    methods: Sequence[str],
    paper: Mapping[str, tuple[float, float] | None],
) -> list[list[str]]:
    place, seeds = f"{group[0]} {group[2]}", max(e.seeds for e in entries.values())
    lines = [
        [
            place,
            run_label(group[1], list(entries.values())),
            *(_cell(entries.get(m), _mean(seeds)) for m in methods),
        ],
        [place, "median shift", *(_cell(entries.get(m), lambda e: f"{100 * e.median:.2f}") for m in methods)],
        [place, "worst shift", *(_cell(entries.get(m), lambda e: f"{100 * e.worst:.2f}") for m in methods)],
    ]
    if any(paper.values()):
        lines.append([place, "paper", *(f"{p[0]:.2f} ± {p[1]:.2f}" if p else "" for p in paper.values())])
    return lines


def run_label(network: str, entries: Sequence[Mae]) -> str:
    """``resnet20, 2 seeds, 95 shifts of 10,000 rows``; ranges where seeds or shifts differ."""
    seeds = max(e.seeds for e in entries)
    shifts = _span(min(e.fewest for e in entries), max(e.shifts for e in entries))
    rows = _span(min(e.least for e in entries), max(e.most for e in entries))
    return f"{network}, {counted(seeds, 'seed')}, {shifts} shift{'s' * (shifts != '1')} of {rows} rows"


def part_of(some: int, every: int, what: str) -> str:
    """What a cell that stands for less than its line says: `` (1 of 2 seeds)``; empty for all of it."""
    return "" if some == every else f" ({some} of {every} {what})"


def counted(number: int, what: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _fewer(entry: Correlation, shifts: int, seeds: int) -> str:
    of = [
        f"{counted(entry.fewest, 'shift')}" if entry.fewest < shifts else "",
        f"{counted(entry.seeds, 'seed')}" if entry.seeds < seeds else "",
    ]
    said = ", ".join(part for part in of if part)
    return f" ({said})" if said else ""


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _mean(seeds: int) -> Callable[[Mae], str]:
    # One seed has no spread; a cell that lacks seeds of its row says so.
    def text(e: Mae) -> str:
        spread = f" ± {100 * e.deviation:.2f}" if seeds > 1 else ""
        return f"{100 * e.mean:.2f}{spread}{part_of(e.seeds, seeds, 'seeds')}"

    return text


def _cell(entry: Mae | None, text: Callable[[Mae], str]) -> str:
    return "" if entry is None else text(entry)


def _mae_record(entry: Mae, paper: tuple[float, float] | None) -> dict[str, Any]:
    return {
        "dataset": entry.dataset,
        "network": entry.network,
        "shift": entry.kind,
        "method": entry.method,
        "mae": round(entry.mean, 6),
        "std": round(entry.deviation, 6),
        "median": round(entry.median, 6),
        "worst": round(entry.worst, 6),
        "shifts": entry.shifts,
        "fewest_shifts": entry.fewest,
        "seeds": entry.seeds,
        "rows_least": entry.least,
        "rows_most": entry.most,
        "paper_mae": None if paper is None else round(paper[0] / 100, 6),
        "paper_std": None if paper is None else round(paper[1] / 100, 6),
    }


def correlations(rows: Sequence[Row]) -> Table:
    """R^2 and Spearman's rho with the true error, per network."""
    found = correlation_table(rows)
    methods = _sorted({entry.method for entry in found})
    lines, data = [], []
    for group in dict.fromkeys((e.dataset, e.network) for e in found):
        entries = {e.method: e for e in found if (e.dataset, e.network) == group}
        paper = {m: published.correlation(*group, m) for m in methods}
        usual = max(e.fewest for e in entries.values()), max(e.seeds for e in entries.values())
        sets = _span(usual[0], max(e.shifts for e in entries.values()))
        label = f"{group[1]}, {counted(usual[1], 'seed')}, {sets} shift{'s' * (sets != '1')}"
        for index, (what, sign) in enumerate((("r2", "R^2"), ("rho", "ρ"))):
            ours = [
                f"{getattr(entries[m], what):.3f}{_fewer(entries[m], *usual)}" if m in entries else ""
                for m in methods
            ]
            lines.append([group[0], f"{label}, {sign}", *ours])
            if any(paper.values()):
                theirs = [f"{p[index]:.3f}" if p else "" for p in paper.values()]
                named = f"paper, {published.NETWORKS[group[1]]} on 224 pixels from public weights, {sign}"
                lines.append([group[0], named, *theirs])
        data += [asdict(e) for e in entries.values()]
    notes = (
        "R^2 is the squared Pearson correlation, ρ is Spearman's; over the shifted sets, mean over seeds. A cell of "
        "fewer sets or seeds than its row says so.",
        "Entropy, nuclear norm, MaNo and ProjNorm are scores: only their correlation is meaningful. ProjNorm short is "
        "ours: a few steps from the initial weights.",
        published.ERRATA[2],
    )
    header = ["data set", "network", *map(title_of, methods)]
    return Table("correlation", "Correlation with the true error", header, lines, notes, data)


def thresholding(rows: Sequence[Row]) -> Table:
    """Averaging against thresholding, per shift."""
    found = sorted(thresholding_table(rows), key=lambda t: t.true_error)
    lines = [
        [t.dataset, t.shift, str(t.seeds), *(f"{100 * v:.2f}" for v in (t.true_error, t.ac, t.atc, t.cot, t.cott)),
         "yes" if t.atc < t.ac else "no", "yes" if t.cott < t.cot else "no"]
        for t in found
    ]  # fmt: skip
    helped = sum(t.cott < t.cot for t in found)
    notes = (
        "Absolute misses in percentage points, mean over seeds; shifts by true error.",
        f"The threshold helps COT on {helped} of {len(found)} sets, AC on {sum(t.atc < t.ac for t in found)}.",
    )
    header = [
        "data set", "shift", "seeds", "true error", "AC", "ATC-MC", "COT", "COTT", "threshold helps AC", "helps COT",
    ]  # fmt: skip
    data = [asdict(t) for t in found]
    return Table("thresholding", "Thresholding against averaging", header, lines, notes, data)


def batches(found: Sequence[Batched], size: int = SIZE) -> Table:
    """Batches with replacement against the whole target, for targets of more rows than a batch."""
    lines, data = [], []
    for group in dict.fromkeys((b.dataset, b.network, b.method) for b in found):
        here = [b for b in found if (b.dataset, b.network, b.method) == group]
        gaps = [abs(b.whole - b.batched) for b in here]
        values = {
            "mae_whole": sum(abs(b.whole - b.true_error) for b in here) / len(here),
            "mae_batches": sum(abs(b.batched - b.true_error) for b in here) / len(here),
            "mean_difference": sum(gaps) / len(gaps),
            "largest_difference": max(gaps),
        }
        counts = {"seeds": len({b.seed for b in here}), "shifts": len({b.shift for b in here})}
        lines.append(
            [
                *group[:2],
                title_of(group[2]),
                *map(str, counts.values()),
                *(f"{100 * v:.3f}" for v in values.values()),
            ]
        )
        data.append({"dataset": group[0], "network": group[1], "method": group[2], **counts, **values})
    header = [
        "data set", "network", "method", "seeds", "shifts", "MAE whole", "MAE batches", "mean difference",
        "largest difference",
    ]  # fmt: skip
    applies = f"Batches of {size:,} rows drawn with replacement, ceil(n / {size:,}) of them, averaged."
    none = f"No set here has more than {size:,} rows, so the paper takes no batches and there is nothing to compare."
    notes = (f"Percentage points. {applies}" if found else none,)
    return Table("batches", "The whole target against batches with replacement", header, lines, notes, data)


def shifts(rows: Sequence[Row], about: Mapping[str, Any]) -> Table:
    """Every set: its kind, rows, seeds, true error, and whether it is published or was made here."""
    known, missing = about.get("shifts", {}), about.get("missing", {})
    lines, data = [], []
    for (dataset, network, name), here in _by_shift(rows).items():
        seeds, sizes = sorted({row.seed for row in here}), [row.n for row in here]
        record = {
            "dataset": dataset,
            "network": network,
            "shift": name,
            "kind": here[0].kind,
            "n": min(sizes),
            "n_most": max(sizes),
            "seeds": len(seeds),
            "true_error": sum({row.seed: row.true_error for row in here}.values()) / len(seeds),
            "origin": known.get(name, {}).get("origin", ""),
        }
        data.append(record)
        shown = {
            **record, "n": _span(min(sizes), max(sizes)), "true_error": f"{100 * record['true_error']:.2f}",
        }  # fmt: skip
        lines.append([str(value) for key, value in shown.items() if key != "n_most"])
    lines += [
        [str(about.get("dataset", "")), "", name, "", "not run", "", "", why] for name, why in missing.items()
    ]
    header = ["data set", "network", "shift", "kind", "rows", "seeds", "true error", "origin"]
    return Table("shifts", "The sets", header, lines, ("True error in percent, mean over seeds.",), data)


def _by_shift(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.dataset, row.network, row.shift), []).append(row)
    return found
