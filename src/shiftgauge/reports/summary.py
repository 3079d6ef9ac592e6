"""The report's content as plain values: the answer, the evidence, the doubts, and how to repeat it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shiftgauge.errors import InputError
from shiftgauge.inference import compare, estimate
from shiftgauge.inference.estimates import check_labelled_method, true_error
from shiftgauge.labelshift import MARGINALS, Marginal
from shiftgauge.methods import METHODS, Pair
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.methods.pair import accepted_options
from shiftgauge.methods.registry import find
from shiftgauge.plots.evidence import confidence_table, costs_table, proportions_table, reliability_table
from shiftgauge.reports.findings import diagnosis, findings
from shiftgauge.reports.provenance import provenance
from shiftgauge.reports.slices import class_table, driver_table, slice_tables
from shiftgauge.results import SCHEMA, Comparison, Estimate, percent
from shiftgauge.rows import AnySource, AnyTarget, to_target
from shiftgauge.samples import Source

#: Slices have intervals even if the answer was asked for without.
FEWEST_REPLICATES = 50


def summarise(
    source: AnySource,
    target: AnyTarget,
    method: str,
    *,
    calibration: str,
    marginal: Marginal,
    proportions: str,
    by: Any,
    source_by: Any,
    groups: Any,
    source_groups: Any,
    level: float,
    replicates: int,
    seed: int,
    labels: Any,
    labels_chosen: Any,
    truth: Any,
    about: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Everything that the renderings show; see `shiftgauge.reports.report` for the arguments."""
    find(method)
    bootstrap = {"level": level, "seed": seed, "groups": groups, "source_groups": source_groups}
    bootstrap |= {"replicates": max(replicates, FEWEST_REPLICATES)}
    progress("calibration")
    target = to_target(target, "report")
    pair = Pair(
        source, target, calibration, seed=seed, labels=labels, labels_chosen=labels_chosen, function="report"
    )
    check_labelled_method(pair, method)
    comparison = compare(
        pair, level=level, marginal=marginal, proportions=proportions, seed=seed, progress=progress
    )
    if truth is not None:
        checked = {**comparison.target, "true_error": true_error(target, truth)}
        comparison = replace(comparison, target=checked)
    answer = _chosen(pair, comparison, method)
    own = accepted_options(method, marginal=marginal, proportions=proportions)
    warnings = answer.warnings
    if replicates and answer.labels is None:
        progress("interval")
        answer = estimate(pair, method=method, interval=True, **bootstrap, **own)
        comparison = _with(comparison, answer)
    found = findings(pair, method, warnings, progress, proportions)
    progress("tables")
    options = {"method": method, "calibration": calibration, "proportions": proportions, "level": level}
    options |= {"marginal": marginal if isinstance(marginal, str) else "given"}
    options |= {"replicates": replicates, "seed": seed}
    return {
        "schema": SCHEMA,
        "answer": {
            **_answer(answer, pair.source_sample, about),
            "interval_notes": [text for text in answer.warnings if text not in warnings],
        },
        "diagnosis": diagnosis(found),
        "comparison": comparison.to_dict(),
        "marginals": _marginals(pair, method),
        "confidence": confidence_table(pair),
        "proportions": proportions_table(pair),
        "costs": costs_table(pair, marginal) if pair.follows_argmax else None,
        "reliability": reliability_table(pair.source_sample, pair.calibration),
        "classes": class_table(pair, method, level, **own),
        "slices": slice_tables(pair, by, method, source_by, **bootstrap, **own),
        "drivers": driver_table(pair, by, source_by, method, level, proportions),
        "findings": found,
        "provenance": provenance(pair.source_sample, target, options, about),
    }


def _chosen(pair: Pair, comparison: Comparison, method: str) -> Estimate:
    """The answer's method among those that ran; one that was left out says why, and a score is refused."""
    try:
        answer = comparison[method]
    except KeyError:
        answer = pair.estimate(method)
    if answer.error is None:
        raise InputError(
            f"report: {method} is a score, not an error; wanted a method that estimates an error"
        )
    return answer


def _answer(answer: Estimate, source: Source, about: dict[str, Any]) -> dict[str, Any]:
    assert answer.error is not None
    name = about.get("target") or "the target"
    sentence = f"On {name} ({answer.n_target:,} rows) the model is estimated to be wrong on "
    sentence += f"{percent(answer.error)} of the rows"
    shown = answer.shown_range
    if shown is not None:
        word = "range" if answer.range else f"interval, {shown.kind},"
        sentence += f" ({shown.level:.0%} {word} {percent(shown.low)} to {percent(shown.high)})"
    sentence += f", against {percent(source.error)} on the labelled source."
    if answer.labels is not None:
        sentence += f" It rests on scores and {answer.labels.sentence()}."
    return {
        "sentence": sentence,
        "title": METHODS[answer.method].title,
        "meaning": METHODS[answer.method].meaning,
        "source_error": source.error,
        "why": answer.why(),
        **answer.content(),
    }


def _with(comparison: Comparison, answer: Estimate) -> Comparison:
    kept = tuple(answer if e.method == answer.method else e for e in comparison.estimates)
    return replace(comparison, estimates=kept)


def _marginals(pair: Pair, method: str) -> dict[str, Any]:
    """The answer under each assumption about the target's labels; by SCOT if the method takes none."""
    name = method if issubclass(METHODS[method], MarginalEstimator) else "scot"
    rows: list[dict[str, Any]] = []
    for marginal, assumption in MARGINALS.items():
        row: dict[str, Any] = {"marginal": marginal, "assumption": assumption, "error": None}
        try:
            row["error"] = pair.error(name, marginal=marginal)
        except InputError as problem:
            row["problem"] = str(problem)
        rows.append(row)
    return {"method": name, "rows": rows}
