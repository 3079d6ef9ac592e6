"""Every method on the natural shifts of `shiftgauge bench natural`, and the tables of docs/explanation/natural.md.

    python benchmarks/natural.py [--runs runs] [--only natural-527 ...] [--write PAGE] [--json FILE]
    python benchmarks/natural.py [--runs runs] --export FOLDER     90.npz, 302.npz and 527.npz for other benchmarks

Models are trained on the first run and their scores kept in RUNS, as `shiftgauge bench natural` does. Printed, as
Markdown: mean, median and worst absolute error in percentage points of every method; families in which `auto` is worse
than assuming the source error; `auto` with what is known of the class proportions, by how far they really moved; how
often the ranges and grades of `auto` hold. `--write` puts the tables between the markers of a page. `--quick` prints
the same for two small tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _options import parser_of, save
from scipy.stats import spearmanr

import shiftgauge as sg
from shiftgauge.experiments import natural
from shiftgauge.experiments.datasets import natural_302, table_datasets
from shiftgauge.experiments.progress import lines
from shiftgauge.experiments.summaries import with_absolute_error
from shiftgauge.experiments.tables import in_order, title_of

LEVELS = (0.5, 0.8, 0.9, 0.95)
MOVED = (0.0, 0.05, 0.1, 0.2, 1.0)
SCORES = ("entropy", "nuclear-norm", "mano")
Target = tuple[str, sg.Target, np.ndarray]


def small_tasks() -> Iterator[tuple[str, str, sg.Source, list[Target]]]:
    """The computers of the 302, scored without a folder."""
    for work in natural_302.work():
        if work.family == "computers":
            for scored in work.score():
                targets = [(group, sg.Target(probs=p), y) for group, (p, y) in scored.targets.items()]
                source = sg.Source(probs=scored.source[0], labels=scored.source[1])
                yield "natural-302", f"{scored.task}__{scored.model}", source, targets


def all_tasks(names: Sequence[str], runs: Path) -> Iterator[tuple[str, str, sg.Source, list[Target]]]:
    """(data set, task and model, source, targets with their labels) of every model."""
    natural.collect(names, runs, lines())
    for dataset, task, folder in natural.score_folders(names, runs):
        targets = [(group, scored.target(), scored.labels) for group, scored in natural.targets(folder)]
        yield dataset, f"{task}__{folder.folder.parent.name}", folder.read().source(), targets


def targets(
    path: Path | None, quick: bool
) -> Iterator[tuple[str, sg.Source, Iterator[tuple[str, sg.Target, np.ndarray]]]]:
    """Each task and model of an exported file, or of the folder `runs`: its source, and its targets with labels."""
    if path is None:
        found = small_tasks() if quick else all_tasks((), Path("runs"))
        yield from ((task, source, iter(groups)) for _, task, source, groups in found)
        return
    arrays = dict(np.load(path, allow_pickle=False))
    for key in (name[: -len("__val_probs")] for name in arrays if name.endswith("__val_probs")):
        names = [n[: -len("_probs")] for n in arrays if n.startswith(f"{key}__") and n.endswith("_probs")]
        groups = (
            (
                name[len(key) + 2 :],
                sg.Target(probs=arrays[f"{name}_probs"]),
                arrays[f"{name}_labels"].astype(int),
            )
            for name in names
            if name != f"{key}__val"
        )
        labels = arrays[f"{key}__val_labels"].astype(int)
        yield key, sg.Source(probs=arrays[f"{key}__val_probs"], labels=labels), groups


def export(names: Sequence[str], runs: Path, folder: Path) -> None:
    """Write TASK__MODEL__val_probs, ..._val_labels, and TASK__MODEL__GROUP_probs, ..._labels of every data set."""
    folder.mkdir(parents=True, exist_ok=True)
    natural.collect(names, runs, lines())
    for dataset in table_datasets(names):
        arrays: dict[str, np.ndarray] = {}
        for _, task, scores in natural.score_folders([dataset.name], runs):
            key = f"{task}__{scores.folder.parent.name}"
            for group, scored in [("val", scores.read()), *natural.targets(scores)]:
                arrays[f"{key}__{group}_probs"] = scored.scores
                arrays[f"{key}__{group}_labels"] = scored.labels.astype(np.int16)
        np.savez_compressed(folder / f"{dataset.name.removeprefix('natural-')}.npz", **arrays)


def records(tasks: Iterator[tuple[str, str, sg.Source, list[Target]]], every_method: bool) -> Iterator[dict]:
    """What `auto` says of every target; the errors of the other methods too if there is no table of them."""
    for dataset, task, source, some in tasks:
        first: sg.Pair | None = None
        for group, target, labels in some:
            first = pair = sg.Pair(source, target) if first is None else first.with_target(target)
            found = {p: pair.estimate("auto", proportions=p) for p in ("unknown", "same", "changed")}
            moved = source.label_marginal - np.bincount(labels, minlength=source.k) / len(labels)
            ranges = [sg.estimate(pair, level=level).range for level in LEVELS]
            others = ["unchanged", *(sg.methods.METHODS if every_method else ())]
            scored = {
                name: pair.estimate(name) for name in dict.fromkeys((*others, *SCORES)) if name != "gde"
            }
            yield {
                "dataset": dataset,
                "task": task,
                "family": task.split("_")[0],
                "group": group,
                "true_error": float(np.mean(target.predictions != labels)),
                "moved": float(np.abs(moved).sum() / 2),
                "unchanged": scored["unchanged"].error,
                **{f"auto {p}": estimate.error for p, estimate in found.items()},
                **{f"low {level}": r.low for level, r in zip(LEVELS, ranges, strict=True)},
                **{f"high {level}": r.high for level, r in zip(LEVELS, ranges, strict=True)},
                "grade": found["unknown"].details["grade"],
                **{f"score {name}": scored[name].score for name in SCORES},
                "errors": {n: e.error for n, e in scored.items() if e.error is not None},
            }


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = [list(header), ["---", *["---:"] * (len(header) - 1)]]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [*head, *rows])


def by_dataset(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The data sets and, if there are several, all of them."""
    parts = [(str(name), some) for name, some in frame.groupby("dataset", sort=False)]
    return [*parts, ("all", frame)] if len(parts) > 1 else parts


