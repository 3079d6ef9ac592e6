"""From a source and a target to a report: a summary of plain values (the answer, the evidence), and its renderings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError, InputError
from shiftgauge.inference import compare, estimate
from shiftgauge.inference.estimates import check_labelled_method
from shiftgauge.labelshift import MARGINALS, Marginal
from shiftgauge.methods import DEFAULT, METHODS, Pair
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.methods.pair import accepted_options
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.methods.registry import find
from shiftgauge.plots.evidence import confidence_table, costs_table, proportions_table, reliability_table
from shiftgauge.reports.findings import diagnosis, findings
from shiftgauge.reports.markdown import markdown
from shiftgauge.reports.page import page
from shiftgauge.reports.provenance import provenance
from shiftgauge.reports.slices import class_table, driver_table, slice_tables
from shiftgauge.results import SCHEMA, Comparison, Estimate, Result, percent, plain_numbers, render
from shiftgauge.rows import AnySource, AnyTarget, to_target
from shiftgauge.samples import Source
from shiftgauge.storage import check_writable, write_text
from shiftgauge.validation.target_labels import RANDOM

#: Slices have intervals even if the answer was asked for without.
FEWEST_REPLICATES = 50
FORMATS = {"html": ".html", "md": ".md", "json": ".json"}


@dataclass(frozen=True, repr=False)
class Report(Result):
    """What `shiftgauge.reports` found; every rendering is made from `summary` alone.

    Attributes:
        summary: plain values; errors are fractions in [0, 1].
    """

    summary: dict[str, Any]

    def to_html(self) -> str:
        """One page with its figures inside: no scripts, nothing loaded from elsewhere."""
        return page(self.summary)

    def to_markdown(self) -> str:
        """The findings without figures, for a pull request."""
        return markdown(self.summary)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the comparison and of the answer, each once."""
        both = [*self.summary["comparison"]["warnings"], *self.summary["answer"]["warnings"]]
        return tuple(dict.fromkeys(both))

    def content(self) -> dict[str, Any]:
        """The summary."""
        return self.summary

    def numbers(self) -> dict[str, list[float | None]]:
        """The numbers of the answer."""
        return {name: [value] for name, value in plain_numbers(self.summary["answer"]).items()}

    def render(self, form: str) -> str:
        """The report as `"html"`, `"md"` or `"json"`."""
        if form == "html":
            return self.to_html()
        return self.to_markdown() if form == "md" else self.to_json(indent=2) + "\n"

    def save(self, path: str | Path, form: str | None = None) -> None:
        """Write the report in the form that the file's ending says; whole or not at all."""
        file = check_path(path)
        text = self.render(form or next(f for f, ending in FORMATS.items() if ending == file.suffix))
        write_text(file, text)

    def _repr_html_(self) -> str:
        import html

        # An inline frame keeps the page's style to itself.
        return (
            f'<iframe srcdoc="{html.escape(self.to_html())}" title="shiftgauge report" '
            'style="width:100%;height:640px;border:1px solid #8888"></iframe>'
        )

    def __repr__(self) -> str:
        answer, diagnosis = self.summary["answer"], self.summary["diagnosis"]
        return render([f"Report({answer['sentence']} {diagnosis['headline']})"])


def report(
    source: AnySource,
    target: AnyTarget,
    method: str = DEFAULT,
    *,
    calibration: str = "temperature",
    marginal: Marginal = "source",
    proportions: str = "unknown",
    by: Any = None,
    source_by: Any = None,
    groups: Any = None,
    source_groups: Any = None,
    level: float = RANGE_LEVEL,
    replicates: int = 200,
    seed: int = 0,
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    truth: Any = None,
    about: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Estimate, examine and explain: everything that the page shows.

    Args:
        source: scores with labels.
        target: scores without.
        method: whose estimate is the answer; the others are shown beside it.
        calibration: for all methods.
        marginal: for the methods that take one.
        proportions: for `auto`: what is known of the target's class proportions.
        by: (n_target,) the slice of each target row, or a mapping from a name to such an array.
        source_by: as `by`, of the source's rows, for intervals that cover what the scores missed of a slice there; see
            `shiftgauge.slices`.
        groups, source_groups: (n,) the group of each row, if rows come in correlated groups that are
            resampled together; see `shiftgauge.interval`.
        level: of the range and the intervals.
        replicates: of the bootstrap behind the intervals; 0 for none. An answer with labels has a range alone.
        seed: of the bootstrap.
        labels, labels_chosen: labels of some target rows, for `auto`, as in `shiftgauge.estimate`.
        truth: true labels of all target rows, to compare the answers with; they change none.
        about: where the data came from (`source`, `target`: names of files; `command`; `made`), printed as it is.
        progress: called with the name of each step as it begins.
    """
    find(method)
    progress = progress or (lambda step: None)
    about = about or {}
    bootstrap = {"level": level, "seed": seed, "groups": groups, "source_groups": source_groups}
    bootstrap |= {"replicates": max(replicates, FEWEST_REPLICATES)}
    progress("calibration")
    target = to_target(target, "report")
    pair = Pair(
        source, target, calibration, seed=seed, labels=labels, labels_chosen=labels_chosen, function="report"
    )
    check_labelled_method(pair, method)
    comparison = compare(
        pair, level=level, marginal=marginal, proportions=proportions, truth=truth, progress=progress
    )
    answer = _chosen(pair, comparison, method)
    own = accepted_options(method, marginal=marginal, proportions=proportions)
    warnings = answer.warnings
    if replicates and answer.labels is None:
        progress("interval")
        answer = estimate(pair, method=method, interval=True, **bootstrap, **own)
        shown = tuple(answer if one.method == method else one for one in comparison.estimates)
        comparison = replace(comparison, estimates=shown)
    found = findings(pair, method, warnings, progress, proportions)
    progress("tables")
    options = {"method": method, "calibration": calibration, "proportions": proportions, "level": level}
    options |= {"marginal": marginal if isinstance(marginal, str) else "given"}
    options |= {"replicates": replicates, "seed": seed}
    return Report(
        {
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
            "slices": slice_tables(pair, by, source_by, answer, **bootstrap, **own),
            "drivers": driver_table(pair, by, source_by, method, level, proportions),
            "findings": found,
            "provenance": provenance(pair.source_sample, target, options, about),
        }
    )


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
        sentence += f" ({100 * shown.level:g}% {word} {percent(shown.low)} to {percent(shown.high)})"
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


def check_path(path: str | Path) -> Path:
    """Refuse a file name that no report can be written to."""
    file = Path(path)
    if file.suffix not in FORMATS.values():
        raise FileError(
            f"{path}: cannot tell the report's form from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted a name ending in {', '.join(FORMATS.values())}"
        )
    return check_writable(file)
