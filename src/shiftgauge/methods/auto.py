"""auto: one answer for people who do not want to choose, with its reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError, ascribed, nearest
from shiftgauge.labelshift import JTest, unexplained
from shiftgauge.labelshift.cells import RunnerUps
from shiftgauge.methods.atc import ATCNE
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.methods.cot import COT
from shiftgauge.methods.cott import COTT
from shiftgauge.methods.doc import DoC
from shiftgauge.methods.label_shift import LabelShift
from shiftgauge.methods.novelty import Counts, QuartileCells, Rows
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.scot import SCOT
from shiftgauge.methods.shift import label_shift_test
from shiftgauge.methods.span import (
    KIND,
    RANGE_LEVEL,
    SAMPLING_KIND,
    STOP,
    Span,
    Steps,
    range_details,
    span,
)
from shiftgauge.methods.unchanged import Unchanged
from shiftgauge.methods.view import View
from shiftgauge.results import Interval
from shiftgauge.scans import Total
from shiftgauge.validation import check_count

Array = npt.NDArray[np.float64]

#: What the user may know about the target's class proportions.
PROPORTIONS: Final = {
    "unknown": "nothing is known: the scores decide how far the source's class proportions are believed",
    "same": "the target has the source's class proportions",
    "changed": "the target's class proportions differ from the source's",
}
#: As novelty goes from the first to the second, the answer goes from the methods that take the source's
#: calibration for valid to those that do not.
FAMILIAR, NOVEL = 0.03, 0.08
#: A gain in confidence is believed by so much, a loss by so much: under a shift errors rarely fall as far as
#: confidence says, and mostly rise further, since calibration suffers too.
GAIN, LOSS = 0.5, 1.25
#: The unexplained mass r is the share of the target's (class, runner-up) pairs that the source cannot show at
#: any label shares. Where only Fashion-MNIST's images changed, SCOT at the source's proportions and COTT at the
#: MLLS ones differed by at most 1.2 r^2; from 2 r^2 on, those proportions are refuted.
BELIEVED, REFUTED = 1.25, 2.0
#: No difference smaller than this is held against the source's proportions.
SLIGHT = 0.02
#: Where r is beyond about a half, the confidences are lost too, and nothing can be said against the proportions.
LUCID, LOST = 0.5, 0.6
#: A model whose source error reaches so much of a blind guess's (1 - 1/K) confuses its classes at home: what its
#: scores say about proportions is not believed any more, and the hard plan answers in place of the soft one.
SHARP, BLUNT = 0.3, 0.45
#: The methods whose middle one has half the say near the source.
NEAR: Final = ("doc", "cot:shrunk", "atc-ne")
#: Where the source's proportions are refuted: three methods that do not use them, and two that keep the middle one
#: from a runaway of all three.
FREE: Final = ("atc-ne", "cott:mlls", "label-shift", "doc", "scot:shrunk")
#: The same where deployed decisions differ from the largest score, so that COT and COTT have no answer.
FREE_DECIDED: Final = ("atc-ne", "label-shift", "doc")


@dataclass(frozen=True)
class Part:
    """One method of a choice: its registry name, its marginal (where it takes one), its weight in the answer."""

    method: str
    marginal: str | None
    weight: float

    @property
    def label(self) -> str:
        """The method with its marginal: `scot:shrunk`."""
        return self.method if self.marginal is None else f"{self.method}:{self.marginal}"


@dataclass(frozen=True)
class Choice:
    """What `auto` took, and why.

    Attributes:
        parts: the methods with their weights, which sum to 1, the heaviest first; `unchanged` may have one below 0.
        reason: one sentence.
    """

    parts: tuple[Part, ...]
    reason: str

    @staticmethod
    def of(weights: Mapping[str, float], reason: str) -> Choice:
        """A choice from weights by label."""
        kept = sorted(((w, label) for label, w in weights.items() if w != 0.0), reverse=True)
        parts = [
            Part(method, marginal or None, w)
            for w, label in kept
            for method, _, marginal in [label.partition(":")]
        ]
        return Choice(tuple(parts), reason)

    def __str__(self) -> str:
        """The parts; a weight of `unchanged` below 0 is what comes on top of the others' rise over the source."""
        kept = [part for part in self.parts if part.weight > 0.0]
        whole = sum(part.weight for part in kept)
        rise = f", plus {100 * (whole - 1.0):.0f}% of the rise" if len(kept) < len(self.parts) else ""
        if len(kept) == 1:
            return kept[0].label + rise
        return ", ".join(f"{100 * part.weight / whole:.0f}% {part.label}" for part in kept) + rise


