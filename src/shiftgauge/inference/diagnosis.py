"""The doctor: every reason not to believe the number, looked for and named."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shiftgauge.inference.checks import (
    CHECKS,
    RANGE,
    Check,
    answer_range,
    label_evidence,
    needed_estimates,
)
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.methods.auto import check_proportions
from shiftgauge.methods.range import CAUTION, OK, STOP
from shiftgauge.methods.shift import ShiftTestResult
from shiftgauge.results import Table, p_value, render
from shiftgauge.rows import AnyTarget
from shiftgauge.validation.target_labels import RANDOM

#: Of each status in a notebook: dark enough for a white page, light enough for a black one.
COLOURS = {OK: "#0a8a64", CAUTION: "#b86e00", STOP: "#d6344e"}


@dataclass(frozen=True, repr=False)
class Diagnosis(Table):
    """All findings.

    Attributes:
        checks: one per thing looked at, in a fixed order.
        shift_test: the label-shift test behind "which shift" and "predicted classes", in full.
    """

    checks: tuple[Check, ...]
    shift_test: ShiftTestResult

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was done to the two samples when they were read; everything else is a check."""
        return self.shift_test.warnings

    @property
    def status(self) -> str:
        """The status: `"stop"` if any check says so, else the grade of the answer's range.

        Many checks advise caution and few of them concern the answer: only the range's grade was calibrated on data
        (`benchmarks/silent.py`).
        """
        if any(check.status == STOP for check in self.checks):
            return STOP
        return self[RANGE].status

    @property
    def ranked(self) -> tuple[Check, ...]:
        """The checks, the worst first."""
        order = (STOP, CAUTION, OK)
        return tuple(sorted(self.checks, key=lambda check: order.index(check.status)))

    @property
    def sentence(self) -> str:
        """The status in one sentence."""
        worst = [check.name for check in self.checks if check.status == self.status]
        if self.status == OK:
            others = [check.name for check in self.checks if check.status == CAUTION]
            beside = f"; caution: {', '.join(others)}" if others else ""
            return f"ok: no check says stop{beside}"
        what = "do not rely on an estimate" if self.status == STOP else "take an estimate with care"
        return f"{self.status}: {what}; see {', '.join(worst)}"

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "status": self.status,
            "sentence": self.sentence,
            "checks": [check.to_dict() for check in self.checks],
            "shift_test": self.shift_test.content(),
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per check, the worst first."""
        return [
            {"check": check.name, **{k: v for k, v in vars(check).items() if k != "name"}}
            for check in self.ranked
        ]

    def heading(self) -> str:
        """The status."""
        return self.sentence

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per check, the worst first."""
        rows = [(c.status, c.name, shown(c.value), c.meaning, c.advice) for c in self.ranked]
        return ("status", "check", "measured", "what it means", "what to do"), rows

    def _repr_html_(self) -> str:
        def coloured(found: re.Match[str]) -> str:
            style = f"color: {COLOURS[found[1]]}; font-weight: bold; text-align: left"
            return f'<tr><td style="{style}">{found[1]}</td>'

        return re.sub(f"<tr><td [^>]*>({'|'.join(COLOURS)})</td>", coloured, super()._repr_html_())

    def __repr__(self) -> str:
        lines = [self.heading()]
        for check in self.ranked:
            lines.append(f"  {check.status:<8} {check.name}: {check.meaning}")
            if check.advice:
                lines.append(f"           -> {check.advice}")
        return render(lines, self.warnings)


def doctor(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    *,
    calibration: str = "temperature",
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Look for every known reason not to believe an estimate for this source and target.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        calibration: as for every method.
        proportions: what is known of the target's class proportions, as in `shiftgauge.estimate`.
        labels, labels_chosen: labels of some target rows, as in `shiftgauge.estimate`; they add a check.
        seed: of the label-shift test's bootstrap, if one is needed.
        progress: called with the name of each check as it begins.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(9000, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> doctor(sg.Source(logits=z[:5000], labels=y[:5000]), sg.Target(logits=z[5000:])).status
    'ok'
    """
    check_proportions(proportions)
    pair = to_pair("doctor", source, target, calibration, seed, labels, labels_chosen)
    pair.estimate_all([("auto", {"proportions": proportions}), *needed_estimates(pair)], shift=True)
    found = []
    for check in CHECKS:
        if progress is not None:
            progress(f"checking {check.__name__.replace('_', ' ')}")
        found.append(check(pair) if check is not answer_range else answer_range(pair, proportions))
    if pair.labels is not None:
        found.append(label_evidence(pair, proportions))
    return Diagnosis(tuple(found), pair.shift)


def shown(value: Any) -> str:
    """A measured value as text: numbers to three digits, the parts of a dictionary side by side.

    >>> shown({"source": 0.12345, "target": 3})
    'source 0.123, target 3'
    """
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(_shown_part(name, part) for name, part in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _shown_part(name: str, part: Any) -> str:
    return p_value(part) if name == "p_value" else f"{name.replace('_', ' ')} {shown(part)}"
