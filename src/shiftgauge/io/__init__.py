"""Files in and out: npz, npy, CSV, JSON lines, Parquet, Arrow and torch files. Nothing is ever unpickled."""

from shiftgauge.io.columns import (
    holds,
    read_column,
    read_columns,
    read_costs,
    read_groups,
    read_marginal,
    read_picks,
)
from shiftgauge.io.demo import Demo, demo_data
from shiftgauge.io.form import Form
from shiftgauge.io.read import (
    is_table,
    labels_twice,
    read_checked,
    read_labels,
    read_second,
    read_source,
    read_target,
)
from shiftgauge.io.stdin import is_stream
from shiftgauge.io.write import write_parts, write_table

__all__ = [
    "Demo",
    "Form",
    "demo_data",
    "holds",
    "is_stream",
    "is_table",
    "labels_twice",
    "read_checked",
    "read_column",
    "read_columns",
    "read_costs",
    "read_groups",
    "read_labels",
    "read_marginal",
    "read_picks",
    "read_second",
    "read_source",
    "read_target",
    "write_parts",
    "write_table",
]
