"""The metrics of a window that the settings choose: estimated with a range, by its labels, and on the source."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from shiftgauge.inference import Metrics, metrics
from shiftgauge.inference.confusion import soft_auc
from shiftgauge.methods import Pair
from shiftgauge.monitor.db.rows import decisions, scores_of, weights_of
from shiftgauge.monitor.settings import split_metric
from shiftgauge.samples import Source

#: How warnings about metrics begin, so that the next revision can tell them from others.
METRIC_WARNING = "metrics: "
#: `class_error` without a class stands for so many classes at most.
MOST_CLASSES = 50
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ClassMetric:
    """A metric, of a class (its number and name) or of all."""

    kind: str
    place: int | None = None
    name: str | None = None


def window_metrics(
    pair: Pair, rows: Any, truth: Array, names: Sequence[str], method: str, level: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """The metrics as `MetricView` has them, and warnings.

    Args:
        pair: the source and the window, with the labels that are evidence.
        truth: (n,) their classes by labels, -1 where there is none.
        names: of the metrics, as in the settings.
        method: whose posterior; a named one has no ranges.
    """
    if not names:
        return [], []
    chosen, warnings = _expand(names, pair.classes)
    estimated = metrics(pair, method=method, level=level)
    source = _source_metrics(pair.source_sample, pair.classes)
    known = truth >= 0
    weights = weights_of(rows)
    mass = np.ones(len(truth)) if weights is None else weights
    made, labels = decisions(rows)[known], truth[known]
    observed = _by_labels(scores_of(rows)[known], made, labels, mass[known], pair.classes)
    out = [
        {
            "metric": one.kind,
            "class": one.name,
            **_estimate(estimated, one, level),
            "source": _value(source, one),
            "observed": _value(observed, one),
            "labels": _labels_behind(one, made, labels),
        }
        for one in chosen
    ]
    return out, [METRIC_WARNING + text for text in warnings]


def _expand(names: Sequence[str], classes: Sequence[Hashable]) -> tuple[list[ClassMetric], list[str]]:
    """Each metric once, `class_error` as one of each class; and what this version does not have."""
    places = {str(name): place for place, name in enumerate(classes)}
    out: dict[ClassMetric, None] = {}
    warnings = []
    for kind, of in map(split_metric, names):
        if of is not None and of not in places:
            warnings.append(f"{kind}:{of} is not estimated: {of!r} is not a class of this version")
        elif kind == "roc_auc" and len(classes) != 2:
            warnings.append(
                f"roc_auc is not estimated: it needs two classes, this version has {len(classes)}"
            )
        elif kind == "class_error" and of is None:
            out |= {
                ClassMetric(kind, place, name): None for name, place in list(places.items())[:MOST_CLASSES]
            }
            if len(places) > MOST_CLASSES:
                warnings.append(
                    f"class_error is that of the first {MOST_CLASSES} of {len(places):,} classes; choose others by "
                    "name, as class_error:NAME"
                )
        else:
            out[ClassMetric(kind, None if of is None else places[of], of)] = None
    return list(out), warnings


def _estimate(made: Metrics, one: ClassMetric, level: float) -> dict[str, float | None]:
    """The value, the ends of its range, and the half-width of its sampling error."""
    kind = "recall" if one.kind == "class_error" else one.kind
    name = kind if one.place is not None or kind == "roc_auc" else f"macro {kind}"
    place = one.place or 0
    value, ends = _value(made, one), made.ranges.get(name, (None,) * (place + 1))[place]
    low, high = (None, None) if ends is None else (ends.low, ends.high)
    if one.kind == "class_error" and low is not None and high is not None:
        low, high = 1.0 - high, 1.0 - low
    sampling = None
    if value is not None and name in made.noise:
        sampling = float(ndtri(0.5 + level / 2.0) * made.noise[name][place])
        if low is not None and high is not None:  # labels can make the range narrower
            worse = value - low if one.kind == "class_error" else high - value
            sampling = min(sampling, max(worse, 0.0))
    return {"value": value, "low": low, "high": high, "sampling": sampling}


def _value(made: Metrics | None, one: ClassMetric) -> float | None:
    """The metric; None where no row is behind it."""
    if made is None:
        return None
    if one.kind == "roc_auc":
        return made.roc_auc
    kind = "recall" if one.kind == "class_error" else one.kind
    if one.place is None:
        return made.averages()[kind]["macro"]
    of, predicted = made.confusion.sum(axis=1)[one.place], made.confusion.sum(axis=0)[one.place]
    if {"recall": of, "precision": predicted, "f1": of + predicted}[kind] <= 0.0:
        return None
    value = float(getattr(made, kind)[one.place])
    return 1.0 - value if one.kind == "class_error" else value


def _source_metrics(source: Source, classes: Sequence[Hashable]) -> Metrics | None:
    return _by_labels(source.scores, source.predictions, source.labels, source.mass, classes)


def _by_labels(
    scores: Array, predictions: Array, labels: Array, mass: Array, classes: Sequence[Hashable]
) -> Metrics | None:
    """The metrics of labelled rows; None where they have no weight."""
    if not len(labels) or mass.sum() <= 0.0:
        return None
    k = len(classes)
    counts = np.bincount(k * labels.astype(np.intp) + predictions, weights=mass, minlength=k * k)
    confusion = counts.reshape(k, k) / mass.sum()
    # The difference orders rows as the probability of the second class does, whatever the scores are.
    auc = soft_auc(scores[:, 1] - scores[:, 0], (labels == 1) * 1.0, mass) if k == 2 else None
    error = float(1.0 - np.trace(confusion))
    return Metrics(confusion=confusion, classes=tuple(classes), error=error, cott_error=None, roc_auc=auc)


def _labels_behind(one: ClassMetric, predictions: Array, labels: Array) -> int:
    """How many labelled rows the observed value rests on."""
    if one.place is None:
        return len(labels)
    predicted, of = predictions == one.place, labels == one.place
    behind = {"precision": predicted, "f1": predicted | of}.get(one.kind, of)
    return int(behind.sum())
