"""Read and write files and frames: npz, npy, CSV, JSON lines, Parquet, Arrow, torch. Nothing is unpickled.

`read_source` and `read_target` read all rows into memory, `open_source` and `open_labelled_target` only if they fit;
`open_rows` reads them again in every pass.
"""

from shiftgauge.io.columns import (
    column_names,
    has_column,
    label_column,
    read_column,
    read_columns,
    read_costs,
    read_groups,
    read_marginal,
    read_target_labels,
)
from shiftgauge.io.demo import Demo, demo_data
from shiftgauge.io.frames import StreamPart, TablePart, as_table
from shiftgauge.io.layout import Layout, table_layout
from shiftgauge.io.options import ReadOptions, Threshold
from shiftgauge.io.read import (
    is_table,
    make_rows,
    open_labelled_target,
    open_rows,
    open_source,
    read_checked,
    read_labels,
    read_second,
    read_source,
    read_target,
)
from shiftgauge.io.write import write_parts, write_table

__all__ = [
    "Demo",
    "Layout",
    "ReadOptions",
    "StreamPart",
    "TablePart",
    "Threshold",
    "as_table",
    "column_names",
    "demo_data",
    "has_column",
    "is_table",
    "label_column",
    "make_rows",
    "open_labelled_target",
    "open_rows",
    "open_source",
    "read_checked",
    "read_column",
    "read_columns",
    "read_costs",
    "read_groups",
    "read_labels",
    "read_marginal",
    "read_second",
    "read_source",
    "read_target",
    "read_target_labels",
    "table_layout",
    "write_parts",
    "write_table",
]
