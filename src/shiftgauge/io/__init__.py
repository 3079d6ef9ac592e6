"""Files and frames in, files out: npz, npy, CSV, JSON lines, Parquet, Arrow and torch files. Nothing is unpickled.

`read_source` and `read_target` hold all rows in memory; `open_source` and `open_target` hold them if they fit, and
`open_rows` reads them anew in every pass, whatever their number.
"""

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
from shiftgauge.io.frames import StreamPart, TablePart, as_table
from shiftgauge.io.layout import Layout, table_layout
from shiftgauge.io.read import (
    is_table,
    labels_twice,
    make_rows,
    open_rows,
    open_source,
    open_target,
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
    "Layout",
    "StreamPart",
    "TablePart",
    "as_table",
    "demo_data",
    "holds",
    "is_stream",
    "is_table",
    "labels_twice",
    "make_rows",
    "open_rows",
    "open_source",
    "open_target",
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
    "table_layout",
    "write_parts",
    "write_table",
]
