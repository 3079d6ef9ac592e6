"""Every metric without labels, and its range, against the true labels, over shifts; and the constants of the ranges.

    python benchmarks/metrics.py [--tables FILE.npz ...] [--logits FILE.npz ...] [--labels 0 50] [--slices] [--only 40]
                                 [--quick] [--json FILE]
    python benchmarks/metrics.py --tables FILE.npz ... --logits FILE.npz ... --fit [--write]

Each target is one of a file's groups or shifts. Slices are real groups: all targets of one model pooled, cut by group.
Costs are drawn once per number of classes, from 0 to 1, and nothing for a right prediction.

Printed by file and metric: mean absolute error in points, ours and that of the source's own value; how often ranges at
50, 80, 90 and 95% held the truth; the mean width at 90%. Every target counts the same, whatever its number of classes.
`--fit` fits the constants by maximum likelihood, and prints the coverage of ranges whose constants were fitted on the
other families; `--write` puts the constants fitted on all families into `auto_constants.json`.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from _options import parser_of, save
from _shifts import Task, add_arguments, tasks
from scipy.optimize import minimize

import shiftgauge as sg
from shiftgauge.inference.confusion import (
    Number,
    numbers,
    read_sums,
    soft_auc,
    soft_average_precision,
)
from shiftgauge.inference.scenarios import TOO_FEW, Scenarios, features, scenarios
from shiftgauge.inference.segments import Grouping, slice_noise
from shiftgauge.methods import range as constants

LEVELS = (0.5, 0.8, 0.9, 0.95)
FOLDS = 8
PARAMETERS = ("constant", "error", "hypotheses", "disagreement")
FITTED = Path(constants.__file__).with_name("auto_constants.json")


@dataclass(frozen=True)
class Record:
    """One kind of number of one target: its scenarios and the truth; NaN where there is none."""

    file: str
    family: str
    number: Number
    cases: Scenarios
    truth: np.ndarray
    source: np.ndarray

    @property
    def used(self) -> np.ndarray:
        """Numbers that have a range and a truth."""
        return np.isfinite(self.truth) & (self.number.rows >= TOO_FEW)


def costs_of(k: int) -> np.ndarray:
    return np.random.default_rng(k).random((k, k)) * (1.0 - np.eye(k))


def counted(scores: np.ndarray, said: np.ndarray, labels: np.ndarray, k: int) -> dict[str, np.ndarray]:
    """Every metric by the true labels; F1 as Jaccard's index."""
    n = len(labels)
    C = np.zeros((k, k))
    np.add.at(C, (labels, said), 1.0 / n)
    tp, share, predicted = np.diag(C), C.sum(axis=1), C.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        own = {
            "precision": tp / predicted,
            "recall": tp / share,
            "f1": tp / (share + predicted - tp),
            "share": share,
        }
    f1 = np.nan_to_num(2 * own["f1"] / (1 + own["f1"]))
    for name, v in {**{n: np.nan_to_num(own[n]) for n in ("precision", "recall")}, "f1": f1}.items():
        own |= {f"macro {name}": np.array([v.mean()]), f"weighted {name}": np.array([share @ v])}
    chance = predicted @ share
    own["kappa"] = np.array([(tp.sum() - chance) / (1.0 - chance) if chance < 1.0 else 0.0])
    own["cost"] = np.array([(C * costs_of(k)).sum()])
    if k == 2:
        even, positive = np.full(n, 1.0 / n), labels.astype(float)
        for name, of in (("roc_auc", soft_auc), ("average_precision", soft_average_precision)):
            value = of(scores, positive, even) if 0 < positive.sum() < n else None
            own[name] = np.array([np.nan if value is None else value])
    return own


def ordered(pair: sg.Pair, of_target: bool = True) -> np.ndarray:
    """The score of the second class, as the curves use it."""
    return (pair.target_block if of_target else pair.source_block).probs[:, 1]


