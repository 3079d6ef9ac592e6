"""Decisions from `auto`'s answer and its range: at most how wrong, still good enough, which model is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from shiftgauge import validation
from shiftgauge.errors import InputError, prefix
from shiftgauge.inference.critic import Discrepancy, discrepancy
from shiftgauge.inference.estimates import estimate
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.range import RANGE_LEVEL, check_level
from shiftgauge.results import Result, Table, percent
from shiftgauge.rows import AnySource, AnyTarget
from shiftgauge.validation.target_labels import RANDOM

#: From here on a ceiling says nothing.
VACUOUS = 0.95
SUITABLE, NOT, UNSURE = "suitable", "not suitable", "cannot say"
#: Of pairs of models on natural tables whose expected errors differ by so much, this share had the order right.
MEASURED: Final = ((0.0, 0.5), (0.01, 0.6), (0.02, 0.65), (0.03, 0.8), (0.1, 0.82), (1.0, 0.85))


@dataclass(frozen=True, repr=False)
class Ceiling(Result):
    """The error is at most this.

    Attributes:
        value: the ceiling.
        error: the estimate it stands above.
        level: the coverage that was measured on natural targets of families left out.
        largest: the method that allows the largest error, and
        largest_error: what it says.
        margin: what all methods missed where it was measured, added to it, and
        sampling: the sampling error of source and target rows, label noise included; 0 with labels, whose margin holds
            all of it.
        critic: the disagreement discrepancy, and
        critic_bound: source error + discrepancy + its sampling noise, the bound of Rosenfeld and Garg: for
            a second opinion. Vacuous under strong label shift.
        warnings: those of the estimate.
    """

    value: float
    error: float
    level: float
    largest: str
    largest_error: float
    margin: float
    sampling: float
    critic: Discrepancy
    critic_bound: float
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The ceiling in one line."""
        if self.value >= VACUOUS:
            return f"no useful ceiling: {self.largest} allows {percent(self.largest_error)}"
        return f"the error is at most {percent(self.value)} ({100 * self.level:g}% of targets, where it was measured)"

    def content(self) -> dict[str, Any]:
        """The ceiling as plain values."""
        return {**vars(self), "critic": dict(vars(self.critic)), "sentence": self.sentence()}

    heading = sentence

    def __repr__(self) -> str:
        return f"Ceiling({self.sentence()})"


def ceiling(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    *,
    level: float = RANGE_LEVEL,
    calibration: str = "temperature",
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
) -> Ceiling:
    """A ceiling for the error on the target: the largest of the defensible methods, with a learned margin.

    It is the upper end of the range that `auto` shows (`shiftgauge.methods.range`), at the level asked for.
    The margin was learned on natural tables with whole families left out; a shift that leaves no trace in the
    scores (labels that mean something else) can still exceed it. Beside it stands the critic's bound
    (`shiftgauge.inference.critic`), which rests on another assumption.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        level: from 0.5 to 0.99.
        calibration: as for every method.
        proportions: what is known of the target's class proportions (see `shiftgauge.methods.auto`).
        labels, labels_chosen: labels of some target rows, as in `shiftgauge.estimate`.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = 2 * rng.normal(size=(4000, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = ceiling(sg.Source(logits=z[:2000], labels=y[:2000]), sg.Target(logits=z[2000:]))
    >>> (z[2000:].argmax(1) != y[2000:]).mean() <= found.value < 0.5
    True
    """
    check_level("ceiling", level)
    pair = to_pair("ceiling", source, target, calibration, 0, labels, labels_chosen)
    found = estimate(pair, proportions=proportions, level=level)
    assert found.error is not None
    assert found.range is not None
    value = found.range.high
    answers = {**found.details["answers"], "auto": found.error}
    kept = {name: error for name, error in answers.items() if error <= value}
    largest = max(kept, key=lambda name: kept[name])
    noise = 0.0 if found.sampling is None else found.sampling.high - found.error
    critic = discrepancy(pair.source, pair.target, level=level)
    return Ceiling(
        value=value,
        error=found.error,
        level=level,
        largest=largest,
        largest_error=kept[largest],
        margin=max(0.0, value - kept[largest] - noise),
        sampling=noise,
        critic=critic,
        critic_bound=min(1.0, pair.source_sample.error + critic.value + critic.noise),
        warnings=found.warnings,
    )


