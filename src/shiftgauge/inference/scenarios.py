"""Ranges of the numbers that are read off posteriors: metrics, slices and label shares.

A number is read off several posteriors of the same rows, the scenarios: the answer's own; the same with the error at
the quartiles of its distribution; and those of each hypothesis of `auto` (calibration held, proportions held,
proportions changed) at the answer's error. The distribution around the number has the form of the error's
(`shiftgauge.methods.range`): a two-piece Student t with 2 degrees of freedom whose scale on each side is

    scale = hypot(constant + e * error + h * hypotheses + d * disagreement, noise),

error is how far the number moves with the error, hypotheses how far the farthest hypothesis lies on this side,
disagreement the median distance of the hypotheses, noise the sampling error and the label noise of the rows behind the
number. The constants were fitted by maximum likelihood on real shifts (`benchmarks/metrics.py`). Labelled rows count as
what they are in every scenario; where labels of the rows behind a number exist, they update its distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge.inference.estimates import estimate
from shiftgauge.methods.labels import (
    MOST_LABELLED,
    LabelEvidence,
    at_level,
    find_labelled,
    sorted_labels,
    update,
)
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.posterior import Posterior, mean_posterior, recalibrate_to, row_posterior
from shiftgauge.methods.range import CONSTANTS, Distribution, ErrorDistribution, range_of
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.results import Estimate, Range
from shiftgauge.rows import Block, RowBuffer, gather, run
from shiftgauge.validation.target_labels import UNKNOWN, TargetLabels

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

KIND: Final = "measured, each number alone: error of the method, sampling error, label noise of these rows"
ALL_KIND: Final = "all rows behind it are labelled"
#: Numbers that rest on fewer effective rows than the first have no range; than the second, they are flagged.
TOO_FEW, FEW = 5.0, 50.0
#: The hypotheses of `auto` that are not refuted by what is known of the class proportions.
HYPOTHESES: Final[dict[str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "unknown": (("ac", {}), ("scot", {"marginal": "shrunk"}), ("label-shift", {})),
    "same": (("ac", {}), ("scot", {"marginal": "shrunk"})),
    "changed": (("ac", {}), ("label-shift", {})),
}


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """(m,) each, of the labelled rows behind m numbers: their mass, the sum of its squares, and the mass that counts.

    Attributes:
        mass, squares, hits: of the labelled rows.
        fraction: the labelled share of the mass behind each number.
        shared: the share of all labels that these are, if the combined error rests on them too; else 0.
    """

    mass: Array
    squares: Array
    hits: Array
    fraction: Array
    shared: Array


@dataclass(frozen=True, eq=False)
class Scenarios:
    """The posteriors that a number is read off.

    Attributes:
        answer: the method's estimate of the error, with its range at the level.
        posteriors: the answer's own; of `auto` also those at its lower and upper quartile, and of each hypothesis.
        level: of the ranges.
        labels: the target's labels, sorted by key, or None.
        use_labels: whether labels update numbers directly: they are as good as a random sample.
    """

    answer: Estimate
    posteriors: tuple[Posterior, ...]
    level: float
    labels: TargetLabels | None
    use_labels: bool

    @property
    def measured(self) -> bool:
        """Whether numbers have a range: those of `auto` do."""
        return len(self.posteriors) > 1

    def labelled_rows(self, block: Block, *columns: npt.NDArray[Any]) -> RowBuffer:
        """The labelled rows of a block: prediction, true class, mass, and the rows of the columns."""
        if self.labels is None:
            rows, place, classes = np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.intp)
        else:
            rows, place = find_labelled(block, self.labels.keys, self.labels.by_id)
            classes = np.asarray(self.labels.classes, dtype=np.intp)
        own = (np.asarray(block.predictions)[rows], classes[place], block.mass[rows])
        return RowBuffer.of(*own, *(column[rows] for column in columns))

    def ranges(
        self,
        kind: str,
        values: Array,
        noise: Array,
        rows: Array,
        label_counts: LabelCounts | None = None,
        bounds: tuple[float, float] = (0.0, 1.0),
        centre: Array | None = None,
    ) -> tuple[Array, tuple[Range | None, ...]]:
        """(m,) numbers and their ranges.

        Args:
            kind: which constants.
            values: (S, m) the numbers in each scenario.
            noise: (m,) standard deviations of sampling error and label noise.
            rows: (m,) the effective rows behind each.
            label_counts: the labelled rows behind each, where the number is a share of them.
            bounds: between which all values lie.
            centre: (m,) the numbers, if not those of the first scenario.
        """
        low, width = bounds[0], max(bounds[1] - bounds[0], 1e-12)
        unit = (values - low) / width
        middle = unit[0] if centre is None else (centre - low) / width
        if not self.measured:
            return low + width * middle, (None,) * len(middle)
        known = np.zeros(len(middle)) if label_counts is None else label_counts.fraction
        below, above = scales(kind, unit, noise / width, known)
        out, found = middle.copy(), []
        for i in range(len(middle)):
            around = ErrorDistribution(float(np.clip(middle[i], 0.0, 1.0)), float(below[i]), float(above[i]))
            ends, out[i] = self._range(around, label_counts, i, rows[i])
            found.append(
                ends and replace(ends, low=low + width * ends.low, high=low + width * ends.high),
            )
        return low + width * out, tuple(found)

    def _range(
        self, around: ErrorDistribution, label_counts: LabelCounts | None, i: int, rows: float
    ) -> tuple[Range | None, float]:
        """The range of one number on the unit scale, and the number."""
        value = around.error
        if max(around.scale_low, around.scale_high) <= 1e-12:
            known = label_counts is not None and label_counts.fraction[i] >= 1.0
            return Range(self.level, value, value, ALL_KIND if known else KIND), value
        distribution: Distribution = around
        if label_counts is not None and self.use_labels and label_counts.mass[i] > 0.0:
            evidence = _evidence(label_counts, i)
            if evidence.effective > 0.0:
                distribution = update(around, evidence)
                value = distribution.quantile(0.5)
        if rows < TOO_FEW:
            return None, value
        return range_of(distribution, self.level, KIND), value


def _evidence(label_counts: LabelCounts, i: int) -> LabelEvidence:
    """What the labelled rows behind one number say of it; labels that the error rests on already count for less."""
    share = float(label_counts.hits[i] / label_counts.mass[i])
    fraction = float(min(label_counts.fraction[i], 1.0))
    least = share * fraction
    count = float(label_counts.mass[i] ** 2 / label_counts.squares[i])
    return LabelEvidence(
        error=share,
        effective=count * (1.0 - float(label_counts.shared[i])),
        fraction=fraction,
        least=least,
        most=1.0 - (fraction - least),
        plain_error=share,
        plain_effective=count,
    )


def features(values: Array) -> Mapping[str, tuple[Array, Array]]:
    """What scales are computed from, below and above: (m,) each, of (S, m) numbers in the scenarios."""
    moved = values - values[0]
    error, hypotheses = moved[1:3], moved[3:]
    disagreement = np.median(np.abs(hypotheses), axis=0)
    return {
        "error": (np.maximum(0.0, -error).max(axis=0), np.maximum(0.0, error).max(axis=0)),
        "hypotheses": (np.maximum(0.0, -hypotheses).max(axis=0), np.maximum(0.0, hypotheses).max(axis=0)),
        "disagreement": (disagreement, disagreement),
    }


def scales(kind: str, values: Array, noise: Array, known: Array) -> tuple[Array, Array]:
    """(m,) each: the scales below and above; `known` is the labelled share of the rows behind each number."""
    parts = features(values)
    out = []
    for at, side in enumerate(("below", "above")):
        c = CONSTANTS["metrics"][kind][side]
        scale = c["constant"] * (1.0 - known) + sum(c[name] * parts[name][at] for name in parts)
        out.append(np.hypot(scale, noise))
    return out[0], out[1]


def ratio(a: npt.NDArray[Any], b: npt.NDArray[Any], otherwise: float = 0.0) -> Array:
    """(m,) a / b, and `otherwise` where b is 0."""
    return np.asarray(np.divide(a, b, out=np.full(len(a), otherwise), where=b > 0.0))


def binomial_noise(
    share: Array, rows: Array, source_rows: Array | float, known: Array | float = 0.0
) -> Array:
    """(m,) the sampling error of shares, as of the error: of source and target rows together; none of labelled rows."""
    n = 1.0 / (1.0 / np.maximum(rows, 1e-9) + 1.0 / np.maximum(source_rows, 1e-9))
    smoothed = (share * n + 1.0) / (n + 2.0)
    unknown = np.maximum(1.0 - known, 0.0)
    return np.asarray(np.where(unknown > 1e-9, np.sqrt(smoothed * (1.0 - smoothed) / n * unknown), 0.0))


def scenarios(pair: Pair, method: str, options: Mapping[str, Any], level: float) -> Scenarios:
    """The scenarios of a method's answer; only those of `auto` have more than one."""
    answer = estimate(pair, method=method, level=level, **options)
    if method != DEFAULT:
        return Scenarios(answer, (pair.posterior(method, **options),), level, None, False)
    quartiles = at_level(answer, pair.source.n_effective, pair.target.n_effective, 0.5).range
    assert quartiles is not None
    error = float(answer.error or 0.0)
    labels = None if pair.labels is None else sorted_labels(pair.labels, pair.subsample.target_block)
    parts = pair.parts(method, **options)
    others = [pair.fitted(name, **own) for name, own in HYPOTHESES[options.get("proportions", "unknown")]]

    async def compute() -> tuple[Posterior, ...]:
        target = pair.target
        base = await mean_posterior(parts, target)
        hypotheses = await gather(*(row_posterior(m, target) for m in others))
        asked = [(error, base), (quartiles.low, base), (quartiles.high, base)]
        asked += [(error, one) for one in hypotheses]
        return tuple(
            await gather(*(recalibrate_to(e, with_known_rows(one, labels), target) for e, one in asked))
        )

    found = run(pair.target.once(("scenarios", pair.fitted(method, **options)), compute))
    return Scenarios(answer, found, level, labels, labels is not None and _as_random(answer))


def _as_random(answer: Estimate) -> bool:
    """Whether the labelled rows stand for all rows of a class or slice as a random sample would."""
    about = answer.details["labels"]
    if about["fraction"] >= MOST_LABELLED:
        return True
    return bool(about["chosen"] != UNKNOWN and not about["post_stratified"])


def with_known_rows(posterior: Posterior, labels: TargetLabels | None) -> Posterior:
    """The posterior in which labelled rows certainly have their label."""
    if labels is None:
        return posterior

    def known(block: Block) -> Array:
        out = np.array(posterior(block), dtype=np.float64)
        rows, place = find_labelled(block, labels.keys, labels.by_id)
        out[rows] = 0.0
        out[rows, labels.classes[place]] = 1.0
        return out

    return known