def methods_table(estimates: pd.DataFrame) -> str:
    errors = with_absolute_error(estimates[~estimates.is_score])
    parts = by_dataset(errors)
    rows = []
    for method in in_order([m for m in errors.method.unique() if not m.endswith("+shrunk")]):
        cells = []
        for _, some in parts:
            e = 100 * some[some.method == method].absolute_error
            cells.append(f"{e.mean():.1f} / {e.median():.1f} / {e.max():.0f}")
        rows.append([f"**{title_of(method)}**" if method == "auto" else title_of(method), *cells])
    return markdown(["mean / median / worst", *(f"{name}" for name, _ in parts)], rows)


def families_table(frame: pd.DataFrame) -> str:
    """How `auto` compares with assuming the source error, by family."""
    rows = []
    for name, some in by_dataset(frame):
        errors = pd.DataFrame(
            {
                "family": some.dataset + " " + some.family,
                "auto": 100 * (some["auto unknown"] - some.true_error).abs(),
                "unchanged": 100 * (some.unchanged - some.true_error).abs(),
            }
        )
        means = errors.groupby("family")[["auto", "unchanged"]].mean()
        worse = (means.auto - means.unchanged).sort_values(ascending=False)
        named = ", ".join(f"{f.split()[-1]} {d:+.1f}" for f, d in worse[worse > 0].head(4).items())
        rows.append([name, len(means), int((worse < 0).sum()), int((worse > 0).sum()), named or "none"])
    return markdown(["", "families", "`auto` better", "worse", "worst differences, in points"], rows)


