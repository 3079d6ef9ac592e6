"""Every metric with its range: the confusion matrix that posteriors expect, and what follows from it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge.binomial import joint_rows
from shiftgauge.errors import InputError, Note, optional, prefix
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.scenarios import (
    FEW,
    LabelCounts,
    Scenarios,
    binomial_noise,
    ratio,
    scenarios,
)
from shiftgauge.labelshift import Marginal
from shiftgauge.methods.pair import Pair, accepted_options, resolve_method
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.results import Range, Table, dict_or_none, percent, percent_range, render
from shiftgauge.rows import AnyTarget, Block, Totals, run
from shiftgauge.validation.target_labels import RANDOM

Array = npt.NDArray[np.float64]
Ranges = tuple[Range | None, ...]

#: What the ranges are; said below numbers that have one, and below those that have none.
NOTE: Final = (
    "ranges are of each number alone: where those of two classes overlap, neither is known to be worse; label rows "
    "of the classes that matter"
)
NO_RANGE: Final = (
    "numbers of a named method have no range: do not rank classes by them; leave the method out for ranges"
)
AVERAGED = ("precision", "recall", "f1")
AVERAGES = ("macro", "weighted")
#: The average that is the accuracy, whose range is that of the error.
ACCURACY = ("weighted", "recall")


@dataclass(frozen=True, repr=False)
class Metrics(Table):
    """Estimated metrics of the target.

    Attributes:
        confusion: (K, K) estimated shares, true classes in rows, predictions in columns; sums to 1.
        classes: the names of rows and columns.
        error: the method's error, the mass off the diagonal.
        cott_error: COTT's, beside it; the two are different estimates and not forced to agree. None if deployed
            decisions differ from the largest score.
        cost: the mean cost under the cost matrix given, or None.
        roc_auc, average_precision: for two classes (the second is the positive one), else None; of a large target
            over a subsample of its rows.
        warnings: what the method and COTT warn of on this source and target.
        method: whose posterior it was read off.
        note: how far classes may be ranked.
        range: of the error; None for a method that was named.
        ranges: of every other number, by its name: a range per class, or one.
        updated: numbers per class that labels of the class's own rows updated; they replace what the confusion
            matrix says.
        rows: (K,) the fewer of the effective rows predicted as the class and expected to be of it.
        noise: standard deviations of the sampling error and label noise of every other number, by its name.
    """

    confusion: Array
    classes: tuple[Hashable, ...]
    error: float
    cott_error: float | None
    cost: float | None = None
    roc_auc: float | None = None
    average_precision: float | None = None
    warnings: tuple[str, ...] = ()
    method: str = "scot"
    note: str = NO_RANGE
    range: Range | None = None
    ranges: Mapping[str, Ranges] = field(default_factory=dict)
    updated: Mapping[str, Array] = field(default_factory=dict)
    rows: Array | None = None
    noise: Mapping[str, Array] = field(default_factory=dict)

    def _per_class(self, name: str) -> Array:
        if name in self.updated:
            return self.updated[name]
        C = self.confusion
        return _per_class(np.diag(C), C.sum(axis=1), C.sum(axis=0))[name]

    @property
    def precision(self) -> Array:
        """(K,) of the rows predicted as the class, the share that is; 0 where none is predicted."""
        return self._per_class("precision")

    @property
    def recall(self) -> Array:
        """(K,) of the rows of the class, the share predicted as it; 0 where there are none."""
        return self._per_class("recall")

    @property
    def f1(self) -> Array:
        """(K,) 2 true positives / (rows of the class + rows predicted as it)."""
        return self._per_class("f1")

    @property
    def share(self) -> Array:
        """(K,) the share of the class among all rows."""
        return self._per_class("share")

    @property
    def kappa(self) -> float:
        """Cohen's kappa: agreement beyond what the marginals give by chance."""
        return float(_kappa(self.confusion.sum(axis=1), self.confusion.sum(axis=0), self.error))

    def averages(self) -> dict[str, dict[str, float]]:
        """Precision, recall and F1: macro (classes count the same), weighted (by class share), micro.

        Weighted recall and the micro averages are the accuracy.
        """
        parts = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        right = 1.0 - self.error
        out = {n: {"macro": float(v.mean()), "weighted": float(self.share @ v)} for n, v in parts.items()}
        out["recall"]["weighted"] = right
        return {name: {**means, "micro": right} for name, means in out.items()}

    def _range(self, name: str, at: int = 0) -> Range | None:
        return self.ranges[name][at] if name in self.ranges else None

    def _average_range(self, average: str, name: str) -> Range | None:
        if average == "micro" or (average, name) == ACCURACY:
            return self.range and replace(self.range, low=1.0 - self.range.high, high=1.0 - self.range.low)
        return self._range(f"{average} {name}")

    def few(self, at: int) -> bool:
        """Whether the numbers of a class rest on fewer than 50 rows."""
        return self.rows is not None and bool(self.rows[at] < FEW)

    def content(self) -> dict[str, Any]:
        """Everything as plain values; beside each number `x` stands its range, `x_range`."""
        keys = ("share", "precision", "recall", "f1")
        columns = {key: self._per_class(key) for key in keys}
        predicted = self.confusion.sum(axis=0)
        averages: dict[str, dict[str, Any]] = {}
        for name, values in self.averages().items():
            averages[name] = {}
            for average, value in values.items():
                ends = dict_or_none(self._average_range(average, name))
                averages[name] |= {average: value, f"{average}_range": ends}
        single: dict[str, Any] = {}
        for name in ("kappa", "cost", "roc_auc", "average_precision"):
            single |= {name: getattr(self, name), f"{name}_range": dict_or_none(self._range(name))}
        return {
            "method": self.method,
            "error": self.error,
            "range": dict_or_none(self.range),
            "cott_error": self.cott_error,
            **single,
            "averages": averages,
            "classes": [
                {
                    "class": name,
                    "predicted": float(predicted[i]),
                    **{key: float(columns[key][i]) for key in keys},
                    **{f"{key}_range": dict_or_none(self._range(key, i)) for key in keys},
                    "few": self.few(i),
                }
                for i, name in enumerate(self.classes)
            ],
            "confusion": self.confusion.tolist(),
            "note": self.note,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per class: each number with both ends of its range."""
        out = []
        for row in self.content()["classes"]:
            ends = {name: row.pop(f"{name}_range") for name in ("share", "precision", "recall", "f1")}
            for name, one in ends.items():
                row |= {f"{name}_{end}": None if one is None else one[end] for end in ("low", "high")}
            out.append(row)
        return out

    def confusion_to_pandas(self) -> Any:
        """The confusion matrix as a pandas DataFrame: shares of all rows, true classes in rows."""
        pandas = optional("pandas", extra="pandas", purpose="confusion_to_pandas")
        index, columns = (pandas.Index(self.classes, name=name) for name in ("true class", "predicted"))
        return pandas.DataFrame(self.confusion, index=index, columns=columns)

    def heading(self) -> str:
        """The error with its range, and kappa."""
        ends = ""
        if self.range is not None:
            ends = f" ({100 * self.range.level:g}% range {percent_range(self.range.low, self.range.high)})"
        return f"error {percent(self.error)}{ends} by {self.method}, {self._single('kappa')}"

    def _single(self, name: str) -> str:
        found = self._range(name)
        ends = "" if found is None else f" ({found.low:.3f} to {found.high:.3f})"
        return f"{name.replace('_', ' ').replace('roc auc', 'ROC-AUC')} {getattr(self, name):.3f}{ends}"

    def scalars(self) -> str:
        """ROC-AUC, average precision and cost with their ranges, as far as there are any."""
        names = ("roc_auc", "average_precision", "cost")
        return ", ".join(self._single(name) for name in names if getattr(self, name) is not None)

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per class, then the averages; in percent, with ranges."""
        keys = ("share", "precision", "recall", "f1")
        rows = [
            [str(name), *(self._cell(key, i) for key in keys), "few" if self.few(i) else ""]
            for i, name in enumerate(self.classes)
        ]
        means = self.averages()
        for average in AVERAGES:
            cells = [_cell(means[name][average], self._average_range(average, name)) for name in AVERAGED]
            rows.append([average, "", *cells, ""])
        return ("class", "share", "precision", "recall", "F1", "note"), rows

    def _cell(self, key: str, at: int) -> str:
        ends = self._range(key, at)
        shown = _cell(float(self._per_class(key)[at]), ends)
        return f"{shown} [too few]" if key in self.ranges and ends is None else shown

    def __repr__(self) -> str:
        lines = [self.heading()]
        if scalars := self.scalars():
            lines.append("  " + scalars)
        head, rows = self.table_rows()
        if self.range is not None:
            lines.append(f"  value [{100 * self.range.level:g}% range]")
        for cells in (head, *rows[: len(self.classes)][:20], *rows[len(self.classes) :]):
            lines.append(
                (f"  {cells[0]:<11} " + "".join(f"{c:<14} " for c in cells[1:5]) + cells[5]).rstrip()
            )
        return render(lines, (*self.warnings, Note(self.note)))


def _cell(value: float, ends: Range | None) -> str:
    shown = f"{100 * value:.0f}%"
    return shown if ends is None else f"{shown} [{100 * ends.low:.0f}, {100 * ends.high:.0f}]"


def metrics(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    method: str | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    proportions: str = "unknown",
    cost: Any = None,
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    level: float = RANGE_LEVEL,
) -> Metrics:
    """Estimate the confusion matrix and every metric that follows from it, with ranges.

    A method's answer has a posterior r_ij behind it (`shiftgauge.Pair.posterior`), so C_jk = sum over rows predicted
    k of mass_i r_ij, and its error is the answer. The numbers of `auto` have ranges of the same kind as the error
    (`shiftgauge.inference.scenarios`): for exactly these rows, had all been labelled. Numbers of a class with fewer
    than 5 rows have none.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        method: whose posterior; by default `auto`'s, or SCOT's if a marginal is given. A method that is named has no
            ranges.
        calibration: as for every method.
        marginal: the target's label shares, for the methods that transport to some.
        proportions: for `auto`: what is known of the target's class proportions, as in `shiftgauge.estimate`.
        cost: (K, K) what a row of class j predicted as k costs, or None.
        labels, labels_chosen: labels of some target rows, as in `shiftgauge.estimate`. They change the error, and the
            numbers of every class of which they label rows.
        level: of the ranges.

    >>> import shiftgauge as sg
    >>> source = sg.Source(probs=[[.9, .1], [.2, .8]], labels=[0, 1])
    >>> m = metrics(source, sg.Target(probs=[[.9, .1], [.1, .9]]), "scot", calibration="none")
    >>> m.confusion.round(3).tolist()
    [[0.45, 0.05], [0.05, 0.45]]
    """
    name, options = resolve_method(method, marginal, proportions)
    pair = to_pair("metrics", source, target, calibration, labels=labels, labels_chosen=labels_chosen)
    costs = None if cost is None else _costs(cost, pair.k)
    cott = [("cott", accepted_options("cott", **options))] if pair.follows_argmax else []
    pair.estimate_all([(name, options), *cott], shift=True)
    cases = scenarios(pair, name, options, level)
    mine = cases.answer
    sums = read_sums(pair, cases, costs)
    values: dict[str, Array] = {}
    ranges: dict[str, Ranges] = {}
    noise: dict[str, Array] = {}
    for one in numbers(pair, sums, costs):
        centre = _average_centre(one.name, values) if one.kind == "average" else None
        own, found = cases.ranges(
            one.kind, one.values, one.noise, one.rows, one.label_counts, one.bounds, centre
        )
        noise[one.name] = one.noise
        if one.name == "f1":  # J, the share of right rows among those of the class or predicted as it
            noise["f1"] = 2.0 * one.noise / (1.0 + own) ** 2
            own, found = _f1(own), tuple(r and Range(r.level, _f1(r.low), _f1(r.high), r.kind) for r in found)
        if one.name == "share":
            own, found = _sum_to_one(own, found)
        values[one.name], ranges[one.name] = own, found
    hard = pair.estimate("cott", **cott[0][1]) if cott else None
    of_cott = () if hard is None else [prefix("COTT", w) for w in hard.warnings if w not in mine.warnings]
    single = {n: float(values[n][0]) for n in ("cost", "roc_auc", "average_precision") if n in values}
    return Metrics(
        confusion=sums.confusion,
        classes=pair.classes,
        error=float(1.0 - np.trace(sums.confusion)),
        cott_error=None if hard is None else hard.error,
        **single,
        warnings=tuple(dict.fromkeys((*mine.warnings, *of_cott))),
        method=name,
        note=NOTE if cases.measured else NO_RANGE,
        range=mine.range,
        ranges=ranges if cases.measured else {},
        updated={key: values[key] for key in (*AVERAGED, "share")} if cases.use_labels else {},
        rows=pair.target.n_effective * np.minimum(sums.predicted, sums.share[0]),
        noise=noise,
    )


@dataclass(frozen=True)
class MetricSums:
    """What the metrics are computed from.

    Attributes:
        confusion: (K, K) of the answer.
        tp, share: (S, K) true positives and class shares in each scenario.
        cost: (S,) the mean cost; zeros without costs.
        share_variance: (K,) the label noise of the class shares.
        labelled: prediction, true class and mass of the labelled rows.
        mass: of all rows.
        curves: (S, 2) AUC and average precision, where there are two classes with rows in each.
    """

    confusion: Array
    tp: Array
    share: Array
    cost: Array
    share_variance: Array
    labelled: tuple[npt.NDArray[Any], ...]
    mass: float
    curves: Array | None

    @property
    def predicted(self) -> Array:
        """(K,) the share of rows predicted as each class."""
        return np.asarray(self.confusion.sum(axis=0))


@dataclass(frozen=True)
class Number:
    """One kind of number in all scenarios: what `Scenarios.ranges` takes."""

    name: str
    kind: str
    values: Array
    noise: Array
    rows: Array
    label_counts: LabelCounts | None = None
    bounds: tuple[float, float] = (0.0, 1.0)


def read_sums(pair: Pair, cases: Scenarios, costs: Array | None) -> MetricSums:
    """Read the target once, in all scenarios; the curves are those of the subsample."""
    k = pair.k

    def step(block: Block) -> Totals:
        tp, share, cost = [], [], []
        confusion, variance = np.zeros((k, k)), np.zeros(k)
        for number, posterior in enumerate(cases.posteriors):
            r = posterior(block)
            right = block.at_prediction(r) * block.mass
            tp.append(np.bincount(block.predictions, weights=right, minlength=k))
            share.append(block.mass @ r)
            paid = 0.0 if costs is None else block.mass @ (r * costs[:, block.predictions].T).sum(axis=1)
            cost.append(float(paid))
            if number == 0:
                confusion = soft_confusion(r, block.predictions, block.mass)
                variance = block.mass**2 @ (r * (1.0 - r))
        numbers = (confusion, np.array(tp), np.array(share), np.array(cost), variance)
        return Totals((*numbers, float(block.mass.sum()), cases.labelled_rows(block)))

    confusion, tp, share, cost, variance, mass, labelled = run(pair.target.fold(step))
    return MetricSums(
        confusion / mass,
        tp / mass,
        share / mass,
        cost / mass,
        variance / mass**2,
        labelled.joined(),
        mass,
        _curves(pair, cases) if k == 2 else None,
    )


def _curves(pair: Pair, cases: Scenarios) -> Array | None:
    """(S, 2) AUC and average precision over all thresholds, on the subsample."""
    rows = pair.subsample.target_block
    found = []
    for posterior in cases.posteriors:
        positive = posterior(rows)[:, 1]
        auc = soft_auc(rows.probs[:, 1], positive, rows.mass)
        average_precision = soft_average_precision(rows.probs[:, 1], positive, rows.mass)
        if auc is None or average_precision is None:
            return None
        found.append((auc, average_precision))
    return np.array(found)


def numbers(pair: Pair, sums: MetricSums, costs: Array | None = None) -> Iterator[Number]:
    """Every metric in all scenarios, with its noise and the rows behind it; averages come after the classes."""
    n, n_source = pair.target.n_effective, pair.source.n_effective
    k, predicted = pair.k, sums.predicted
    source_predicted = run(pair.source.moments()).pseudo_labels * n_source
    source_share = pair.source_sample.label_marginal * n_source
    share = sums.share[0]
    union = predicted + share - sums.tp[0]
    label_counts = _label_counts(sums, union)
    known = label_counts["share"].fraction
    per_class = [_per_class(tp, own, predicted) for tp, own in zip(sums.tp, sums.share, strict=True)]
    values = {name: np.array([one[name] for one in per_class]) for name in (*AVERAGED, "share", "jaccard")}
    behind = {
        "precision": (n * predicted, source_predicted),
        "recall": (n * share, source_share),
        "f1": (n * union, source_predicted + source_share),
    }
    noise: dict[str, Array] = {}
    for name, (rows, of_source) in behind.items():
        own = values["jaccard" if name == "f1" else name]
        noise[name] = binomial_noise(own[0], rows, of_source, label_counts[name].fraction)
        yield Number(name, name, own, noise[name], rows, label_counts[name])
    ratio = n / joint_rows(n_source, n)
    of_share = np.sqrt(sums.share_variance * ratio + (1.0 - known) / n**2)
    yield Number("share", "share", values["share"], of_share, np.full(k, n), label_counts["share"])
    one, all_rows = np.ones(1), np.array([n])
    for name in AVERAGED:
        of_class = noise[name]
        for average, weight in (("macro", np.full(k, 1.0 / k)), ("weighted", share)):
            means = (
                values[name].mean(axis=1) if average == "macro" else (values[name] * sums.share).sum(axis=1)
            )
            joint = np.array([np.sqrt(((weight * of_class) ** 2).sum())])
            yield Number(f"{average} {name}", "average", means[:, None], joint, all_rows, _all(known))
    errors = 1.0 - sums.tp.sum(axis=1)
    of_error = binomial_noise(errors[:1], all_rows, n_source, known[:1])
    kappas = np.array([_kappa(own, predicted, e) for own, e in zip(sums.share, errors, strict=True)])
    chance = float(predicted @ share)
    of_kappa = of_error / max(1.0 - chance, 1e-9)
    yield Number("kappa", "kappa", kappas[:, None], of_kappa, all_rows, _all(known), (-1.0, 1.0))
    if costs is not None:
        spread = max(float((sums.confusion * costs**2).sum()) - float(sums.cost[0]) ** 2, 0.0)
        of_cost = np.sqrt(spread * (1.0 - known[:1]) / joint_rows(n_source, n))
        ends = (float(costs.min()), float(costs.max()))
        yield Number("cost", "cost", sums.cost[:, None], of_cost * one, all_rows, _all(known), ends)
    if sums.curves is not None:
        sizes = n * share * (1.0 - known), source_share
        of_auc = np.array([_auc_noise(float(sums.curves[0, 0]), *sizes)])
        positive = n * share[1:]
        of_ap = binomial_noise(sums.curves[0, 1:], positive, source_share[1:], known[:1])
        fewest = np.array([(n * share).min()])
        yield Number("roc_auc", "roc_auc", sums.curves[:, :1], of_auc, fewest, _all(known))
        yield Number(
            "average_precision", "average_precision", sums.curves[:, 1:], of_ap, positive, _all(known)
        )


def _per_class(tp: Array, share: Array, predicted: Array) -> dict[str, Array]:
    """(K,) each: precision, recall, F1, share, and Jaccard's index, with F1 = 2 J / (1 + J)."""
    return {
        "precision": np.minimum(1.0, ratio(tp, predicted)),
        "recall": np.minimum(1.0, ratio(tp, share)),
        "f1": np.minimum(1.0, ratio(2 * tp, predicted + share)),
        "share": share,
        "jaccard": np.minimum(1.0, ratio(tp, predicted + share - tp)),
    }


def _f1(jaccard: Any) -> Any:
    return 2.0 * jaccard / (1.0 + jaccard)


def _kappa(share: Array, predicted: Array, error: float) -> float:
    by_chance = float(predicted @ share)
    return 0.0 if by_chance >= 1.0 else (1.0 - error - by_chance) / (1.0 - by_chance)


def _auc_noise(auc: float, rows: Array, source_rows: Array) -> float:
    """The sampling error of an AUC (Hanley and McNeil, The Meaning and Use of the Area under a ROC Curve, 1982)."""
    if rows.min() <= 1e-9:
        return 0.0
    down, up = (joint_rows(max(s, 1e-9), t) for s, t in zip(source_rows, rows, strict=True))
    a = min(max(auc, 0.02), 0.98)
    q1, q2 = a / (2.0 - a), 2.0 * a * a / (1.0 + a)
    variance = a * (1.0 - a) + max(up - 1.0, 0.0) * (q1 - a * a) + max(down - 1.0, 0.0) * (q2 - a * a)
    return float(np.sqrt(max(variance, 0.0) / (up * down)))


def _average_centre(name: str, values: Mapping[str, Array]) -> Array:
    """(1,) the average of the numbers per class as they are shown."""
    average, of = name.split()
    weight = values["share"] if average == "weighted" else np.full(len(values[of]), 1.0 / len(values[of]))
    return np.array([weight @ values[of]])


def _sum_to_one(shares: Array, found: Ranges) -> tuple[Array, Ranges]:
    """Shares that sum to 1, and ranges that contain them."""
    own = shares / shares.sum()
    ends = zip(own.tolist(), found, strict=True)
    return own, tuple(r and Range(r.level, min(r.low, x), max(r.high, x), r.kind) for x, r in ends)


def _label_counts(sums: MetricSums, union: Array) -> dict[str, LabelCounts]:
    """The labelled rows behind precision, recall, F1 and shares of each class."""
    predictions, classes, mass = (np.asarray(column) for column in sums.labelled)
    k, total = len(union), float(mass.sum())
    right = predictions == classes

    def by(column: npt.NDArray[Any], of: Array) -> Array:
        counts = np.bincount(column.astype(np.intp), weights=of, minlength=k)
        return np.asarray(counts, dtype=np.float64)

    out = {}
    behind = {"precision": sums.predicted, "recall": sums.share[0], "f1": union}
    for name, all_mass in behind.items():
        column = classes if name == "recall" else predictions
        both = [by(column, mass), by(column, mass**2)]
        if name == "f1":
            both = [own + by(classes, of * ~right) for own, of in zip(both, (mass, mass**2), strict=True)]
        fraction = np.minimum(1.0, ratio(both[0] / sums.mass, all_mass))
        fraction = np.where(total >= sums.mass * (1.0 - 1e-9), 1.0, fraction)
        shared = both[0] / max(total, 1e-300)
        out[name] = LabelCounts(both[0], both[1], by(column, mass * right), fraction, shared)
    fraction = np.full(k, min(1.0, total / sums.mass))
    everything = (np.full(k, total), np.full(k, float((mass**2).sum())))
    out["share"] = LabelCounts(*everything, by(classes, mass), fraction, np.zeros(k))
    return out


def _all(known: Array) -> LabelCounts:
    """For a number of all rows that labels do not update directly: only how many rows are labelled."""
    return LabelCounts(np.zeros(1), np.zeros(1), np.zeros(1), known[:1], np.zeros(1))


def soft_confusion(posterior: Array, predictions: npt.NDArray[np.intp], mass: Array) -> Array:
    """(K, K) C_jk = sum over rows predicted k of mass_i r_ij."""
    k = posterior.shape[1]
    weighted = posterior * mass[:, None]
    columns = [np.bincount(predictions, weights=weighted[:, j], minlength=k) for j in range(k)]
    return np.array(columns, dtype=np.float64)


def soft_auc(score: Array, positive: Array, mass: Array) -> float | None:
    """P(score of a positive > score of a negative) + half the ties, where rows are positive with probability r.

    None if one of the two classes has no mass.
    """
    up, down = _by_score(score, positive * mass), _by_score(score, (1.0 - positive) * mass)
    if up.sum() <= 0.0 or down.sum() <= 0.0:
        return None
    below = np.cumsum(down) - down
    return float((up @ (below + down / 2)) / (up.sum() * down.sum()))


def soft_average_precision(score: Array, positive: Array, mass: Array) -> float | None:
    """sum over thresholds of (recall gained) x (precision), where rows are positive with probability r."""
    up, down = _by_score(-score, positive * mass), _by_score(-score, (1.0 - positive) * mass)
    if up.sum() <= 0.0:
        return None
    found = np.cumsum(up)
    return float((up / up.sum()) @ ratio(found, found + np.cumsum(down)))


def _by_score(score: Array, mass: Array) -> Array:
    _, level = np.unique(score, return_inverse=True)
    return np.asarray(np.bincount(level.reshape(-1), weights=mass), dtype=np.float64)


def _costs(cost: Any, k: int) -> Array:
    try:
        array = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"cost: not numeric; wanted a ({k}, {k}) matrix, true classes in rows") from None
    if array.shape != (k, k):
        raise InputError(
            f"cost: arrived with shape {array.shape}; wanted a ({k}, {k}) matrix, true classes in rows"
        )
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise InputError(
            f"cost: row {row}, column {column} is {array[row, column]}; wanted finite numbers, true classes in rows"
        )
    return array
