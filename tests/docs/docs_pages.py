"""Where the documentation is, its pages, and their fenced blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Seconds that a page may take: no test depends on a quiet machine.
LIMIT = 1800
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.M | re.S)
WITHIN = re.compile(r'title="[^"]*within ([\d.]+)')


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it begins at, and how far its numbers may be off."""

    language: str
    text: str
    line: int
    tolerance: float = 0.0


def pages():
    return sorted(path for path in DOCS.rglob("*.md"))


def blocks(path):
    text = path.read_text(encoding="utf-8")
    return [
        Block(m[1], m[3], text[: m.start()].count("\n") + 1, tolerance(m[2])) for m in FENCE.finditer(text)
    ]


def tolerance(info):
    """What the title of an output states: `text title="numbers within 0.5 with other versions"`."""
    found = WITHIN.search(info)
    return float(found[1]) if found else 0.0


def prose(path):
    """The text of a page outside of blocks and tables."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))