def proportions_table(frame: pd.DataFrame) -> str:
    rows = []
    for low, high in pairwise(MOVED):
        some = frame[(frame.moved >= low) & (frame.moved < high)]
        cells = [
            f"{100 * (some[c] - some.true_error).abs().mean():.1f}"
            for c in ("unchanged", "auto unknown", "auto same", "auto changed")
        ]
        rows.append([f"{low:g} to {high:g}", len(some), *cells])
    return markdown(
        ["proportions moved by", "targets", "unchanged", '`"unknown"`', '`"same"`', '`"changed"`'], rows
    )


def ranges_table(frame: pd.DataFrame) -> str:
    rows = []
    for name, some in by_dataset(frame):
        cells = []
        for level in LEVELS:
            low, high = some[f"low {level}"], some[f"high {level}"]
            inside = (some.true_error >= low - 1e-12) & (some.true_error <= high + 1e-12)
            cells.append(f"{100 * inside.mean():.0f}% / {100 * (high - low).mean():.0f}")
        above = (some.true_error > some["high 0.9"] + 1e-12).mean()
        rows.append([name, *cells, f"{100 * above:.0f}%"])
    header = [
        "held / mean width in points",
        *(f"{100 * level:g}%" for level in LEVELS),
        "above the 90% ceiling",
    ]
    return markdown(header, rows)


def grades_table(frame: pd.DataFrame) -> str:
    errors = 100 * (frame["auto unknown"] - frame.true_error).abs()
    rows = []
    for grade in ("ok", "caution", "stop"):
        some = errors[frame.grade == grade]
        cells = [f"{100 * (some <= p).mean():.0f}%" for p in (3, 10, 20)] if len(some) else ["", "", ""]
        rows.append([grade, f"{100 * len(some) / len(errors):.0f}%", *cells])
    return markdown(["grade", "targets", "error below 3 points", "below 10", "below 20"], rows)


def scores_table(frame: pd.DataFrame) -> str:
    rows = []
    for name in SCORES:
        cells = []
        for _, some in by_dataset(frame):
            rhos = [
                spearmanr(t[f"score {name}"], t.true_error).statistic
                for _, t in some.groupby("task")
                if len(t) >= 5
            ]
            cells.append(f"{np.nanmean(rhos):.2f}" if rhos else "")
        rows.append([title_of(name), *cells])
    return markdown(["Spearman's rho", *(name for name, _ in by_dataset(frame))], rows)


def write(page: Path, tables: dict[str, str]) -> None:
    """Replace what is between `<!-- NAME -->` and `<!-- end NAME -->`."""
    text = page.read_text()
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        text, count = re.subn(f"{begin}.*?{end}", lambda _, t=f"{begin}\n{table}\n{end}": t, text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{page} has no markers of {name!r}")
    page.write_text(text)


def main() -> None:
    parser = parser_of(__doc__, "two small tasks")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--export", type=Path)
    given = parser.parse_args()
    if given.export:
        export(given.only, given.runs, given.export)
        return
    tasks = small_tasks() if given.quick else all_tasks(given.only, given.runs)
    frame = pd.DataFrame(records(tasks, every_method=given.quick))
    if given.quick:
        named = [
            {"dataset": t.dataset, "true_error": t.true_error, "method": m, "estimate": e, "is_score": False}
            for t in frame.itertuples()
            for m, e in t.errors.items()
        ]
        estimates = pd.DataFrame(named)
    else:
        estimates = natural.estimates(given.only, given.runs, progress=lines())
    tables = {
        "methods": methods_table(estimates),
        "families": families_table(frame),
        "proportions": proportions_table(frame),
        "ranges": ranges_table(frame),
        "grades": grades_table(frame),
        "scores": scores_table(frame),
    }
    print("\n\n".join(tables.values()))
    if given.write:
        write(given.write, tables)
    save(given, frame.to_dict("records"))


if __name__ == "__main__":
    main()
