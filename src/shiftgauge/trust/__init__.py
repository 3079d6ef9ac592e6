"""How far to trust the number: one room per concern.

`answers` (estimates with their intervals and doubts), `resampling` (the joint bootstrap), `posteriors` (metrics,
slices, class proportions, rows), `diagnosis` (the doctor), `backtests`, `labelling` (the label budget).
"""

from shiftgauge.trust.answers import compare, estimate, interval, shift_test
from shiftgauge.trust.backtests import Backtest, backtest
from shiftgauge.trust.diagnosis import Check, Diagnosis, doctor
from shiftgauge.trust.labelling import Labelled, Plan, budget, with_labels
from shiftgauge.trust.posteriors import Metrics, Shares, Slice, Slices, label_shares, metrics, slices
from shiftgauge.trust.resampling import Resampling, bootstrap

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
