"""The target's label shares under label shift, with intervals."""

from __future__ import annotations

import html
import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError, nearest
from labelfree.estimators.view import View
from labelfree.labelshift import LABEL_SHIFT, bbse, bias_corrected, joint_confusion, mlls, rlls
from labelfree.results import percent
from labelfree.trust.intervals import FEWEST, check_resampling
from labelfree.trust.replicate import ReplicateView, Replicator
from labelfree.trust.shift_test import check_samples
from labelfree.types import Source, Target

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Estimated label shares.

    Attributes:
        method: `"bbse"`, `"rlls"` or `"mlls"`.
        classes: the names.
        shares: (K,) the target's label shares, if only class proportions changed.
        low, high: (K,) their intervals at the level, class by class, sampling error only.
        source: (K,) the source's shares, to compare.
        level: the intervals' level.
    """

    method: str
    classes: tuple[Hashable, ...]
    shares: Array
    low: Array
    high: Array
    source: Array
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        each = zip(self.classes, self.shares, self.low, self.high, self.source, strict=True)
        keys = ("share", "low", "high", "source_share")
        return {
            "method": self.method,
            "level": self.level,
            "kind": "sampling error only",
            "classes": [{"class": name, **dict(zip(keys, map(float, v), strict=True))} for name, *v in each],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        lines = [f"label shares by {self.method}, if only class proportions changed"]
        for row in self.to_dict()["classes"]:
            lines.append(
                f"  {row['class']!s:<14} {percent(row['share']):>6} [{percent(row['low'])}, {percent(row['high'])}]"
                f"  source {percent(row['source_share'])}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def label_shares(
    source: Source,
    target: Target,
    method: str = "mlls",
    *,
    bias_correction: bool = False,
    calibration: str = "temperature",
    level: float = 0.95,
    replicates: int = 100,
    seed: int = 0,
) -> Shares:
    """Estimate the target's label shares, under the assumption that only class proportions changed.

    Source and target are resampled and everything is fitted again; the intervals are percentile intervals of
    the shares. A share cannot fall below 0, and where the estimate is held there the basic interval 2 pi - pi*
    has no width; holding at 0 keeps the order of the replicates, so their percentiles stay right (measured; see
    `benchmarks/share_coverage.py`). With fewer than ten rows on either side they are all of [0, 1].

    Args:
        source: scores with labels.
        target: scores without.
        method: `"bbse"`, `"rlls"` or `"mlls"`.
        bias_correction: for MLLS, calibrate with one temperature and an offset per class (BCTS) instead.
        calibration, level, replicates, seed: as for intervals.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(800, 2)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = label_shares(lf.Source(logits=z[:400], labels=y[:400]), lf.Target(logits=z[400:]), replicates=30)
    >>> bool((found.low <= found.shares).all() and (found.shares <= found.high).all())
    True
    """
    check_samples("label_shares", source, target)
    check_resampling(level, replicates, seed)
    if method not in LABEL_SHIFT:
        raise InputError(
            f"label shares by {method!r} are not known; wanted one of {', '.join(LABEL_SHIFT)}"
            f"{nearest(str(method), LABEL_SHIFT)}"
        )
    if bias_correction and method != "mlls":
        raise InputError(
            f"bias correction belongs to mlls; {method} uses predictions, which it does not change"
        )
    drawn = draws(source, target, method, bias_correction, calibration, replicates, seed)
    low, high = bounds(drawn, level, target.n_effective)
    if min(source.n, target.n) < FEWEST:
        low, high = np.zeros(source.k), np.ones(source.k)
    return Shares(
        method=method + (" with bias correction" if bias_correction else ""),
        classes=source.classes if source.classes is not None else tuple(range(source.k)),
        shares=drawn[0],
        low=low,
        high=high,
        source=source.label_marginal,
        level=level,
    )


def draws(
    source: Source,
    target: Target,
    method: str,
    bias_correction: bool,
    calibration: str,
    replicates: int,
    seed: int,
) -> Array:
    """(1 + B, K) the shares of the full sample, and of every replicate."""
    work = Replicator(source, target.aligned(source.classes, source.k), calibration)

    def read(left: View, right: View) -> Array:
        if method == "mlls":
            return _mlls(left, right, bias_correction)
        C = joint_confusion(left.predictions, left.labels, left.mass, left.k)
        h = right.pseudo_labels
        return bbse(C, h) if method == "bbse" else rlls(C, h, source.n_effective)

    return np.array(work.run(read, replicates, seed))


def bounds(drawn: Array, level: float, n_target: float) -> tuple[Array, Array]:
    """(K,) each: the ends of the percentile interval of (1 + B, K) `draws`.

    Quantiles count from (B + 1) p: those of few replicates would otherwise lie too far inside. Even the labels
    of all n target rows, none of them of the class, would leave shares up to 1 - p^(1/n).
    """
    point, tail = drawn[0], (1.0 - level) / 2
    low, high = np.quantile(drawn[1:], [tail, 1.0 - tail], axis=0, method="weibull")
    least = tail ** (1.0 / n_target)
    return np.minimum(np.minimum(low, point), least), np.maximum(np.maximum(high, point), 1.0 - least)


def _mlls(left: View, right: View, bias_correction: bool) -> Array:
    if not bias_correction:
        return mlls(right.probs, left.mean_posterior, right.mass, tol=1e-7).shares
    assert isinstance(left, ReplicateView)
    assert isinstance(right, ReplicateView)
    fitted = bias_corrected(left.log_scores, left.labels, left.mass)
    prior = left.mass @ fitted.probs(left.log_scores)
    return mlls(fitted.probs(right.log_scores), prior, right.mass, tol=1e-7).shares