@dataclass(frozen=True)
class Signs:
    """What the two samples show of the shift.

    Attributes:
        kind: of shift, by the J test (`shiftgauge.labelshift.JTest.kind`).
        novelty: the target's mass where the source hardly has any (`shiftgauge.methods.novelty`).
        strange: the mass of (class, runner-up) pairs that no label shares explain.
        unlike: how far the confidences are apart (`shiftgauge.methods.span.unlikeness`).
        blunt: how far the model confuses its classes at home, 0 (sharp) to 1 (`bluntness`).
    """

    test: JTest
    kind: str
    novelty: float
    strange: float
    unlike: float
    blunt: float


class Auto(Estimator):
    """Look at what changed, then choose.

    Two readings of one target are both coherent: calibration held and the class proportions followed the
    inputs (then DoC is right), or the proportions held and calibration broke (then SCOT is). Scores cannot
    decide in general; *novelty* is the hint that carried over to data it was not tuned on.

    1. Little is novel: **near** the source. The mean of DoC and the middle one of DoC, COT and ATC-NE. Where
       that is below the source's error, half the fall is believed; where it is above, the rise counts 1.25
       times (as a weight, `unchanged` is then below zero).
    2. Much is novel: **far** from it. If other class proportions explain the difference
       (`shiftgauge.labelshift.j_test`), label-shift. If more changed, SCOT at the source's proportions, unless
       they are refuted: let r be the mass of (predicted class, runner-up) pairs that no label shares explain,
       and d the difference between SCOT and COTT at the MLLS marginal, which does not use the source's
       proportions q. Up to d = 1.25 r^2, q is believed; from 2 r^2 on it is refuted, and the middle one of
       five methods answers, three of which do not use q. As r goes from 0.5 to 0.6, that fades out: confidence
       means nothing any more. As the source error, relative to blind guessing, goes from 0.3 to 0.45, COT
       takes SCOT's place and nothing is refuted: a model that confuses its classes at home cannot say much.
    3. Between novelty 0.03 and 0.08 the two are mixed.

    `proportions="same"` never gives up q; `"changed"` always does, without waiting for novelty or for the test,
    and takes near and the methods that do not use q at equal weights.

    Where deployed decisions differ from the largest score, COT and COTT have no answer. Then near is the mean of DoC
    and ATC-NE, far is SCOT, d is the difference between SCOT and the median of ATC-NE, label-shift and DoC, and that
    median answers where q is given up.

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

    def _methods(self, decided: float | None) -> dict[str, Estimator]:
        """The methods that can have a part in the answer, by label; `decided` as in `Source.decided`."""
        c = self.calibration
        methods: dict[str, Estimator] = {
            "unchanged": Unchanged(c),
            "doc": DoC(c),
            "atc-ne": ATCNE(c),
            "cot:shrunk": COT(c, "shrunk"),
            "cott:mlls": COTT(c, "mlls"),
            "scot:shrunk": SCOT(c, "shrunk"),
            "label-shift": LabelShift(c),
        }
        return {label: method for label, method in methods.items() if not (decided and method.needs_argmax)}

    def _learn(self, source: View) -> None:
        rows = Rows.of(source)
        self.source_rows_: dict[str, Any] = {
            "predictions": rows.predictions,
            "runner_up": rows.runner_up,
            "confidence": rows.confidence,
            "mass": rows.mass,
        }
        self.source_labels_ = source.labels
        self.source_decided_ = source.sample.decided
        shared = set(vars(self))
        self.learned_ = {
            label: {
                name: value for name, value in vars(method.fitted_on(source)).items() if name not in shared
            }
            for label, method in self._methods(self.source_decided_).items()
        }

    def _fitted(self, decided: float | None = None) -> dict[str, Estimator]:
        """The methods as they were fitted; all they share is this estimator's own state."""
        own = {name: value for name, value in vars(self).items() if name.endswith("_")}
        methods = self._methods(decided or self.source_decided_)
        for label, method in methods.items():
            vars(method).update({**own, **self.learned_[label]})
        return methods

    def _read(self, target: View | ScanView) -> Reading:
        answers: dict[str, float] = {}
        shares: Array = self.label_marginal_
        warnings: list[str] = []
        # A scan knows its decisions once it was read: there the methods that refuse them are dropped afterwards.
        methods = self._fitted(None if isinstance(target, ScanView) else target.sample.decided)
        tasks: list[Callable[[], Any]] = [partial(method._read, target) for method in methods.values()]
        tasks.append(partial(self._look, target))
        *readings, seen = target.together(tasks)
        decided = target.sample.decided
        for label, reading in zip(methods, readings, strict=True):
            assert reading.error is not None
            if decided and methods[label].needs_argmax:
                continue
            answers[label] = float(np.clip(reading.error, 0.0, 1.0))
            warnings += [ascribed(methods[label].title, text) for text in reading.warnings]
            if label == "label-shift":
                shares = np.asarray(reading.details["label_marginal"])
        signs = seen(shares)
        choice = choose(signs, answers, self.source_error_, self.proportions)
        error = float(np.clip(sum(part.weight * answers[part.label] for part in choice.parts), 0.0, 1.0))
        if self.proportions == "same" and signs.kind == "label":
            warnings.append(
                "the class proportions were said to be the source's, but other proportions explain all that changed"
            )
        band = span(
            answers,
            error,
            signs.kind,
            signs.unlike,
            signs.blunt,
            self.n_source_effective_,
            target.n_effective,
            proportions=self.proportions,
            level=RANGE_LEVEL,
        )
        if band.grade == STOP:
            warnings.append(
                f"the range that held where it was measured reaches {100 * band.reach:.0f} points from the answer: "
                "do not act on the number alone; label some rows (shiftgauge budget)"
            )
        details = _details(choice, signs, answers, self.proportions, band)
        return Reading(
            error=error,
            details=details,
            warnings=warnings,
            interval=Interval(RANGE_LEVEL, band.low, band.high, KIND),
            sampling=Interval(RANGE_LEVEL, band.sampling_low, band.sampling_high, SAMPLING_KIND),
        )

    def _look(self, target: View | ScanView) -> Callable[[Array], Signs]:
        """What the samples show of the shift, once the target's label shares by MLLS are known."""
        source = Rows(**self.source_rows_, k=target.k, n_effective=self.n_source_effective_)
        k, mass = target.k, source.mass
        cells, steps = QuartileCells.of(source), Steps.of(source)
        pairs = RunnerUps.of(source.predictions, source.runner_up, k)

        def count(rows: View) -> Total:
            w = rows.weights
            confident = np.bincount(steps.cell(rows), w, steps.count)
            paired = np.bincount(pairs.cell(rows.predictions, rows.runner_up), w, pairs.count)
            return Total((*cells.counted(rows, w), confident, paired, float(w.sum())))

        (test, left, right), (held, beyond, confident, paired, total) = target.together(
            [
                lambda: label_shift_test(source, self.source_labels_, target, self.seed),
                lambda: target.fold(count),
            ]
        )
        novel = held / total, Counts({cell: w / total for cell, w in beyond.items()})
        if k > 2:  # of two classes the runner-up says nothing new: the confidences stand in
            left, right = pairs.cell(source.predictions, source.runner_up), paired / total

        def signs(shares: Array) -> Signs:
            return Signs(
                test,
                test.kind(),
                cells.novel(source, novel, target.n_effective),
                unexplained(left, self.source_labels_, mass, right, shares),
                steps.farthest(confident / total),
                bluntness(self.source_error_, k),
            )

        return signs

    def parts(self, details: Mapping[str, Any]) -> list[tuple[float, Estimator]]:
        """The fitted methods behind an answer with these details, with their weights."""
        fitted = self._fitted()
        chosen = [Part(**part) for part in details["parts"]]
        return [(part.weight, fitted[part.label]) for part in chosen]


