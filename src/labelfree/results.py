"""What comes out: an estimate, or several of one target side by side."""

from __future__ import annotations

import html
import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

#: The version of the JSON written by `to_dict`; its JSON Schema ships as `labelfree/data/schema.json`.
SCHEMA = 1


@dataclass(frozen=True)
class Interval:
    """A range for the error, with its nominal level and what kind of doubt it covers."""

    level: float
    low: float
    high: float
    kind: str

    def to_dict(self) -> dict[str, Any]:
        """The interval as plain values."""
        return {"level": self.level, "low": self.low, "high": self.high, "kind": self.kind}


@dataclass(frozen=True)
class Estimate:
    """One method's answer for one target.

    Attributes:
        method: the registry name, such as `"cott"`.
        error: the estimated error, a fraction in [0, 1]; None for a score such as entropy.
        n_source, n_target: how many rows it rests on.
        score: the value of a score; None for an error.
        interval: None until asked for.
        details: plain values (numbers, texts, lists, dictionaries) for those who want to look closer.
        warnings: sentences that the reader of the number should know.
    """

    method: str
    error: float | None
    n_source: int
    n_target: int
    score: float | None = None
    interval: Interval | None = None
    details: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """1 - error; None for a score."""
        return None if self.error is None else 1.0 - self.error

    def to_dict(self) -> dict[str, Any]:
        """The estimate as plain values; `score` appears only for scores."""
        out: dict[str, Any] = {
            "method": self.method,
            "error": self.error,
            "accuracy": self.accuracy,
            "interval": None if self.interval is None else self.interval.to_dict(),
            "n_source": self.n_source,
            "n_target": self.n_target,
            "details": deepcopy(self.details),
            "warnings": list(self.warnings),
        }
        if self.score is not None:
            out["score"] = self.score
        return out

    def to_json(self, *, indent: int | None = None) -> str:
        """The estimate as JSON, with the schema's version."""
        return json.dumps({"schema": SCHEMA, **self.to_dict()}, indent=indent, allow_nan=False)

    def headline(self) -> str:
        """The answer in a few words: `error 12.3%` or `score 0.61`."""
        if self.error is None:
            return f"score {self.score:.4g}"
        text = f"error {percent(self.error)}"
        if self.interval is not None:
            text += f" [{percent(self.interval.low)}, {percent(self.interval.high)}]"
        return text

    def notes(self) -> list[str]:
        """What the answer rests on: what the interval covers; what `auto` chose, why, and its band."""
        out = []
        if "choice" in self.details:
            band = self.details["band"]
            out.append(f"chose {self.details['choice']}: {self.details['reason']}")
            out.append(f"band {percent(band['low'])} to {percent(band['high'])}: {band['kind']}")
        if self.interval is not None:
            out.append(f"{100 * self.interval.level:g}% interval: {self.interval.kind}")
        return out

    def __repr__(self) -> str:
        lines = [
            f"{self.method}: {self.headline()} ({self.n_source} source rows, {self.n_target} target rows)"
        ]
        lines += [f"  {note}" for note in self.notes()]
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        notes = "".join(f"<br>{html.escape(note)}" for note in self.notes())
        notes += "".join(f"<br>⚠ {html.escape(warning)}" for warning in self.warnings)
        return f"<p><b>{html.escape(self.method)}</b>: {html.escape(self.headline())}{notes}</p>"


@dataclass(frozen=True)
class Comparison:
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

    def __iter__(self) -> Any:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def own_warnings(self, estimate: Estimate) -> list[str]:
        """The warnings of one estimate that do not already stand in the comparison's own."""
        return [warning for warning in estimate.warnings if warning not in self.warnings]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, in the shape of the JSON Schema that ships with the package."""
        return {
            "schema": SCHEMA,
            "source": deepcopy(self.source),
            "target": deepcopy(self.target),
            "estimates": [estimate.to_dict() for estimate in self.estimates],
            "warnings": list(self.warnings),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def rows(self) -> list[tuple[str, str, str]]:
        """The table's cells: method, answer, miss (empty where the truth is not known)."""
        truth = self.true_error
        out = []
        for estimate in self.estimates:
            miss = "" if truth is None or estimate.error is None else f"{100 * (estimate.error - truth):+.1f}"
            out.append((estimate.method, estimate.headline(), miss))
        return out

    def __repr__(self) -> str:
        lines = [f"{self.source['n']} source rows, {self.target['n']} target rows"]
        if self.true_error is not None:
            lines.append(f"true error {percent(self.true_error)}")
        lines += [f"  {method:<8} {answer:<14} {miss}".rstrip() for method, answer, miss in self.rows()]
        lines += [f"  ! {warning}" for warning in self.warnings]
        lines += [f"  ! {e.method}: {warning}" for e in self.estimates for warning in self.own_warnings(e)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "<tr><th>method</th><th>answer</th><th>miss, points</th></tr>"
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows()
        )
        notes = "".join(f"<li>{html.escape(warning)}</li>" for warning in self.warnings)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><ul>{notes}</ul>"


def percent(fraction: float) -> str:
    """A fraction as percent with one decimal.

    >>> percent(0.1234)
    '12.3%'
    """
    return f"{100 * fraction:.1f}%"
