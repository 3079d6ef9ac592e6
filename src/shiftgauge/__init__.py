"""Estimate how wrong a classifier is on new data, from no labels to all of them.

>>> import shiftgauge as sg
>>> source = sg.Source(probs=[[.9, .1], [.2, .8], [.6, .4]], labels=[0, 1, 1])
>>> target = sg.Target(probs=[[.7, .3], [.4, .6]])
>>> round(sg.estimate(source, target, method="scot", calibration="none").error, 4)
0.3667
"""

from shiftgauge import methods, plots
from shiftgauge._version import __version__
from shiftgauge.adapters import collect, collect_texts, from_dataframe, from_sklearn, from_trainer, log_mlflow
from shiftgauge.engines import scan
from shiftgauge.errors import FileError, InputError, MissingDependencyError, NotFittedError, ShiftgaugeError
from shiftgauge.inference import (
    LabelPlan,
    backtest,
    ceiling,
    compare,
    doctor,
    drivers,
    estimate,
    interval,
    label_plan,
    label_shares,
    metrics,
    rank,
    shift_test,
    slices,
    suitable,
)
from shiftgauge.io import demo_data, read_source, read_target
from shiftgauge.methods import Pair, aline, load
from shiftgauge.monitor.client.monitor import Monitor
from shiftgauge.over_time import timeline
from shiftgauge.reports import Report, report
from shiftgauge.results import Comparison, Estimate, Interval, Range
from shiftgauge.samples import Source, Target

__all__ = [
    "Comparison",
    "Estimate",
    "FileError",
    "InputError",
    "Interval",
    "LabelPlan",
    "MissingDependencyError",
    "Monitor",
    "NotFittedError",
    "Pair",
    "Range",
    "Report",
    "ShiftgaugeError",
    "Source",
    "Target",
    "__version__",
    "aline",
    "backtest",
    "ceiling",
    "collect",
    "collect_texts",
    "compare",
    "demo_data",
    "doctor",
    "drivers",
    "estimate",
    "from_dataframe",
    "from_sklearn",
    "from_trainer",
    "interval",
    "label_plan",
    "label_shares",
    "load",
    "log_mlflow",
    "methods",
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
    "timeline",
]
