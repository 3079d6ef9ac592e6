"""How far to trust the number: one room per concern.

`answers` (estimates with their intervals and doubts), `resampling` (the joint bootstrap), `posteriors` (metrics,
slices, class proportions, rows), `diagnosis` (the doctor), `backtests`, `labelling` (the label budget).
"""

from shiftgauge.inference.answers import compare, estimate, interval, shift_test
from shiftgauge.inference.backtests import Backtest, backtest
from shiftgauge.inference.bootstrap import Resampling, bootstrap
from shiftgauge.inference.diagnosis import Check, Diagnosis, doctor
from shiftgauge.inference.label_plans import Labelled, Plan, budget, with_labels
from shiftgauge.inference.posteriors import Metrics, Shares, Slice, Slices, label_shares, metrics, slices

__all__ = [
    "Backtest",
    "Check",
    "Diagnosis",
    "Labelled",
    "Metrics",
    "Plan",
    "Resampling",
    "Shares",
    "Slice",
    "Slices",
    "backtest",
    "bootstrap",
    "budget",
    "compare",
    "doctor",
    "estimate",
    "interval",
    "label_shares",
    "metrics",
    "shift_test",
    "slices",
    "with_labels",
]
