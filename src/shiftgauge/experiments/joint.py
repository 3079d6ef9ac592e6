"""Tables and figures over all data sets that were run: the main table, figure 2 of two sets, the scatter of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from shiftgauge.errors import FileError
from shiftgauge.experiments import bench, published
from shiftgauge.experiments.datasets import DATASETS
from shiftgauge.experiments.figures import SCATTER, save
from shiftgauge.experiments.manifest import notes_of
from shiftgauge.experiments.protocol import ESTIMATES
from shiftgauge.experiments.storage import read_table
from shiftgauge.experiments.summaries import mae_table, points, with_absolute_error
from shiftgauge.experiments.tables import Entry, ResultTable, counted, grouped, part_of, run_label, title_of
from shiftgauge.plots import experiment as plots

METHODS = ("ac", "doc", "im", "gde", "atc-mc", "atc-ne", "cot", "cott", "scot")
PAIR = ("cifar10", "cifar100")
"""The sets of the paper's figure 2."""


def read_all(out: Path) -> dict[tuple[str, str], pd.DataFrame]:
    """(data set, network) -> estimates, of every folder of results; a data set's own network comes first."""
    results = {}
    for path in sorted(out.glob(f"*/*/{bench.ESTIMATES}")):
        results[path.parent.parent.name, path.parent.name] = read_table(path, ESTIMATES)
    if not results:
        raise FileError(f"{out} holds no {bench.ESTIMATES} of any data set; run `shiftgauge bench run` first")
    own = {name: known.network for name, known in DATASETS.items()}
    return dict(
        sorted(results.items(), key=lambda item: (item[0][0], own.get(item[0][0]) != item[0][1], item[0][1]))
    )


def manifests_of(out: Path, results: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """(data set, network) -> the manifest of its results."""
    return {key: bench.manifest(bench.results_folder(out, *key)) for key in results}


def main_table(
    results: Mapping[tuple[str, str], pd.DataFrame],
    manifests: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> ResultTable:
    """Every row of the paper's main table, ours beside it or "not run", and the averages of both."""
    entries = grouped(
        pd.concat([mae_table(table) for table in results.values()]), "dataset", "kind", "network"
    )
    lines: list[list[str]] = []
    data: list[Entry] = []
    first: list[tuple[str, str, dict[str, Entry]]] = []
    for dataset, kind in published.rows():
        label = f"{dataset} {kind}"
        here = [(key[2], by_method) for key, by_method in entries if key[:2] == (dataset, kind)]
        paper = {m: published.mae(dataset, kind, m) for m in METHODS}
        lines.append([label, "paper", *(f"{p[0]:.2f}" if p else "" for p in paper.values())])
        for network, by_method in here:
            lines.append(_line(label, by_method))
            data += [_record(by_method.get(m), dataset, kind, network, m, paper[m]) for m in METHODS]
        if here:
            first.append((dataset, kind, here[0][1]))
        else:
            lines.append([label, "here", *["not run"] * len(METHODS)])
            data += [_record(None, dataset, kind, "", m, paper[m]) for m in METHODS]
    lines += _averages(first)
    named = [dataset for dataset, _ in (*published.rows(), *results)]
    shown = {(key[0], key[2]) for key, _ in entries if key[:2] in published.rows()}
    notes = (
        f"Mean absolute error in percentage points. Paper: {published.CITATION}.",
        "Averages are over the rows that were run here with that method, the first network of each; the paper's over "
        "the same rows and over all.",
        *(_run_note(*key, (manifests or {}).get(key, {})) for key in results if key in shown),
        *dict.fromkeys(DATASETS[name].note for name in named if name in DATASETS and DATASETS[name].note),
        *published.ERRATA,
    )
    header = ["data set", "run", *map(title_of, METHODS)]
    return ResultTable("main", "Mean absolute error on every data set", header, lines, notes, data)


def _line(label: str, by_method: Mapping[str, Entry]) -> list[str]:
    entries = list(by_method.values())
    seeds = max(entry["seeds"] for entry in entries)
    cells = [
        f"{100 * by_method[m]['mae']:.2f}{part_of(by_method[m]['seeds'], seeds, 'seeds')}"
        if m in by_method
        else "not run"
        for m in METHODS
    ]
    return [label, run_label(entries[0]["network"], entries), *cells]


def _run_note(dataset: str, network: str, manifest: Mapping[str, Any]) -> str:
    return f"{dataset}, {network}: " + " ".join(notes_of(manifest, ""))


def _record(
    entry: Entry | None, dataset: str, kind: str, network: str, method: str, paper: tuple[float, float] | None
) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "shift": kind,
        "network": network,
        "method": method,
        "mae": None if entry is None else round(float(entry["mae"]), 6),
        "seeds": 0 if entry is None else int(entry["seeds"]),
        "shifts": 0 if entry is None else int(entry["shifts"]),
        "paper_mae": None if paper is None else round(paper[0] / 100, 6),
    }


def _averages(first: Sequence[tuple[str, str, Mapping[str, Entry]]]) -> list[list[str]]:
    ours = [[by_method[m]["mae"] for _, _, by_method in first if m in by_method] for m in METHODS]
    theirs = [
        [p[0] for d, k, by_method in first if m in by_method and (p := published.mae(d, k, m))]
        for m in METHODS
    ]
    everything = [[p[0] for d, k in published.rows() if (p := published.mae(d, k, m))] for m in METHODS]
    count = f"average of {counted(len(first), 'row')}"
    means = [f"{100 * np.mean(v):.2f}{part_of(len(v), len(first), 'rows')}" if v else "not run" for v in ours]
    return [
        [count, "here", *means],
        [count, "paper", *(f"{np.mean(values):.2f}" if values else "" for values in theirs)],
        [
            f"average of {len(published.rows())} rows",
            "paper",
            *(f"{np.mean(v):.2f}" if v else "" for v in everything),
        ],
    ]


def make(out: Path) -> list[Path]:
    """Write the joint table and figures to ``<out>/joint``."""
    results = read_all(out)
    folder = out / "joint"
    files = main_table(results, manifests_of(out, results)).write(folder / "tables")
    first = {name: with_absolute_error(table) for (name, _), table in reversed(results.items())}
    network = dict(reversed(results))
    pair = [name for name in PAIR if name in first]
    pair += [name for name in sorted(first) if name not in pair][: 2 - len(pair)]
    pairs = {
        f"{title_of(method)}, {name}, {network[name]}": points(
            first[name], method, "pseudo_shift", "absolute_error"
        )
        for name in pair
        for method in ("ac", "gde")
    }
    figure = plots.against_pseudo_shift({name: p for name, p in pairs.items() if p[0]})
    files += save(figure, folder / "figures", "figure2")
    grid = {
        title_of(m): {
            f"{name}, {network[name]}": points(table, m, "estimate", "true_error")
            for name, table in sorted(first.items())
        }
        for m in SCATTER
    }
    return files + save(plots.scatter_sets(grid), folder / "figures", "scatter")
