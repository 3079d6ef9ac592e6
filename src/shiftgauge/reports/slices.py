"""The estimated error by predicted class and by slice, from the posteriors behind the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.inference import Slice, drivers, metrics, slices
from shiftgauge.methods import DEFAULT, Pair
from shiftgauge.results import Estimate
from shiftgauge.rows import Block, run

#: Only so many slices of one column are listed, the largest ones.
MOST_SLICES = 50


def class_table(pair: Pair, method: str, level: float, **options: Any) -> list[dict[str, Any]]:
    """For every class: the share of rows predicted as it, and how many of those are estimated to be wrong."""
    found = metrics(pair, method=method, level=level, **options)
    count = run(pair.target.fold(_predicted))
    share = found.confusion.sum(axis=0)
    ranges = found.ranges.get("precision", (None,) * pair.k)
    return [
        {
            "class": str(pair.target.class_name(j)),
            "rows": int(count[j]),
            "share": float(share[j]),
            "error": float(1.0 - found.precision[j]) if share[j] > 0 else None,
            "range": None if r is None else {**r.to_dict(), "low": 1.0 - r.high, "high": 1.0 - r.low},
        }
        for j, r in enumerate(ranges)
    ]


def _predicted(block: Block) -> npt.NDArray[np.intp]:
    return np.bincount(block.predictions, minlength=block.k)


def slice_tables(
    pair: Pair, by: Any, source_by: Any, answer: Estimate, **options: Any
) -> list[dict[str, Any]]:
    """For every column of slices: its slices with their ranges, the largest slices first, and warnings beyond those of
    the answer.
    """
    if by is None:
        return []
    columns = by if isinstance(by, Mapping) else {"group": by}
    of_source = source_by if isinstance(source_by, Mapping) else {"group": source_by}
    tables = []
    for name, values in columns.items():
        found = slices(pair, by=values, method=answer.method, source_by=of_source.get(name), **options)
        order = sorted(found.slices, key=lambda one: -one.share)
        tables.append(
            {
                "column": str(name),
                "rows": [_row(one) for one in order[:MOST_SLICES]],
                "left_out": max(0, len(order) - MOST_SLICES),
                "level": found.level,
                "kind": found.kind,
                "warnings": [text for text in found.warnings if text not in answer.warnings],
            }
        )
    return tables


def driver_table(
    pair: Pair, by: Any, source_by: Any, method: str, level: float, proportions: str
) -> dict[str, Any] | None:
    """The split of the rise by every column that both sides have; None if there is none, or another method answers."""
    if not isinstance(by, Mapping) or not isinstance(source_by, Mapping) or method != DEFAULT:
        return None
    both = {name: (source_by[name], values) for name, values in by.items() if name in source_by}
    if not both or not pair.target.in_memory:
        return None
    found = drivers(pair, by=both, proportions=proportions, level=level)
    return {**found.content(), "counts": found.counts()}


def _row(one: Slice) -> dict[str, Any]:
    return {
        "slice": one.name,
        "rows": one.rows,
        "share": one.share,
        "error": one.error,
        "range": None if one.range is None else one.range.to_dict(),
        "small": one.small,
    }