def check_proportions(proportions: Any) -> None:
    """Refuse what is not known about class proportions, with the nearest word that is."""
    if not isinstance(proportions, str) or proportions not in PROPORTIONS:
        raise InputError(
            f"proportions {proportions!r} is not known; wanted one of {', '.join(PROPORTIONS)}"
            f"{nearest(str(proportions), PROPORTIONS)}"
        )


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, a straight line between."""
    return float(np.clip((value - low) / (high - low), 0.0, 1.0))


def bluntness(source_error: float, k: int) -> float:
    """How far a model confuses its k classes at home: 0 (sharp) to 1 (blunt)."""
    return ramp(source_error / max(1.0 - 1.0 / k, 0.5), SHARP, BLUNT)


def refuted(difference: float, strange: float) -> float:
    """How far the source's proportions are refuted: 0 (believed) to 1 (refuted)."""
    low, high = max(SLIGHT, BELIEVED * strange**2), max(2.0 * SLIGHT, REFUTED * strange**2)
    return ramp(difference, low, high) * (1.0 - ramp(strange, LUCID, LOST))


def choose(signs: Signs, answers: Mapping[str, float], source_error: float, proportions: str) -> Choice:
    """The methods' weights: the rule of `Auto`, from what was seen and what is known."""
    novel = 1.0 if proportions == "changed" else ramp(signs.novelty, FAMILIAR, NOVEL)
    decided = "cot:shrunk" not in answers
    free = _middle(answers, FREE_DECIDED if decided else FREE)
    given_up = 0.0
    if proportions == "changed":
        given_up = 1.0
    elif signs.kind == "other" and proportions != "same":
        apart = abs(answers["scot:shrunk"] - answers[free if decided else "cott:mlls"])
        given_up = (1.0 - signs.blunt) * refuted(apart, signs.strange)
    if signs.kind == "label" and proportions != "same":
        free, given_up = "label-shift", 1.0
    share = 0.5 if proportions == "changed" else 1.0
    hard = 0.0 if decided else signs.blunt
    weights: dict[str, float] = defaultdict(float)
    weights["scot:shrunk"] += novel * (1.0 - given_up) * (1.0 - hard)
    weights["cot:shrunk"] += novel * (1.0 - given_up) * hard
    weights[free] += novel * given_up * share
    for label, w in _near(answers, source_error).items():
        weights[label] += (1.0 - novel + novel * given_up * (1.0 - share)) * w
    return Choice.of(weights, _reason(signs.kind, novel, given_up, proportions))