@dataclass(frozen=True, repr=False)
class Suitability(Result):
    """The decision on "the error is at most the source's plus the margin".

    Attributes:
        decision: `"suitable"`, `"not suitable"` or `"cannot say"`.
        error, low, high: the estimate, and the two ends of its range at the level.
        limit: the source error plus the margin.
        margin, level: what was asked for.
        warnings: those of the estimate.
    """

    decision: str
    error: float
    low: float
    high: float
    limit: float
    margin: float
    level: float
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The decision in one line."""
        between = f"{percent(self.low)} to {percent(self.high)}"
        return f"{self.decision}: the error is {between}, the limit {percent(self.limit)}"

    def content(self) -> dict[str, Any]:
        """The decision as plain values."""
        return {**vars(self), "sentence": self.sentence()}

    heading = sentence

    def __repr__(self) -> str:
        return f"Suitability({self.sentence()})"


def suitable(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    margin: float = 0.05,
    *,
    level: float = RANGE_LEVEL,
    calibration: str = "temperature",
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
) -> Suitability:
    """Test whether the error on the target is at most the source's plus a margin.

    "suitable" if the upper end of the range at the level is within the limit, "not suitable" if the lower
    end is beyond it, else "cannot say". Of 990 natural targets at level 95%, "suitable" was wrong in 4% of the cases
    in which it was given at a margin of 20 points, and in 13 of 64 at 10 points, most of them in two families whose
    change leaves no trace in scores (`docs/explanation/natural.md`); margins of a few points are nearly always
    "cannot say".

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        margin: how much more error is acceptable.
        level: how sure the answer must be, from 0.5 to 0.99.
        calibration, proportions: as for `auto`.
        labels, labels_chosen: labels of some target rows, as in `shiftgauge.estimate`.

    Reference: Pouget et al., Suitability Filter: A Statistical Framework for Classifier Evaluation in
    Real-World Deployment Settings, 2025 (there with a test of correctness estimates).
    """
    check_level("suitable", level)
    validation.check_fraction(margin, "margin", 0.05)
    pair = to_pair("suitable", source, target, calibration, 0, labels, labels_chosen)
    found = estimate(pair, proportions=proportions, level=level)
    assert found.error is not None
    assert found.range is not None
    low, high, limit = found.range.low, found.range.high, min(1.0, pair.source_sample.error + margin)
    decision = SUITABLE if high <= limit else NOT if low > limit else UNSURE
    return Suitability(decision, found.error, low, high, limit, margin, level, found.warnings)


@dataclass(frozen=True)
class RankedModel:
    """One model of a ranking.

    Attributes:
        name: the model.
        expected: the mean of the next two, which it is ranked by.
        error: `auto`'s estimate on the target.
        source_error: its error on the source.
    """

    name: str
    expected: float
    error: float
    source_error: float


@dataclass(frozen=True, repr=False)
class Ranking(Table):
    """Models, best first.

    Attributes:
        models: one entry each.
        sure: how sure it is that the first beats the second: the share of pairs with such a difference in which
            the order was right where it was measured, or less if sampling alone is less certain.
        warnings: those of the models' estimates, each after the model's name.
    """

    models: tuple[RankedModel, ...]
    sure: float
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """The name of the first."""
        return self.models[0].name

    def sentence(self) -> str:
        """The ranking in one line."""
        first, second = self.models[:2]
        return (
            f"{first.name} is best ({percent(first.expected)}, {second.name} {percent(second.expected)}); "
            f"such an order was right in {100 * self.sure:.0f}%"
        )

    def content(self) -> dict[str, Any]:
        """The ranking as plain values."""
        models = [dict(vars(m)) for m in self.models]
        return {"best": self.best, "sure": self.sure, "sentence": self.sentence(), "models": models}

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per model, the best first."""
        return [{"model": m.name, **{k: v for k, v in vars(m).items() if k != "name"}} for m in self.models]

    heading = sentence

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per model."""
        rows = [(m.name, percent(m.expected), percent(m.error), percent(m.source_error)) for m in self.models]
        return ("model", "expected", "estimated", "source"), rows


def rank(
    models: Mapping[str, tuple[AnySource, AnyTarget] | Pair],
    *,
    calibration: str = "temperature",
    proportions: str = "unknown",
) -> Ranking:
    """Order models by what error to expect of each on the target.

    Expected is the mean of `auto`'s estimate and the source error: on natural tables the estimate alone orders
    models no better than the source error does; the two together order those that differ much better than
    either (`docs/explanation/natural.md`). How sure comes from the same tables, and is never above 85%: model choice
    without labels is unreliable, and a few hundred labels settle it.

    Args:
        models: name -> (source, target), at least two; targets of the same rows, for the sampling error of the
            difference.
        calibration, proportions: as for `auto`.
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError("rank: wanted a mapping of at least two models: name -> (source, target)")
    pairs = {name: _model_pair(name, given, calibration) for name, given in models.items()}
    if len({pair.target.n for pair in pairs.values()}) > 1:
        raise InputError(
            "rank: the targets have different numbers of rows; wanted the same rows for every model"
        )
    ranked, warnings = [], []
    for name, pair in pairs.items():
        found, of_source = estimate(pair, proportions=proportions), pair.source_sample.error
        assert found.error is not None
        ranked.append(RankedModel(name, (found.error + of_source) / 2, found.error, of_source))
        warnings += [prefix(name, text) for text in found.warnings]
    first, second, *_ = ranked = sorted(ranked, key=lambda model: model.expected)
    sure = _sure(pairs[first.name], pairs[second.name], first.error, second.expected - first.expected)
    return Ranking(tuple(ranked), sure, tuple(warnings))


def _model_pair(name: str, given: Any, calibration: str) -> Pair:
    if isinstance(given, Pair):
        return given
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(f"rank: model {name!r} holds {type(given).__name__}; wanted (source, target)")
    return Pair(given[0], given[1], calibration, function=f"rank ({name})")


def _sure(first: Pair, second: Pair, error: float, difference: float) -> float:
    """The measured share at this difference, or the normal probability of its sign under paired sampling."""
    from scipy.special import ndtr

    measured = float(np.interp(difference, *np.array(MEASURED).T))
    left, right = first.subsample.target_block, second.subsample.target_block
    apart = right.confidence - left.confidence
    mass = left.row_share
    spread = float(mass @ np.square(apart - mass @ apart))
    n = first.source.n_effective
    # Twice the variance of one row's error; one row more of each kind, so that no error among few is not certainty.
    smoothed = (error * n + 1.0) / (n + 2.0)
    noise = np.sqrt(spread / first.target.n_effective + 2.0 * smoothed * (1.0 - smoothed) / n)
    by_chance = float(ndtr(difference / noise)) if noise > 0.0 else 1.0
    return max(0.5, min(measured, by_chance))
