"""What the target's labels are taken to be: the label marginal, its assumptions, and label shift."""

from labelfree.labelshift.black_box import bbse
from labelfree.labelshift.cells import RunnerUps, confidence_cells
from labelfree.labelshift.confusion import joint_confusion
from labelfree.labelshift.dirichlet import dirichlet_shares, resample_to
from labelfree.labelshift.likelihood import LabelShares, mlls, reweighted
from labelfree.labelshift.marginal import (
    LABEL_SHIFT,
    MARGINALS,
    Marginal,
    check_marginal,
    total_variation,
)
from labelfree.labelshift.regularised import rlls
from labelfree.labelshift.shift_test import JTest, j_test, unexplained
from labelfree.labelshift.shrinkage import shrink

__all__ = [
    "LABEL_SHIFT",
    "MARGINALS",
    "JTest",
    "LabelShares",
    "Marginal",
    "RunnerUps",
    "bbse",
    "check_marginal",
    "confidence_cells",
    "dirichlet_shares",
    "j_test",
    "joint_confusion",
    "mlls",
    "resample_to",
    "reweighted",
    "rlls",
    "shrink",
    "total_variation",
    "unexplained",
]
