"""What COT, COTT and SCOT share: the choice of the label masses to transport to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import (
    LABEL_SHIFT,
    Marginal,
    bbse,
    check_marginal,
    joint_confusion,
    rlls,
    shrink,
    total_variation,
)
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View
from shiftgauge.validation import check_label_shares

if TYPE_CHECKING:
    from shiftgauge.transport import Streamed, Transport

Array = npt.NDArray[np.float64]
M = TypeVar("M", bound="MarginalEstimator")


@dataclass(frozen=True)
class Choice:
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

    def fit_view(self: M, view: View) -> M:
        """Learn from a calibrated source, and keep of it what the marginal's estimate will need."""
        if isinstance(self.marginal, str) and self.marginal in ("bbse", "rlls"):
            self.confusion_ = joint_confusion(view.predictions, view.labels, view.mass, view.k)
        elif isinstance(self.marginal, str) and self.marginal == "mlls":
            self.prior_ = view.mean_posterior
        return super().fit_view(view)

    def _reference(self, target: View | ScanView) -> tuple[Array, Array]:
        """(K,) each: the target's own label shares h by its predictions, and their variance per row."""
        h = target.pseudo_labels
        return h, h * (1.0 - h)

    def masses(self, target: View | ScanView) -> Array:
        """(K,) the label masses that this target is transported to."""
        return self._masses(target).masses

    def _masses(self, target: View | ScanView) -> Choice:
        q = self.label_marginal_
        pseudo = target.pseudo_labels
        details: dict[str, Any]
        if not isinstance(self.marginal, str):
            chosen, details = (
                check_label_shares(self.marginal, target.k, self.classes_),
                {"marginal": "given"},
            )
        elif self.marginal == "shrunk":
            h, variance = self._reference(target)
            chosen, kept = shrink(q, h, variance, self.n_source_effective_, target.n_effective)
            details = {"marginal": "shrunk", "shrinkage_kept": kept}
        elif self.marginal in LABEL_SHIFT:
            chosen, details = self._label_shift(target)
        else:
            chosen, details = q, {"marginal": "source"}
        shift = {"label_marginal": chosen.tolist(), "pseudo_label_shift": total_variation(pseudo, chosen)}
        return Choice(chosen, {**details, **shift})

    @staticmethod
    def _unproved(transport: Transport | Streamed) -> list[str]:
        """A sentence where the certificate does not prove the plan optimal."""
        certificate = transport.certificate
        if certificate.exact:
            return []
        return [
            f"the transport is proved optimal only to {abs(certificate.gap):.1e} in cost and "
            f"{certificate.violation:.1e} in mass; please report it"
        ]

    def _label_shift(self, target: View | ScanView) -> tuple[Array, dict[str, Any]]:
        if self.marginal == "bbse":
            return bbse(self.confusion_, target.pseudo_labels), {"marginal": "bbse"}
        if self.marginal == "rlls":
            shares = rlls(self.confusion_, target.pseudo_labels, self.n_source_effective_)
            return shares, {"marginal": "rlls"}
        found = target.label_shares(self.prior_)
        return found.shares, {"marginal": "mlls", "likelihood_gap": found.gap}
