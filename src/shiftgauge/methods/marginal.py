"""What COT, COTT and SCOT share: the choice of the label masses to transport to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import (
    LABEL_SHIFT,
    Marginal,
    bbse,
    check_marginal,
    joint_confusion,
    mlls,
    rlls,
    shrink,
    total_variation,
)
from shiftgauge.methods.base import Estimator
from shiftgauge.rows import Moments, Rows
from shiftgauge.transport import SmoothedTransport, Transport
from shiftgauge.validation import check_label_shares

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ChosenMarginal:
    """The label masses that were used, and how to report them."""

    masses: Array
    details: dict[str, Any]


class MarginalEstimator(Estimator):
    """Base of the methods that transport the target to label masses.

    Args:
        calibration: as for every method.
        marginal: `"source"` (the source's label shares), `"shrunk"` (less the sampling noise), `"bbse"`,
            `"rlls"` or `"mlls"` (the target's own shares, estimated under label shift), an array of K
            shares, or a mapping from class names to shares.
    """

    confusion_: Array
    prior_: Array

    def __init__(self, calibration: str = "temperature", marginal: Marginal = "source") -> None:
        super().__init__(calibration)
        check_marginal(marginal)
        self.marginal = marginal

    async def learn(self, source: Rows) -> None:
        """What the estimate of the marginal needs from the source."""
        if isinstance(self.marginal, str) and self.marginal in ("bbse", "rlls"):
            rows = await source.collect()
            assert rows.labels is not None
            self.confusion_ = joint_confusion(rows.predictions, rows.labels, rows.row_share, rows.k)
        elif isinstance(self.marginal, str) and self.marginal == "mlls":
            self.prior_ = (await source.moments()).mean_posterior

    @staticmethod
    def reference_shares(moments: Moments) -> tuple[Array, Array]:
        """(K,) each: the target's own label shares h by its predictions, and their variance per row."""
        h = moments.pseudo_labels
        return h, h * (1.0 - h)

    async def choose_marginal(self, target: Rows) -> ChosenMarginal:
        """The label masses that this target is transported to."""
        q = self.label_marginal_
        moments = await target.moments()
        details: dict[str, Any]
        if not isinstance(self.marginal, str):
            chosen = check_label_shares(self.marginal, target.k, self.classes_)
            details = {"marginal": "given"}
        elif self.marginal == "shrunk":
            h, variance = self.reference_shares(moments)
            chosen, kept = shrink(q, h, variance, self.n_source_effective_, target.n_effective)
            details = {"marginal": "shrunk", "shrinkage_kept": kept}
        elif self.marginal in LABEL_SHIFT:
            chosen, details = await self._label_shift(target, moments)
        else:
            chosen, details = q, {"marginal": "source"}
        shift = total_variation(moments.pseudo_labels, chosen)
        return ChosenMarginal(
            chosen, {**details, "label_marginal": chosen.tolist(), "pseudo_label_shift": shift}
        )

    async def _label_shift(self, target: Rows, moments: Moments) -> tuple[Array, dict[str, Any]]:
        if self.marginal == "bbse":
            return bbse(self.confusion_, moments.pseudo_labels), {"marginal": "bbse"}
        if self.marginal == "rlls":
            shares = rlls(self.confusion_, moments.pseudo_labels, self.n_source_effective_)
            return shares, {"marginal": "rlls"}
        estimated = await mlls(target, self.prior_)
        return estimated.shares, {"marginal": "mlls", "likelihood_gap": estimated.gap}


def unproved(transport: Transport | SmoothedTransport) -> list[str]:
    """A warning if the certificate does not prove the plan optimal."""
    certificate = transport.certificate
    if certificate.exact:
        return []
    return [
        f"the transport is proved optimal only to {abs(certificate.gap):.1e} in cost and "
        f"{certificate.violation:.1e} in mass; please report it"
    ]
