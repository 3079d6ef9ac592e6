"""Labels of target rows as evidence: they update the distribution that the scores gave.

Prior: the distribution around `auto`'s answer (`shiftgauge.methods.range`), heavy-tailed, so that labels overrule a
wrong answer. Evidence: with m labelled rows, e_i = 1 where the prediction is wrong, and f_i = 1 - confidence as control
variate,

    estimate = mean(e) + lambda (mean of f over all rows - mean of f over the labelled rows),

lambda the slope of e on f over the labelled rows, in [0, 1], shrunk to 0 where few labels cannot show it. The
likelihood of an error theta is that of m' rows of which a share `estimate` is wrong, theta^k' (1 - theta)^(m' - k'),
with m' = m / (1 - r^2) / (1 - m / n): r^2 is the share of the variance that the control variate explains, 1 - m / n the
finite population correction. The answer is the posterior's median. No labels give the prior, all labels the labelled
error.

References: Angelopoulos et al., Prediction-Powered Inference, 2023; Angelopoulos, Duchi and Zrnic, PPI++, 2023; Hofer
et al., Bayesian Prediction-Powered Inference, 2024; Ji et al., Active Bayesian Assessment, 2021; Cochran, Sampling
Techniques, 1977.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge.binomial import wilson
from shiftgauge.errors import InputError
from shiftgauge.methods.range import (
    CONSTANTS,
    GRADE_LEVEL,
    STOP,
    ErrorDistribution,
    grade_of,
    range_of,
    sampling_interval,
    wide_range_warning,
)
from shiftgauge.results import Estimate, Interval, LabelSummary, Range
from shiftgauge.rows import Block, RowBuffer, Rows, Totals
from shiftgauge.validation.target_labels import UNKNOWN, TargetLabels

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

KIND: Final = "scores and labels together"
LABELS_KIND: Final = "labels alone, Wilson's, with finite population correction"
ALL_KIND: Final = "all rows are labelled"
#: Labelled and other rows are compared in so many bins of the error probability.
BINS = 5
NOT_RANDOM: Final = "; if they were not chosen at random, say labels_chosen='unknown'"
#: Rounds of raking: strata by confidence and by predicted class take turns.
RAKING = 20
#: Draws of random labels that the comparison is judged by, and the p-value below which it counts.
DRAWS, UNLIKELY = 2000, 0.01
#: From this share of labelled rows on, labels of unknown origin narrow the range.
MOST_LABELLED = 0.8
#: Points of the grid that posteriors are computed on: over [0, 1], at the prior's quantiles, around the labels'
#: estimate.
GRID = (501, 301, 241)


@dataclass(frozen=True, kw_only=True)
class LabelEvidence:
    """What the labels say of the error.

    Attributes:
        labels, errors: labelled rows, and those of them whose prediction is wrong.
        error: the estimate from labels with the scores as control variate.
        effective: how many random labels would say as much without the scores.
        fraction: the labelled share of the rows, by mass.
        least, most: bounds that the labelled rows alone give: their errors, and all rows but their right ones.
        weight: lambda, how far the scores are used.
        p_value: of the comparison of labelled rows with a random sample.
        post_stratified: whether the labels were weighted to represent all rows.
        plain_error: what the labels say without the scores.
        plain_effective: how many random labels they are worth without the scores.
    """

    labels: int = 0
    errors: int = 0
    error: float
    effective: float
    fraction: float
    least: float = 0.0
    most: float = 1.0
    weight: float = 0.0
    p_value: float = 1.0
    post_stratified: bool = False
    plain_error: float
    plain_effective: float


@dataclass(frozen=True, eq=False)
class GridDistribution:
    """The distribution of the error given scores and labels, on a grid.

    Attributes:
        edges: (m + 1,) errors, rising.
        cumulated: (m + 1,) the mass below each, from 0 to 1.
    """

    edges: Array
    cumulated: Array

    def quantile(self, share: float) -> float:
        """The error below which this share of the mass lies."""
        return float(np.interp(share, self.cumulated, self.edges))


def update(prior: ErrorDistribution, evidence: LabelEvidence) -> GridDistribution:
    """The posterior of the error.

    >>> prior = ErrorDistribution(0.1, 0.02, 0.03)
    >>> labels = LabelEvidence(error=0.4, effective=20.0, fraction=0.02, plain_error=0.4, plain_effective=20.0)
    >>> 0.1 < update(prior, labels).quantile(0.5) < 0.4
    True
    """
    if evidence.fraction >= 1.0:
        return GridDistribution(np.full(2, evidence.plain_error), np.array([0.0, 1.0]))
    count = evidence.effective / (1.0 - evidence.fraction)
    spread = sqrt(max(evidence.error * (1.0 - evidence.error), 0.25 / count) / count)
    uniform, quantiles, near = GRID
    edges = np.concatenate(
        [
            np.linspace(0.0, 1.0, uniform),
            [prior.quantile(share) for share in np.linspace(0.0, 1.0, quantiles)],
            evidence.error + spread * np.linspace(-6.0, 6.0, near),
        ]
    )
    edges = np.unique(np.clip(edges, evidence.least, evidence.most))
    if len(edges) < 2:
        return GridDistribution(np.full(2, evidence.plain_error), np.array([0.0, 1.0]))
    middle = np.clip((edges[1:] + edges[:-1]) / 2, 1e-12, 1.0 - 1e-12)
    wrong = evidence.error * count
    log_likelihood = wrong * np.log(middle) + (count - wrong) * np.log1p(-middle)
    below = prior.cdf(edges)
    if edges[0] == 0.0:  # a prior around 0 has mass at 0 itself
        below[0] = 0.0
    mass = np.maximum(np.diff(below), 1e-300) * np.exp(log_likelihood - log_likelihood.max())
    cumulated = np.append(0.0, np.cumsum(mass))
    return GridDistribution(edges, cumulated / cumulated[-1])


# -- from labelled rows to evidence ------------------------------------------------------------------------


def _labelled_sums(block: Block, keys: npt.NDArray[Any], by_id: bool, edges: Array) -> Totals:
    """What all rows are compared with (rows by bin and by predicted class, mass, mass times f), and the labelled rows.

    Bins are of f, cut at `edges`. Rows of no weight are not counted.
    """
    probability = 1.0 - block.confidence
    bins, predictions = np.searchsorted(edges, probability), np.asarray(block.predictions)
    counts = block.mass > 0.0
    labelled, place = find_labelled(block, keys, by_id)
    columns = (predictions, probability, block.mass, bins)
    return Totals(
        (
            np.bincount(bins[counts], minlength=BINS),
            np.bincount(predictions[counts], minlength=block.k),
            float(block.mass.sum()),
            float(block.mass @ probability),
            RowBuffer.of(place, *(column[labelled] for column in columns)),
        )
    )


def _comparable(ids: npt.NDArray[Any] | None, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Ids as what the labels' keys are: numbers, or texts."""
    assert ids is not None
    return ids if dtype.kind in "iu" and ids.dtype.kind in "iu" else ids.astype(str)


