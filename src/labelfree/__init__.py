"""Estimate how wrong a classifier is on data nobody has labelled.

>>> import labelfree as lf
>>> source = lf.Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1])
>>> target = lf.Target(probs=[[.7, .3], [.4, .6]])
>>> round(lf.estimate(source, target, method="scot", calibration="none").error, 4)
0.4097
"""

import sys

if getattr(sys, "argv", [])[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] == "labelfree":
    # `python -m labelfree`: what follows is imported before __main__ is, and Ctrl-C meanwhile is one line too.
    from _labelfree_command import listen

    listen()

from labelfree import plots
from labelfree._version import __version__
from labelfree.adapters import collect, collect_texts, from_dataframe, from_sklearn, from_trainer
from labelfree.decisions import ceiling, rank, suitable
from labelfree.errors import FileError, InputError, LabelfreeError, MissingDependencyError, NotFittedError
from labelfree.estimators import (
    AC,
    ATCMC,
    ATCNE,
    CBPE,
    COT,
    COTT,
    GDE,
    IM,
    METHODS,
    SCOT,
    Auto,
    DoC,
    Entropy,
    Estimator,
    LabelShift,
    MaNo,
    NuclearNorm,
    Pair,
    Unchanged,
    aline,
    load,
)
from labelfree.io import demo_data, read_source, read_target
from labelfree.monitor.client import Monitor
from labelfree.reports import Report, report
from labelfree.results import Comparison, Estimate, Interval
from labelfree.scale import scan
from labelfree.trust import (
    Plan,
    backtest,
    budget,
    compare,
    doctor,
    estimate,
    interval,
    label_shares,
    metrics,
    shift_test,
    slices,
    with_labels,
)
from labelfree.types import Source, Target

__all__ = [
    "AC",
    "ATCMC",
    "ATCNE",
    "CBPE",
    "COT",
    "COTT",
    "GDE",
    "IM",
    "METHODS",
    "SCOT",
    "Auto",
    "Comparison",
    "DoC",
    "Entropy",
    "Estimate",
    "Estimator",
    "FileError",
    "InputError",
    "Interval",
    "LabelShift",
    "LabelfreeError",
    "MaNo",
    "MissingDependencyError",
    "Monitor",
    "NotFittedError",
    "NuclearNorm",
    "Pair",
    "Plan",
    "Report",
    "Source",
    "Target",
    "Unchanged",
    "__version__",
    "aline",
    "backtest",
    "budget",
    "ceiling",
    "collect",
    "collect_texts",
    "compare",
    "demo_data",
    "doctor",
    "estimate",
    "from_dataframe",
    "from_sklearn",
    "from_trainer",
    "interval",
    "label_shares",
    "load",
    "metrics",
    "plots",
    "rank",
    "read_source",
    "read_target",
    "report",
    "scan",
    "shift_test",
    "slices",
    "suitable",
    "with_labels",
]
