"""From a source and a target to a report: a summary of plain values, and its three renderings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError
from shiftgauge.labelshift import Marginal
from shiftgauge.methods import DEFAULT
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.reports.markdown import markdown
from shiftgauge.reports.page import page
from shiftgauge.reports.summary import summarise
from shiftgauge.results import Result, plain_numbers, render
from shiftgauge.rows import AnySource, AnyTarget
from shiftgauge.storage import check_writable, write_text
from shiftgauge.validation.target_labels import RANDOM

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
    return Report(
        summarise(
            source,
            target,
            method,
            calibration=calibration,
            marginal=marginal,
            proportions=proportions,
            by=by,
            source_by=source_by,
            groups=groups,
            source_groups=source_groups,
            level=level,
            replicates=replicates,
            seed=seed,
            labels=labels,
            labels_chosen=labels_chosen,
            truth=truth,
            about=about or {},
            progress=progress or (lambda step: None),
        )
    )


def check_path(path: str | Path, endings: Sequence[str] = tuple(FORMATS.values())) -> Path:
    """Refuse a file name that no report can be written to."""
    file = Path(path)
    if file.suffix not in endings:
        raise FileError(
            f"{path}: cannot tell the report's form from {file.suffix or 'its name'!r}; "
            f"wanted a name ending in {', '.join(endings)}"
        )
    return check_writable(file)
