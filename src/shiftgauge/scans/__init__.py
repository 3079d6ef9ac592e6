"""Rows that are read chunk by chunk and never held whole.

A `Scan` is a list of *parts* (row groups of files, partitions of a frame), each of which can be read again and again
as `Chunk`s of raw rows. An *engine* carries a function to the parts and brings the sum of its results home, in the
order of the parts: threads of this process, or somebody else's cluster (`shiftgauge.scale`). Everything that is known
of a scan comes from such folds; the first of them also checks every row, as the door does for arrays.
"""

from shiftgauge.scans.parts import ENTRIES, LABELS, Chunk, Engine, Held, Part, Task, Threads, summed
from shiftgauge.scans.visits import Digests, Opening, Total, Visit, opened, rows_of
from shiftgauge.scans.whole import Scan, as_source, scan_of

__all__ = [
    "ENTRIES",
    "LABELS",
    "Chunk",
    "Digests",
    "Engine",
    "Held",
    "Opening",
    "Part",
    "Scan",
    "Task",
    "Threads",
    "Total",
    "Visit",
    "as_source",
    "opened",
    "rows_of",
    "scan_of",
    "summed",
]
