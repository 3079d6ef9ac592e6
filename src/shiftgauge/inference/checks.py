"""The doctor's checks: each looks at one thing and says what was measured, what it means, what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import Temperature, log_scores, softmax
from shiftgauge.calibration.temperature import HIGHEST, LOWEST
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.range import CAUTION, OK, STOP
from shiftgauge.methods.registry import find
from shiftgauge.results import percent, percent_range
from shiftgauge.rows import Block, run

Indices = npt.NDArray[np.intp]

#: The methods whose answers are compared, and the marginals of SCOT that are.
COMPARED, ASSUMED = ("atc-ne", "doc", "cott", "scot", "label-shift"), ("source", "shrunk", "rlls", "mlls")
#: The check whose grade was calibrated on data: "ok" and "caution" of the whole are its.
RANGE, LABELS = "range", "labels"
#: A model this much less confident than right was trained on soft labels or averages votes: -10 and -9 points with
#: label smoothing and mixup, -13 and -14 with forests, -0.5 to -3 without (benchmarks/soft_labels.py, voting.py).
UNDERCONFIDENT = 0.05
#: Models that vote have fewer different confidences than this share of their rows, if there are rows enough to tell.
FEW_VALUES, MIN_VOTES = 0.3, 50


def compared_methods(pair: Pair) -> list[str]:
    """The methods whose answers are compared; without COTT if deployed decisions differ from the largest score."""
    return [name for name in COMPARED if pair.follows_argmax or not find(name).needs_argmax]


def needed_estimates(pair: Pair) -> list[tuple[str, dict[str, Any]]]:
    """The estimates that the checks need beside `auto`, to be computed together."""
    return [
        *((name, {}) for name in compared_methods(pair)),
        *(("scot", {"marginal": name}) for name in ASSUMED),
    ]


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        status: `"ok"`, `"caution"` or `"stop"`.
        value: what was measured; a number, a text, or None.
        meaning: what it means.
        advice: what to do; empty if nothing needs doing.
    """

    name: str
    status: str
    value: Any
    meaning: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.status == OK:
            object.__setattr__(self, "advice", "")

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values."""
        return dict(vars(self))


def names(pair: Pair, which: Indices) -> str:
    """Class names, the first five."""
    return ", ".join(str(pair.classes[int(j)]) for j in which[:5]) + (", ..." if len(which) > 5 else "")


def row_numbers(pair: Pair) -> tuple[Indices, Indices]:
    """A number for each row of source and of target: the same if the scores are exactly the same.

    Of a large target, for the rows of its subsample.
    """
    return run(pair.target.once("row numbers", _row_numbers, pair))


async def _row_numbers(pair: Pair) -> tuple[Indices, Indices]:
    drawn = await pair.target.subsample()
    return number_rows(await pair.source.collect(), await drawn.collect())


def number_rows(source: Block, target: Block) -> tuple[Indices, Indices]:
    """A number for each row of the two samples; rows with equal scores have equal numbers."""
    left, right = source.scores, target.scores
    if source.kind != target.kind:  # logits never equal probabilities
        own = _numbers(left)
        return own, _numbers(right) + len(own)
    common = min(left.dtype, right.dtype, key=lambda kind: kind.itemsize)
    number = _numbers(np.concatenate([left.astype(common), right.astype(common)]))
    return number[: len(left)], number[len(left) :]


def grade(value: float, caution: float, stop: float) -> str:
    """`ok` below the first limit, `caution` below the second, else `stop`."""
    return OK if value < caution else CAUTION if value < stop else STOP


def answer_range(pair: Pair, proportions: str = "unknown") -> Check:
    """How far the answer can be off, where such ranges were measured: the grade that counts."""
    found = pair.estimate("auto", proportions=proportions)
    assert found.error is not None
    assert found.range is not None
    limits = found.range
    status = found.details["grade"]
    farthest = max(limits.high - found.error, found.error - limits.low)
    return Check(
        RANGE,
        status,
        {"error": found.error, "low": limits.low, "high": limits.high},
        f"{percent_range(limits.low, limits.high)} ({100 * limits.level:g}%), up to {100 * farthest:.0f} points from "
        f"auto's {percent(found.error)}",
        "do not act on the number alone: label some rows (shiftgauge label-plan)",
    )


def label_evidence(pair: Pair, proportions: str = "unknown") -> Check:
    """What labels of the target say beside the scores, and whether the labelled rows represent all rows."""
    found = pair.estimate("auto", proportions=proportions)
    assert found.labels is not None
    said = found.labels
    not_random = bool(found.details["labels"]["post_stratified"])
    advice = []
    if said.contradicts:
        advice.append("label more rows at random: the scores mislead here, and the answer follows the labels")
    if not_random:
        advice.append(
            "choose rows by a plan (shiftgauge label-plan): these are no random sample of the target's rows"
        )
    return Check(
        LABELS,
        CAUTION if advice else OK,
        {
            "labels": said.n,
            "errors": said.errors,
            "labels_alone": said.error,
            "scores_alone": said.scores_error,
        },
        f"{said.contradiction()}; {said.sentence()}" if said.contradicts else said.sentence(),
        "; ".join(advice),
    )


def size(pair: Pair) -> Check:
    """Few rows are read as shift: the bias of COT, COTT and SCOT."""
    n, k = min(pair.source.n_effective, pair.target.n_effective), pair.k
    noise = np.sqrt((k - 1) / k / n)  # the typical distance of label shares from their expectation
    bias = 0.8 * float(noise)
    return Check(
        "rows",
        STOP if n < 30 else grade(bias, 0.02, 0.2),
        {"source": pair.source.n, "target": pair.target.n, "possible_bias": bias},
        f"sampling noise alone can move the transport methods by up to about {100 * bias:.1f} points",
        "use marginal='shrunk', show intervals, or gather more rows",
    )


def correction(pair: Pair) -> Check:
    """Probabilities that had to be renormalised."""
    worst = max(pair.source.correction, pair.target.correction)
    return Check(
        "row sums",
        grade(worst, 1e-3, 1.0),
        worst,
        f"rows of probabilities sum to 1 within {worst:.1g}; they are renormalised"
        if worst > 0.0
        else "no row had to be renormalised",
        "pass logits, or probabilities in full precision",
    )


def _confidence_and_accuracy(pair: Pair) -> tuple[float, float]:
    """On the source, before calibration."""
    source = pair.source_block
    raw = softmax(log_scores(source.scores, source.kind))
    return float(source.row_share @ source.at_prediction(raw)), 1.0 - pair.source_sample.error


def overconfidence(pair: Pair) -> Check:
    """Confidence before calibration against accuracy on the source."""
    confidence, accuracy = _confidence_and_accuracy(pair)
    gap = confidence - accuracy
    return Check(
        "source confidence",
        grade(gap, 0.1, 0.4),
        {"confidence": confidence, "accuracy": accuracy},
        f"before calibration the model is {percent(confidence)} confident on the source and {percent(accuracy)} right "
        f"({100 * gap:+.1f} points)",
        "calibration repairs an even excess; far too much suggests labels in the wrong order",
    )


def soft_scores(pair: Pair) -> Check:
    """Training on soft labels, and models that vote, as the source alone shows them."""
    confidence, accuracy = _confidence_and_accuracy(pair)
    source = pair.source_block
    noise = np.sqrt(accuracy * (1.0 - accuracy) / pair.source.n_effective)
    values = len(np.unique(source.scores.max(axis=1)))
    soft = confidence - accuracy < -max(UNDERCONFIDENT, 3.0 * noise)
    votes = source.kind == "probs" and source.n >= MIN_VOTES and values <= FEW_VALUES * source.n
    signs = []
    if soft:
        signs.append(
            f"before calibration the model is {100 * (accuracy - confidence):.1f} points less confident on the source "
            "than right, as after training on soft labels (label smoothing, mixup, distillation) or with averaged votes"
        )
    if votes:
        signs.append(
            f"{source.n:,} source rows have {values:,} different confidences: the model votes, or scores were rounded"
        )
    return Check(
        "soft labels or votes",
        CAUTION if signs else OK,
        {"confidence_minus_accuracy": confidence - accuracy, "different_confidences": values},
        "; ".join(signs) or "the source shows no sign of soft labels or votes",
        "calibration mends the source, not the shifted target: confidence-based methods may miss by more here; "
        "label some rows (shiftgauge label-plan)",
    )


def leakage(pair: Pair) -> Check:
    """A source without errors was probably trained on."""
    error = pair.source_sample.error
    errors = error * pair.source.n
    status = STOP if errors == 0 else CAUTION if error < 0.005 or errors < 10 else OK
    return Check(
        "source errors",
        status,
        {"error": error, "count": round(errors)},
        f"{round(errors):,} of {pair.source.n:,} source rows are wrong ({percent(error)}); methods that learn a "
        "threshold learn it from them",
        "is the source part of the training data? use rows that the model has not seen",
    )


def calibration(pair: Pair) -> Check:
    """ECE before and after."""
    report = pair.calibration.report
    after = report["ece_after"]
    return Check(
        "calibration",
        grade(after, 0.05, 0.15),
        {"ece_before": report["ece_before"], "ece_after": after},
        f"confidence and accuracy on the source lie {100 * after:.1f} points apart after calibration, "
        f"{100 * report['ece_before']:.1f} before",
        "try calibration='vector', or a larger source",
    )


def temperature(pair: Pair) -> Check:
    """A temperature at the end of its range."""
    fitted = pair.calibration.calibrator
    if not isinstance(fitted, Temperature):
        return Check("temperature", OK, None, "no temperature was fitted")
    inside = LOWEST < fitted.temperature < HIGHEST
    return Check(
        "temperature",
        OK if inside else STOP,
        fitted.temperature,
        f"log-scores are divided by {fitted.temperature:.3g}" + ("" if inside else ", the end of the range"),
        "check that labels and scores belong to the same rows, and which are logits",
    )


def unseen(pair: Pair) -> Check:
    """Classes without source labels, or never predicted on the target."""
    no_label = np.flatnonzero(pair.source_sample.label_marginal == 0.0)
    no_prediction = np.flatnonzero(run(pair.target.moments()).pseudo_labels == 0.0)
    problems = []
    if len(no_label):
        problems.append(f"no source label is {names(pair, no_label)}")
    if len(no_prediction):
        problems.append(f"nothing in the target is predicted as {names(pair, no_prediction)}")
    return Check(
        "classes",
        CAUTION if problems else OK,
        {"without_labels": len(no_label), "never_predicted": len(no_prediction)},
        "; ".join(problems) or "every class has source labels and target predictions",
        "such classes cannot be judged; leave them out, or label some rows of them" if problems else "",
    )


def saturation(pair: Pair) -> Check:
    """Scores that are exactly 0 or 1."""
    both = (pair.source, pair.target)
    shares = [0.0 if pair.k == 1 else run(rows.share(_certain)) for rows in both]
    worst = max(shares)
    rounded = max(
        [share for share, rows in zip(shares, both, strict=True) if rows.kind == "probs"], default=0.0
    )
    advice = "are these logits as they leave the network? such large ones say certain where nothing is"
    if rounded >= 0.05:
        advice = "pass logits instead of probabilities: rounded certainty cannot be calibrated"
    return Check(
        "saturated scores",
        STOP if rounded >= 0.9 else grade(worst, 0.05, np.inf),  # a temperature can still spread large logits
        {"source": shares[0], "target": shares[1]},
        f"{_both(shares)} rows have a highest probability of exactly 1"
        + ("" if worst == 0.0 else ", as given or by the softmax of their logits"),
        advice,
    )


def _certain(rows: Block) -> npt.NDArray[np.bool_]:
    """(b,) whether the highest probability is exactly 1."""
    p = rows.scores if rows.kind == "probs" else softmax(log_scores(rows.scores, rows.kind))
    return np.asarray(p.max(axis=1) >= 1.0)


def ties(pair: Pair) -> Check:
    """Mass whose side of COTT's threshold ties could change."""
    if not pair.follows_argmax:
        return Check(
            "ties at the threshold", OK, None, "COTT is left out: the decisions are not the largest score"
        )
    tied = float(pair.estimate("cott").details["tie_mass"])
    return Check(
        "ties at the threshold",
        grade(tied, 0.01, 0.2),
        tied,
        f"another equally good plan could move {percent(tied)} of the target across COTT's threshold",
        "rows tie because scores are rounded: pass logits or full precision; prefer SCOT",
    )


