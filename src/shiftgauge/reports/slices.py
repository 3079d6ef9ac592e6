"""The estimated error by predicted class and by slice, from the posteriors behind the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shiftgauge.inference.answers import answer
from shiftgauge.inference.resampling import Resampling
from shiftgauge.inference.posteriors import Slice, sliced
from shiftgauge.methods import Pair
from shiftgauge.methods.posterior import Belief
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View
from shiftgauge.scans import Total

#: Only so many slices of one column are listed, the largest ones.
MOST_SLICES = 50


def class_table(target: View | ScanView, believed: Belief) -> list[dict[str, Any]]:
    """For every class: the share of rows predicted as it, and how many of those are estimated to be wrong."""
    k = target.k

    def read(rows: View) -> Total:
        wrong = np.bincount(rows.predictions, rows.weights * rows.doubt(believed(rows)), k)
        return Total((wrong, np.bincount(rows.predictions, minlength=k), float(rows.weights.sum())))

    wrong, count, mass = target.fold(read)
    share, wrong = target.pseudo_labels, wrong / mass
    return [
        {
            "class": str(target.sample.class_name(j)),
            "rows": int(count[j]),
            "share": float(share[j]),
            "error": float(wrong[j] / share[j]) if share[j] > 0 else None,
        }
        for j in range(target.k)
    ]


def slice_tables(
    pair: Pair, by: Any, settings: Resampling, method: str, source_by: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """For every column of slices: its slices with simultaneous intervals, the largest slices first."""
    if by is None:
        return []
    named = by if isinstance(by, Mapping) else {"group": by}
    there = source_by if isinstance(source_by, Mapping) else {"group": source_by}
    said = answer(pair, method, **options).warnings
    tables = []
    for name, values in named.items():
        found = sliced(pair, values, settings, method, there.get(name), **options)
        order = sorted(found.slices, key=lambda one: -one.share)
        tables.append(
            {
                "column": str(name),
                "rows": [_row(one) for one in order[:MOST_SLICES]],
                "left_out": max(0, len(order) - MOST_SLICES),
                "level": found.level,
                "kind": found.kind,
                "warnings": [text for text in found.warnings if text not in said],
            }
        )
    return tables


def _row(one: Slice) -> dict[str, Any]:
    return {
        "slice": one.name,
        "rows": one.rows,
        "share": one.share,
        "error": one.error,
        "interval": {"low": one.low, "high": one.high},
        "small": one.small,
    }
