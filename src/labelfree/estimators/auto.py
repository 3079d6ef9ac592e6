"""auto: one answer for people who do not want to choose, with its reason and a band of disagreement."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.estimators.atc import ATCNE
from labelfree.estimators.base import Estimator, Reading
from labelfree.estimators.cott import COTT
from labelfree.estimators.scot import posterior_spread
from labelfree.estimators.threshold import share_beyond
from labelfree.estimators.view import View
from labelfree.labelshift import (
    JTest,
    confidence_cells,
    j_test,
    mlls,
    reweighted,
    runner_up_cells,
    shrink,
    unexplained,
)

Array = npt.NDArray[np.float64]

#: The test's level.
LEVEL = 0.05
#: The unexplained mass r is the share of the target's (class, runner-up) pairs that the source cannot show at
#: any label shares. Where only Fashion-MNIST's images changed, SCOT at the source's proportions and COTT at the
#: MLLS ones differed by at most 1.2 r^2; from 2 r^2 on, those proportions are refuted.
BELIEVED, REFUTED = 1.25, 2.0
#: No difference smaller than this is held against the source's proportions.
SLIGHT = 0.02
#: Where r is beyond about a half, the confidences are lost too, and nothing can be said against the proportions.
LUCID, LOST = 0.5, 0.6
#: How far the band reaches beyond the methods it spans: a share of its ends, and at least so much.
MARGIN, LEAST = 0.15, 0.015
#: The methods that do not trust the source's proportions; they fail differently.
FREE = ("atc-ne", "cott:mlls", "label-shift")


class Auto(Estimator):
    """Look at which shift it is, then choose.

    1. The J test (`labelfree.labelshift.j_test`) finds no difference: SCOT with the shrunken marginal.
    2. It finds a difference that other class proportions explain: label-shift.
    3. More changed. Did the class proportions q change too? The pairs of (predicted class, runner-up) say how
       far to listen. A target of other proportions still looks, class by class, as the source does; a network
       that has lost its way calls everything a bag, with runner-ups that bags never had. So let r be the
       mass of such pairs that no label shares explain (`labelfree.labelshift.unexplained`), and d the
       difference between SCOT at the shrunken q and COTT at the MLLS marginal, which does not trust q. Up to
       d = 1.25 r^2, q is believed and the answer is that SCOT; from 2 r^2 on q is refuted, and the answer is
       the middle one of three methods that do not use q; between them the two are mixed. As r goes from 0.5
       to 0.6, all that fades out: confidence means nothing any more, and q is believed.

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
        self.source_runner_up_ = source.runner_up.astype(np.float64)
        self.source_labels_ = source.labels.astype(np.float64)
        self.source_confidence_ = source.confidence
        self.source_mass_ = source.mass

    def _read(self, target: View) -> Reading:
        found = mlls(target.probs, self.prior_, target.mass)
        test, strange = self._looks(target, found.shares)
        answers = self._answers(target, found.shares, found.weights)
        kind = test.kind(LEVEL)
        doubt = (
            _doubt(abs(answers["scot:shrunk"] - answers["cott:mlls"]), strange) if kind == "other" else 0.0
        )
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
                "unexplained_mass": strange,
                "weight_of_label_shift": doubt,
                "answers": answers,
            },
        )

    def _looks(self, target: View, shares: Array) -> tuple[JTest, float]:
        """The J test on confidences, and how much of the (class, runner-up) pairs the shares leave unexplained."""
        labels = self.source_labels_.astype(np.intp)
        predictions = (self.source_predictions_.astype(np.intp), target.predictions)
        left, right, cells = confidence_cells(
            predictions, (self.source_confidence_, target.confidence), target.k
        )
        test = j_test(left, labels, self.source_mass_, right, target.mass, cells, target.k)
        if target.k > 2:  # of two classes the runner-up says nothing new: the confidences stand in
            seconds = (self.source_runner_up_.astype(np.intp), target.runner_up)
            left, right, cells = runner_up_cells(predictions, seconds, target.k)
        return test, unexplained(left, labels, self.source_mass_, right, target.mass, cells, shares)

    def _answers(self, target: View, shares: Array, weights: Array) -> dict[str, float]:
        q = self.label_marginal_
        shrunk, _ = shrink(q, *posterior_spread(target), self.n_source_effective_, target.n_effective)
        out = {
            "atc-ne": share_beyond(target.entropy(), target.mass, self.atc_threshold_),
            "cott": self._cott(target, q),
            "cott:mlls": self._cott(target, shares),
            "scot:shrunk": float(target.mass @ target.doubt(target.soft_transport(shrunk).posterior)),
            "label-shift": float(target.mass @ target.doubt(reweighted(target.probs, weights))),
        }
        return {name: float(np.clip(value, 0.0, 1.0)) for name, value in out.items()}

    def _cott(self, target: View, marginal: Array) -> float:
        _, _, mass, cost = target.transport(marginal).pieces()
        return share_beyond(cost, mass, self.cott_threshold_)


def _doubt(difference: float, strange: float) -> float:
    """How far the source's proportions are refuted: 0 (believed) to 1 (refuted)."""
    low, high = max(SLIGHT, BELIEVED * strange**2), max(2.0 * SLIGHT, REFUTED * strange**2)
    refuted = np.clip((difference - low) / (high - low), 0.0, 1.0)
    lucid = np.clip((LOST - strange) / (LOST - LUCID), 0.0, 1.0)
    return float(refuted * lucid)


def _choose(kind: str, doubt: float, answers: dict[str, Any]) -> tuple[float, str, str, tuple[float, float]]:
    """The answer, the method behind it, why, and the band of what else could be defended."""
    if kind == "none":
        why = "source and target do not differ beyond sampling noise"
        band = _band(answers, "scot:shrunk", "cott", "atc-ne", "label-shift")
        return answers["scot:shrunk"], "scot:shrunk", why, band
    if kind == "label":
        why = "other class proportions explain the difference"
        return answers["label-shift"], "label-shift", why, _band(answers, *FREE)
    middle = sorted(FREE, key=lambda name: answers[name])[1]
    error = (1.0 - doubt) * answers["scot:shrunk"] + doubt * answers[middle]
    if doubt <= 0.0:
        why = "more than class proportions changed, and nothing refutes the source's proportions"
        return error, "scot:shrunk", why, _band(answers, "scot:shrunk", "cott", "cott:mlls", "atc-ne")
    if doubt < 1.0:
        why = "more than class proportions changed, and it is not clear whether they did too: a mixture of the two"
        return (
            error,
            f"scot:shrunk and {middle}",
            why,
            _band(answers, "scot:shrunk", "cott", "cott:mlls", "atc-ne"),
        )
    why = "more than class proportions changed, and they did too: the middle one of three methods that do not use them"
    return error, middle, why, _band(answers, *FREE, "scot:shrunk")


def _band(answers: dict[str, float], *names: str) -> tuple[float, float]:
    low, high = min(answers[n] for n in names), max(answers[n] for n in names)
    return max(0.0, low - max(LEAST, MARGIN * low)), min(1.0, high + max(LEAST, MARGIN * high))
