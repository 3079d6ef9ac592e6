"""The report's content as plain values: the answer, the evidence, the doubts, and how to repeat it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labelfree import _door
from labelfree.errors import InputError
from labelfree.estimators import METHODS, SCOT, compare, make
from labelfree.estimators.marginal import MarginalEstimator
from labelfree.estimators.registry import accepts, find
from labelfree.labelshift import MARGINALS, Marginal
from labelfree.plots.evidence import Pair, confidence_table, costs_table, proportions_table, reliability_table
from labelfree.report.findings import findings, verdict
from labelfree.report.provenance import provenance
from labelfree.report.slices import class_table, slice_tables
from labelfree.results import SCHEMA, Comparison, Estimate, percent
from labelfree.trust.intervals import interval
from labelfree.types import Source, Target


def summarise(
    source: Source,
    target: Target,
    method: str,
    *,
    calibration: str,
    marginal: Marginal,
    groups: Any,
    level: float,
    replicates: int,
    seed: int,
    target_labels: Any,
    about: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Everything that the renderings show; see `labelfree.report.report` for the arguments."""
    chosen = find(method)
    _door.check_fraction(level, "level", 0.95)
    comparison = compare(
        source,
        target,
        calibration=calibration,
        marginal=marginal,
        target_labels=target_labels,
        progress=progress,
    )
    try:
        answer = comparison[method]
    except KeyError:
        raise InputError(f"report: {method} needs a second model's predictions (second=, --second)") from None
    if answer.error is None:
        raise InputError(
            f"report: {method} is a score, not an error; wanted a method that estimates an error"
        )
    options: dict[str, Any] = {"calibration": calibration}
    if accepts(chosen, "marginal"):
        options["marginal"] = marginal
    warnings, notes = answer.warnings, []
    if replicates:
        progress("interval")
        answer = interval(source, target, method, level=level, replicates=replicates, seed=seed, **options)
        notes = [text for text in answer.warnings if text not in comparison[method].warnings]
        comparison = _with(comparison, answer)
    progress("figures")
    pair = Pair.of(source, target, calibration)
    soft = SCOT(calibration=calibration, marginal=marginal).fit_view(pair.source)
    doubt = pair.target.doubt(pair.target.soft_transport(soft.masses(pair.target)).posterior)
    found = findings(source, target, method, warnings, calibration=calibration, seed=seed, progress=progress)
    progress("tables")
    return {
        "schema": SCHEMA,
        "answer": {**_answer(answer, source, about), "interval_notes": notes},
        "verdict": verdict(found),
        "comparison": comparison.to_dict(),
        "marginals": _marginals(pair, method, calibration),
        "confidence": confidence_table(pair),
        "proportions": proportions_table(pair),
        "costs": costs_table(pair, marginal),
        "reliability": reliability_table(pair.source),
        "classes": class_table(pair.target, doubt),
        "slices": slice_tables(
            source,
            target,
            groups,
            calibration=calibration,
            marginal=marginal,
            level=level,
            replicates=replicates,
            seed=seed,
        ),
        "findings": found,
        "provenance": provenance(
            source,
            target,
            {
                "method": method,
                "calibration": calibration,
                "marginal": marginal if isinstance(marginal, str) else "given",
                "level": level,
                "replicates": replicates,
                "seed": seed,
            },
            about,
        ),
    }


def _answer(answer: Estimate, source: Source, about: dict[str, Any]) -> dict[str, Any]:
    assert answer.error is not None
    name = about.get("target") or "the target"
    sentence = f"On {name} ({answer.n_target:,} rows) the model is estimated to be wrong on "
    sentence += f"{percent(answer.error)} of the rows"
    if answer.interval is not None:
        held = answer.interval
        sentence += f" ({held.level:.0%} interval {percent(held.low)} to {percent(held.high)}, {held.kind})"
    sentence += f", against {percent(source.error)} on the labelled source."
    return {
        "sentence": sentence,
        "title": METHODS[answer.method].title,
        "meaning": METHODS[answer.method].meaning,
        "source_error": source.error,
        **answer.to_dict(),
    }


def _with(comparison: Comparison, answer: Estimate) -> Comparison:
    kept = tuple(answer if e.method == answer.method else e for e in comparison.estimates)
    return replace(comparison, estimates=kept)


def _marginals(pair: Pair, method: str, calibration: str) -> dict[str, Any]:
    """The answer under each assumption about the target's labels; by SCOT where the method takes none."""
    name = method if issubclass(METHODS[method], MarginalEstimator) else "scot"
    rows: list[dict[str, Any]] = []
    for marginal, assumption in MARGINALS.items():
        row: dict[str, Any] = {"marginal": marginal, "assumption": assumption, "error": None}
        try:
            found = make(name, calibration=calibration, marginal=marginal).fit_view(pair.source)
            row["error"] = found.estimate_view(pair.target).error
        except InputError as problem:
            row["problem"] = str(problem)
        rows.append(row)
    return {"method": name, "rows": rows}
