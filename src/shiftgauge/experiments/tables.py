"""The paper's tables, its numbers beside ours, as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from shiftgauge.experiments import published
from shiftgauge.experiments.protocol import BATCH_ROWS, SHRUNK
from shiftgauge.experiments.storage import write_text
from shiftgauge.experiments.summaries import correlation_table, mae_table, thresholding_table
from shiftgauge.methods import METHODS

ORDER = (
    "unchanged", "ac", "doc", "im", "cbpe", "gde", "atc-mc", "atc-ne", "cot", "cott", "scot",
    "cot+shrunk", "cott+shrunk", "scot+shrunk", "label-shift", "auto",
    "entropy", "nuclear-norm", "mano", "projnorm", "projnorm-short",
)  # fmt: skip
PROJNORM_TITLES = {"projnorm": "ProjNorm", "projnorm-short": "ProjNorm short"}
"""Of the methods that are not in the registry, since they need a network."""
Entry = dict[str, Any]


@dataclass(frozen=True)
class ResultTable:
    """A printable table: cells are text in percent; ``data`` holds the same as records, errors as fractions."""

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()
    data: list[Entry] = field(default_factory=list)

    def markdown(self) -> str:
        """GitHub's Markdown."""
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
        """One record per line."""
        frame = pd.DataFrame(self.data)
        return frame.to_csv(index=False, float_format="%.6f", lineterminator="\n") if self.data else ""

    def write(self, folder: Path) -> list[Path]:
        """Write ``<name>.md``, ``.tex`` and ``.csv``."""
        texts = {".md": self.markdown(), ".tex": self.latex(), ".csv": self.csv()}
        for ending, text in texts.items():
            write_text(folder / f"{self.name}{ending}", text)
        return [folder / f"{self.name}{ending}" for ending in texts]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex(text: str) -> str:
    for old, new in (("\\", r"\textbackslash "), ("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$")):
        text = text.replace(old, new)
    return text.replace("^2", "$^2$").replace("ρ", r"$\rho$")


def title_of(method: str) -> str:
    """The printed name of a method: ``COTT``, or ``COTT shrunk`` with the noise-aware marginal."""
    name = method.removesuffix(SHRUNK)
    title = METHODS[name].title if name in METHODS else PROJNORM_TITLES.get(name, name)
    return title + (" shrunk" if method.endswith(SHRUNK) else "")


def in_order(methods: Sequence[str]) -> list[str]:
    """Methods in the order of the tables; unknown ones last."""
    return [name for name in ORDER if name in methods] + sorted(set(methods) - set(ORDER))


def grouped(table: pd.DataFrame, *keys: str) -> list[tuple[tuple[str, ...], dict[str, Entry]]]:
    """(key, method -> entry) for every group of a summary, in its order."""
    return [
        (key, {entry["method"]: entry for entry in some.to_dict("records")})
        for key, some in table.groupby(list(keys), sort=False)
    ]


def main_table(
    estimates: pd.DataFrame, name: str = "mae", title: str = "", extra: Sequence[str] = ()
) -> ResultTable:
    """Mean absolute error per data set and kind of shift, in percentage points.

    ``name`` chooses the paper's table to compare with: mild label shift if it begins so, else the main one.
    """
    source = "mild_label_shift" if name.startswith("mild") else "mae"
    summary = mae_table(estimates)
    methods = in_order(summary.method.unique())
    lines, data, compared = [], [], False
    for group, entries in grouped(summary, "dataset", "network", "kind"):
        paper = {m: published.mae(group[0], group[2], m, source) for m in methods}
        compared = compared or any(paper.values())
        lines += _group_lines(group, entries, methods, paper)
        data += [_mae_record(entries[m], paper[m]) for m in methods if m in entries]
    unit = "Mean absolute error in percentage points." + (
        f" Paper: {published.CITATION}." if compared else ""
    )
    notes = (unit, *extra, *(published.ERRATA if compared else ()))
    header = ["data set", "run", *map(title_of, methods)]
    return ResultTable(name, title or "Mean absolute error", header, lines, notes, data)


