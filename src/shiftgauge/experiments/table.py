"""A printable table: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftgauge.experiments._store import write_text


@dataclass(frozen=True)
class Table:
    """A printable table: cells are text in percent; ``data`` holds the same as records, errors as fractions."""

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()
    data: list[dict[str, Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """GitHub's dialect."""
        lines = [f"### {self.title}", "", _line(self.header), _line(["---"] * len(self.header))]
        lines += [_line(row) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A booktabs tabular in a table environment."""
        body = [" & ".join(map(_tex, row)) + r" \\" for row in self.rows]
        notes = " ".join(_tex(note) for note in self.notes)
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_tex(self.title)}. {notes}}}",
                rf"\begin{{tabular}}{{{'l' * 2}{'r' * (len(self.header) - 2)}}}",
                r"\toprule",
                " & ".join(map(_tex, self.header)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def csv(self) -> str:
        """One record a line."""
        text = io.StringIO()
        if self.data:
            writer = csv.DictWriter(text, list(self.data[0]), lineterminator="\n")
            writer.writeheader()
            for record in self.data:
                writer.writerow({k: f"{v:.6f}" if isinstance(v, float) else v for k, v in record.items()})
        return text.getvalue()

    def write(self, folder: Path) -> list[Path]:
        """Write ``<name>.md``, ``.tex`` and ``.csv``."""
        made = {".md": self.markdown(), ".tex": self.latex(), ".csv": self.csv()}
        for ending, text in made.items():
            write_text(folder / f"{self.name}{ending}", text)
        return [folder / f"{self.name}{ending}" for ending in made]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex(text: str) -> str:
    for old, new in (("\\", r"\textbackslash "), ("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$")):
        text = text.replace(old, new)
    return text.replace("^2", "$^2$").replace("ρ", r"$\rho$")
