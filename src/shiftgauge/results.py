"""What comes out: results that print, serialise and carry their warnings, all in the same way."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

from shiftgauge.errors import format_warning, optional, prefix, printable

#: The version of the JSON written by `to_dict`; its JSON Schema ships as `shiftgauge/data/schema.json`.
SCHEMA = 1
_NUMBER = re.compile(r"[-+<]? ?[\d.,]+%?")
#: What the label-shift test of `auto` shows, in words.
SHIFTS = {
    "none": "the scores look like those of the validation data",
    "label": "a new class mix explains how the scores changed",
    "other": "the scores changed more than a new class mix explains",
    "unknown": "there are too few rows to tell what changed",
}
#: Rows to label next.
MORE_LABELS = 20


class Result:
    """Base of everything that is handed out: `to_dict`, `to_json`, a table in a notebook, warnings.

    A result writes `content` and, where a sentence and a table say more than its `repr`,
    `heading` and `table_rows`.
    """

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the result should know."""
        return ()

    def content(self) -> dict[str, Any]:
        """The content as plain values, to stand inside another result."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The content as plain values, with the version of the schema that it follows, and the warnings."""
        return {"schema": SCHEMA, **self.content(), "warnings": list(self.warnings)}

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as JSON; NaN never occurs."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def numbers(self) -> dict[str, list[float | None]]:
        """The numbers by name, such as `error` and `range.low`, for trackers; a series has several values."""
        return {name: [value] for name, value in plain_numbers(self.content()).items()}

    def heading(self) -> str:
        """The result in one line."""
        return repr(self).splitlines()[0]

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """A header and rows of texts; no rows where a sentence says it all."""
        return (), ()

    def _repr_html_(self) -> str:
        head, rows = _without_empty(*self.table_rows())
        notes = "".join(f"<li>{_escaped(format_warning(text, '⚠'))}</li>" for text in self.warnings)
        return (
            f"<p>{_escaped(self.heading())}</p>"
            + (_table(head, rows) if rows else "")
            + (f"<ul>{notes}</ul>" if notes else "")
        )


def plain_numbers(content: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of plain values, and both ends of ranges."""
    out: dict[str, float] = {}
    for name, value in content.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            out[name] = value
        elif isinstance(value, dict) and {"low", "high"} <= value.keys():
            out |= {f"{name}.{end}": value[end] for end in ("low", "high")}
    return out


class Table(Result):
    """A result that is a table: it writes `records`.

    Attributes:
        index_columns: how many of the first columns name a row.
    """

    index_columns: ClassVar[int] = 1

    def records(self) -> list[dict[str, Any]]:
        """The rows of the table as dictionaries with the same keys; the first ones name the row."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return render([self.heading(), *text_table(*self.table_rows())], self.warnings)

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame: fractions as in `to_dict`, None where there is no number."""
        pandas = optional("pandas", extra="pandas", purpose="to_pandas")
        records = self.records()
        return (
            pandas.DataFrame(records).set_index(list(records[0])[: self.index_columns])
            if records
            else pandas.DataFrame()
        )


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: numbers to the right, texts to the left, empty columns left out.

    >>> print("\\n".join(text_table(["day", "rows"], [["mon", "900"], ["tue", "1,000"]])))
      day   rows
      mon    900
      tue  1,000
    """
    head, cells = _without_empty(head, rows)
    lines = [head, *cells]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    numbers = _number_columns(head, cells)
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in lines
    ]