def _group_lines(
    group: tuple[str, ...],
    entries: Mapping[str, Entry],
    methods: Sequence[str],
    paper: Mapping[str, tuple[float, float] | None],
) -> list[list[str]]:
    label, seeds = f"{group[0]} {group[2]}", max(e["seeds"] for e in entries.values())

    def cells(key: str) -> list[str]:
        return [f"{100 * entries[m][key]:.2f}" if m in entries else "" for m in methods]

    lines = [
        [
            label,
            run_label(group[1], list(entries.values())),
            *(_mae_cell(entries[m], seeds) if m in entries else "" for m in methods),
        ],
        [label, "median shift", *cells("median")],
        [label, "worst shift", *cells("worst")],
    ]
    if any(paper.values()):
        lines.append([label, "paper", *(f"{p[0]:.2f} ± {p[1]:.2f}" if p else "" for p in paper.values())])
    return lines


def run_label(network: str, entries: Sequence[Entry]) -> str:
    """``resnet20, 2 seeds, 95 shifts of 10,000 rows``; ranges if seeds or shifts differ."""
    seeds = max(e["seeds"] for e in entries)
    shifts = number_range(min(e["fewest_shifts"] for e in entries), max(e["shifts"] for e in entries))
    rows = number_range(min(e["rows_least"] for e in entries), max(e["rows_most"] for e in entries))
    return f"{network}, {counted(seeds, 'seed')}, {shifts} shift{'s' * (shifts != '1')} of {rows} rows"


def part_of(some: int, every: int, what: str) -> str:
    """Note of a cell that covers only a part of its row: `` (1 of 2 seeds)``; empty for all of it."""
    return "" if some == every else f" ({some} of {every} {what})"


