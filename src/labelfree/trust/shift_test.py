"""Which shift is it? The label-shift test on a source and a target, with the paper's bounds beside it."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.calibration import fit_calibration
from labelfree.errors import InputError
from labelfree.estimators.view import View
from labelfree.labelshift import JTest, confidence_cells, j_test, total_variation
from labelfree.types import Source, Target


@dataclass(frozen=True)
class ShiftVerdict:
    """What kind of shift the scores show.

    Attributes:
        kind: `"none"` (no difference seen), `"label"` (other class proportions explain it), `"other"`
            (more than class proportions changed; proportions may have changed too), or `"unknown"` (too few
            rows per class to tell).
        test: the J test behind it.
        pseudo_label_shift: TV between the target's predictions and the source's labels.
        cot_bound, scot_bound: where the target's true label shares are the source's, the error is at least
            this: half the pseudo-label shift is the paper's bound on COT, all of it bounds SCOT and the truth.
        level: the test's level.
    """

    kind: str
    test: JTest
    pseudo_label_shift: float
    cot_bound: float
    scot_bound: float
    level: float

    def sentence(self) -> str:
        """The verdict in one line."""
        p = self.test.p_value
        if p is None:
            return "cannot tell label shift from other shift: too few rows per class for the test"
        share = self.test.explained
        part = "" if share is None else f"; re-weighting explains {100 * share:.0f}% of the difference"
        says = {
            "none": "no difference between source and target beyond sampling noise",
            "label": f"the target looks like the source with other class proportions (p = {p:.2g}{part})",
            "other": f"more than class proportions changed (p = {p:.2g}{part})",
        }
        return says[self.kind]

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values."""
        t = self.test
        return {
            "kind": self.kind,
            "sentence": self.sentence(),
            "statistic": t.statistic,
            "degrees_of_freedom": t.df,
            "p_value": t.p_value,
            "reference": t.reference,
            "explained_by_reweighting": t.explained,
            "difference": t.difference,
            "difference_p_value": t.difference_p,
            "cells": t.cells,
            "reweighted_shares": t.shares.tolist(),
            "pseudo_label_shift": self.pseudo_label_shift,
            "cot_bound": self.cot_bound,
            "scot_bound": self.scot_bound,
            "level": self.level,
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """The verdict as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        return f"ShiftVerdict({self.kind}: {self.sentence()})"

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.kind)}</b>: {html.escape(self.sentence())}</p>"


def shift_test(
    source: Source, target: Target, *, calibration: str = "temperature", level: float = 0.05, seed: int = 0
) -> ShiftVerdict:
    """Test whether the target is the source with other class proportions.

    Args:
        source: scores with labels.
        target: scores without.
        calibration: of the confidence that defines the cells (it hardly matters).
        level: the share of false alarms to allow.
        seed: of the parametric bootstrap, where counts are sparse.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); y = rng.integers(2, size=4000)
    >>> z = rng.normal(size=(4000, 2)); z[np.arange(4000), y] += 2
    >>> shift_test(lf.Source(logits=z[:2000], labels=y[:2000]), lf.Target(logits=z[2000:])).kind
    'none'
    """
    check_samples("shift_test", source, target)
    _door.check_fraction(level, "level", 0.05)
    _door.check_count(seed, "seed", 0)
    fitted = fit_calibration(calibration, source)
    return verdict(
        View(source, fitted), View(target.aligned(source.classes, source.k), fitted), level=level, seed=seed
    )


def check_samples(verb: str, source: Any, target: Any) -> None:
    """Refuse what is not a Source and a Target."""
    for given, wanted, how in ((source, Source, "logits=..., labels=..."), (target, Target, "logits=...")):
        if not isinstance(given, wanted):
            raise InputError(
                f"{verb}: arrived {type(given).__name__}; wanted labelfree.{wanted.__name__}({how})"
            )


def verdict(source: View, target: View, *, level: float = 0.05, seed: int = 0) -> ShiftVerdict:
    """The same for samples that are calibrated already."""
    test = views_test(source, target, seed=seed)
    shift = total_variation(target.pseudo_labels, _label_shares(source))
    return ShiftVerdict(test.kind(level), test, shift, shift / 2, shift, level)


def views_test(source: View, target: View, *, seed: int = 0) -> JTest:
    """The J test on cells of (predicted class, confidence quartile)."""
    left, right, cells = confidence_cells(
        (source.predictions, target.predictions), (source.confidence, target.confidence), source.k
    )
    return j_test(left, source.labels, source.mass, right, target.mass, cells, source.k, seed=seed)


def _label_shares(source: View) -> npt.NDArray[np.float64]:
    return np.asarray(np.bincount(source.labels, weights=source.mass, minlength=source.k), dtype=np.float64)