def _number_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold numbers alone."""
    return [all(_NUMBER.fullmatch(row[j]) for row in rows if row[j]) for j in range(len(head))]


def _without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The table less the columns in which no row has anything to say."""
    kept = [j for j in range(len(head)) if any(row[j] for row in rows)]
    return [head[j] for j in kept], [[row[j] for j in kept] for row in rows]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of numbers to the right, of texts to the left: a notebook's own style puts both on one side."""
    numbers = _number_columns(head, rows)
    sides = [f'style="text-align: {"right" if number else "left"}"' for number in numbers]

    def line(cells: Sequence[str], tag: str) -> str:
        shown = zip(cells, sides, strict=True)
        return "<tr>" + "".join(f"<{tag} {side}>{_escaped(cell)}</{tag}>" for cell, side in shown) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Interval:
    """An interval for the error, with its nominal level and what it covers."""

    level: float
    low: float
    high: float
    kind: str

    def to_dict(self) -> dict[str, Any]:
        """The interval as plain values."""
        return {"level": self.level, "low": self.low, "high": self.high, "kind": self.kind}

    def __str__(self) -> str:
        return f"[{percent(self.low)}, {percent(self.high)}]"


@dataclass(frozen=True)
class Range(Interval):
    """The range of `auto`: for the error of exactly these target rows, had all been labelled.

    Its coverage was measured on real shifts. The upper end is the ceiling.
    """


@dataclass(frozen=True)
class LabelSummary:
    """What labels of the target contributed to an answer.

    Attributes:
        n, errors: labelled rows, and those of them whose prediction is wrong.
        error, range: what the labels alone say.
        scores_error, scores_range: what the scores alone said.
        chosen: how the labelled rows were chosen: `"random"` or `"unknown"`.
        contradicts: whether labels and scores contradict each other; then the answer follows the labels.
    """

    n: int
    errors: int
    error: float
    range: Interval
    scores_error: float
    scores_range: Interval
    chosen: str
    contradicts: bool

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        return {**vars(self), "range": self.range.to_dict(), "scores_range": self.scores_range.to_dict()}

    def sentence(self) -> str:
        """How many labels there are, and what each side says alone."""
        rows = "1 label" if self.n == 1 else f"{self.n:,} labels"
        return (
            f"{rows}, {self.errors:,} of them errors: labels alone {percent(self.error)} {self.range}, "
            f"scores alone {percent(self.scores_error)} {self.scores_range}"
        )

    def contradiction(self) -> str:
        """What to say where labels and scores contradict each other."""
        return (
            f"labels and scores contradict each other: scores alone say {percent(self.scores_error)}, "
            f"labels {percent(self.error)}; the answer follows the labels"
        )


def dict_or_none(value: Interval | LabelSummary | None) -> dict[str, Any] | None:
    """A part of a result as plain values; None without one."""
    return None if value is None else value.to_dict()


