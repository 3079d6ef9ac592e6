"""Tables as Markdown, LaTeX and CSV, the paper's numbers beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from labelfree.estimators import METHODS
from labelfree.experiments import published
from labelfree.experiments._store import write_text
from labelfree.experiments.ablation import Batched
from labelfree.experiments.protocol import SHRUNK, Row
from labelfree.experiments.summaries import Mae, correlation_table, mae_table, thresholding_table

ORDER = (
    "ac", "doc", "im", "gde", "atc-mc", "atc-ne", "cot", "cott", "scot",
    "cot+shrunk", "cott+shrunk", "scot+shrunk", "label-shift", "entropy", "projnorm",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A printable table: cells are text already; ``data`` holds the same as records for CSV."""

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()
    data: list[dict[str, Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """GitHub's dialect."""
        lines = [f"### {self.title}", "", _line(self.header), _line(["---"] * len(self.header))]
        lines += [_line(row) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A booktabs tabular in a table environment."""
        body = [" & ".join(map(_tex, row)) + r" \\" for row in self.rows]
        notes = " ".join(_tex(note) for note in self.notes)
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_tex(self.title)}. {notes}}}",
                rf"\begin{{tabular}}{{{'l' * 2}{'r' * (len(self.header) - 2)}}}",
                r"\toprule",
                " & ".join(map(_tex, self.header)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def csv(self) -> str:
        """One record a line."""
        text = io.StringIO()
        records = self.data or [dict(zip(self.header, row, strict=True)) for row in self.rows]
        if records:
            writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
        return text.getvalue()

    def write(self, folder: Path) -> list[Path]:
        """Write ``<name>.md``, ``.tex`` and ``.csv``."""
        made = {".md": self.markdown(), ".tex": self.latex(), ".csv": self.csv()}
        for ending, text in made.items():
            write_text(folder / f"{self.name}{ending}", text)
        return [folder / f"{self.name}{ending}" for ending in made]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex(text: str) -> str:
    for old, new in (("\\", r"\textbackslash "), ("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$")):
        text = text.replace(old, new)
    return text.replace("^2", "$^2$").replace("ρ", r"$\rho$")


def title_of(method: str) -> str:
    """How a method is printed: ``COTT``, or ``COTT shrunk`` with the noise-aware marginal."""
    name = method.removesuffix(SHRUNK)
    ours = METHODS[name].title if name in METHODS else published.METHODS.get(name, name)
    return ours + (" shrunk" if method.endswith(SHRUNK) else "")


def _sorted(methods: set[str]) -> list[str]:
    return [name for name in ORDER if name in methods] + sorted(methods - set(ORDER))


def main_table(rows: Sequence[Row], name: str = "mae", title: str = "", extra: Sequence[str] = ()) -> Table:
    """MAE in percentage points per data set and kind of shift; ``name`` says with which of the paper's tables."""
    source = "mild_label_shift" if name.startswith("mild") else "mae"
    found = mae_table(rows)
    methods = _sorted({entry.method for entry in found})
    lines, data = [], []
    for group in dict.fromkeys((e.dataset, e.network, e.kind) for e in found):
        entries = {e.method: e for e in found if (e.dataset, e.network, e.kind) == group}
        any_entry = next(iter(entries.values()))
        label = f"{group[1]}, {any_entry.seeds} seed{'s' * (any_entry.seeds > 1)}, {any_entry.shifts} shifts"
        place = f"{group[0]} {group[2]}"
        lines.append(
            [
                place,
                label,
                *(_cell(entries.get(m), lambda e: f"{e.mean:.2%} ± {e.deviation:.2%}") for m in methods),
            ]
        )
        lines.append(
            [place, "worst shift", *(_cell(entries.get(m), lambda e: f"{e.worst:.2%}") for m in methods)]
        )
        paper = {m: published.mae(group[0], group[2], m, source) for m in methods}
        if any(paper.values()):
            lines.append([place, "paper", *(f"{p[0]:.2f} ± {p[1]:.2f}" if p else "" for p in paper.values())])
        data += [_mae_record(entries[m], paper[m]) for m in methods if m in entries]
    lines = [[cell.replace("%", "") for cell in line] for line in lines]
    notes = (
        f"Mean absolute error in percentage points. Paper: {published.CITATION}.",
        *extra,
        *published.ERRATA,
    )
    return Table(
        name, title or "Mean absolute error", ["data set", "run", *map(title_of, methods)], lines, notes, data
    )


def _cell(entry: Mae | None, text: Callable[[Mae], str]) -> str:
    return "" if entry is None else text(entry)


def _mae_record(entry: Mae, paper: tuple[float, float] | None) -> dict[str, Any]:
    return {
        "dataset": entry.dataset,
        "network": entry.network,
        "shift": entry.kind,
        "method": entry.method,
        "mae_percent": f"{100 * entry.mean:.3f}",
        "std_percent": f"{100 * entry.deviation:.3f}",
        "worst_percent": f"{100 * entry.worst:.3f}",
        "shifts": entry.shifts,
        "seeds": entry.seeds,
        "paper_mae_percent": "" if paper is None else paper[0],
        "paper_std_percent": "" if paper is None else paper[1],
    }


def correlations(rows: Sequence[Row]) -> Table:
    """R^2 and Spearman's rho with the true error, per network."""
    found = correlation_table(rows)
    methods = _sorted({entry.method for entry in found})
    lines, data = [], []
    for group in dict.fromkeys((e.dataset, e.network) for e in found):
        entries = {e.method: e for e in found if (e.dataset, e.network) == group}
        paper = {m: published.correlation(*group, m) for m in methods}
        for what in ("r2", "rho"):
            label = f"{group[1]} {'R^2' if what == 'r2' else 'ρ'}"
            lines.append(
                [
                    group[0],
                    label,
                    *(f"{getattr(entries[m], what):.3f}" if m in entries else "" for m in methods),
                ]
            )
            if any(paper.values()):
                index = 0 if what == "r2" else 1
                lines.append(
                    [group[0], f"paper {label}", *(f"{p[index]:.3f}" if p else "" for p in paper.values())]
                )
        data += [dict(zip((f.name for f in fields(e)), astuple(e), strict=True)) for e in entries.values()]
    notes = (
        "R^2 is the squared Pearson correlation, ρ is Spearman's; over the corrupted sets, mean over seeds.",
        "Entropy and ProjNorm are scores: only their correlation is meaningful.",
        published.ERRATA[2],
    )
    return Table(
        "correlation",
        "Correlation with the true error",
        ["data set", "network", *map(title_of, methods)],
        lines,
        notes,
        data,
    )


def thresholding(rows: Sequence[Row]) -> Table:
    """Averaging against thresholding, per shift."""
    found = sorted(thresholding_table(rows), key=lambda t: t.true_error)
    lines = [
        [t.dataset, t.shift, *(f"{100 * v:.2f}" for v in (t.true_error, t.ac, t.atc, t.cot, t.cott)),
         "yes" if t.atc < t.ac else "no", "yes" if t.cott < t.cot else "no"]
        for t in found
    ]  # fmt: skip
    helped = sum(t.cott < t.cot for t in found)
    notes = (
        "Absolute misses in percentage points, mean over seeds; shifts by true error.",
        f"The threshold helps COT on {helped} of {len(found)} sets, AC on {sum(t.atc < t.ac for t in found)}.",
    )
    header = [
        "data set",
        "shift",
        "true error",
        "AC",
        "ATC-MC",
        "COT",
        "COTT",
        "threshold helps AC",
        "helps COT",
    ]
    return Table("thresholding", "Thresholding against averaging", header, lines, notes)


def batches(found: Sequence[Batched], size: int = 10_000) -> Table:
    """Batches with replacement against the whole target."""
    lines = []
    for group in dict.fromkeys((b.dataset, b.network, b.method) for b in found):
        here = [b for b in found if (b.dataset, b.network, b.method) == group]
        gap = [abs(b.whole - b.batched) for b in here]
        lines.append(
            [group[0], group[1], title_of(group[2]),
             *(f"{100 * v:.3f}" for v in (
                 sum(abs(b.whole - b.true_error) for b in here) / len(here),
                 sum(abs(b.batched - b.true_error) for b in here) / len(here),
                 sum(gap) / len(gap), max(gap)))]
        )  # fmt: skip
    header = [
        "data set",
        "network",
        "method",
        "MAE whole",
        "MAE batches",
        "mean difference",
        "largest difference",
    ]
    notes = (
        f"Percentage points. Batches of {size:,} rows drawn with replacement, ceil(n / {size:,}) of them, averaged.",
    )
    return Table("batches", "The whole target against batches with replacement", header, lines, notes)