def duplicates(pair: Pair) -> Check:
    """Rows that occur more than once in the source, or in the target."""
    source, target = (1.0 - len(np.unique(rows)) / len(rows) for rows in row_numbers(pair))
    worst = max(source, target)
    return Check(
        "duplicate rows",
        grade(worst, 0.05, 0.8),
        {"source": source, "target": target},
        f"{_both((source, target))} rows repeat the scores of an earlier row exactly{_looked_at(pair)}",
        "intervals take rows to be independent: drop duplicates, or pass groups=",
    )


def shared(pair: Pair) -> Check:
    """Target rows that are source rows."""
    source, target = row_numbers(pair)
    share = float(np.isin(target, source).mean())
    return Check(
        "shared rows",
        grade(share, 0.05, np.inf),
        share,
        f"{percent(share)} of target rows have exactly the scores of a source row{_looked_at(pair)}",
        "are these rows in both? their labels are known: leave them out, or count the errors",
    )


def _looked_at(pair: Pair) -> str:
    """How many of the target's rows were looked at, if not all were."""
    n = pair.subsample.target.n
    return "" if n == pair.target.n else f" (of {n:,} target rows looked at)"


def _both(shares: Sequence[float]) -> str:
    """The shares of source and of target as text."""
    if shares[0] == shares[1] == 0.0:
        return "no"
    return f"{percent(shares[0])} of source and {percent(shares[1])} of target"