def counted(number: int, what: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def number_range(low: int, high: int) -> str:
    """``10``, or ``10 to 15``."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _mae_cell(entry: Entry, seeds: int) -> str:
    # The standard deviation over one seed is not shown; a cell that lacks seeds of its row says so.
    deviation = f" ± {100 * entry['std']:.2f}" if seeds > 1 else ""
    return f"{100 * entry['mae']:.2f}{deviation}{part_of(entry['seeds'], seeds, 'seeds')}"


def _mae_record(entry: Entry, paper: tuple[float, float] | None) -> Entry:
    mean, deviation = (None, None) if paper is None else (round(number / 100, 6) for number in paper)
    ours = {"shift" if key == "kind" else key: value for key, value in entry.items()}
    rounded = {key: round(value, 6) if isinstance(value, float) else value for key, value in ours.items()}
    return rounded | {"paper_mae": mean, "paper_std": deviation}


def correlations(estimates: pd.DataFrame) -> ResultTable:
    """R^2 and Spearman's rho with the true error, per network."""
    summary = correlation_table(estimates)
    methods = in_order(summary.method.unique())
    lines, data = [], []
    for group, entries in grouped(summary, "dataset", "network"):
        paper = {m: published.correlation(group[0], group[1], m) for m in methods}
        usual = max(e["fewest"] for e in entries.values()), max(e["seeds"] for e in entries.values())
        sets = number_range(usual[0], max(e["shifts"] for e in entries.values()))
        label = f"{group[1]}, {counted(usual[1], 'seed')}, {sets} shift{'s' * (sets != '1')}"
        for index, (what, sign) in enumerate((("r2", "R^2"), ("rho", "ρ"))):
            ours = [
                f"{entries[m][what]:.3f}{_fewer(entries[m], *usual)}" if m in entries else "" for m in methods
            ]
            lines.append([group[0], f"{label}, {sign}", *ours])
            if any(paper.values()):
                theirs = [f"{p[index]:.3f}" if p else "" for p in paper.values()]
                network = f"{published.NETWORKS[group[1]]} on 224 pixels from public weights"
                lines.append([group[0], f"paper, {network}, {sign}", *theirs])
        data += list(entries.values())
    notes = (
        "R^2 is the squared Pearson correlation, ρ is Spearman's; over the shifted sets, mean over seeds. A cell of "
        "fewer sets or seeds than its row says so.",
        "Entropy, nuclear norm, MaNo and ProjNorm are scores: only their correlation is meaningful. ProjNorm short is "
        "ours: a few steps from the initial weights.",
        published.ERRATA[2],
    )
    header = ["data set", "network", *map(title_of, methods)]
    return ResultTable("correlation", "Correlation with the true error", header, lines, notes, data)


def _fewer(entry: Entry, shifts: int, seeds: int) -> str:
    parts = [
        counted(entry["fewest"], "shift") if entry["fewest"] < shifts else "",
        counted(entry["seeds"], "seed") if entry["seeds"] < seeds else "",
    ]
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def thresholding(estimates: pd.DataFrame) -> ResultTable:
    """Averaging against thresholding, per shift."""
    summary = thresholding_table(estimates)
    helps = [summary.atc < summary.ac, summary.cott < summary.cot]
    lines = [
        [t.dataset, t.shift, str(t.seeds), *(f"{100 * v:.2f}" for v in (t.true_error, t.ac, t.atc, t.cot, t.cott)),
         "yes" if ac else "no", "yes" if cot else "no"]
        for t, ac, cot in zip(summary.itertuples(), *helps, strict=True)
    ]  # fmt: skip
    notes = (
        "Absolute errors in percentage points, mean over seeds; shifts by true error.",
        f"The threshold helps COT on {helps[1].sum()} of {len(summary)} sets, AC on {helps[0].sum()}.",
    )
    header = [
        "data set", "shift", "seeds", "true error", "AC", "ATC-MC", "COT", "COTT", "threshold helps AC", "helps COT",
    ]  # fmt: skip
    data = summary.to_dict("records")
    return ResultTable("thresholding", "Thresholding against averaging", header, lines, notes, data)


def batches(records: pd.DataFrame, size: int = BATCH_ROWS) -> ResultTable:
    """Batches with replacement against the whole target, for targets of more rows than a batch."""
    lines, data = [], []
    for group, some in records.groupby(["dataset", "network", "method"], sort=False):
        differences = (some.whole - some.batched).abs()
        values = {
            "mae_whole": float((some.whole - some.true_error).abs().mean()),
            "mae_batches": float((some.batched - some.true_error).abs().mean()),
            "mean_difference": float(differences.mean()),
            "largest_difference": float(differences.max()),
        }
        counts = {"seeds": some.seed.nunique(), "shifts": some["shift"].nunique()}
        numbers = [*map(str, counts.values()), *(f"{100 * v:.3f}" for v in values.values())]
        lines.append([*group[:2], title_of(group[2]), *numbers])
        data.append({"dataset": group[0], "network": group[1], "method": group[2], **counts, **values})
    header = [
        "data set", "network", "method", "seeds", "shifts", "MAE whole", "MAE batches", "mean difference",
        "largest difference",
    ]  # fmt: skip
    applies = f"Batches of {size:,} rows drawn with replacement, ceil(n / {size:,}) of them, averaged."
    none = f"No set here has more than {size:,} rows, so the paper uses no batches and there is nothing to compare."
    notes = (f"Percentage points. {applies}" if len(records) else none,)
    title = "The whole target against batches with replacement"
    return ResultTable("batches", title, header, lines, notes, data)


def shifts(estimates: pd.DataFrame, manifest: Mapping[str, Any]) -> ResultTable:
    """Every set: its kind, rows, seeds, true error, and whether it is published or was made here."""
    known, missing = manifest.get("shifts", {}), manifest.get("missing", {})
    lines, data = [], []
    for (dataset, network, name), some in estimates.groupby(["dataset", "network", "shift"], sort=False):
        true_errors = some.drop_duplicates("seed").true_error
        record = {
            "dataset": dataset,
            "network": network,
            "shift": name,
            "kind": some.kind.iloc[0],
            "n": int(some.n.min()),
            "n_most": int(some.n.max()),
            "seeds": len(true_errors),
            "true_error": float(true_errors.mean()),
            "origin": known.get(name, {}).get("origin", ""),
        }
        data.append(record)
        rows = number_range(record["n"], record["n_most"])
        shown = {**record, "n": rows, "true_error": f"{100 * record['true_error']:.2f}"}
        lines.append([str(value) for key, value in shown.items() if key != "n_most"])
    lines += [
        [str(manifest.get("dataset", "")), "", name, "", "not run", "", "", why]
        for name, why in missing.items()
    ]
    header = ["data set", "network", "shift", "kind", "rows", "seeds", "true error", "origin"]
    return ResultTable(
        "shifts", "The sets", header, lines, ("True error in percent, mean over seeds.",), data
    )
