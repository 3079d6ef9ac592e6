"""The estimated error by predicted class and by slice, from the posteriors behind the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shiftgauge.inference import Slice, estimate, slices
from shiftgauge.methods import Pair
from shiftgauge.methods.posterior import Posterior
from shiftgauge.rows import Block, Rows, Totals, run

#: Only so many slices of one column are listed, the largest ones.
MOST_SLICES = 50


def class_table(target: Rows, posterior: Posterior) -> list[dict[str, Any]]:
    """For every class: the share of rows predicted as it, and how many of those are estimated to be wrong."""
    k = target.k

    def read(rows: Block) -> Totals:
        wrong = np.bincount(rows.predictions, rows.mass * rows.error_probability(posterior(rows)), k)
        return Totals((wrong, np.bincount(rows.predictions, minlength=k), float(rows.mass.sum())))

    wrong, count, mass = run(target.fold(read))
    share, wrong = run(target.moments()).pseudo_labels, wrong / mass
    return [
        {
            "class": str(target.class_name(j)),
            "rows": int(count[j]),
            "share": float(share[j]),
            "error": float(wrong[j] / share[j]) if share[j] > 0 else None,
        }
        for j in range(target.k)
    ]


def slice_tables(
    pair: Pair, by: Any, method: str, source_by: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """For every column of slices: its slices with simultaneous intervals, the largest slices first."""
    if by is None:
        return []
    columns = by if isinstance(by, Mapping) else {"group": by}
    of_source = source_by if isinstance(source_by, Mapping) else {"group": source_by}
    answer = estimate(
        pair, method=method, **{k: v for k, v in options.items() if k in ("marginal", "proportions")}
    )
    tables = []
    for name, values in columns.items():
        found = slices(pair, by=values, method=method, source_by=of_source.get(name), **options)
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


def _row(one: Slice) -> dict[str, Any]:
    return {
        "slice": one.name,
        "rows": one.rows,
        "share": one.share,
        "error": one.error,
        "interval": {"low": one.low, "high": one.high},
        "small": one.small,
    }
