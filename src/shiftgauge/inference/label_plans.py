"""Which rows to label next, and when to stop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError, Note
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.methods.labels import LabelEvidence, prior_of, update
from shiftgauge.methods.pair import Pair, RowPlan
from shiftgauge.methods.range import RANGE_LEVEL, ErrorDistribution, check_level, range_of
from shiftgauge.results import Range, Result, Table, percent, render
from shiftgauge.rows import AnyTarget, Block, RowBuffer, run
from shiftgauge.storage import write_text
from shiftgauge.validation.target_labels import check_target_labels

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Rows to label by default.
LABELS = 20
#: Errors on the grid that a confidence sequence is computed on, at most.
GRID = 2001
#: Errors drawn from the prior for the expected number of labels, numbers of labels tried with each, and errors on
#: the grid there.
SIMULATIONS, LOOKS, COARSE_GRID = 200, 60, 501
#: Error probabilities that differ by more than this are those of another target.
ROUNDED = 1e-3
#: The first words of a saved plan.
FORMAT = "shiftgauge-label-plan"


@dataclass(frozen=True, repr=False)
class LabelPlan(Table, RowPlan):
    """Which rows to label.

    Attributes:
        rows: (m,) the rows to label, in the order in which to label them.
        ids: (m,) their ids, or None if the target's rows have none.
        design: `"spread"`: one row at random from each of as many equal parts of the rows, sorted by error
            probability; `"random"`: rows at random, in an order in which labelling may stop at any time.
        error, range: the answer from the scores, and its range.
        expected_range: the range to expect once they are labelled, if the answer is right.
        until_width, decide: the aim at which labelling may stop; None if there is none.
        expected_labels: how many labels the aim takes in half of the cases; None without an aim.
        n_target: how many rows the target has.
        predictions: (m,) the predicted classes, as column numbers.
        error_probability: (m,) 1 - confidence, by which the rows are compared with the target again.
        classes: the names of the classes, or their numbers.
        prior: the distribution of the error that the scores give.
        warnings: those of the answer.
    """

    rows: Indices
    ids: npt.NDArray[Any] | None
    design: str
    error: float
    range: Range
    expected_range: Range
    until_width: float | None
    decide: float | None
    expected_labels: int | None
    n_target: int
    predictions: Indices
    error_probability: Array
    classes: tuple[Any, ...]
    prior: ErrorDistribution
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The plan in one line."""
        wide = f"{100 * (self.range.high - self.range.low):.0f}"
        if self.expected_labels is None:
            then = f"{100 * (self.expected_range.high - self.expected_range.low):.0f}"
            return f"label {len(self.rows):,} rows: the range should shrink from {wide} to {then} points"
        aim = (
            f"the range is {100 * self.until_width:g} points wide"
            if self.until_width is not None
            else f"it is clear whether the error is above {percent(self.decide or 0.0)}"
        )
        return f"label rows in this order until {aim}: about {self.expected_labels:,} of {len(self.rows):,}"

    def table(self) -> dict[str, Any]:
        """Columns of equal length, one value per row to label: what to send to those who label."""
        names = np.asarray(self.classes)
        return {
            **({} if self.ids is None else {"id": self.ids}),
            "row": self.rows,
            "prediction": names[self.predictions],
            "error_probability": self.error_probability,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per row to label."""
        columns = {name: values.tolist() for name, values in self.table().items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def content(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "sentence": self.sentence(),
            "labels": len(self.rows),
            "design": self.design,
            "error": self.error,
            "range": self.range.to_dict(),
            "expected_range": self.expected_range.to_dict(),
            "until_width": self.until_width,
            "decide": self.decide,
            "expected_labels": self.expected_labels,
            "rows": self.rows.tolist(),
            "ids": None if self.ids is None else self.ids.tolist(),
        }

    heading = sentence

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per row to label, the first twenty."""
        columns = {name: values.tolist()[:20] for name, values in self.table().items()}
        columns["error_probability"] = [percent(value) for value in columns["error_probability"]]
        return tuple(columns), [tuple(map(str, row)) for row in zip(*columns.values(), strict=True)]

    def __repr__(self) -> str:
        return render([self.sentence()], self.warnings)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, for `LabelPlan.load` and `shiftgauge estimate --plan`."""
        write_text(path, json.dumps({"format": FORMAT, "schema": _schema(), **_to_document(self)}))

    @classmethod
    def load(cls, path: str | Path) -> LabelPlan:
        """Read a plan that `save` wrote."""
        wanted = "wanted a label plan, as LabelPlan.save() or label-plan --save-plan wrote it"
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as problem:
            raise FileError(f"{path}: cannot be read ({problem.strerror}); {wanted}") from None
        except (ValueError, RecursionError):
            raise FileError(f"{path}: not JSON; {wanted}") from None
        if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
            raise FileError(f"{path}: not a label plan; {wanted}")
        schema = document.pop("schema", None)
        if schema != _schema():
            raise FileError(
                f"{path}: written by another version of shiftgauge (form {str(schema)[:20]}, this version needs "
                f"{_schema()}); use that version, or make a new plan"
            )
        try:
            return _from_document(document)
        except (KeyError, TypeError, ValueError):
            raise FileError(f"{path}: damaged; {wanted}") from None

    def progress(self, labels: Mapping[Any, Any]) -> Progress:
        """What the labels say so far, and whether labelling may stop: valid at every look, whatever the scores said.

        The range is a confidence sequence: the errors that a bet against them has not refuted. Rows are labelled in the
        plan's order, so each is a draw without replacement, and for errors of 0 or 1 the bet is the ratio of prior to
        posterior (Waudby-Smith and Ramdas, Confidence Sequences for Sampling Without Replacement, 2020; Estimating
        Means of Bounded Random Variables by Betting, 2023). The prior is the one from the scores: a good one stops
        earlier, a bad one never makes the range wrong.

        Args:
            labels: the true label by row number, or by id if the target's rows have ids. Only those that come first in
                the plan's order, without a gap, are used.
        """
        if self.design != "random":
            raise InputError(
                "progress: this plan has no aim at which to stop; make one with label_plan(..., until_width=0.1) or "
                "decide=0.2, or pass all labels to estimate(..., labels=..., labels_chosen=plan)"
            )
        wrong, gap = self._in_order(labels)
        low, high = confidence_sequence(wrong, self.n_target, self.prior, self.range.level)
        done = len(wrong) == self.n_target
        decision = None
        if self.until_width is not None:
            done = done or high - low <= self.until_width
        elif self.decide is not None:
            decision = "above" if low > self.decide else "below" if high < self.decide else None
            done = done or decision is not None
        return Progress(
            labels=len(wrong),
            planned=len(self.rows),
            errors=int(wrong.sum()),
            range=Range(self.range.level, low, high, "confidence sequence, valid at every look"),
            done=done,
            decision=decision,
            decide=self.decide,
            warnings=(gap,) if gap else (),
        )

    def _in_order(self, labels: Mapping[Any, Any]) -> tuple[Array, str]:
        """(m,) whether the predictions of the first labelled rows are wrong; a word about labels after a gap."""
        if not isinstance(labels, Mapping):
            raise InputError(
                f"progress: labels arrived as {type(labels).__name__}; wanted a mapping {{row number or id: label}}"
            )
        keys = self.rows if self.ids is None else self.ids
        place = {key: at for at, key in enumerate(keys.tolist())}
        for key in labels:
            if key not in place:
                raise InputError(f"labels: {key!r} is not a row of the plan; wanted labels of its rows")
        by_place = {place[key]: value for key, value in labels.items()}
        given = check_target_labels(by_place, len(keys), len(self.classes), self.classes, False)
        if given is None:
            return np.empty(0), ""
        order = np.argsort(given.keys)
        first, gap = 0, ""
        while first < len(order) and given.keys[order[first]] == first:
            first += 1
        if first < len(order):
            gap = (
                f"{len(order) - first} labels come after row {keys[first].item()!r}, which has none: they are not "
                "used, since rows must be labelled in the plan's order"
            )
        used = order[:first]
        return (given.classes[used] != self.predictions[given.keys[used]]).astype(np.float64), gap

    def check_pair(self, pair: Pair) -> None:
        """Refuse another target than the plan's, and labels of rows that were not planned."""
        if pair.target.n != self.n_target:
            raise InputError(
                f"labels_chosen: the plan is for {self.n_target:,} target rows, and {pair.target.n:,} arrived; wanted "
                "its target"
            )
        order = np.argsort(self.rows)
        probability, predictions, ids = _read_rows(pair, self.rows[order])
        other_scores = np.abs(probability - self.error_probability[order]).max() > ROUNDED
        other_ids = ids is not None and self.ids is not None and (ids != self.ids[order]).any()
        if other_scores or other_ids or (predictions != self.predictions[order]).any():
            raise InputError(
                "labels_chosen: the plan's rows have other scores or ids in this target; wanted the target that it was "
                "made for"
            )
        if pair.labels is None:
            return
        planned = self.ids if pair.labels.by_id else self.rows
        assert planned is not None
        unplanned = np.setdiff1d(pair.labels.keys.astype(str), planned.astype(str))
        if len(unplanned):
            raise InputError(
                f"labels: row {unplanned[0]} was not planned; wanted labels of planned rows only, or "
                "labels_chosen='unknown'"
            )


def _schema() -> str:
    """A digest of what a plan holds; a file with another one is refused."""
    names = [
        f"{field.name}: {field.type}" for of in (LabelPlan, Range, ErrorDistribution) for field in fields(of)
    ]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def _to_document(plan: LabelPlan) -> dict[str, Any]:
    values = {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in vars(plan).items()}
    ranges = {name: asdict(values[name]) for name in ("range", "expected_range", "prior")}
    classes = [name if isinstance(name, str | int | float) else str(name) for name in plan.classes]
    return {**values, **ranges, "classes": classes}


def _from_document(document: dict[str, Any]) -> LabelPlan:
    values = dict(document)
    values["range"], values["expected_range"] = Range(**values["range"]), Range(**values["expected_range"])
    values["prior"] = ErrorDistribution(**values["prior"])
    values["rows"], values["predictions"] = (
        np.array(values[name], dtype=np.intp) for name in ("rows", "predictions")
    )
    values["error_probability"] = np.array(values["error_probability"], dtype=np.float64)
    values["ids"] = None if values["ids"] is None else np.array(values["ids"])
    values["classes"], values["warnings"] = tuple(values["classes"]), tuple(values["warnings"])
    plan = LabelPlan(**values)
    if not len(plan.rows) == len(plan.predictions) == len(plan.error_probability):
        raise ValueError("columns of different lengths")
    return plan


@dataclass(frozen=True, repr=False)
class Progress(Result):
    """What labels in a plan's order say so far.

    Attributes:
        labels, errors: labelled rows that were used, and those whose prediction is wrong.
        planned: rows of the plan.
        range: a confidence sequence for the error of exactly these target rows.
        done: whether the plan's aim is reached.
        decision: `"above"` or `"below"` the error to decide on; None while it is open, or if there is none.
        decide: that error, or None.
        warnings: what the reader should know.
    """

    labels: int
    planned: int
    errors: int
    range: Range
    done: bool
    decision: str | None
    decide: float | None
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The progress in one line."""
        if self.labels == 0 and not self.warnings:
            return f"go on: 0 of {self.planned:,} planned rows are labelled"
        so_far = f"{self.labels:,} labels, {self.errors:,} errors: the error is {self.range}"
        if self.decision is not None:
            return f"stop: the error is {self.decision} {percent(self.decide or 0.0)}; {so_far}"
        return f"{'stop' if self.done else 'go on'}: {so_far}"

    def content(self) -> dict[str, Any]:
        """The progress as plain values."""
        return {**vars(self), "range": self.range.to_dict(), "sentence": self.sentence()}

    def __repr__(self) -> str:
        return render([self.sentence()], self.warnings)

    heading = sentence


def label_plan(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    n: int | None = None,
    *,
    until_width: float | None = None,
    decide: float | None = None,
    level: float = RANGE_LEVEL,
    calibration: str = "temperature",
    proportions: str = "unknown",
    seed: int = 0,
) -> LabelPlan:
    """Choose which target rows to label next.

    Without an aim, one row is drawn at random from each of n equal parts of the rows, sorted by error probability.
    Every row has the same chance, so the labels need no weights. On real shifts this is 1 to 2% better than random rows
    at 10 and 20 labels, and no better from 50 on (`benchmarks/labels.py`). With an aim, rows are drawn at random, so
    that labelling may stop as soon as `LabelPlan.progress` says so.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        n: how many rows; 20 by default, with an aim all rows (label them in order, and stop early).
        until_width: stop once the range is this narrow, such as 0.1.
        decide: stop once it is clear whether the error is above this, such as 0.2.
        level: of the ranges.
        calibration, proportions: as for `shiftgauge.estimate`.
        seed: of the draw.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = 2 * rng.normal(size=(900, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> source, target = sg.Source(logits=z[:400], labels=y[:400]), sg.Target(logits=z[400:])
    >>> plan = label_plan(source, target, n=20)
    >>> labels = {int(row): int(y[400 + row]) for row in plan.rows}
    >>> after = sg.estimate(source, target, labels=labels, labels_chosen=plan)
    >>> len(plan.rows), after.labels.n
    (20, 20)
    """
    check_level("label_plan", level)
    validation.check_count(seed, "seed", 0)
    if until_width is not None and decide is not None:
        raise InputError("label_plan: until_width and decide both arrived; wanted one aim")
    for name, value in (("until_width", until_width), ("decide", decide)):
        if value is not None:
            validation.check_fraction(value, name, 0.1)
    pair = to_pair("label_plan", source, target, calibration)
    size = pair.target.n
    aim = until_width is not None or decide is not None
    count = (size if aim else min(LABELS, size)) if n is None else n
    validation.check_count(count, "n", 1, most=size)
    answer = pair.estimate("auto", proportions=proportions)
    warnings = answer.warnings
    if pair.labels is not None:
        answer = pair.fitted("auto", proportions=proportions).estimate_rows(pair.target)
        unused = Note("a plan starts from the scores alone: labels of the target are not used")
        warnings = (*pair.notes, unused, *answer.warnings)
    prior = prior_of(answer)
    rng = np.random.default_rng(int(seed))
    if aim:
        rows = rng.permutation(size)[:count]
    else:
        rows = spread_rows(run(pair.target.column(_error_probability)), int(count), rng)
    order = np.argsort(rows)
    probability, predictions, ids = _read_rows(pair, rows[order])
    back = np.argsort(order)
    expected = expected_labels(prior, size, level, until_width, decide, rng) if aim else None
    return LabelPlan(
        rows=rows,
        ids=None if ids is None else ids[back],
        design="random" if aim else "spread",
        error=prior.error,
        range=prior.range(level),
        expected_range=expected_range_of(prior, int(count), size, level),
        until_width=until_width,
        decide=decide,
        expected_labels=expected,
        n_target=size,
        predictions=predictions[back],
        error_probability=probability[back],
        classes=pair.classes,
        prior=prior,
        warnings=warnings,
    )


def spread_rows(probability: Array, count: int, rng: np.random.Generator) -> Indices:
    """One row at random from each of `count` equal parts of the rows, sorted by error probability, in random order."""
    n = len(probability)
    size = n // count
    # If n is not a multiple of count, random rows are left out: every row keeps the same chance, count / n.
    kept = rng.permutation(n)[: size * count]
    order = kept[np.argsort(np.round(probability[kept], 9), kind="stable")]
    return rng.permutation(order.reshape(count, size)[np.arange(count), rng.integers(size, size=count)])


def _error_probability(block: Block) -> Array:
    return np.asarray(1.0 - block.confidence)


def _read_rows(pair: Pair, rows: Indices) -> tuple[Array, Indices, npt.NDArray[Any] | None]:
    """Error probabilities, predictions and ids of some rows, by their sorted numbers."""

    def read(block: Block) -> RowBuffer:
        first, last = np.searchsorted(rows, [block.start, block.start + len(block)])
        mine = rows[first:last] - block.start
        ids = np.empty(len(mine)) if block.ids is None else block.ids[mine]
        return RowBuffer.of(1.0 - block.confidence[mine], np.asarray(block.predictions)[mine], ids)

    probability, predictions, ids = run(pair.target.fold(read)).joined()
    return probability, predictions, ids if pair.target.has_ids else None


def expected_range_of(prior: ErrorDistribution, count: int, size: int, level: float) -> Range:
    """The range if the labels say what the scores say."""
    evidence = LabelEvidence(
        error=prior.error,
        effective=float(count),
        fraction=min(count / size, 1.0),
        plain_error=prior.error,
        plain_effective=float(count),
    )
    return range_of(update(prior, evidence), level, "expected")


# -- when to stop -------------------------------------------------------------------------------------------


def confidence_sequence(
    wrong: Array, n: int, prior: ErrorDistribution, level: float, most: int = GRID
) -> tuple[float, float]:
    """The errors of n rows that draws without replacement have not refuted so far, as an interval.

    With D errors among n rows, L_t(D) the probability of the first t draws and M_t its mean under the prior, M_t / L_t
    is a martingale under D, so it exceeds 1 / (1 - level) at some t with probability at most 1 - level (Ville). D is
    refuted once it does. L_t is log-concave in D, so what is not refuted is an interval; where n is large, D is looked
    at on a grid, and the interval goes on to the next points of it.

    Args:
        wrong: (t,) 1 where the prediction is wrong, in the order of the draws.
        n: rows in all.
        prior: any distribution; it decides how narrow the interval is, never whether it holds.
        level: that the interval holds at all t together.
        most: how many D are looked at, at most.

    >>> around = ErrorDistribution(0.2, 0.05, 0.05)
    >>> low, high = confidence_sequence(np.array([1.0, 0.0, 0.0, 0.0, 0.0] * 40), 1000, around, 0.9)
    >>> 0.1 < low < 0.2 < high < 0.3
    True
    """
    errors, mass = _grid(n, prior, most)
    step = 0.0 if len(errors) == n + 1 else errors[1]
    log_likelihood = np.zeros(len(errors))
    low, high, before = 0.0, float(n), 0.0
    for t, one in enumerate(wrong.tolist()):
        share = np.clip((errors - before) / (n - t), 0.0, 1.0)
        with np.errstate(divide="ignore"):
            log_likelihood = log_likelihood + np.log(share if one else 1.0 - share)
        before += one
        # What the labelled rows alone leave possible; between two points of the grid there may be nothing else.
        first, last = before, n - (t + 1 - before)
        if np.isfinite(log_likelihood.max()):
            alive = errors[_not_refuted(log_likelihood, mass, level)]
            kept = alive if len(alive) else errors[[np.argmax(log_likelihood)]]
            first, last = max(first, kept[0] - step), min(last, kept[-1] + step)
        if max(low, first) > min(high, last):  # everything is refuted: what the last draw leaves
            low, high = first, last
        low, high = max(low, first), min(high, last)
    return float(low) / n, float(high) / n


def _grid(n: int, prior: ErrorDistribution, most: int) -> tuple[Array, Array]:
    """Numbers of errors among n rows, at most so many of them, and the prior's mass of each, none of it 0."""
    errors = np.arange(n + 1.0) if n < most else np.linspace(0.0, n, most)
    half = (errors[1] - errors[0]) / 2
    edges = np.clip(np.append(errors - half, errors[-1] + half) / n, 0.0, 1.0)
    mass = np.diff(prior.cdf(edges))
    return errors, 0.9 * mass / mass.sum() + 0.1 / len(mass)


def _not_refuted(log_likelihood: Array, mass: Array, level: float) -> npt.NDArray[np.bool_]:
    top = log_likelihood.max()
    mean = top + np.log(mass @ np.exp(log_likelihood - top))
    return np.asarray(mean - log_likelihood < -np.log(1.0 - level))


def expected_labels(
    prior: ErrorDistribution,
    n: int,
    level: float,
    until_width: float | None,
    decide: float | None,
    rng: np.random.Generator,
) -> int:
    """The median number of labels until the aim is reached, over errors drawn from the prior."""
    from scipy.special import gammaln

    errors, mass = _grid(n, prior, COARSE_GRID)
    half = (errors[1] - errors[0]) / 2 if len(errors) <= n else 0.0
    arrangements = gammaln(errors + 1) + gammaln(n - errors + 1)
    looks = np.unique(np.geomspace(1, n, LOOKS).astype(np.intp))
    looks = looks[looks < n]  # with all labels every aim is reached
    needed = []
    for _ in range(SIMULATIONS):
        truth = round(n * prior.quantile(float(rng.random())))
        k = _cumulated_errors(truth, n, looks, rng)
        # (looks, errors) log-probability of k errors among t draws, up to a constant
        with np.errstate(invalid="ignore"):
            possible = (errors + half >= k[:, None]) & (n - errors + half >= (looks - k)[:, None])
            log_likelihood = np.where(
                possible,
                arrangements
                - gammaln(np.maximum(errors - k[:, None], 0.0) + 1)
                - gammaln(np.maximum(n - errors - (looks - k)[:, None], 0.0) + 1),
                -np.inf,
            )
        top = log_likelihood.max(axis=1, keepdims=True)
        mean = top + np.log(np.exp(log_likelihood - top) @ mass)[:, None]
        alive = np.logical_and.accumulate(mean - log_likelihood < -np.log(1.0 - level), axis=0)
        low = np.where(alive, errors, np.inf).min(axis=1) / n
        high = np.where(alive, errors, -np.inf).max(axis=1) / n
        met = high - low <= until_width if until_width is not None else (low > decide) | (high < decide)
        needed.append(looks[int(np.argmax(met))] if met.any() else n)
    return int(np.median(needed))


def _cumulated_errors(truth: int, n: int, looks: Indices, rng: np.random.Generator) -> Indices:
    """How many of the first t rows are errors, at each look, where `truth` of n rows are, in random order."""
    out, before, drawn = [], 0, 0
    for t in looks.tolist():
        more = (
            int(rng.hypergeometric(truth - before, (n - drawn) - (truth - before), t - drawn))
            if t > drawn
            else 0
        )
        before, drawn = before + more, t
        out.append(before)
    return np.array(out, dtype=np.intp)