def find_labelled(block: Block, keys: npt.NDArray[Any], by_id: bool) -> tuple[Indices, Indices]:
    """The labelled rows of a block, and the place of each among the sorted keys."""
    mine = _comparable(block.ids, keys.dtype) if by_id else block.numbers
    place = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
    labelled = np.flatnonzero(keys[place] == mine)
    return labelled, place[labelled]


def sorted_labels(labels: TargetLabels, drawn: Block) -> TargetLabels:
    """The labels in the order of their keys, which are texts where the ids of the rows are no whole numbers."""
    keys = labels.keys
    if labels.by_id and drawn.ids is not None and drawn.ids.dtype.kind not in "iu":
        keys = keys.astype(str)
    order = np.argsort(keys, kind="stable")
    return replace(labels, keys=keys[order], classes=labels.classes[order])


async def collect_evidence(target: Rows, labels: TargetLabels) -> tuple[LabelEvidence, list[str]]:
    """Read the labelled rows of a target in one pass: what they say, and warnings."""
    drawn = await (await target.subsample()).collect()
    edges = np.quantile(1.0 - drawn.confidence, np.arange(1, BINS) / BINS)
    labels = sorted_labels(labels, drawn)
    bins, predicted, mass, probable, buffer = await target.fold(
        _labelled_sums, labels.keys, labels.by_id, np.asarray(edges)
    )
    place, predictions, probability, row_mass, row_bin = buffer.joined()
    _check_found(place, labels, target.n)
    wrong = (predictions != labels.classes[place]).astype(np.float64)
    counts = row_mass > 0.0
    if not counts.any():
        raise InputError("labels: every labelled row has weight 0; wanted labels of rows that count")
    both = Strata(row_bin[counts], bins, True), Strata(predictions[counts], predicted, False)
    p_values = [strata.p_value() for strata in both]
    p_value = min(1.0, 2.0 * min(p_values))  # Bonferroni
    differ = [strata for p, strata in zip(p_values, both, strict=True) if 2.0 * p < UNLIKELY]
    warnings = []
    if differ:
        unless = "" if labels.chosen == UNKNOWN else NOT_RANDOM
        warnings.append(
            f"the labelled rows differ from the others in predicted class or confidence (p = {p_value:.2g}): they were "
            f"weighted to represent all rows{unless}"
        )
    weights = np.zeros(len(wrong))
    weights[counts] = post_stratify(differ, int(counts.sum()))
    evidence = _evidence(wrong, probability, row_mass, weights, probable / mass, mass, target.n)
    return replace(evidence, p_value=p_value, post_stratified=bool(differ)), warnings


