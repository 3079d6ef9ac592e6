"""What the target's labels are taken to be: the label marginal, its assumptions, and label shift."""

from shiftgauge.labelshift.black_box import bbse
from shiftgauge.labelshift.cells import RunnerUps, confidence_cells
from shiftgauge.labelshift.confusion import joint_confusion
from shiftgauge.labelshift.dirichlet import dirichlet_shares, resample_to
from shiftgauge.labelshift.likelihood import LabelShares, mlls, reweighted
from shiftgauge.labelshift.marginal import (
    LABEL_SHIFT,
    MARGINALS,
    Marginal,
    check_marginal,
    total_variation,
)
from shiftgauge.labelshift.regularised import rlls
from shiftgauge.labelshift.shift_test import JTest, j_test, unexplained
from shiftgauge.labelshift.shrinkage import shrink

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
