"""The doctor: every reason not to believe the number, looked for and named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labelfree.estimators.pair import Pair
from labelfree.estimators.shift import ShiftVerdict
from labelfree.results import Result
from labelfree.trust.diagnosis.checks import CHECKS, RANGE, STOP, Check
from labelfree.types import Source, Target


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """All findings.

    Attributes:
        checks: one per thing looked at, in a fixed order.
        shift_test: the label-shift test behind "which shift" and "pseudo-label shift", in full.
    """

    checks: tuple[Check, ...]
    shift_test: ShiftVerdict

    @property
    def status(self) -> str:
        """The verdict: `"stop"` where any check says so, else the grade of the answer's range.

        Many things deserve a word of caution and few of them move the answer: only the range's grade was
        calibrated on data (`benchmarks/silent.py`).
        """
        if any(check.status == STOP for check in self.checks):
            return STOP
        return self[RANGE].status

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "status": self.status,
            "checks": [check.to_dict() for check in self.checks],
            "shift_test": self.shift_test.content(),
        }

    def heading(self) -> str:
        """The verdict."""
        return f"diagnosis: {self.status}"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per check."""
        rows = [(c.status, c.name, shown(c.value), c.meaning, c.advice) for c in self.checks]
        return ("status", "check", "measured", "what it means", "what to do"), rows

    def __repr__(self) -> str:
        lines = [self.heading()]
        for check in self.checks:
            lines.append(f"  {check.status:<8} {check.name}: {check.meaning}")
            if check.advice:
                lines.append(f"           -> {check.advice}")
        return "\n".join(lines)


def doctor(
    source: Source,
    target: Target,
    *,
    calibration: str = "temperature",
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Look for every known reason not to believe an estimate for this source and target.

    Args:
        source: scores with labels.
        target: scores without.
        calibration: as for every method.
        seed: of the label-shift test's bootstrap, where one is needed.
        progress: called with the name of each check as it begins.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(9000, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> doctor(lf.Source(logits=z[:5000], labels=y[:5000]), lf.Target(logits=z[5000:])).status
    'ok'
    """
    return examined(Pair(source, target, calibration, seed=seed, verb="doctor"), progress)


def examined(pair: Pair, progress: Callable[[str], None] | None = None) -> Diagnosis:
    """The diagnosis of a pair that has met already."""
    found = []
    for check in CHECKS:
        if progress is not None:
            progress(f"checking {check.__name__.replace('_', ' ')}")
        found.append(check(pair))
    return Diagnosis(tuple(found), pair.shift)


def shown(value: Any) -> str:
    """A measured value as text: numbers to three digits, the parts of a dictionary side by side.

    >>> shown({"source": 0.12345, "target": 3})
    'source 0.123, target 3'
    """
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {shown(part)}" for name, part in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)