def of_target(task: Task, target: sg.Target, labels: np.ndarray, m: int, seed: int) -> Iterator[Record]:
    """The records of the metrics of one target, with m labels."""
    chosen = np.random.default_rng(seed).permutation(len(labels))[:m]
    given = {int(i): int(labels[i]) for i in chosen} if m else None
    pair = sg.Pair(task.source, target, labels=given)
    cases = scenarios(pair, "auto", {}, 0.9)
    sums = read_sums(pair, cases, costs_of(pair.k))
    block, own = pair.target_block, pair.source_block
    truth = counted(ordered(pair), block.predictions, labels, pair.k)
    before = counted(ordered(pair, False), own.predictions, np.asarray(own.labels), pair.k)
    light = replace(cases, posteriors=(None,) * len(cases.posteriors))
    for one in numbers(pair, sums, costs_of(pair.k)):
        yield Record(
            task.family.partition("/")[0], task.family, one, light, truth[one.name], before[one.name]
        )


def of_groups(task: Task, m: int) -> Iterator[Record]:
    """The record of the slices of all targets together."""
    if len(task.targets) < 2 or task.kind == "corrupted":
        return
    scores = np.concatenate([target.scores for target, _ in task.targets.values()])
    labels = np.concatenate([own for _, own in task.targets.values()])
    by = np.repeat(np.arange(len(task.targets)), [len(own) for _, own in task.targets.values()])
    chosen = np.random.default_rng(len(labels)).permutation(len(labels))[:m]
    given = {int(i): int(labels[i]) for i in chosen} if m else None
    pair = sg.Pair(task.source, sg.Target(probs=scores), labels=given)
    cases = scenarios(pair, "auto", {}, 0.9)
    sums = Grouping.of(pair.target, by).sums(pair.target, cases)
    wrong = pair.target_block.predictions != labels
    truth = np.array([wrong[by == g].mean() for g in range(len(task.targets))])
    number = Number("slice", "slice", sums.errors, slice_noise(pair, sums), sums.effective, sums.label_counts)
    light = replace(cases, posteriors=(None,) * len(cases.posteriors))
    yield Record(
        task.family.partition("/")[0],
        task.family,
        number,
        light,
        truth,
        np.full(len(truth), pair.source_sample.error),
    )


def records(some: Iterable[Task], labels: int, slices: bool, only: int | None) -> Iterator[Record]:
    for task in some:
        if slices:
            yield from of_groups(task, labels)
        for name, (target, own) in task.targets.items():
            seed = zlib.crc32(name.encode())
            if only is None or seed % 100 < only:
                yield from of_target(task, target, own, labels, seed)


# -- fitting ------------------------------------------------------------------------------------------------


def fit(found: list[Record]) -> dict[str, dict[str, float]]:
    """The constants of one kind, by maximum likelihood; every target counts the same."""
    columns: dict[str, list[np.ndarray]] = defaultdict(list)
    for one in found:
        used, number = one.used, one.number
        if not used.any():
            continue
        low, width = number.bounds[0], number.bounds[1] - number.bounds[0]
        unit = (number.values - low) / width
        parts = features(unit)
        columns["value"].append(unit[0][used])
        columns["truth"].append(((one.truth - low) / width)[used])
        columns["noise"].append((number.noise / width)[used])
        columns["weight"].append(np.full(used.sum(), 1.0 / used.sum()))
        for at, side in enumerate(("below", "above")):
            ones = np.ones(used.sum())
            columns[side].append(np.column_stack([ones, *(parts[p][at][used] for p in PARAMETERS[1:])]))
    data = {name: np.concatenate(values) for name, values in columns.items()}
    out = {}
    for side, sign, room in (
        ("below", -1.0, data["value"]),
        ("above", 1.0, 1.0 - data["value"]),
    ):
        beyond = sign * (data["truth"] - data["value"])
        mine = (beyond > 0) & (room > 1e-9)
        distance, X = beyond[mine], data[side][mine]
        noise, weight, ends = data["noise"][mine], data["weight"][mine], room[mine]

        def loss(raw: np.ndarray) -> float:
            scale = np.hypot(X @ np.exp(raw), noise)  # noqa: B023
            z = distance / scale  # noqa: B023
            whole = ends / scale / np.sqrt(2.0 + (ends / scale) ** 2)  # noqa: B023
            return float(weight @ (np.log(scale) + 1.5 * np.log(2.0 + z * z) + np.log(whole)))  # noqa: B023

        starts = ([0.01, 1.0, 0.2, 0.5], [0.02, 0.5, 0.5, 0.1], [0.005, 1.5, 0.02, 1.0])
        best = min(
            (minimize(loss, np.log(s), method="L-BFGS-B", bounds=[(-12, 2)] * 4) for s in starts),
            key=lambda r: r.fun,
        )
        out[side] = {name: round(float(v), 4) for name, v in zip(PARAMETERS, np.exp(best.x), strict=True)}
    return out


