"""What the target's labels are taken to be: the label marginal and its assumptions."""

from labelfree.labelshift.marginal import MARGINALS, Marginal, check_marginal, total_variation
from labelfree.labelshift.shrinkage import shrink

__all__ = ["MARGINALS", "Marginal", "check_marginal", "shrink", "total_variation"]
