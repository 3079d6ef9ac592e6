"""From estimates to decisions: intervals, metrics, slices, diagnosis, backtests, label plans.

Every function takes a source and a target, or the `shiftgauge.Pair` of the two.
"""

from shiftgauge.inference.backtests import Backtest, backtest
from shiftgauge.inference.checks import Check
from shiftgauge.inference.confusion import Metrics, metrics
from shiftgauge.inference.decisions import ceiling, rank, suitable
from shiftgauge.inference.decomposition import Driver, Drivers, DriverSlice, drivers
from shiftgauge.inference.diagnosis import Diagnosis, doctor
from shiftgauge.inference.estimates import compare, estimate, interval, shift_test
from shiftgauge.inference.label_plans import LabelPlan, Progress, label_plan
from shiftgauge.inference.proportions import Shares, label_shares
from shiftgauge.inference.resampling import Resampling, bootstrap
from shiftgauge.inference.segments import Slice, Slices, slices

__all__ = [
    "Backtest",
    "Check",
    "Diagnosis",
    "Driver",
    "DriverSlice",
    "Drivers",
    "LabelPlan",
    "Metrics",
    "Progress",
    "Resampling",
    "Shares",
    "Slice",
    "Slices",
    "backtest",
    "bootstrap",
    "ceiling",
    "compare",
    "doctor",
    "drivers",
    "estimate",
    "interval",
    "label_plan",
    "label_shares",
    "metrics",
    "rank",
    "shift_test",
    "slices",
    "suitable",
]