@dataclass(frozen=True, repr=False)
class Estimate(Result):
    """One method's answer for one target.

    Attributes:
        method: the registry name, such as `"cott"`.
        error: the estimated error, a fraction in [0, 1]; None for a score such as entropy.
        n_source, n_target: how many rows it rests on.
        score: the value of a score; None for an error.
        interval: by the bootstrap, for the sampling error alone; None unless it was asked for.
        details: plain values (numbers, texts, lists, dictionaries) for those who want to look closer.
        warnings: sentences that the reader of the number should know.
        range: the range of `auto`; None for a method that was named, for which none was measured.
        sampling: the part of the range that is sampling error and label noise alone.
        labels: what labels of the target contributed; None without labels.
    """

    method: str
    error: float | None
    n_source: int
    n_target: int
    score: float | None = None
    interval: Interval | None = None
    details: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    range: Range | None = None
    sampling: Interval | None = None
    labels: LabelSummary | None = None

    @property
    def shown_range(self) -> Interval | None:
        """What is shown beside the error: the range, or else the interval, if there is one."""
        return self.interval if self.range is None else self.range

    @property
    def accuracy(self) -> float | None:
        """1 - error; None for a score."""
        return None if self.error is None else 1.0 - self.error

    @property
    def grade(self) -> str | None:
        """How far to trust the answer: `"ok"`, `"caution"` or `"stop"`; None without a range."""
        return self.details.get("grade")

    @property
    def counted(self) -> bool:
        """Whether all rows have labels, so that the error is counted."""
        return self.labels is not None and self.labels.n == self.n_target

    def content(self) -> dict[str, Any]:
        """The estimate as plain values; `score` appears only for scores, `interval` only if it was asked for."""
        out: dict[str, Any] = {
            "method": self.method,
            "error": self.error,
            "accuracy": self.accuracy,
            "range": dict_or_none(self.range),
            "sampling": dict_or_none(self.sampling),
            "n_source": self.n_source,
            "n_target": self.n_target,
            "labels": dict_or_none(self.labels),
            "details": deepcopy(self.details),
            "warnings": list(self.warnings),
        }
        if self.score is not None:
            out["score"] = self.score
        if self.interval is not None:
            out["interval"] = self.interval.to_dict()
        return out

    def short(self) -> str:
        """The answer in a few words: `error 12.3%` or `score 0.61`."""
        if self.error is None:
            return f"score {self.score:.4g}"
        return f"error {percent(self.error)}" + ("" if self.shown_range is None else f" {self.shown_range}")

    def headline(self) -> str:
        """The answer in one line: error, range, grade."""
        if self.error is None:
            return f"{self.method} {self.score:.4g}   a score, not an error: compare it between targets"
        parts, shown = [f"error {percent(self.error)}"], self.shown_range
        if self.counted:
            parts.append("by the labels of all rows")
        elif shown is not None:
            kind = "interval" if self.range is None else "range"
            parts.append(f"{100 * shown.level:g}% {kind} {percent_range(shown.low, shown.high)}")
            parts.append("sampling error alone" if self.grade is None else f"grade: {self.grade}")
        return "   ".join(parts)

    def basis(self, classes: int | None = None) -> str:
        """The validation error, the rows and the labels; with the number of classes also if it is above chance."""
        error, labels = self.details.get("source_error"), 0 if self.labels is None else self.labels.n
        worse = None not in (error, classes) and error > 1.0 - 1.0 / classes  # type: ignore[operator]
        hint = ", worse than chance: are labels and columns in the same order?" if worse else ""
        known = "" if error is None else f"validation error {percent(error)}{hint}; "
        return f"{known}{_counted(self.n_target, 'row')}, {_counted(labels, 'label')}"

    def why(self) -> str:
        """What the answer of `auto` rests on; nothing for a method that was named."""
        if self.labels is None:
            return SHIFTS.get(self.details.get("shift", ""), "")
        rows = "the labelled row is" if self.labels.n == 1 else "the labelled rows are"
        alone = _with_range(self.labels.scores_error, self.labels.scores_range)
        text = f"{self.labels.errors:,} of {rows} wrong; scores alone {alone}"
        if not self.counted:
            text += f", labels alone {_with_range(self.labels.error, self.labels.range)}"
        if self.labels.chosen == "unknown":
            text += "; it is not known how these rows were chosen, so they do not narrow the range"
        return text + (
            "; the two contradict each other: follow the labels" if self.labels.contradicts else ""
        )

    def advice(self) -> tuple[str, str] | None:
        """What to do next, and the function that does it, `"doctor"` or `"label_plan"`; None if nothing is left."""
        if self.range is None or self.counted:
            return None
        if self.labels is not None and self.labels.contradicts:
            return "find out what changed, and label more rows", "doctor"
        if self.grade == "ok":
            return "check the data", "doctor"
        if self.labels is not None:
            return "label more rows", "label_plan"
        count = min(MORE_LABELS, self.n_target)
        rows = f"label {count} row{'s' * (count > 1)}"
        return (f"do not act on it yet; {rows}" if self.grade == "stop" else rows), "label_plan"

    def further_warnings(self, warnings: Iterable[str]) -> list[str]:
        """Those of the warnings that the grade, and what to do next, have not said already."""
        said = "" if self.labels is None else self.labels.contradiction()
        return [text for text in warnings if text != said and "(shiftgauge label-plan)" not in text]

    def choice(self) -> list[str]:
        """What `auto` chose, and why; nothing of a method that was named."""
        if "choice" not in self.details:
            return []
        text = f"chose {self.details['choice']}: {self.details['reason']}"
        points_added = round(100 * self.details.get("added", 0.0), 1)
        if points_added:
            more = "1 point is" if points_added == 1 else f"{points_added:g} points are"
            text += f"; {more} added, since errors mostly rise when more than class proportions change"
        return [text]

    def notes(self) -> list[str]:
        """What the answer rests on: what was chosen, what the range covers, and how much of it is sampling."""
        notes = [] if self.labels is None else [self.labels.sentence()]
        notes += self.choice()
        if self.range is not None:
            notes.append(f"{100 * self.range.level:g}% range: {self.range.kind}")
        if self.sampling is not None:
            notes.append(f"of which {self.sampling.kind}: {self.sampling}")
        return notes + self._bootstrap_note()

    def _bootstrap_note(self) -> list[str]:
        if self.interval is None:
            return []
        ends = "" if self.range is None else f": {self.interval}"
        return [f"{100 * self.interval.level:g}% interval by the bootstrap, {self.interval.kind}{ends}"]

    def heading(self) -> str:
        """The answer and how many rows it rests on."""
        return f"{self.method}: {self.short()} ({self.n_source:,} source rows, {self.n_target:,} target rows)"

    def lines(self) -> list[str]:
        """The answer, why, and what to do, as the command `shiftgauge estimate` says it."""
        if self.range is None:
            return [self.heading(), *(f"  {note}" for note in self.notes())]
        lines = [self.headline(), *self._bootstrap_note(), self.basis(), *wrapped("why   ", self.why())]
        advice = self.advice()
        if advice is not None:
            lines += wrapped("next  ", f"{advice[0]}: shiftgauge.{advice[1]}(source, target)")
        return lines

    def __repr__(self) -> str:
        return render(self.lines(), self.further_warnings(self.warnings))

    def _repr_html_(self) -> str:
        first, *below = (
            *self.lines(),
            *(format_warning(w, "⚠") for w in self.further_warnings(self.warnings)),
        )
        return f"<p><b>{_escaped(first)}</b>{''.join(f'<br>{_escaped(line)}' for line in below)}</p>"


