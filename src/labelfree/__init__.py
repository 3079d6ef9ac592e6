"""Estimate how wrong a classifier is on data nobody has labelled.

>>> import labelfree as lf
>>> source = lf.Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1])
>>> target = lf.Target(probs=[[.7, .3], [.4, .6]])
>>> round(lf.estimate(source, target, method="scot", calibration="none").error, 4)
0.4097
"""

from labelfree import plots
from labelfree._version import __version__
from labelfree.adapters import collect, collect_texts, from_dataframe, from_sklearn, from_trainer
from labelfree.errors import FileError, InputError, LabelfreeError, NotFittedError
from labelfree.estimators import (
    AC,
    ATCMC,
    ATCNE,
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
    compare,
    estimate,
    load,
)
from labelfree.io.demo import demo_data
from labelfree.monitor.client import Monitor
from labelfree.results import Comparison, Estimate, Interval
from labelfree.trust import (
    backtest,
    budget,
    doctor,
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
    "Monitor",
    "NotFittedError",
    "Source",
    "Target",
    "__version__",
    "backtest",
    "budget",
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
    "shift_test",
    "slices",
    "with_labels",
]