def _numbers(scores: npt.NDArray[Any]) -> Indices:
    """(n,) row numbers, the same for rows that are the same."""
    rows = np.ascontiguousarray(scores + scores.dtype.type(0))  # -0.0 becomes 0.0, the same number
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def shift_kind(pair: Pair) -> Check:
    """Which shift is it?"""
    found = pair.shift
    unknown = found.test.p_value is None
    advice = {
        "none": "",
        "label": "trust label-shift, or marginal='mlls'; methods that take the source's proportions mislead here",
        "other": "class proportions alone do not explain the shift: label-shift is not enough; compare several methods",
        "unknown": "more rows per class would tell",
    }[found.kind]
    return Check(
        "which shift",
        OK if found.kind == "none" else CAUTION,
        None
        if unknown
        else {"kind": found.kind, "p_value": found.test.p_value, "explained": found.test.explained},
        found.sentence(),
        advice,
    )


def lower_bound(pair: Pair) -> Check:
    """The paper's lower bound under unchanged label shares."""
    shift = pair.shift.pseudo_label_shift
    return Check(
        "predicted classes",
        grade(shift, 0.1, 1.1),
        shift,
        f"the target's predictions lie {100 * shift:.1f} points from the source's labels; if the true labels keep the "
        f"source's proportions, the error is at least {percent(pair.shift.scot_bound)}",
        "either many predictions are wrong, or the class proportions changed: which is it?",
    )


