"""The paper's joint outputs, from whatever has been run: main table, figure 2 over two sets, scatter over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError
from shiftgauge.experiments import bench, published
from shiftgauge.experiments.about import notes_of
from shiftgauge.experiments.datasets import DATASETS
from shiftgauge.experiments.protocol import Row, read_rows
from shiftgauge.experiments.summaries import Mae, mae_table
from shiftgauge.experiments.table import Table
from shiftgauge.experiments.tables import counted, part_of, run_label, title_of

METHODS = ("ac", "doc", "im", "gde", "atc-mc", "atc-ne", "cot", "cott", "scot")
SCATTER = ("ac", "atc-mc", "atc-ne", "cot", "cott", "scot")
PAIR = ("cifar10", "cifar100")
"""The sets of the paper's figure 2."""


def read_all(out: Path) -> dict[tuple[str, str], list[Row]]:
    """(data set, network) -> estimates, of every folder of results; a data set's own network comes first."""
    found = {}
    for path in sorted(out.glob(f"*/*/{bench.ESTIMATES}")):
        found[path.parent.parent.name, path.parent.name] = read_rows(path)
    if not found:
        raise FileError(f"{out} holds no {bench.ESTIMATES} of any data set; run `shiftgauge bench run` first")
    own = {name: known.network for name, known in DATASETS.items()}
    return dict(
        sorted(found.items(), key=lambda item: (item[0][0], own.get(item[0][0]) != item[0][1], item[0][1]))
    )


def told_of(out: Path, results: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """(data set, network) -> what its folder of results says about itself."""
    return {key: bench.about(bench.results_folder(out, *key)) for key in results}


def main_table(
    results: Mapping[tuple[str, str], Sequence[Row]],
    told: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> Table:
    """Every row of the paper's main table, ours beside it or "not run", and the averages of both.

    ``told`` are the ``about.json`` of the results: label shares, origins and missing sets stand under the table.
    """
    entries = [entry for rows in results.values() for entry in mae_table(rows)]
    lines: list[list[str]] = []
    data: list[dict[str, Any]] = []
    first: list[tuple[str, str, dict[str, Mae]]] = []
    for dataset, kind in published.rows():
        here = [e for e in entries if (e.dataset, e.kind) == (dataset, kind)]
        paper = {m: published.mae(dataset, kind, m) for m in METHODS}
        lines.append([f"{dataset} {kind}", "paper", *(f"{p[0]:.2f}" if p else "" for p in paper.values())])
        networks = list(dict.fromkeys(e.network for e in here))
        if not networks:
            lines.append([f"{dataset} {kind}", "here", *["not run"] * len(METHODS)])
        for number, network in enumerate(networks):
            by_method = {e.method: e for e in here if e.network == network}
            lines.append(_line(f"{dataset} {kind}", by_method))
            data += [_record(by_method.get(m), dataset, kind, network, m, paper[m]) for m in METHODS]
            first += [(dataset, kind, by_method)] if number == 0 else []
        if not networks:
            data += [_record(None, dataset, kind, "", m, paper[m]) for m in METHODS]
    lines += _averages(first)
    named = [dataset for dataset, _ in (*published.rows(), *results)]
    shown = {(e.dataset, e.network) for e in entries if (e.dataset, e.kind) in published.rows()}
    notes = (
        f"Mean absolute error in percentage points. Paper: {published.CITATION}.",
        "Averages are over the rows that were run here with that method, the first network of each; the paper's over "
        "the same rows and over all.",
        *(_told(*key, (told or {}).get(key, {})) for key in results if key in shown),
        *dict.fromkeys(DATASETS[name].note for name in named if name in DATASETS and DATASETS[name].note),
        *published.ERRATA,
    )
    header = ["data set", "run", *map(title_of, METHODS)]
    return Table("main", "Mean absolute error on every data set", header, lines, notes, data)


def _line(place: str, by_method: Mapping[str, Mae]) -> list[str]:
    entries = list(by_method.values())
    seeds = max(entry.seeds for entry in entries)
    cells = [
        f"{100 * by_method[m].mean:.2f}{part_of(by_method[m].seeds, seeds, 'seeds')}"
        if m in by_method
        else "not run"
        for m in METHODS
    ]
    return [place, run_label(entries[0].network, entries), *cells]


def _told(dataset: str, network: str, about: Mapping[str, Any]) -> str:
    return f"{dataset}, {network}: " + " ".join(notes_of(about, ""))


def _record(
    entry: Mae | None, dataset: str, kind: str, network: str, method: str, paper: tuple[float, float] | None
) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "shift": kind,
        "network": network,
        "method": method,
        "mae": None if entry is None else round(entry.mean, 6),
        "seeds": 0 if entry is None else entry.seeds,
        "shifts": 0 if entry is None else entry.shifts,
        "paper_mae": None if paper is None else round(paper[0] / 100, 6),
    }


def _averages(first: Sequence[tuple[str, str, Mapping[str, Mae]]]) -> list[list[str]]:
    ours = [[by_method[m].mean for _, _, by_method in first if m in by_method] for m in METHODS]
    beside = [
        [p[0] for d, k, found in first if m in found and (p := published.mae(d, k, m))] for m in METHODS
    ]
    everything = [[p[0] for d, k in published.rows() if (p := published.mae(d, k, m))] for m in METHODS]
    count = f"average of {counted(len(first), 'row')}"
    means = [f"{100 * np.mean(v):.2f}{part_of(len(v), len(first), 'rows')}" if v else "not run" for v in ours]
    return [
        [count, "here", *means],
        [count, "paper", *(f"{np.mean(values):.2f}" if values else "" for values in beside)],
        [
            f"average of {len(published.rows())} rows",
            "paper",
            *(f"{np.mean(v):.2f}" if v else "" for v in everything),
        ],
    ]


def make(out: Path) -> list[Path]:
    """Write the joint table and figures to ``<out>/joint``."""
    from shiftgauge.experiments.figures import save
    from shiftgauge.plots import experiment as plots

    results = read_all(out)
    folder = out / "joint"
    made = main_table(results, told_of(out, results)).write(folder / "tables")
    first = {name: rows for (name, _), rows in reversed(results.items())}
    network = dict(reversed(results))
    pair = [name for name in PAIR if name in first]
    pair += [name for name in sorted(first) if name not in pair][: 2 - len(pair)]
    points = {
        f"{title_of(method)}, {name}, {network[name]}": _points(first[name], method, "pseudo_shift", "miss")
        for name in pair
        for method in ("ac", "gde")
    }
    figure = plots.against_pseudo_shift({name: p for name, p in points.items() if p[0]})
    made += save(figure, folder / "figures", "figure2")
    grid = {
        title_of(m): {
            f"{name}, {network[name]}": _points(rows, m, "estimate", "true_error")
            for name, rows in sorted(first.items())
        }
        for m in SCATTER
    }
    made += save(plots.scatter_sets(grid), folder / "figures", "scatter")
    return made


def _points(rows: Sequence[Row], method: str, x: str, y: str) -> tuple[list[float], list[float]]:
    here = [row for row in rows if row.method == method and row.kind != "clean"]
    return [getattr(row, x) for row in here], [getattr(row, y) for row in here]