def _near(answers: Mapping[str, float], source_error: float) -> dict[str, float]:
    """Weights where the target is familiar."""
    weights: dict[str, float] = defaultdict(float, {"doc": 0.5})
    weights[_middle(answers, NEAR) if "cot:shrunk" in answers else "atc-ne"] += 0.5
    lost = sum(w * answers[label] for label, w in weights.items()) >= source_error
    believed = LOSS if lost else GAIN
    return {"unchanged": 1.0 - believed, **{label: believed * w for label, w in weights.items()}}


def _middle(answers: Mapping[str, float], names: tuple[str, ...]) -> str:
    return sorted(names, key=lambda name: answers[name])[len(names) // 2]


def _reason(kind: str, novel: float, given_up: float, proportions: str) -> str:
    """Why these weights: what the test shows, then what the answer therefore rests on."""
    test = {
        "none": "no difference between source and target beyond sampling noise was seen",
        "label": "other class proportions could explain the difference",
        "other": "class proportions alone do not explain the difference",
        "unknown": "there are too few rows per class to tell which kind of shift it is",
    }[kind]
    if proportions == "changed":
        rests = "you said that the class proportions changed, so the answer does not rest on the source's proportions"
    elif novel <= 0.0:
        rests = (
            f"{'but ' if kind in ('label', 'other') else ''}the scores lie where the source's do, so the answer "
            "follows the change in confidence, a rise in error more than a fall"
        )
    else:
        where = "much" if novel >= 1.0 else "part"
        mixed = "" if novel >= 1.0 else ", in part on the change in confidence"
        rests = f"{where} of the target has scores that the source hardly has, so the answer rests on " + (
            "the source's class proportions, as you said"
            if proportions == "same"
            else "class proportions estimated from the scores"
            if kind == "label"
            else "the source's class proportions"
            if given_up <= 0.0
            else "the median of several methods, since the scores do not fit the source's class proportions"
            if given_up >= 1.0
            else "the source's class proportions in part, since the scores fit them poorly"
        )
        rests += mixed
    return f"{test}; {rests}"


def _details(
    choice: Choice, signs: Signs, answers: Mapping[str, float], proportions: str, band: Span
) -> dict[str, Any]:
    return {
        "choice": str(choice),
        "parts": [{"method": p.method, "marginal": p.marginal, "weight": p.weight} for p in choice.parts],
        "reason": choice.reason,
        "proportions": proportions,
        "shift": signs.kind,
        "p_value": signs.test.p_value,
        "explained_by_reweighting": signs.test.explained,
        "novelty": signs.novelty,
        "unexplained_mass": signs.strange,
        "unlikeness": signs.unlike,
        "bluntness": signs.blunt,
        "answers": dict(answers),
        "grade": band.grade,
        **range_details(band, RANGE_LEVEL),
    }