def _check_found(place: Indices, labels: TargetLabels, n: int) -> None:
    """Every label belongs to exactly one row."""
    count = np.bincount(place, minlength=len(labels.keys))
    if (count == 0).any():
        missing = labels.keys[int(np.argmin(count))].item()
        what = f"no row has the id {missing!r}" if labels.by_id else f"there is no row {missing}"
        wanted = "ids of target rows" if labels.by_id else f"row numbers from 0 to {n - 1}"
        raise InputError(f"labels: {what} in the target's {n:,} rows; wanted {wanted}")
    if (count > 1).any():
        twice = labels.keys[int(np.argmax(count))].item()
        raise InputError(f"labels: {int(count.max())} rows have the id {twice!r}; wanted an id for each row")


def _evidence(
    wrong: Array, probability: Array, row_mass: Array, weights: Array, probable: float, mass: float, n: int
) -> LabelEvidence:
    """The estimate, and how many random labels it is worth.

    Args:
        wrong, probability, row_mass: (m,) of the labelled rows: 1 if the prediction is wrong, f, and their mass.
        weights: (m,) with which they represent all rows.
        probable: the mean of f over all rows.
        mass, n: of all rows.
    """
    share = row_mass * weights / (row_mass * weights).sum()
    count = 1.0 / float(share @ share)  # Kish's effective number of labels
    error, mean = float(share @ wrong), float(share @ probability)
    off_f, off_e = probability - mean, wrong - error
    covariance, variance = float(share @ (off_f * off_e)), float(share @ (off_f * off_f))
    noise = error * (1.0 - error)
    slope = min(1.0, max(0.0, covariance / variance)) if variance > 0.0 else 0.0
    explained = slope * (2.0 * covariance - slope * variance) / noise if noise > 0.0 else 0.0
    if explained > 0.0:  # a slope that so few labels cannot show is shrunk to 0
        slope *= max(0.0, 1.0 - CONSTANTS["labels"]["shrinkage"] / (count * explained))
        explained = slope * (2.0 * covariance - slope * variance) / noise
    largest = CONSTANTS["labels"]["most_explained"]
    own = float(row_mass.sum()) / mass
    wrong_mass = float(row_mass @ wrong) / mass
    return LabelEvidence(
        labels=len(wrong),
        errors=int(wrong.sum()),
        error=min(1.0, max(0.0, error + slope * (probable - mean))),
        effective=count / (1.0 - min(max(explained, 0.0), largest)),
        fraction=1.0 if len(wrong) == n or own > 1.0 - 1e-12 else own,
        least=wrong_mass,
        most=min(1.0, 1.0 - (own - wrong_mass)),
        weight=slope,
        plain_error=min(1.0, error),
        plain_effective=count,
    )


@dataclass(frozen=True, eq=False)
class Strata:
    """Labelled rows and all rows by stratum.

    Attributes:
        stratum: (m,) that of each labelled row.
        rows: (s,) how many rows of the target are in each.
        ordered: whether a stratum without labels joins the one before; otherwise it is left out.
    """

    stratum: Indices
    rows: Indices
    ordered: bool

    def p_value(self) -> float:
        """How often as many random rows would differ as much from all rows, by chi-squared; by simulation."""
        used = np.argsort(
            self.rows, kind="stable"
        )  # so that the draws do not depend on the order of the classes
        used = used[self.rows[used] > 0]
        labelled, rows = np.bincount(self.stratum, minlength=len(self.rows))[used], self.rows[used]
        m, n = int(labelled.sum()), int(rows.sum())
        if len(rows) < 2 or m >= n:
            return 1.0
        expected = m * rows / n
        rng = np.random.default_rng(0)
        if n < 10**9:  # numpy draws without replacement up to here
            drawn = rng.multivariate_hypergeometric(rows, m, DRAWS, method="marginals")
        else:
            drawn = rng.multinomial(m, rows / n, DRAWS)
        statistic = ((drawn - expected) ** 2 / expected).sum(axis=1)
        mine = float(((labelled - expected) ** 2 / expected).sum())
        return float((1 + (statistic >= mine - 1e-9).sum()) / (1 + DRAWS))

    def factor(self, weights: Array) -> Array:
        """(m,) by which weights are multiplied so that strata have the target's shares."""
        labelled = np.bincount(self.stratum, minlength=len(self.rows)) > 0
        number = np.maximum(np.cumsum(labelled) - 1, 0)
        wanted = np.bincount(number, self.rows if self.ordered else self.rows * labelled)
        have = np.bincount(number[self.stratum], weights)
        return np.asarray((wanted / wanted.sum() / have)[number[self.stratum]])