def fitted_constants(found: list[Record]) -> dict[str, dict[str, dict[str, float]]]:
    kinds = dict.fromkeys(one.number.kind for one in found)
    return {kind: fit([one for one in found if one.number.kind == kind]) for kind in kinds}


# -- coverage -----------------------------------------------------------------------------------------------


def score(found: list[Record]) -> dict[tuple[str, str], list[np.ndarray]]:
    """By file and metric: a row per target: errors, ours and the source's, coverage by level, width at 90%."""
    out = defaultdict(list)
    for one in found:
        used, number = one.used, one.number
        if not used.any():
            continue
        held, width, value = [], 0.0, number.values[0]
        for level in LEVELS:
            case = replace(one.cases, level=level)
            value, ranges = case.ranges(
                number.kind, number.values, number.noise, number.rows, number.label_counts, number.bounds
            )
            low, high = (
                np.array([getattr(r, end) if r else np.nan for r in ranges]) for end in ("low", "high")
            )
            inside = (low - 1e-9 <= one.truth) & (one.truth <= high + 1e-9)
            held.append(inside[used].mean())
            width = (high - low)[used].mean() if level == 0.9 else width
        ours, theirs = (np.abs(v - one.truth)[used].mean() for v in (value, one.source))
        out[one.file, number.name].append(np.array([ours, np.nan_to_num(theirs), *held, width]))
    return out


def show(title: str, scored: dict[tuple[str, str], list[np.ndarray]]) -> dict[str, dict[str, list[float]]]:
    print(
        f"{title:28}{'targets':>8}{'error':>7}{'source':>8}{'50%':>7}{'80%':>6}{'90%':>6}{'95%':>6}{'width':>7}"
    )
    table: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for (file, name), rows in scored.items():
        mean = 100 * np.mean(rows, axis=0)
        table[file][name] = [len(rows), *mean.round(2).tolist()]
        cells = f"{mean[0]:>7.1f}{mean[1]:>8.1f}{mean[2]:>7.0f}" + "".join(f"{v:>6.0f}" for v in mean[3:6])
        print(f"{file[:13]:14}{name:18.18}{len(rows):>4}{cells}{mean[6]:>7.0f}", flush=True)
    return table


def left_out(found: list[Record]) -> dict[tuple[str, str], list[np.ndarray]]:
    """The same with constants that were fitted on the other families."""
    families = sorted({one.family for one in found})
    out = defaultdict(list)
    for fold in range(FOLDS):
        here = set(families[fold::FOLDS])
        constants.CONSTANTS["metrics"] |= fitted_constants([one for one in found if one.family not in here])
        for key, rows in score([one for one in found if one.family in here]).items():
            out[key] += rows
    return out


def main() -> None:
    parser = parser_of(__doc__, "the shipped predictions only")
    add_arguments(parser)
    parser.add_argument("--labels", type=int, nargs="+", default=[0])
    parser.add_argument("--slices", action="store_true")
    parser.add_argument("--only", type=int, help="this percentage of the targets")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    some, tables = list(tasks(given)), {}
    for m in [0] if given.fit else given.labels:
        found = list(records(some, m, given.slices or given.fit, given.only))
        if given.fit:
            tables["families left out"] = show("families left out", left_out(found))
            constants.CONSTANTS["metrics"] |= fitted_constants(found)
        tables[str(m)] = show(f"{m} labels", score(found))
    if given.write:
        held = json.loads(FITTED.read_text())
        held["metrics"] |= {k: v for k, v in constants.CONSTANTS["metrics"].items() if k != "comment"}
        FITTED.write_text(json.dumps(held, indent=2) + "\n")
    save(given, tables)


if __name__ == "__main__":
    main()