@dataclass(frozen=True, repr=False)
class Comparison(Table):
    """Several methods' answers for one target; `to_dict()` is the command's JSON.

    Attributes:
        estimates: one `Estimate` per method, in the order asked for.
        source: what the source is: rows, classes, error.
        target: what the target is: rows, classes, and `true_error` where labels were given to check.
        warnings: what concerns every method, and which methods were left out.
    """

    estimates: tuple[Estimate, ...]
    source: dict[str, Any]
    target: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def true_error(self) -> float | None:
        """The error by the labels given to check, or None."""
        value = self.target.get("true_error")
        return None if value is None else float(value)

    def __getitem__(self, method: str) -> Estimate:
        for estimate in self.estimates:
            if estimate.method == method:
                return estimate
        raise KeyError(method)

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def own_warnings(self, estimate: Estimate) -> list[str]:
        """The warnings of one estimate that do not already stand in the comparison's own."""
        return [warning for warning in estimate.warnings if warning not in self.warnings]

    def content(self) -> dict[str, Any]:
        """Everything as plain values, in the shape of the JSON Schema that ships with the package."""
        return {
            "source": deepcopy(self.source),
            "target": deepcopy(self.target),
            "estimates": [estimate.content() for estimate in self.estimates],
            "warnings": list(self.warnings),
        }

    def numbers(self) -> dict[str, list[float | None]]:
        """The numbers of each method, after its name; the source error, and the true error if it is known."""
        out = {f"{e.method}.{name}": values for e in self.estimates for name, values in e.numbers().items()}
        known = {} if self.true_error is None else {"true_error": [self.true_error]}
        return {"source_error": [self.source["error"]], **known, **out}

    def rows(self) -> list[tuple[str, str, str]]:
        """The table's cells: method, answer, miss (empty where the truth is not known)."""
        truth = self.true_error
        out = []
        for estimate in self.estimates:
            miss = "" if truth is None or estimate.error is None else points(estimate.error - truth)
            out.append((estimate.method, estimate.short(), miss))
        return out

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per method; `miss` is the error less the true error."""
        truth = self.true_error
        return [
            {
                "method": e.method,
                "error": e.error,
                "low": None if e.shown_range is None else e.shown_range.low,
                "high": None if e.shown_range is None else e.shown_range.high,
                "score": e.score,
                "miss": None if truth is None or e.error is None else e.error - truth,
                "warnings": list(e.warnings),
            }
            for e in self.estimates
        ]

    def heading(self) -> str:
        """How many rows the answers rest on, and the truth where it is known."""
        known = "" if self.true_error is None else f"; true error {percent(self.true_error)}"
        return f"{self.source['n']:,} source rows, {self.target['n']:,} target rows{known}"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per method."""
        return ("method", "answer", "miss, points"), self.rows()

    def __repr__(self) -> str:
        lines = [f"{self.source['n']:,} source rows, {self.target['n']:,} target rows"]
        if self.true_error is not None:
            lines.append(f"true error {percent(self.true_error)}")
        rows = self.rows()
        wide = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
        lines += [f"  {name:<{wide[0]}}  {answer:<{wide[1]}}  {miss}".rstrip() for name, answer, miss in rows]
        own = [prefix(e.method, warning) for e in self.estimates for warning in self.own_warnings(e)]
        return render(lines, (*self.warnings, *own))


