"""The compiled inside of the solver: contiguous arrays in, arrays and an integer status out."""

from shiftgauge.transport._kernels.bidding import auction
from shiftgauge.transport._kernels.cache import note_uncompiled, uncompiled
from shiftgauge.transport._kernels.moves import Moves, start
from shiftgauge.transport._kernels.passes import (
    audit,
    best_classes,
    first_best,
    first_score,
    leeway,
    may_move,
    visit,
)
from shiftgauge.transport._kernels.python import LateError, python_kernels
from shiftgauge.transport._kernels.rows import softmaxed, weighed
from shiftgauge.transport._kernels.search import DONE, FULL, MORE, STUCK, Search, drive, patch
from shiftgauge.transport._kernels.smooth import smoothed_dual, smoothed_plan

__all__ = [
    "DONE",
    "FULL",
    "MORE",
    "STUCK",
    "LateError",
    "Moves",
    "Search",
    "auction",
    "audit",
    "best_classes",
    "drive",
    "first_best",
    "first_score",
    "leeway",
    "may_move",
    "note_uncompiled",
    "patch",
    "python_kernels",
    "smoothed_dual",
    "smoothed_plan",
    "softmaxed",
    "start",
    "uncompiled",
    "visit",
    "weighed",
]