def post_stratify(strata: Sequence[Strata], m: int) -> Array:
    """(m,) weights of the labelled rows with which every stratum has its share of the target, by raking."""
    weights = np.ones(m)
    for _ in range(RAKING if len(strata) > 1 else 1):
        for one in strata:
            weights = weights * one.factor(weights)
    return weights


# -- the answer ---------------------------------------------------------------------------------------------


async def with_labels(answer: Estimate, target: Rows, labels: TargetLabels) -> Estimate:
    """`auto`'s answer from the scores, updated with labels."""
    evidence, warnings = await collect_evidence(target, labels)
    details = {
        **answer.details,
        "scores_error": answer.error,
        "labels": {"chosen": labels.chosen, **asdict(evidence)},
    }
    # The grade is by the range at this level, which is also the one that answers are given at.
    updated = at_level(replace(answer, details=details), answer.n_source, answer.n_target, GRADE_LEVEL)
    assert updated.error is not None
    assert updated.range is not None
    assert updated.labels is not None
    longer_side = max(updated.range.high - updated.error, updated.error - updated.range.low)
    before = wide_range_warning(prior_of(answer).half_width(GRADE_LEVEL))
    warnings = [text for text in answer.warnings if text != before] + warnings
    if grade_of(longer_side) == STOP:
        warnings.append(wide_range_warning(longer_side))
    if updated.labels.contradicts:
        warnings.append(updated.labels.contradiction())
    return replace(updated, details={**details, "grade": grade_of(longer_side)}, warnings=tuple(warnings))


def prior_of(estimate: Estimate) -> ErrorDistribution:
    """The distribution that the scores alone gave for an answer of `auto`."""
    details = estimate.details
    error = details["scores_error"] if "labels" in details else estimate.error
    assert error is not None
    return ErrorDistribution(error, details["scale_low"], details["scale_high"])


def at_level(estimate: Estimate, n_source: float, n_target: float, level: float) -> Estimate:
    """An answer of `auto` with its range, and the sampling part of it, at another level; the grade stays."""
    prior = prior_of(estimate)
    if "labels" not in estimate.details:
        sampling = sampling_interval(prior.error, n_source, n_target, level)
        return replace(estimate, range=prior.range(level), sampling=sampling)
    stored = dict(estimate.details["labels"])
    chosen = stored.pop("chosen")
    evidence = LabelEvidence(**stored)
    posterior = update(prior, evidence)
    return replace(
        estimate,
        error=posterior.quantile(0.5),
        range=_range(prior, posterior, evidence, chosen, level),
        sampling=None,
        labels=_summary(prior, evidence, chosen, level),
    )


def _range(
    prior: ErrorDistribution,
    posterior: GridDistribution,
    evidence: LabelEvidence,
    chosen: str,
    level: float,
) -> Range:
    """The posterior's range; with labels of unknown origin its sides are at least as long as the prior's."""
    ends = range_of(posterior, level, ALL_KIND if evidence.fraction >= 1.0 else KIND)
    if chosen != UNKNOWN or evidence.fraction >= MOST_LABELLED:
        return ends
    before, error = prior.range(level), posterior.quantile(0.5)
    low = min(ends.low, error - (prior.error - before.low))
    high = max(ends.high, error + (before.high - prior.error))
    return Range(level, max(evidence.least, low, 0.0), min(evidence.most, high, 1.0), KIND)


def _summary(prior: ErrorDistribution, evidence: LabelEvidence, chosen: str, level: float) -> LabelSummary:
    """How many labels there are, what they say alone, what the scores alone said, and whether the two contradict."""
    alone = labels_alone(evidence, level)
    sure, before = labels_alone(evidence, 0.99), prior.range(0.9)
    return LabelSummary(
        n=evidence.labels,
        errors=evidence.errors,
        error=evidence.plain_error,
        range=alone,
        scores_error=prior.error,
        scores_range=prior.range(level),
        chosen=chosen,
        contradicts=sure.low > before.high or sure.high < before.low,
    )


def labels_alone(evidence: LabelEvidence, level: float) -> Interval:
    """Wilson's interval from the labels alone, with finite population correction."""
    from scipy.special import ndtri

    if evidence.fraction >= 1.0:
        return Interval(level, evidence.plain_error, evidence.plain_error, LABELS_KIND)
    rows = evidence.plain_effective / (1.0 - evidence.fraction)
    ends = wilson(evidence.plain_error, rows, float(ndtri(0.5 + level / 2)))
    return Interval(level, *ends, LABELS_KIND)
