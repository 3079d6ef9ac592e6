"""How far to trust the number: intervals, diagnosis, backtests, slices, label budget."""

from labelfree.trust.backtest import Backtest, backtest
from labelfree.trust.budget import Plan, budget
from labelfree.trust.doctor import Diagnosis, doctor
from labelfree.trust.intervals import bootstrap, interval
from labelfree.trust.labelled import Labelled, with_labels
from labelfree.trust.metrics import Metrics, metrics
from labelfree.trust.shares import Shares, label_shares
from labelfree.trust.shift_test import ShiftVerdict, shift_test
from labelfree.trust.slices import Slice, Slices, slices

__all__ = [
    "Backtest",
    "Diagnosis",
    "Labelled",
    "Metrics",
    "Plan",
    "Shares",
    "ShiftVerdict",
    "Slice",
    "Slices",
    "backtest",
    "bootstrap",
    "budget",
    "doctor",
    "interval",
    "label_shares",
    "metrics",
    "shift_test",
    "slices",
    "with_labels",
]
