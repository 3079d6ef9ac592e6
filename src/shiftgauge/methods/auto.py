"""auto: one answer for people who do not want to choose, with its reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError, nearest, prefix
from shiftgauge.methods.atc import ATCNE
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.choice import Choice, reason_for
from shiftgauge.methods.cot import COT
from shiftgauge.methods.cott import COTT
from shiftgauge.methods.doc import DoC
from shiftgauge.methods.evidence import Evidence, collect_evidence
from shiftgauge.methods.label_shift import LabelShift
from shiftgauge.methods.range import (
    CONSTANTS,
    GRADE_LEVEL,
    RANGE_LEVEL,
    STOP,
    error_distribution,
    sampling_interval,
    wide_range_warning,
)
from shiftgauge.methods.scot import SCOT
from shiftgauge.methods.shift import SourceColumns
from shiftgauge.methods.unchanged import Unchanged
from shiftgauge.rows import Rows, gather
from shiftgauge.validation import check_count

Array = npt.NDArray[np.float64]

#: What the user may know about the target's class proportions.
PROPORTIONS: Final = {
    "unknown": "nothing is known: the scores decide how far the source's class proportions are believed",
    "same": "the target has the source's class proportions",
    "changed": "the target's class proportions differ from the source's",
}
#: The methods whose median has half the weight if calibration held.
IF_CALIBRATED: Final = ("doc", "cot:shrunk", "atc-ne")
#: The methods whose median answers if the source's proportions are given up: three that do not use them, and two that
#: keep the median from following all three where they are far off.
IF_PROPORTIONS_CHANGED: Final = ("atc-ne", "cott:mlls", "label-shift", "doc", "scot:shrunk")
#: The same if deployed decisions differ from the largest score, so that COT and COTT have no answer.
IF_PROPORTIONS_CHANGED_DECIDED: Final = ("atc-ne", "label-shift", "doc")


class Auto(Estimator):
    """Weigh three hypotheses about what changed, and answer with the weighted mean of their methods.

    Two readings of one target are both coherent: calibration held and the class proportions followed the inputs, or the
    proportions held and calibration broke. Scores alone cannot decide between them in general.

    | hypothesis | answer | weight |
    |---|---|---|
    | calibration held | half DoC, half the median of DoC, COT and ATC-NE | 1 - x + x c / 2 |
    | proportions held | SCOT at the source's proportions | x (1 - c) |
    | proportions changed | label-shift if they explain the shift, else the median of five methods | x c / 2 |

    x grows from 0 to 1 with the excess mass, which the target has where the source hardly has any scores. c, from 0 to
    1, is the evidence against the source's proportions. Where c is 1, calibration held keeps half the weight: nothing
    says that it did not. If the test says that more than proportions changed, one point is added: errors mostly rise.

    1. **Calibration held.** Of a fall below the source's error half counts; a rise counts 1.25 times.
    2. **Proportions held.** The weaker the model (source error relative to chance), the more COT takes SCOT's place.
    3. **Proportions changed.** If other proportions explain the difference (`shiftgauge.labelshift.j_test`), x = c = 1.
       If more changed: let r be the mass of (predicted class, runner-up) pairs that no label shares explain, and d the
       difference between SCOT and COTT at the MLLS marginal, which does not use the source's proportions. c is 0 up to
       d = 1.25 r^2 and 1 from 2 r^2 on; it fades out as r goes from 0.5 to 0.6, and for weak models. If there are too
       few rows for the test: c is 0 up to a difference of 0.1 between SCOT and that median and 1 from 0.2 on, and
       label-shift answers.

    `proportions="same"` never gives the source's proportions up; `"changed"` always does. If deployed decisions differ
    from the largest score, COT and COTT have no answer: then hypothesis 1 is the mean of DoC and ATC-NE, 2 is SCOT, and
    3 is the median of ATC-NE, label-shift and DoC.

    Args:
        calibration: as for every method.
        proportions: `"unknown"`, `"same"` or `"changed"`: what is known about the target's class proportions.
        seed: of the label-shift test's bootstrap, where counts are sparse.
    """

    name = "auto"
    title = "auto"
    meaning = "the methods that the kind of shift calls for"
    #: Its test weighs evidence by rows: every row twice is twice the evidence.
    counts_rows = True

    def __init__(self, calibration: str = "temperature", proportions: str = "unknown", seed: int = 0) -> None:
        super().__init__(calibration)
        check_proportions(proportions)
        check_count(seed, "seed", 0)
        self.proportions = proportions
        self.seed = seed

    def _methods(self) -> dict[str, Estimator]:
        c = self.calibration
        return {
            "unchanged": Unchanged(c),
            "doc": DoC(c),
            "atc-ne": ATCNE(c),
            "cot:shrunk": COT(c, "shrunk"),
            "cott:mlls": COTT(c, "mlls"),
            "scot:shrunk": SCOT(c, "shrunk"),
            "label-shift": LabelShift(c),
        }

    async def learn(self, source: Rows) -> None:
        """Fit the methods, and keep what targets are compared with."""
        rows = await source.collect()
        self.source_columns_: dict[str, Any] = {
            "predictions": rows.predictions,
            "runner_up": rows.runner_up,
            "labels": rows.labels,
            "confidence": rows.confidence,
            "row_share": rows.row_share,
        }
        methods = {
            label: m for label, m in self._methods().items() if not (source.decided and m.needs_argmax)
        }
        fitted = await gather(*(method.fitted_on(source) for method in methods.values()))
        self.methods_: dict[str, Estimator] = dict(zip(methods, fitted, strict=True))

    async def read(self, target: Rows) -> Reading:
        """The weighted mean of the methods' answers, with its range."""
        source = SourceColumns(**self.source_columns_, k=target.k, n_effective=self.n_source_effective_)
        prior = self.methods_["label-shift"].prior_  # type: ignore[attr-defined]
        evidence, *readings = await gather(
            collect_evidence(source, target, prior, self.seed),
            *(method.read(target) for method in self.methods_.values()),
        )
        answers: dict[str, float] = {}
        warnings: list[str] = []
        # Rows that are read in passes know their decisions only now.
        for (label, method), reading in zip(self.methods_.items(), readings, strict=True):
            if not (target.decided and method.needs_argmax):
                answers[label] = float(np.clip(reading.error, 0.0, 1.0))
                warnings += [prefix(method.title, text) for text in reading.warnings]
        weak = weakness(self.source_error_, target.k)
        choice = choose(evidence, answers, self.source_error_, weak, self.proportions)
        error = choice.error(answers)
        if self.proportions == "same" and evidence.kind == "label":
            warnings.append(
                "the class proportions were said to be the source's, but other proportions explain all that changed"
            )
        expected = error_distribution(
            answers, error, evidence.ks_distance, weak, self.n_source_effective_, target.n_effective
        )
        if expected.grade == STOP:
            warnings.append(wide_range_warning(expected.half_width(GRADE_LEVEL)))
        scot, answer_range = answers["scot:shrunk"], expected.range(RANGE_LEVEL)
        if self.proportions == "unknown" and evidence.kind != "label" and scot > answer_range.high:
            warnings.append(
                f"if the target has the source's class proportions, the error is about {scot:.0%} (SCOT); if you know "
                'that it has, say proportions="same"'
            )
        return Reading(
            error=error,
            details={
                **choice.details(),
                "proportions": self.proportions,
                **evidence.details(),
                "weakness": weak,
                "answers": answers,
                "scale_low": expected.scale_low,
                "scale_high": expected.scale_high,
                "grade": expected.grade,
            },
            warnings=warnings,
            range=answer_range,
            sampling=sampling_interval(error, self.n_source_effective_, target.n_effective, RANGE_LEVEL),
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Auto:
        """The estimator that a saved document describes, with its methods."""
        made = super().from_document(document)
        contents: Mapping[str, Any] = made.methods_
        made.methods_ = {
            label: type(method).from_document(contents[label])
            for label, method in made._methods().items()
            if label in contents
        }
        return made

    def parts(self, details: Mapping[str, Any]) -> list[tuple[float, Estimator]]:
        """The fitted methods behind an answer with these details, with their weights."""
        return [(part["weight"], self.methods_[_label(**part)]) for part in details["parts"]]


def _label(method: str, marginal: str | None, weight: float) -> str:
    return method if marginal is None else f"{method}:{marginal}"


def check_proportions(proportions: Any) -> None:
    """Refuse an unknown word for what is known about class proportions, with the nearest known one."""
    if not isinstance(proportions, str) or proportions not in PROPORTIONS:
        raise InputError(
            f"proportions {proportions!r} is not known; wanted one of {', '.join(PROPORTIONS)}"
            f"{nearest(str(proportions), PROPORTIONS)}"
        )


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, a straight line between."""
    return float(np.clip((value - low) / (high - low), 0.0, 1.0))


def weakness(source_error: float, k: int) -> float:
    """How far a model confuses its k classes on the source: 0 to 1, by its error relative to chance."""
    return ramp(source_error / max(1.0 - 1.0 / k, 0.5), *CONSTANTS["weakness"]["range"])


def contradiction(difference: float, unexplained_mass: float) -> float:
    """How far the scores contradict the source's proportions, 0 to 1, by d and the unexplained mass r."""
    believed, given_up = CONSTANTS["contradiction"]["range"]
    least, r2 = CONSTANTS["contradiction"]["least_difference"], unexplained_mass**2
    unreliable = ramp(unexplained_mass, *CONSTANTS["unexplained_mass"]["range"])
    return ramp(difference, max(least, believed * r2), max(2.0 * least, given_up * r2)) * (1.0 - unreliable)


def choose(
    evidence: Evidence, answers: Mapping[str, float], source_error: float, weak: float, proportions: str
) -> Choice:
    """The weights of the methods: those of the three hypotheses, times each one's own table."""
    decided = "cot:shrunk" not in answers
    median = _median(answers, IF_PROPORTIONS_CHANGED_DECIDED if decided else IF_PROPORTIONS_CHANGED)
    differ = ramp(evidence.excess_mass, *CONSTANTS["excess_mass"]["range"])
    against = 0.0  # the evidence against the source's proportions
    if proportions == "changed" or (evidence.kind == "label" and proportions != "same"):
        differ = against = 1.0
    elif evidence.kind == "other" and proportions != "same":
        apart = abs(answers["scot:shrunk"] - answers[median if decided else "cott:mlls"])
        against = (1.0 - weak) * contradiction(apart, evidence.unexplained_mass)
    elif evidence.kind == "unknown" and proportions != "same":
        apart = abs(answers["scot:shrunk"] - answers[median])
        against = ramp(apart, *CONSTANTS["few_rows"]["range"])
    given_up = "label-shift" if evidence.kind in ("label", "unknown") else median
    near = CONSTANTS["given_up"]["calibration_held"]
    hard = 0.0 if decided else weak
    tables: list[tuple[float, dict[str, float]]] = [
        (1.0 - differ + differ * against * near, _if_calibrated(answers, source_error)),
        (differ * (1.0 - against), {"scot:shrunk": 1.0 - hard, "cot:shrunk": hard}),
        (differ * against * (1.0 - near), {given_up: 1.0}),
    ]
    weights: dict[str, float] = defaultdict(float)
    for of_hypothesis, table in tables:
        for label, weight in table.items():
            weights[label] += of_hypothesis * weight
    largest_first = sorted(((w, label) for label, w in weights.items() if w != 0.0), reverse=True)
    return Choice(
        {label: w for w, label in largest_first},
        reason_for(evidence.kind, differ, against, proportions),
        CONSTANTS["more_changed"]["added"] if evidence.kind == "other" else 0.0,
    )


def _if_calibrated(answers: Mapping[str, float], source_error: float) -> dict[str, float]:
    """Weights if calibration held; `unchanged` takes what a fall counts less, or a rise counts more."""
    weights: dict[str, float] = defaultdict(float, {"doc": 0.5})
    weights[_median(answers, IF_CALIBRATED) if "cot:shrunk" in answers else "atc-ne"] += 0.5
    rises = sum(w * answers[label] for label, w in weights.items()) >= source_error
    factor = CONSTANTS["confidence_loss" if rises else "confidence_gain"]["factor"]
    return {"unchanged": 1.0 - factor, **{label: factor * w for label, w in weights.items()}}


def _median(answers: Mapping[str, float], labels: tuple[str, ...]) -> str:
    return sorted(labels, key=lambda label: answers[label])[len(labels) // 2]