def disagreement(pair: Pair) -> Check:
    """How far apart the methods are."""
    answers = {name: pair.error(name) for name in compared_methods(pair)}
    spread = max(answers.values()) - min(answers.values())
    return Check(
        "methods disagree",
        grade(spread, 0.08, np.inf),  # what it is worth is in the range
        {"spread": spread, **answers},
        f"the methods' estimates lie {100 * spread:.1f} points apart",
        "no single number is safe: show the range, and label some rows (shiftgauge label-plan)",
    )


def marginal(pair: Pair) -> Check:
    """How the answer moves with the marginal."""
    answers = {name: pair.error("scot", marginal=name) for name in ASSUMED}
    spread = max(answers.values()) - min(answers.values())
    return Check(
        "class proportions matter",
        grade(spread, 0.05, np.inf),  # what it is worth is in the range
        {"spread": spread, **answers},
        f"SCOT moves by {100 * spread:.1f} points with what is assumed about the target's class proportions",
        "find out the target's class proportions and pass them as marginal=",
    )


CHECKS: tuple[Callable[[Pair], Check], ...] = (
    answer_range,
    size,
    correction,
    overconfidence,
    soft_scores,
    leakage,
    calibration,
    temperature,
    unseen,
    saturation,
    ties,
    duplicates,
    shared,
    shift_kind,
    lower_bound,
    disagreement,
    marginal,
)
