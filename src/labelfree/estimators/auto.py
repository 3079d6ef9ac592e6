"""auto: one answer for people who do not want to choose, with its reason and a band of disagreement."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.estimators.atc import ATCNE
from labelfree.estimators.base import Estimator, Reading
from labelfree.estimators.cott import COTT
from labelfree.estimators.threshold import share_beyond
from labelfree.estimators.view import View
from labelfree.labelshift import (
    JTest,
    confidence_cells,
    j_test,
    mlls,
    reweighted,
    shrink,
    total_variation,
    unexplained,
)

Array = npt.NDArray[np.float64]

#: The test's level.
LEVEL = 0.05
#: The source's class proportions are believed while the pseudo-label shift is at most 0.9 times the error
#: that confidence alone suggests, and given up at 1.2 times that. Tuned on the demo data.
BELIEVED, REFUTED = 0.9, 1.2
#: Where re-weighting leaves this much of the target's cells unexplained, confidence itself is not believed.
LUCID, LOST = 0.45, 0.55
#: How far the band reaches beyond the methods it spans: a share of its ends, and at least so much.
MARGIN, LEAST = 0.15, 0.015


class Auto(Estimator):
    """Look at which shift it is, then choose.

    1. The J test (`labelfree.labelshift.j_test`) finds no difference: COTT with the shrunken marginal.
    2. It finds a difference that other class proportions explain: label-shift.
    3. More changed. Then the question is whether the class proportions also did. If the true label shares
       were the source's q, the error would be at least TV(pseudo-labels, q). So compare this pseudo-label
       shift with the error that confidence suggests without trusting q (COTT at the MLLS marginal): a ratio
       up to 0.9 leaves q believed, and the answer is SCOT at q; from 1.2 on q is refuted, and the answer is
       COTT at the MLLS marginal; between them the two are mixed. Where even the best re-weighting leaves
       about half of the target's (class, confidence) cells unexplained, the confidences are lost too, and q
       is believed after all.

    Label shift and other shift together are not identified from scores in general: `details["band"]` is the
    range of the methods that remain defensible, and is about disagreement, not sampling error.
    """

    name = "auto"
    title = "auto"
    meaning = "the method that the kind of shift calls for"
    #: Its test weighs evidence by rows: every row twice is twice the evidence.
    counts_rows = True

    def _learn(self, source: View) -> None:
        self.prior_ = source.mean_posterior
        self.cott_threshold_ = COTT(self.calibration).fit_view(source).threshold_
        self.atc_threshold_ = ATCNE(self.calibration).fit_view(source).threshold_
        self.source_predictions_ = source.predictions.astype(np.float64)
        self.source_labels_ = source.labels.astype(np.float64)
        self.source_confidence_ = source.confidence
        self.source_mass_ = source.mass

    def _read(self, target: View) -> Reading:
        found = mlls(target.probs, self.prior_, target.mass)
        test, residual = self._shift(target, found.shares)
        answers = self._answers(target, found.shares, found.weights)
        kind = "other"
        if test.p_value is not None and test.p_value > LEVEL:
            kind = "none" if test.explained is None else "label"
        doubt = self._doubt(target, answers["cott:mlls"], residual) if kind == "other" else 0.0
        error, choice, reason, band = _choose(kind, doubt, answers)
        return Reading(
            error=error,
            details={
                "choice": choice,
                "reason": reason,
                "band": {"low": band[0], "high": band[1], "kind": "disagreement between methods"},
                "shift": kind,
                "p_value": test.p_value,
                "explained_by_reweighting": test.explained,
                "unexplained_mass": residual,
                "weight_of_label_shift": doubt,
                "answers": answers,
            },
        )

    def _shift(self, target: View, shares: Array) -> tuple[JTest, float]:
        """The J test, and how much of the target's cells the MLLS shares leave unexplained."""
        predictions = self.source_predictions_.astype(np.intp)
        labels = self.source_labels_.astype(np.intp)
        left, right, cells = confidence_cells(
            (predictions, target.predictions), (self.source_confidence_, target.confidence), target.k
        )
        test = j_test(left, labels, self.source_mass_, right, target.mass, cells, target.k)
        return test, unexplained(left, labels, self.source_mass_, right, target.mass, cells, shares)

    def _answers(self, target: View, shares: Array, weights: Array) -> dict[str, float]:
        q, h = self.label_marginal_, target.pseudo_labels
        shrunk, _ = shrink(q, h, h * (1.0 - h), self.n_source_effective_, target.n_effective)
        rows = np.arange(target.n)
        posterior = target.soft_transport(q).posterior[rows, target.predictions]
        corrected = reweighted(target.probs, weights)[rows, target.predictions]
        out = {
            "atc-ne": share_beyond(target.entropy(), target.mass, self.atc_threshold_),
            "cott": self._cott(target, q),
            "cott:shrunk": self._cott(target, shrunk),
            "cott:mlls": self._cott(target, shares),
            "scot": 1.0 - float(target.mass @ posterior),
            "label-shift": 1.0 - float(target.mass @ corrected),
        }
        return {name: float(np.clip(value, 0.0, 1.0)) for name, value in out.items()}

    def _cott(self, target: View, marginal: Array) -> float:
        _, _, mass, cost = target.transport(marginal).pieces()
        return share_beyond(cost, mass, self.cott_threshold_)

    def _doubt(self, target: View, confident: float, residual: float) -> float:
        """How far the source's proportions are refuted: 0 (believed) to 1 (refuted)."""
        shift = total_variation(target.pseudo_labels, self.label_marginal_)
        ratio = shift / max(confident, 0.01)
        refuted = np.clip((ratio - BELIEVED) / (REFUTED - BELIEVED), 0.0, 1.0)
        lucid = np.clip((LOST - residual) / (LOST - LUCID), 0.0, 1.0)
        return float(refuted * lucid)


def _choose(kind: str, doubt: float, answers: dict[str, Any]) -> tuple[float, str, str, tuple[float, float]]:
    """The answer, the method behind it, why, and the band of what else could be defended."""
    if kind == "none":
        why = "source and target do not differ beyond sampling noise"
        return (
            answers["cott:shrunk"],
            "cott:shrunk",
            why,
            _band(answers, "cott", "cott:shrunk", "atc-ne", "label-shift"),
        )
    if kind == "label":
        why = "other class proportions explain the difference"
        return (
            answers["label-shift"],
            "label-shift",
            why,
            _band(answers, "label-shift", "cott:mlls", "atc-ne"),
        )
    error = (1.0 - doubt) * answers["scot"] + doubt * answers["cott:mlls"]
    if doubt <= 0.0:
        why = "more than class proportions changed, and nothing refutes the source's proportions"
        return error, "scot", why, _band(answers, "scot", "cott", "cott:mlls", "atc-ne")
    if doubt < 1.0:
        why = "more than class proportions changed, and it is not clear whether they did too: a mixture of the two"
        return error, "scot and cott:mlls", why, _band(answers, "scot", "cott", "cott:mlls", "atc-ne")
    why = "more than class proportions changed, and the source's proportions would need more errors than there are"
    return error, "cott:mlls", why, _band(answers, "cott:mlls", "atc-ne", "label-shift", "scot")


def _band(answers: dict[str, float], *names: str) -> tuple[float, float]:
    low, high = min(answers[n] for n in names), max(answers[n] for n in names)
    return max(0.0, low - max(LEAST, MARGIN * low)), min(1.0, high + max(LEAST, MARGIN * high))
