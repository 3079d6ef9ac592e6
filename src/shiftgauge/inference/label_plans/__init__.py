"""The label budget: which rows to label, and the error once their labels come back."""

from shiftgauge.inference.label_plans.plan import Plan, budget, row_numbers
from shiftgauge.inference.label_plans.returns import Labelled, as_mapping, with_labels

__all__ = ["Labelled", "Plan", "as_mapping", "budget", "row_numbers", "with_labels"]
