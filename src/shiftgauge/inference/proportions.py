"""The target's label shares: with ranges by `auto`, with bootstrap intervals if label shift is assumed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import bias_corrected
from shiftgauge.errors import InputError, nearest
from shiftgauge.inference.confusion import metrics
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.resampling import FEWEST, Replicates, Resampling
from shiftgauge.inference.scenarios import KIND as MEASURED
from shiftgauge.labelshift import LABEL_SHIFT, bbse, joint_confusion, mlls, rlls
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.results import Interval, Table, percent, render
from shiftgauge.rows import AnyTarget, Rows, run
from shiftgauge.validation.target_labels import RANDOM

Array = npt.NDArray[np.float64]

#: What the intervals of a method that is named cover.
KIND = "sampling error only"
#: The warning if the label-shift test refutes what the shares assume.
REFUTED = "more than class proportions changed, and these shares assume that only they did"


@dataclass(frozen=True, repr=False)
class Shares(Table):
    """Estimated label shares.

    Attributes:
        method: `"auto"`, or `"bbse"`, `"rlls"` or `"mlls"`, which assume that only class proportions changed.
        classes: the names.
        shares: (K,) the target's label shares.
        low, high: (K,) the ends of their ranges, class by class; of a method that is named, sampling error only.
        source: (K,) the source's shares, to compare.
        level: of the ranges.
        warnings: what was done to the samples when they were read, and whether the scores refute the assumption.
    """

    method: str
    classes: tuple[Hashable, ...]
    shares: Array
    low: Array
    high: Array
    source: Array
    level: float
    warnings: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What the ranges cover."""
        return MEASURED if self.method == DEFAULT else KIND

    @property
    def ranges(self) -> tuple[Interval, ...]:
        """The range of each class's share."""
        ends = zip(self.low, self.high, strict=True)
        return tuple(Interval(self.level, float(low), float(high), self.kind) for low, high in ends)

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        each = zip(self.classes, self.shares, self.low, self.high, self.source, strict=True)
        keys = ("share", "low", "high", "source_share")
        return {
            "method": self.method,
            "level": self.level,
            "kind": self.kind,
            "classes": [
                {
                    "class": name,
                    **dict(zip(keys, map(float, v), strict=True)),
                    "share_range": ends.to_dict(),
                }
                for (name, *v), ends in zip(each, self.ranges, strict=True)
            ],
            "warnings": list(self.warnings),
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per class."""
        return [
            {name: value for name, value in row.items() if name != "share_range"}
            for row in self.content()["classes"]
        ]

    def heading(self) -> str:
        """What the shares are, and what they assume."""
        if self.method == DEFAULT:
            return f"label shares by {DEFAULT}, {100 * self.level:g}% ranges"
        return f"label shares by {self.method}, if only class proportions changed"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per class."""
        keys = ("share", "low", "high", "source_share")
        rows = [
            [str(row["class"]), *(percent(row[key]) for key in keys)] for row in self.content()["classes"]
        ]
        return ("class", "share", "from", "to", "source"), rows

    def __repr__(self) -> str:
        lines = [
            f"  {name!s:<14} {percent(share):>6} {ends}  source {percent(source)}"
            for name, share, ends, source in zip(
                self.classes, self.shares, self.ranges, self.source, strict=True
            )
        ]
        return render([self.heading(), *lines], self.warnings)


def label_shares(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    method: str = DEFAULT,
    *,
    bias_correction: bool = False,
    calibration: str = "temperature",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    level: float = RANGE_LEVEL,
    replicates: int = 100,
    seed: int = 0,
) -> Shares:
    """Estimate the target's label shares.

    By default they are the shares of `auto`'s posterior, with the ranges of `shiftgauge.metrics`. The other methods
    assume that only class proportions changed: source and target are resampled and everything is fitted again, and
    the intervals are percentile intervals of the shares, sampling error only. A share cannot fall below 0, and for an
    estimate of 0 the basic interval 2 pi - pi* has no width; clipping at 0 keeps the order of the replicates, so
    their percentiles stay right (measured; see `benchmarks/share_coverage.py`). With fewer than ten rows on either
    side they are all of [0, 1].

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        method: `"auto"`, `"bbse"`, `"rlls"` or `"mlls"`.
        bias_correction: for MLLS, calibrate with one temperature and an offset per class (BCTS) instead.
        calibration: as for every method.
        labels, labels_chosen: labels of some target rows, as in `shiftgauge.estimate`; for `auto` alone.
        level: of the ranges.
        replicates, seed: of the bootstrap.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(800, 2)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> source, target = sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:])
    >>> found = label_shares(source, target, "mlls", replicates=30)
    >>> bool((found.low <= found.shares).all() and (found.shares <= found.high).all())
    True
    """
    settings = Resampling(replicates, level, seed)
    check_method(method, bias_correction)
    pair = to_pair(
        "label_shares", source, target, calibration, seed, labels=labels, labels_chosen=labels_chosen
    )
    if method == DEFAULT:
        return _by_auto(pair, level)
    if pair.labels is not None:
        raise InputError(
            f"labels combine with {DEFAULT} alone, and here {method} answers from scores; leave one of the two out"
        )
    drawn = draws(pair, method, settings, bias_correction=bias_correction)
    low, high = bounds(drawn, level, pair.target.n_effective)
    of_source = pair.fitted("label-shift").source_warnings_  # of its labels and its calibration
    if min(pair.source.n, pair.target.n) < FEWEST:
        low, high = np.zeros(pair.k), np.ones(pair.k)
    return Shares(
        method=method + (" with bias correction" if bias_correction else ""),
        classes=pair.classes,
        shares=drawn[0],
        low=low,
        high=high,
        source=np.minimum(pair.source_sample.label_marginal, 1.0),
        level=level,
        warnings=(*pair.notes, *of_source, *((REFUTED,) if pair.shift.kind == "other" else ())),
    )


def _by_auto(pair: Pair, level: float) -> Shares:
    """The shares of `auto`'s posterior, with their ranges."""
    found = metrics(pair, level=level)
    ends = [(0.0, 1.0) if r is None else (r.low, r.high) for r in found.ranges["share"]]
    return Shares(
        method=DEFAULT,
        classes=pair.classes,
        shares=found.share,
        low=np.array([low for low, _ in ends]),
        high=np.array([high for _, high in ends]),
        source=np.minimum(pair.source_sample.label_marginal, 1.0),
        level=level,
        warnings=found.warnings,
    )


def check_method(method: str, bias_correction: bool) -> None:
    """Refuse an unknown method for label shares, and a correction that it has no use for."""
    known = (DEFAULT, *LABEL_SHIFT)
    if method not in known:
        raise InputError(
            f"label shares by {method!r} are not known; wanted one of {', '.join(known)}"
            f"{nearest(str(method), known)}"
        )
    if bias_correction and method != "mlls":
        raise InputError(
            f"bias correction belongs to mlls; {method} uses predictions, which it does not change"
        )


def draws(pair: Pair, method: str, settings: Resampling, *, bias_correction: bool = False) -> Array:
    """(1 + B, K) the shares of the full sample, and of every replicate."""
    replicates = Replicates(pair, settings)

    def read(source: Rows, target: Rows) -> Array:
        if method == "mlls":
            if bias_correction:
                source, target = _bias_corrected(replicates, source, target)
            return run(mlls(target, run(source.moments()).mean_posterior)).shares
        rows = run(source.collect())
        assert rows.labels is not None
        C = joint_confusion(rows.predictions, rows.labels, rows.row_share, rows.k)
        h = run(target.moments()).pseudo_labels
        return bbse(C, h) if method == "bbse" else rlls(C, h, pair.source.n_effective)

    return np.array(replicates.map(read))


def _bias_corrected(replicates: Replicates, source: Rows, target: Rows) -> tuple[Rows, Rows]:
    """A replicate calibrated with one temperature and an offset per class instead."""
    left, right = run(source.collect()), run(target.collect())
    assert left.labels is not None
    fitted = bias_corrected(replicates.source.z, left.labels, left.row_share)
    return (
        Rows.of_block(left.with_probs(fitted.probs(replicates.source.z))),
        Rows.of_block(right.with_probs(fitted.probs(replicates.target.z))),
    )


def bounds(drawn: Array, level: float, n_target: float) -> tuple[Array, Array]:
    """(K,) each: the ends of the percentile interval of (1 + B, K) `draws`.

    Quantiles count from (B + 1) p: those of few replicates would otherwise lie too far inside. Even the labels
    of all n target rows, none of them of the class, would leave shares up to 1 - p^(1/n).
    """
    point, tail = drawn[0], (1.0 - level) / 2
    low, high = np.quantile(drawn[1:], [tail, 1.0 - tail], axis=0, method="weibull")
    least = tail ** (1.0 / n_target)
    return np.minimum(np.minimum(low, point), least), np.maximum(np.maximum(high, point), 1.0 - least)