#: Texts of results are not wider.
WIDTH = 80


def render(lines: Iterable[str], warnings: Iterable[str] = ()) -> str:
    """Join a result's lines and, below them, its warnings, at most 80 letters wide; control characters are escaped.

    >>> print(render(["error 10.0%"], ["few rows in \\x1b[31m"]))
    error 10.0%
      ! few rows in \\x1b[31m
    """
    shown = map(printable, (*lines, *(f"  {format_warning(text)}" for text in warnings)))
    return "\n".join(part for line in shown for part in _wrapped(line))


def wrapped(head: str, text: str, indent: str | None = None, width: int = WIDTH) -> list[str]:
    """The lines of a text behind a word; those below the first are indented as far, or by `indent`.

    >>> wrapped("why   ", "a new class mix", width=16)
    ['why   a new', '      class mix']
    """
    below = " " * len(head) if indent is None else indent
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _wrapped(line: str) -> list[str]:
    """The line, or its parts if it is too wide; those below the first are indented."""
    if len(line) <= WIDTH:
        return [line]
    return wrapped("", line, " " * (len(line) - len(line.lstrip()) + 2))


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def percent(fraction: float) -> str:
    """A fraction as percent with one decimal.

    >>> percent(0.1234)
    '12.3%'
    """
    return f"{100 * fraction:.1f}%"


def _with_range(error: float, ends: Interval) -> str:
    return f"{percent(error)} ({percent_range(ends.low, ends.high)})"


def percent_range(low: float, high: float) -> str:
    """Both ends of a range as percent.

    >>> percent_range(0.1234, 0.5)
    '12.3% to 50.0%'
    """
    return f"{percent(low)} to {percent(high)}"


def points(difference: float, ends: Interval | None = None) -> str:
    """A difference of fractions in percentage points, with its sign and one decimal, and its range.

    >>> points(0.0123), points(-0.0001), points(0.0123, Range(0.9, -0.01, 0.05, ""))
    ('+1.2', '+0.0', '+1.2 [-1.0, +5.0]')
    """
    if ends is not None:
        return f"{points(difference)} [{points(ends.low)}, {points(ends.high)}]"
    return f"{round(100 * difference, 1) + 0.0:+.1f}"  # + 0.0: no negative zero


def shortened(name: str, most: int) -> str:
    """A name of at most so many letters.

    >>> shortened("temperature", 5)
    'temp…'
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def p_value(p: float) -> str:
    """A p-value as people write it.

    >>> p_value(0.0312), p_value(1e-9)
    ('p = 0.031', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
